/* Reserved and on-demand GPUs for a load that changes by the hour, and the total cost with a training fleet. Private to
 * the folder. */
#ifndef BRIAREUS_CLI_PLAN_MONEY_H
#define BRIAREUS_CLI_PLAN_MONEY_H

#include "cli/plan/report.h"

enum { MONEY_MAX_HOURS = 168, MONEY_MAX_TRAIN = 8 };

struct mix {
    uint32_t reserved;                            /* GPUs */
    double per_hour, all_on_demand, all_reserved; /* $/h, mean over the curve */
};
/* The reserved count that costs least, when on-demand GPUs fill the rest hour by hour: n hours' needs. */
struct mix mix_best(const uint32_t *need, uint32_t n, double on_demand, double reserved);

/* "1,.8,.4": shares in (0, 1]. Returns how many, < 0: *err. */
int load_curve_parse(const char *text, double *shares, struct br_err *err);

/* What the options of money have wrong, before anything is simulated; < 0: *err. */
int money_check(const struct plan_options *options, struct br_err *err);
/* Adds "mix" to the results of `slack` (or the first policy) by GPU when --load-curve is there, and "tco" when --train
 * is; prints both unless quiet. Needs at the curve's levels are simulated at steps of a tenth and taken from the step
 * above. */
int money_command(const struct plan_options *options, struct plan_material *material, const struct plan_answer *answer,
                  json_t *root, bool print, struct br_err *err);

#endif
