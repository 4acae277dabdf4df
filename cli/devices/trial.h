/* One run as JSON: what was measured, what the planner says. Private to the folder. */
#ifndef BRIAREUS_CLI_DEVICES_TRIAL_H
#define BRIAREUS_CLI_DEVICES_TRIAL_H

#include <jansson.h>

#include "cli/devices/predict.h"

/* The session's last run, whose result it is; switches: of all devices together. The caller's. */
json_t *trial_measured(const struct load_session *session, uint32_t devices, const json_t *result, double switches);
/* The same figures from the planner: attainment, ttft_ms, tbt_ms, switches_per_minute; the caller's. < 0: *err. */
int trial_planned(struct devices_predict *predict, const char *policy, uint32_t devices, json_t **out,
                  struct br_err *err);

#endif
