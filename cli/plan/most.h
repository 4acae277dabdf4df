/* `briareus plan --max models|rate`. Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_MOST_H
#define BRIAREUS_CLI_PLAN_MOST_H

#include "cli/plan/report.h"
#include "sim/plan/most.h"

/* Prints the table and writes the JSON; < 0: *err, and nothing was printed. */
int plan_most_command(const struct plan_options *options, struct plan_material *material, struct br_err *err);

#endif
