#include "cli/children.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static const double g_no_fork_s = 5, g_stop_s = 4, g_ready_s = 120;

static void watched_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGCHLD);
}

static int child_start(struct cli_child *child, struct br_err *err)
{
    pid_t parent = getpid();
    child->pid = fork();
    if (child->pid < 0)
        return br_err_errno(err, BR_EIO, "cannot start the %s", child->name);
    if (child->pid == 0) {
        sigset_t set;
        watched_signals(&set);
        setpgid(0, 0); /* a terminal's ^C is for the parent, which stops everything in order */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        prctl(PR_SET_NAME, child->name);
        if (getppid() != parent)
            _exit(1);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        exit(child->run(child->ctx));
    }
    child->started_s = br_now_s();
    child->restart_at_s = 0;
    br_log(BR_INFO, "child_started", "name=%s pid=%d", child->name, (int)child->pid);
    return 0;
}

static int child_ended_early(struct cli_child *child, int status, struct br_err *err)
{
    child->pid = 0;
    return br_err_set(err, BR_EIO, "it ended with %s %d before it served; %s%s says why",
                      WIFSIGNALED(status) ? "signal" : "status",
                      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), child->log ? child->log : "its log",
                      child->log ? "" : " above");
}

/* Nothing can be awaited but signals (a death is one of them): asks the child again every 20 ms. */
static int child_wait_ready(struct cli_child *child, struct br_err *err)
{
    const struct timespec pause = {.tv_nsec = 20 * BR_NS_PER_MS};
    double end_s = br_now_s() + g_ready_s;
    sigset_t set;
    int rc, status;
    watched_signals(&set);
    while (child->ready && (rc = child->ready(child->ctx, err)) != 0) {
        int signum = sigtimedwait(&set, NULL, &pause);
        if (rc != BR_EBUSY)
            return rc;
        if (signum == SIGTERM || signum == SIGINT)
            return 1;
        if (waitpid(child->pid, &status, WNOHANG) == child->pid)
            return child_ended_early(child, status, err);
        if (br_now_s() > end_s)
            return br_err_set(err, BR_EIO, "it does not serve after %g s", g_ready_s);
    }
    return 0;
}

int cli_children_start(struct cli_children *children, struct br_err *err)
{
    sigset_t set;
    watched_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (unsigned i = 0; i < children->n; i++) {
        struct cli_child *child = &children->list[i];
        int rc;
        rc = child_start(child, err);
        if (rc == 0)
            rc = child_wait_ready(child, err);
        if (rc)
            return rc < 0 ? br_err_wrap(err, "%s", child->name) : rc;
    }
    return 0;
}

static void child_died(struct cli_child *child, int status)
{
    double now = br_now_s();
    br_log(BR_ERROR, "child_died", "name=%s pid=%d %s=%d alive_s=%.1f", child->name, (int)child->pid,
           WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
           now - child->started_s);
    child->pid = 0;
    child->restart_at_s = now + br_backoff_s(&child->backoff, now - child->started_s);
}

static void reap(struct cli_children *children)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (unsigned i = 0; i < children->n; i++)
            if (children->list[i].pid == pid) {
                child_died(&children->list[i], status);
                if (WIFEXITED(status) && WEXITSTATUS(status) == CLI_EXIT_CONFIG)
                    children->hopeless = children->list[i].name;
            }
}

/* Starts what is due; returns when the next one is. */
static double restart_due(struct cli_children *children, double until_s)
{
    struct br_err err;
    for (unsigned i = 0; i < children->n; i++) {
        struct cli_child *child = &children->list[i];
        if (child->pid || child->restart_at_s == 0)
            continue;
        if (child->restart_at_s > br_now_s()) {
            until_s = child->restart_at_s < until_s ? child->restart_at_s : until_s;
        } else if (child_start(child, &err)) {
            br_log(BR_ERROR, "child_not_started", "name=%s why=%s", child->name, BR_Q(err.msg));
            child->restart_at_s = br_now_s() + g_no_fork_s;
        }
    }
    return until_s;
}

static struct timespec wait_time(double seconds)
{
    struct timespec ts;
    if (seconds < 0)
        seconds = 0;
    ts.tv_sec = (time_t)seconds;
    ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
    return ts;
}

static void hangup(struct cli_children *children)
{
    if (children->hangup)
        children->hangup(children->hangup_ctx);
    for (unsigned i = 0; i < children->n; i++)
        if (children->list[i].reloads && children->list[i].pid > 0)
            kill(children->list[i].pid, SIGHUP);
}

void cli_children_watch(struct cli_children *children, double max_s)
{
    double end_s = max_s < 0 ? br_now_s() + 1e9 : br_now_s() + max_s;
    sigset_t set;
    watched_signals(&set);
    while (br_now_s() < end_s) {
        struct timespec ts;
        reap(children); /* also who died while others were started */
        if (children->hopeless)
            return;
        ts = wait_time(restart_due(children, end_s) - br_now_s());
        int signum = sigtimedwait(&set, NULL, &ts);
        if (signum == SIGTERM || signum == SIGINT)
            return;
        if (signum == SIGHUP)
            hangup(children);
    }
}

static bool wait_gone(pid_t pid, double limit_s)
{
    double end_s = br_now_s() + limit_s;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        struct timespec ts = wait_time(end_s - br_now_s() < 0.1 ? end_s - br_now_s() : 0.1);
        if (br_now_s() >= end_s)
            return false;
        sigtimedwait(&set, NULL, &ts);
    }
    return true;
}

/* Whoever stops this process twice is in a hurry. */
static void child_drain(struct cli_child *child)
{
    double end_s = br_now_s() + child->drain_s + g_stop_s;
    sigset_t set;
    watched_signals(&set);
    kill(child->pid, SIGTERM);
    while (br_now_s() < end_s) {
        struct timespec ts = wait_time(0.1);
        int signum;
        if (waitpid(child->pid, NULL, WNOHANG) != 0) {
            child->pid = 0;
            return;
        }
        signum = sigtimedwait(&set, NULL, &ts);
        if (signum == SIGTERM || signum == SIGINT)
            kill(child->pid, SIGTERM);
    }
}

void cli_children_stop(struct cli_children *children)
{
    for (unsigned i = 0; i < children->n; i++)
        if (children->list[i].pid > 0)
            kill(children->list[i].pid, SIGCONT); /* one that was stopped would not hear SIGTERM */
    for (unsigned i = 0; i < children->n; i++)
        if (children->list[i].pid > 0 && children->list[i].drain_s > 0)
            child_drain(&children->list[i]);
    for (unsigned i = children->n; i-- > 0;) {
        pid_t pid = children->list[i].pid;
        if (pid <= 0)
            continue;
        kill(pid, SIGTERM);
        if (!wait_gone(pid, g_stop_s)) {
            br_log(BR_WARN, "child_killed", "name=%s pid=%d", children->list[i].name, (int)pid);
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        children->list[i].pid = 0;
    }
}
