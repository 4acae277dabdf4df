#include "cli/plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "cli/plan/commands.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} g_commands[] = {
    {"costs", "how well the cost model predicts measured step times", br_plan_costs},
};

static int usage(FILE *out)
{
    fprintf(out, "Usage: briareus plan COMMAND [OPTION...]\n\n");
    for (size_t i = 0; i < sizeof g_commands / sizeof g_commands[0]; i++)
        fprintf(out, "  %-8s %s\n", g_commands[i].name, g_commands[i].help);
    fprintf(out, "\n`briareus plan COMMAND --help` lists a command's options.\n");
    return out == stdout ? 0 : 2;
}

int br_cli_plan(int argc, char **argv)
{
    if (argc < 2)
        return usage(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0)
        return usage(stdout);
    for (size_t i = 0; i < sizeof g_commands / sizeof g_commands[0]; i++)
        if (strcmp(argv[1], g_commands[i].name) == 0)
            return g_commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "briareus plan: unknown command '%s'\n", argv[1]);
    return usage(stderr);
}
