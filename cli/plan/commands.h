/* The commands of `briareus plan`, and what they share. Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_COMMANDS_H
#define BRIAREUS_CLI_PLAN_COMMANDS_H

#include <stdio.h>

#include "cost/check.h"

/* argv[0] is the command's name. */
int br_plan_costs(int argc, char **argv);
/* The plan itself: options without a command. */
int br_plan_solve(int argc, char **argv);
int br_plan_compare(int argc, char **argv);

/* Names of a check's measures: "prefill" and "decode", or "layer" and "products". */
const char *br_plan_measure(enum br_profile_kind kind, int measure);
/* The check as one JSON object. */
void br_plan_costs_json(const struct br_check *check, const char *file, FILE *out);

#endif
