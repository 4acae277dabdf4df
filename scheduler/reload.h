/* What is read again while the daemon runs: at SIGHUP, and when a watched file has changed. The one place where that
 * signal is taken. */
#ifndef BRIAREUS_SCHEDULER_RELOAD_H
#define BRIAREUS_SCHEDULER_RELOAD_H

#include <uv.h>

#include "base/err.h"

struct br_reload;

struct br_reload *br_reload_start(uv_loop_t *loop);
/* Calls fn from the loop at every SIGHUP, and when the file has changed (it is looked at once a second; a file that is
 * replaced by rename counts too). path NULL: at SIGHUP only. Errors: BR_EIO. */
int br_reload_add(struct br_reload *reload, const char *path, void (*fn)(void *ctx), void *ctx, struct br_err *err);
/* Frees it once the loop has closed its handles; no calls afterwards. NULL: nothing. */
void br_reload_stop(struct br_reload *reload);

#endif
