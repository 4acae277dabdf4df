/* Ready-made scenarios: files of options in scenarios/. Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_SCENARIO_H
#define BRIAREUS_CLI_PLAN_SCENARIO_H

#include <stddef.h>

#include "base/err.h"

#define SCENARIO_NAMES "paper-fig11a, paper-fig11b, market, h20-72b, l20-72b, tco"

/* Where its file is: beside the program (share/briareus/scenarios), in the checkout the program was built in. BR_ENOENT
 * with the nearest name. */
int scenario_path(const char *name, char *path, size_t size, struct br_err *err);

#endif
