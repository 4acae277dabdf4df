#include "loadgen/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "loadgen/run_impl.h"

enum { PULSE_MS = 100, PROGRESS_PULSES = 5, LOOK_PULSES = 10, SENDS_AT_ONCE = 64, SPARE_FILES = 64 };

double load_run_now(const struct load_run *run)
{
    return (double)(br_now_ns() - run->start_ns) * 1e-9;
}

/* ---- sending ---- */

static void set_timer(struct load_run *run, double at_s)
{
    int64_t at_ns = run->start_ns + (int64_t)(at_s * 1e9);
    struct itimerspec spec = {.it_value = {at_ns / BR_NS_PER_S, at_ns % BR_NS_PER_S}};
    timerfd_settime(run->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void end_run(struct load_run *run)
{
    run->over = true;
    uv_poll_stop(&run->due);
    uv_timer_stop(&run->drain);
    uv_timer_stop(&run->pulse);
    uv_signal_stop(&run->sigint);
    uv_signal_stop(&run->sigterm);
}

/* A bounded number at once, so that answers are read in between even when sending is late. */
static void send_due(struct load_run *run)
{
    const struct load_journal *j = run->journal;
    int sent = 0;
    while (!run->over && run->next < j->n && run->open < run->max_open && sent++ < SENDS_AT_ONCE &&
           j->records[run->next].scheduled_s <= load_run_now(run))
        load_call_start(run, run->next++);
    if (run->next < j->n && run->open < run->max_open)
        set_timer(run, j->records[run->next].scheduled_s);
    else if (run->next == j->n && run->open == 0 && !run->over)
        end_run(run);
}

void load_run_ended(struct load_run *run)
{
    if (run->next == run->journal->n ? run->open == 0 : run->open + 1 == run->max_open)
        set_timer(run, 0); /* from the loop, not from inside a callback */
}

static void on_due(uv_poll_t *poll, int status, int events)
{
    struct load_run *run = poll->data;
    uint64_t ticks;
    (void)status, (void)events;
    if (read(run->timer_fd, &ticks, sizeof ticks) < 0)
        return;
    send_due(run);
}

/* ---- watching ---- */

static void print_progress(const struct load_run *run)
{
    const struct load_config *c = run->config;
    bool tty = isatty(STDERR_FILENO);
    double now = load_run_now(run);
    if (c->quiet || (!tty && !c->progress))
        return;
    fprintf(stderr, "%s%s: %.1f s, %u of %zu requests sent, %u open, %u failed, %llu tokens (%.0f/s)%s",
            tty ? "\r" : "", run->label, now, run->next, run->journal->n, run->open, run->failed,
            (unsigned long long)run->tokens, now > 0 ? (double)run->tokens / now : 0, tty ? "\033[K" : "\n");
}

static void look_ahead(struct load_run *run)
{
    double bound = load_watch_bound(&run->watch, run->journal, load_run_now(run));
    if (bound >= run->config->stop_below / 100)
        return;
    run->journal->hopeless = bound > 0 ? bound : 1e-9;
    load_calls_abort(run, LOAD_INTERRUPTED, NULL);
    end_run(run);
}

/* Was there hardly a pause since the last pulse? */
static void on_pulse(uv_timer_t *timer)
{
    struct load_run *run = timer->data;
    uint64_t idle = uv_metrics_idle_time(&run->loop);
    int64_t now = br_now_ns();
    double passed = (double)(now - run->pulse_ns) * 1e-9;
    if ((double)(idle - run->idle_ns) * 1e-9 < 0.02 * passed)
        run->journal->busy_s += passed;
    run->idle_ns = idle;
    run->pulse_ns = now;
    if (++run->pulses % PROGRESS_PULSES == 0)
        print_progress(run);
    if (run->pulses % LOOK_PULSES == 0 && run->config->stop_below > 0 && !run->over)
        look_ahead(run);
}

static void on_drain_over(uv_timer_t *timer)
{
    struct load_run *run = timer->data;
    for (; run->next < run->journal->n; run->next++) /* held back by --max-concurrency until now */
        load_journal_end(run->journal, run->next, LOAD_DRAIN, load_run_now(run), "not sent: --max-concurrency");
    load_calls_abort(run, LOAD_DRAIN, "not answered when the drain was over (--drain)");
    end_run(run);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct load_run *run = handle->data;
    (void)signum;
    run->journal->interrupted = true;
    load_calls_abort(run, LOAD_INTERRUPTED, NULL);
    end_run(run); /* a second signal finds no handler and ends the process */
}

/* ---- setting up ---- */

/* As many open files as the system lets us have; how many connections that allows. */
static uint32_t most_connections(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 512;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur > 1000000)
        return 1000000;
    return limit.rlim_cur > 2 * SPARE_FILES ? (uint32_t)limit.rlim_cur - SPARE_FILES : SPARE_FILES;
}

static void fill_records(struct load_journal *journal, const struct br_workload *workload)
{
    load_journal_init(journal, workload->n);
    for (size_t i = 0; i < workload->n; i++) {
        const struct br_request *r = &workload->requests[i];
        journal->records[i] = (struct load_record){.scheduled_s = r->at_s,
                                                   .sent_s = -1,
                                                   .end_s = -1,
                                                   .model = r->model,
                                                   .number = r->number,
                                                   .prompt = r->prompt,
                                                   .output = r->output};
    }
}

static void run_open(struct load_run *run)
{
    uv_loop_init(&run->loop);
    uv_loop_configure(&run->loop, UV_METRICS_IDLE_TIME);
    run->pool = br_malloc(sizeof *run->pool);
    load_pool_init(run->pool, &run->loop, run->target);
    uv_poll_init(&run->loop, &run->due, run->timer_fd);
    uv_timer_init(&run->loop, &run->drain);
    uv_timer_init(&run->loop, &run->pulse);
    uv_signal_init(&run->loop, &run->sigint);
    uv_signal_init(&run->loop, &run->sigterm);
    run->due.data = run->drain.data = run->pulse.data = run->sigint.data = run->sigterm.data = run;
}

static void run_begin(struct load_run *run)
{
    const struct load_journal *j = run->journal;
    double last = j->n ? j->records[j->n - 1].scheduled_s : 0;
    uv_poll_start(&run->due, UV_READABLE, on_due);
    uv_timer_start(&run->pulse, on_pulse, PULSE_MS, PULSE_MS);
    uv_signal_start(&run->sigint, on_signal, SIGINT);
    uv_signal_start(&run->sigterm, on_signal, SIGTERM);
    run->start_ns = run->pulse_ns = br_now_ns();
    uv_update_time(&run->loop);
    uv_timer_start(&run->drain, on_drain_over, (uint64_t)((last + run->config->drain_s) * 1000) + 1, 0);
    set_timer(run, 0);
}

static void run_close(struct load_run *run)
{
    load_pool_close(run->pool);
    load_calls_close(run);
    uv_close((uv_handle_t *)&run->due, NULL);
    uv_close((uv_handle_t *)&run->drain, NULL);
    uv_close((uv_handle_t *)&run->pulse, NULL);
    uv_close((uv_handle_t *)&run->sigint, NULL);
    uv_close((uv_handle_t *)&run->sigterm, NULL);
    uv_run(&run->loop, UV_RUN_DEFAULT);
    uv_loop_close(&run->loop);
    load_calls_free(run);
    run->journal->connections = run->pool->opened;
    run->journal->stale = run->pool->stale;
    free(run->pool);
    close(run->timer_fd);
}

int load_run(const struct load_config *config, const struct load_target *target, const struct load_ask *ask,
             const char *label, struct load_journal *journal, struct br_err *err)
{
    struct load_run run = {.config = config, .target = target, .ask = ask, .label = label, .journal = journal};
    const struct load_slo slo = {config->ttft_s, config->tbt_s};
    fill_records(journal, ask->workload);
    if (config->stop_below > 0)
        load_watch_init(&run.watch, journal, &slo, config->warmup_s, config->ignore_eos);
    run.max_open = most_connections();
    if (config->max_concurrency && config->max_concurrency < run.max_open)
        run.max_open = config->max_concurrency;
    run.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (run.timer_fd < 0)
        return load_watch_free(&run.watch), br_err_errno(err, BR_EIO, "cannot make a timer");
    run_open(&run);
    run_begin(&run);
    while (!run.over && uv_run(&run.loop, UV_RUN_ONCE))
        ;
    journal->sending_s = journal->n ? journal->records[journal->n - 1].scheduled_s : 0;
    journal->wall_s = load_run_now(&run);
    if (!config->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    run_close(&run);
    load_watch_free(&run.watch);
    return 0;
}
