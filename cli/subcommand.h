/* `briareus PROGRAM COMMAND ...`: the words after a program's name. */
#ifndef BRIAREUS_CLI_SUBCOMMAND_H
#define BRIAREUS_CLI_SUBCOMMAND_H

#include <stddef.h>

struct cli_subcommand {
    const char *name, *help;
    /* argv[0] is the command's name; returns the exit status. */
    int (*run)(int argc, char **argv);
};

/* Runs the command named by argv[1] and returns its exit status; prints the list for --help (0), and with what was
 * wrong for an unknown or missing word (2). program is "model", words what follows a command ("DIR [OPTION...]"). */
int cli_subcommand_run(const char *program, const char *words, const struct cli_subcommand *commands, size_t n,
                       int argc, char **argv);

#endif
