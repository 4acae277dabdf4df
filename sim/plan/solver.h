/* One policy on one kind (or on the kinds that the models name), shared by plan.c and mix.c. */
#ifndef BRIAREUS_SIM_PLAN_SOLVER_H
#define BRIAREUS_SIM_PLAN_SOLVER_H

#include "sim/plan/needs.h"
#include "sim/plan/plan.h"

struct plan_solver {
    const struct plan_ask *ask;
    struct plan_needs *needs;
    double *load; /* [n_models]: busy GPUs at the smallest degree, with the first seed */
};

/* Busy GPUs of every model at the smallest degree that holds it, to deal models out evenly. */
int plan_solver_load(const struct plan_ask *ask, const struct br_gpu *gpu, const struct plan_requests *requests,
                     double *load, struct br_err *err);
/* result->policy is set, the rest empty. The caller frees the result with plan_result_free whatever comes of it. */
int plan_solver_one(struct plan_solver *solver, const struct br_gpu *gpu, struct plan_result *result,
                    struct br_err *err);
void plan_result_free(struct plan_result *result);

#endif
