/* In the place of scheduler/core/device: decides at random, within what core/device.h allows. */
#ifndef BRIAREUS_TESTS_WORKER_TURN_CHAOS_CORE_H
#define BRIAREUS_TESTS_WORKER_TURN_CHAOS_CORE_H

#include <stdint.h>

void chaos_seed(uint64_t seed);

struct chaos_counts {
    uint64_t steps, loads, partial_loads, evicts, drops, swaps_out, swaps_in, besides, victims, waited;
};
struct chaos_counts chaos_counts(void); /* since the seed */

#endif
