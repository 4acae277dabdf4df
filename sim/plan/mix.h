/* Models divided over two kinds of GPU, where that costs less than either alone. */
#ifndef BRIAREUS_SIM_PLAN_MIX_H
#define BRIAREUS_SIM_PLAN_MIX_H

#include "sim/plan/plan.h"

/* For `slack` and the kinds of `answer`, which has been solved, the MIX_KINDS cheapest of them in pairs: models are put
 * in order of what their busy time costs on the one kind over what it costs on the other (the fluid bound, at the
 * smallest degree that holds them); the first x of the order go to the first kind. x is searched by simulation with the
 * first seed: quarters, then smaller steps around the cheapest. The cheapest split is solved with all seeds and added
 * to the answer's results if it costs less than every kind alone; answer->mix says what was tried either way.
 *
 * So it looks at no split in three, nor at one that is in no such order, and may stop at a local minimum. Models that
 * name their kind keep it. Nothing is done (0, mix.tried 0) with one kind, without slack, without prices, or when a
 * kind alone does not hold. */
int plan_mix(const struct plan_ask *ask, struct plan_answer *answer, struct br_err *err);

#endif
