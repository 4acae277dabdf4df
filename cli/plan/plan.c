#include "cli/plan/plan.h"

#include "cli/plan/commands.h"
#include "cli/subcommand.h"

static const struct cli_subcommand g_commands[] = {
    {"costs", "how well the cost model predicts measured step times", br_plan_costs},
};

int br_cli_plan(int argc, char **argv)
{
    return cli_subcommand_run("plan", "[OPTION...]", g_commands, sizeof g_commands / sizeof g_commands[0], argc, argv);
}
