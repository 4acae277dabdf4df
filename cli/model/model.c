#include "cli/model/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/model/commands.h"
#include "cli/subcommand.h"

static const struct cli_subcommand g_commands[] = {
    {"inspect", "shape, parameters, memory, tokenizer and chat format of a folder", br_model_inspect},
    {"verify", "files, shapes, values; answers against a golden file", br_model_verify},
    {"synth", "write a random model of a given shape", br_model_synth},
    {"bench", "tokens per second by batch and context", br_model_bench},
};

int br_cli_model(int argc, char **argv)
{
    return cli_subcommand_run("model", "DIR [OPTION...]", g_commands, sizeof g_commands / sizeof g_commands[0], argc,
                              argv);
}

int br_model_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    static char program[64];
    char *name = argv[0];
    int rc;
    snprintf(program, sizeof program, "briareus model %s", name);
    argv[0] = program; /* argp names it in its messages */
    argp_err_exit_status = 2;
    rc = argp_parse(argp, argc, argv, 0, NULL, input);
    argv[0] = name;
    return rc ? 2 : 0;
}

enum br_numeric br_model_parse_numeric(const char *text, struct argp_state *state)
{
    if (strcmp(text, "auto") == 0)
        return BR_NUMERIC_AUTO;
    if (strcmp(text, "bfloat16") == 0)
        return BR_NUMERIC_BF16;
    if (strcmp(text, "float32") != 0)
        argp_error(state, "--dtype %s: must be auto, bfloat16 or float32", text);
    return BR_NUMERIC_F32;
}

uint32_t br_model_parse_u32(const char *name, const char *text, uint32_t min, uint32_t max, struct argp_state *state)
{
    char *end;
    unsigned long long value;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || value < min || value > max)
        argp_error(state, "--%s %s: must be a number in %u..%u", name, text, min, max);
    return (uint32_t)value;
}

const char *br_numeric_name(enum br_numeric numeric)
{
    return numeric == BR_NUMERIC_AUTO ? "auto" : numeric == BR_NUMERIC_BF16 ? "bfloat16" : "float32";
}

bool br_model_has_file(const char *dir, const char *name)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path && access(path, F_OK) == 0;
}
