/* The child processes of `briareus serve`: started in order, restarted when they die, stopped in reverse order. */
#ifndef BRIAREUS_CLI_CHILDREN_H
#define BRIAREUS_CLI_CHILDREN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

enum { CLI_MAX_CHILDREN = 8 };

struct cli_child {
    const char *name;
    /* Runs in the child; its return value is the exit status. */
    int (*run)(void *ctx);
    void *ctx;
    /* Waits in the parent until the child serves; 0, or an error that stops everything at the first start. */
    int (*ready)(void *ctx, struct br_err *err);
    pid_t pid;
    double restart_at_s, started_s, backoff_s;
};

struct cli_children {
    struct cli_child list[CLI_MAX_CHILDREN];
    unsigned n;
};

/* Starts all, in order, and blocks SIGTERM, SIGINT and SIGCHLD in this process. */
int cli_children_start(struct cli_children *children, struct br_err *err);
/* Looks after them until SIGTERM or SIGINT, or until max_s have passed (< 0: for ever). */
void cli_children_watch(struct cli_children *children, double max_s);
/* SIGTERM in reverse order, SIGKILL after ten seconds. */
void cli_children_stop(struct cli_children *children);

#endif
