/* `briareus plan ...`: what models cost on which GPUs. */
#ifndef BRIAREUS_CLI_PLAN_PLAN_H
#define BRIAREUS_CLI_PLAN_PLAN_H

/* argv[0] is "plan", argv[1] the command (costs). Returns the exit status: 0, 1 (over the limits), 2 (the command line
 * or a file is wrong). */
int br_cli_plan(int argc, char **argv);

#endif
