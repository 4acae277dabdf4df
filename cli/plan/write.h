/* Files of a plan: there whole or not at all. Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_WRITE_H
#define BRIAREUS_CLI_PLAN_WRITE_H

#include <stddef.h>

#include "base/err.h"

/* "-": stdout. BR_EIO; what was at path before is still there then. */
int plan_write(const char *path, const char *data, size_t len, struct br_err *err);
/* Before anything is simulated: whether a file can be made there. NULL and "-" are fine. BR_EIO. */
int plan_write_check(const char *path, struct br_err *err);

#endif
