/* What a running server says of its devices (GET /stats). Private to the folder. */
#ifndef BRIAREUS_CLI_DEVICES_STATS_H
#define BRIAREUS_CLI_DEVICES_STATS_H

#include <stdint.h>

#include "base/err.h"

/* Switches of all devices since they started. BR_EIO: no answer, or not the one expected. */
int devices_stats_switches(uint32_t port, double *switches, struct br_err *err);

#endif
