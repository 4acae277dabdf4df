/* A CPU device whose transfers come late: each copy but the step's own is held up for a random time on its stream, its
 * target is filled with bytes that are nowhere right until then, and events that are done are said to be done only some
 * time later, in any order. Whoever reads before its event, or reuses memory too early, computes something else. */
#ifndef BRIAREUS_TESTS_WORKER_TURN_LATE_DEVICE_H
#define BRIAREUS_TESTS_WORKER_TURN_LATE_DEVICE_H

#include "worker/device/device.h"

/* One at a time. seed: of the delays of the next one. */
void late_device_seed(uint64_t seed);
int late_device_create(const struct br_device_config *config, struct br_device **out, struct br_err *err);
uint64_t late_device_delays(void); /* of the last one: copies held up, and events kept back */

#endif
