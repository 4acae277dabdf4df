/* How much of the host cache is taken, over all processes that share its folder: a small file there, mapped by each. */
#ifndef BRIAREUS_WORKER_WEIGHTS_BUDGET_H
#define BRIAREUS_WORKER_WEIGHTS_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define BR_BUDGET_FILE "budget" /* in the cache's folder */

struct br_budget;

/* first: this process counts anew: nothing is taken yet, and limit_bytes holds (0: none). Otherwise the file must be
 * there. */
int br_budget_open(const char *dir, bool first, uint64_t limit_bytes, struct br_budget **out, struct br_err *err);
void br_budget_close(struct br_budget *budget);

bool br_budget_take(struct br_budget *budget, uint64_t bytes);  /* false: that is more than is left */
void br_budget_force(struct br_budget *budget, uint64_t bytes); /* it is taken already, whatever the limit */
void br_budget_give(struct br_budget *budget, uint64_t bytes);
uint64_t br_budget_limit(const struct br_budget *budget); /* UINT64_MAX: none */
uint64_t br_budget_used(const struct br_budget *budget);

#endif
