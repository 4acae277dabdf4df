/* A lock file that one program at a time holds, with the holder's pid in it. */
#ifndef BRIAREUS_CLI_LOCK_H
#define BRIAREUS_CLI_LOCK_H

#include "base/err.h"

/* Takes the lock of the file at path, which is made if need be, and waits up to wait_s for whoever holds it. *fd is the
 * caller's; it is inherited by child processes, and the lock is held until the last of them has closed it. BR_EBUSY:
 * still held; the message says "is in use by process PID", or by an unknown one when the process that took it is gone
 * (children of it hold it then). BR_EIO: no such file can be had. */
int cli_lock_take(const char *path, double wait_s, int *fd, struct br_err *err);

#endif
