/* An answer in words and as JSON (docs/planning.md has the schema). Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_REPORT_H
#define BRIAREUS_CLI_PLAN_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "cli/plan/plan_options.h"
#include "sim/plan/plan.h"

void plan_table(const struct plan_options *options, const struct plan_material *material,
                const struct plan_answer *answer, FILE *out);

/* The caller owns the result. */
json_t *plan_json_workload(const struct plan_options *options, const struct plan_material *material,
                           const struct plan_requests *requests);
json_t *plan_json_targets(const struct plan_options *options);
json_t *plan_json_result(const struct plan_result *result, uint32_t n_seeds);
json_t *plan_json(const struct plan_options *options, const struct plan_material *material,
                  const struct plan_answer *answer);
/* To a file or, for "-", stdout; the file is there whole or not at all. */
int plan_json_write(const json_t *root, const char *path, struct br_err *err);
json_t *plan_number(double value); /* null when it is none */

#endif
