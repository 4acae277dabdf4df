/* The child processes of `briareus serve`: started in order, restarted when they die, stopped in reverse order. */
#ifndef BRIAREUS_CLI_CHILDREN_H
#define BRIAREUS_CLI_CHILDREN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/backoff.h"
#include "base/err.h"

enum { CLI_MAX_CHILDREN = 8 };

struct cli_child {
    const char *name;
    /* Runs in the child; its return value is the exit status. */
    int (*run)(void *ctx);
    void *ctx;
    /* Asked in the parent now and then: 0 the child serves, BR_EBUSY not yet, else an error. NULL: it needs no time. */
    int (*ready)(void *ctx, struct br_err *err);
    double drain_s;  /* is asked to end before all others and has so long; a second SIGTERM is passed on. 0: no */
    const char *log; /* where the child says why it failed; NULL: the common log */
    bool reloads;    /* a SIGHUP is passed on to it */
    pid_t pid;
    double restart_at_s, started_s;
    struct br_backoff backoff;
};

/* Exit status of a child that cannot work with its configuration: it is not started again. */
enum { CLI_EXIT_CONFIG = 2 };

struct cli_children {
    struct cli_child list[CLI_MAX_CHILDREN];
    unsigned n;
    void (*hangup)(void *ctx); /* SIGHUP has come: before the children that hear it do; NULL: nothing */
    void *hangup_ctx;
    const char *hopeless; /* name of the child that ended with CLI_EXIT_CONFIG */
};

/* Starts all, in order, each after the one before it serves, and blocks SIGTERM, SIGINT, SIGHUP and SIGCHLD in this
 * process. 1: SIGTERM or SIGINT came meanwhile. An error when a child ends, or does not serve within two minutes. */
int cli_children_start(struct cli_children *children, struct br_err *err);
/* Looks after them, passing SIGHUP on, until SIGTERM or SIGINT, until max_s have passed (< 0: for ever), or until one
 * is hopeless. */
void cli_children_watch(struct cli_children *children, double max_s);
/* SIGTERM, first to those that drain, then in reverse order, and SIGKILL to one that is still there after four seconds.
 */
void cli_children_stop(struct cli_children *children);

#endif
