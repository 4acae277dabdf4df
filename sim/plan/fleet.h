/* How many devices each pool of a layout gets so that the fleet as a whole holds its target. Each pool's own need comes
 * first (needs.h); then devices are taken away where the fewest tokens come late for a GPU saved, as long as the fleet
 * still holds: a pool whose few tokens need many devices to be on time is worth less than its GPUs. */
#ifndef BRIAREUS_SIM_PLAN_FLEET_H
#define BRIAREUS_SIM_PLAN_FLEET_H

#include "sim/plan/needs.h"

/* devices[n_pools] for seeds first .. first + n - 1 together. 0; 1: no count holds (devices then say which pools do
 * not: 0); < 0: *err. */
int plan_fleet_find(struct plan_needs *needs, const struct plan_layout *layout, const char *policy, uint32_t first,
                    uint32_t n, uint32_t *devices, struct br_err *err);
uint32_t plan_fleet_gpus(const struct plan_layout *layout, const uint32_t *devices, uint32_t redundancy);

#endif
