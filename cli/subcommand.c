#include "cli/subcommand.h"

#include <stdio.h>
#include <string.h>

static int usage(const char *program, const char *words, const struct cli_subcommand *commands, size_t n, FILE *out)
{
    fprintf(out, "Usage: briareus %s COMMAND %s\n\n", program, words);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\n`briareus %s COMMAND --help` lists a command's options.\n", program);
    return out == stdout ? 0 : 2;
}

int cli_subcommand_run(const char *program, const char *words, const struct cli_subcommand *commands, size_t n,
                       int argc, char **argv)
{
    if (argc < 2)
        return usage(program, words, commands, n, stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0)
        return usage(program, words, commands, n, stdout);
    for (size_t i = 0; i < n; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "briareus %s: unknown command '%s'\n", program, argv[1]);
    return usage(program, words, commands, n, stderr);
}
