/* A run from inside: run.c (sending, ending), call.c (one request). Private to loadgen/. */
#ifndef BRIAREUS_LOADGEN_RUN_IMPL_H
#define BRIAREUS_LOADGEN_RUN_IMPL_H

#include <uv.h>

#include "loadgen/conn.h"
#include "loadgen/run.h"
#include "loadgen/watch.h"

/* A request in progress. Kept and used again: its timer is a handle of the loop. */
struct load_call {
    struct load_run *run;
    struct load_conn *conn; /* NULL: not in use */
    struct load_call *next_free;
    uv_timer_t timer;
    uint32_t request, cancel_after, tokens;
    unsigned traits;
};

struct load_run {
    const struct load_config *config;
    const struct load_target *target;
    const struct load_ask *ask;
    const char *label;
    struct load_journal *journal;
    struct load_pool *pool;
    uv_loop_t loop;
    uv_poll_t due; /* the timer file of the next request: uv's own timers count whole milliseconds */
    uv_timer_t drain, pulse;
    uv_signal_t sigint, sigterm;
    int timer_fd;
    int64_t start_ns;
    uint32_t next, open, max_open, failed;
    uint64_t tokens;          /* received so far */
    struct load_call **calls; /* all there are; owned */
    uint32_t n_calls;
    struct load_call *free_calls;
    uint64_t idle_ns; /* loop's idle time at the last pulse */
    int64_t pulse_ns;
    uint32_t pulses;
    struct load_watch watch; /* with --stop-below */
    bool over;
};

double load_run_now(const struct load_run *run);
/* A request has ended: sends what waited for it, and ends the run after the last. */
void load_run_ended(struct load_run *run);

void load_call_start(struct load_run *run, uint32_t request);
/* Hangs up every open request with this outcome. */
void load_calls_abort(struct load_run *run, enum load_outcome outcome, const char *why);
void load_calls_free(struct load_run *run); /* once the loop has closed their timers */
void load_calls_close(struct load_run *run);

#endif
