/* The fluid compute bound: the time that devices would be busy if every decode step had the largest batch that its
 * sequences' SLOs allow. A sequence of n tokens may be in the system for TTFT + n TBT; while any of a model's sequences
 * is, the model needs one step a token and all of them can share it. So a model whose sequences' spans cover U seconds
 * and are T seconds long in all makes (tokens U / T) steps; more where its batch would be larger than the pool allows,
 * than KV has room for, or than steps of TBT can carry. Prompts cost what they cost alone. Placement, waiting for loads
 * and switches cost nothing. It is what ideal sharing costs on average over the span, not a proof: prompts that ride on
 * decode steps and sequences that wait for each other could do with a little less, bursts need more.
 * Source: policy.md's "fluid compute bound"; for Poisson arrivals U / T = (1 - exp(-lambda T)) / (lambda T). */
#ifndef BRIAREUS_SIM_PLAN_FLUID_H
#define BRIAREUS_SIM_PLAN_FLUID_H

#include "sim/plan/kind.h"

/* Busy devices of the kind for these models (requests are of all models; those of others do not count), over the
 * horizon. busy: [n_models of the ask] gets each model's part; may be NULL. < 0: *err. */
double plan_fluid(const struct plan_ask *ask, const struct plan_kind *kind, const uint32_t *models, uint32_t n,
                  const struct sim_request *requests, uint32_t n_requests, double *busy, struct br_err *err);

#endif
