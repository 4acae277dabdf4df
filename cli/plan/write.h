/* Files of a plan: there whole or not at all. Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_WRITE_H
#define BRIAREUS_CLI_PLAN_WRITE_H

#include <stddef.h>

#include "base/err.h"

/* A file under way beside its place. A link is followed, what was there keeps its mode, and what is not a plain file (a
 * pipe, /dev/null) is written as it is. */
struct plan_out {
    char path[4096],
        part[4096]; /* where it is to be; where it is until then: path itself if that is not a plain file */
    unsigned mode;  /* of what was there; 0: nothing was */
};

void plan_out_begin(const char *path, struct plan_out *out);
/* rc: how writing out->part went; below 0 that is removed. BR_EIO. */
int plan_out_end(const struct plan_out *out, int rc, struct br_err *err);

/* "-": stdout. BR_EIO; what was at path before is still there then. */
int plan_write(const char *path, const char *data, size_t len, struct br_err *err);
/* Before anything is simulated: whether a file can be made there. NULL and "-" are fine. BR_EIO. */
int plan_write_check(const char *path, struct br_err *err);

#endif
