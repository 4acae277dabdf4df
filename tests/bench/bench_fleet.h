/* core/fleet's part of bench_decide. */
#ifndef BRIAREUS_TESTS_BENCH_BENCH_FLEET_H
#define BRIAREUS_TESTS_BENCH_BENCH_FLEET_H

#include <stdint.h>

/* Prints how long a decision takes, by kind of event; 1: the 99th percentile of all is above 50 us. */
int bench_fleet(uint32_t n_devices, uint32_t n_models, uint32_t n_seqs);

#endif
