#include "cli/plan/plan.h"

#include <string.h>

#include "cli/plan/commands.h"
#include "cli/subcommand.h"

static const struct cli_subcommand g_commands[] = {
    {"costs", "how well the cost model predicts measured step times", br_plan_costs},
    {"compare", "two results of --json side by side", br_plan_compare},
};

/* Options without a command are the plan itself. */
int br_cli_plan(int argc, char **argv)
{
    if (argc > 1 && strncmp(argv[1], "--", 2) == 0)
        return br_plan_solve(argc, argv);
    return cli_subcommand_run("plan", "[OPTION...] (or options alone: how many GPUs; see --help)", g_commands,
                              sizeof g_commands / sizeof g_commands[0], argc, argv);
}
