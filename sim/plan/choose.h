/* Which tensor-parallel degree each model gets, for one policy: the layout that needs the fewest GPUs. */
#ifndef BRIAREUS_SIM_PLAN_CHOOSE_H
#define BRIAREUS_SIM_PLAN_CHOOSE_H

#include "sim/plan/needs.h"

/* Tries the combinations of degrees of the models' groups (models with the same degrees to try): all with the first
 * seed, and with all seeds those that this leaves a chance.
 * Where none holds, large
 * models are split twice as far, as prompts take half as long then. load: see plan_layout_make. `dedicated`: a pool a
 * model, at its own degree. The caller frees *out on success. */
int plan_choose(const struct plan_ask *ask, struct plan_needs *needs, const double *load, const struct br_gpu *gpu,
                const char *policy, struct plan_layout *out, struct br_err *err);

#endif
