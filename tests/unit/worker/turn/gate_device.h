/* A CPU device that brings no KV in while its gate is shut. */
#ifndef BRIAREUS_TESTS_WORKER_TURN_GATE_DEVICE_H
#define BRIAREUS_TESTS_WORKER_TURN_GATE_DEVICE_H

#include "worker/device/device.h"

int gate_device_create(const struct br_device_config *config, struct br_device **out, struct br_err *err);
void gate_set(bool open);
/* Blocks until a copy stands before the shut gate. */
void gate_wait(void);

#endif
