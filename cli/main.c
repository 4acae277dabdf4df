/* briareus: one program, a command each. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "cli/devices/devices.h"
#include "cli/key/key.h"
#include "cli/model/model.h"
#include "cli/plan/plan.h"
#include "cli/serve.h"
#include "worker/node/worker.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} g_commands[] = {
    {"serve", br_cli_serve, "all on one machine: a private Redis, the scheduler, one worker"},
    {"scheduler", br_cli_scheduler, "the scheduler alone"},
    {"worker", br_cli_worker, "one machine's worker alone"},
    {"load", br_cli_load_or_find, "open-loop load on an OpenAI-compatible server"},
    {"key", br_cli_key, "new | check: API keys"},
    {"model", br_cli_model, "inspect | verify | synth | bench a model folder"},
    {"plan", br_cli_plan, "how few GPUs hold the SLOs of models under traffic; compare | costs"},
};
enum { N_COMMANDS = sizeof g_commands / sizeof g_commands[0] };

static int usage(FILE *out)
{
    fprintf(out, "Usage: briareus COMMAND [OPTION...]\nServes many large language models from few devices.\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", g_commands[i].name, g_commands[i].help);
    fprintf(out, "\n`briareus COMMAND --help` lists a command's options.\n");
    return out == stdout ? 0 : 2;
}

static int unknown_command(const char *word)
{
    const char *names[N_COMMANDS], *near;
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = g_commands[i].name;
    near = br_nearest(word, names, N_COMMANDS);
    if (near)
        fprintf(stderr, "briareus: unknown command '%s': did you mean '%s'?\n", word, near);
    else
        fprintf(stderr, "briareus: unknown command '%s': --help lists them\n", word);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], BR_WORKER_DEVICE_PROCESS) == 0)
        return br_worker_device_process(argc, argv);
    if (argc < 2)
        return usage(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return usage(stdout);
    if (strcmp(argv[1], "--version") == 0)
        return printf("briareus %s\n", BRIAREUS_VERSION) < 0;
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], g_commands[i].name) == 0)
            return g_commands[i].run(argc - 1, argv + 1);
    return unknown_command(argv[1]);
}
