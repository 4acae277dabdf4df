/* `briareus serve`: a private Redis, a scheduler and a worker, looked after until the end. */
#include "cli/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "cli/children.h"
#include "cli/config.h"
#include "cli/lock.h"
#include "cli/redis.h"
#include "report/trace.h"

static const double g_lock_wait_s = 3;

struct serve {
    struct cli_config config;
    struct cli_redis redis;
    char redis_log[600];
    int lock; /* of the data folder */
    int ready_pipe[2];
    bool own_run_dir;
    struct cli_children children;
};

/* ---- the three children ---- */

static int run_scheduler(void *ctx)
{
    struct serve *s = ctx;
    enum br_log_level level;
    struct br_err err;
    br_log_level_parse(s->config.log_level, &level);
    br_log_init("scheduler", level);
    if (s->ready_pipe[0] >= 0)
        close(s->ready_pipe[0]);
    s->config.scheduler.ready_fd = s->ready_pipe[1];
    if (br_scheduler_run(&s->config.scheduler, &err) == 0)
        return 0;
    br_log(BR_ERROR, "scheduler_failed", "why=%s", BR_Q(err.msg));
    return 1;
}

/* The port that the scheduler got is kept, so that it gets the same one when it has to be restarted. */
static int scheduler_ready(void *ctx, struct br_err *err)
{
    struct serve *s = ctx;
    struct pollfd fd = {.fd = s->ready_pipe[0], .events = POLLIN};
    char text[16] = "";
    if (s->ready_pipe[1] >= 0) {
        close(s->ready_pipe[1]);
        s->ready_pipe[1] = -1;
    }
    if (poll(&fd, 1, 0) != 1 || read(s->ready_pipe[0], text, sizeof text - 1) <= 0)
        return br_err_set(err, BR_EBUSY, "no port yet");
    close(s->ready_pipe[0]);
    s->ready_pipe[0] = -1;
    s->config.scheduler.port = (uint32_t)atoi(text);
    if (!s->config.node) { /* the same port finds the same cache folder again, also after a crash */
        char node[64];
        snprintf(node, sizeof node, "serve-%u", s->config.scheduler.port);
        s->config.node = br_strdup(node);
    }
    return 0;
}

static int run_worker(void *ctx)
{
    struct serve *s = ctx;
    struct br_worker_config worker;
    struct br_worker_model *models;
    enum br_log_level level;
    struct br_err err;
    int rc;
    br_log_level_parse(s->config.log_level, &level);
    br_log_init("worker", level);
    rc = cli_worker_config(&s->config, &worker, &models, &err);
    if (rc == 0) {
        rc = br_worker_run(&worker, &err);
        cli_worker_models_free(models, worker.n_models);
    }
    if (rc)
        br_log(BR_ERROR, "worker_failed", "why=%s", BR_Q(err.msg));
    if (rc)
        return rc == BR_EINVAL ? CLI_EXIT_CONFIG : 1;
    return 0;
}

/* ---- folders ---- */

static int make_dirs(const char *path, struct br_err *err)
{
    char part[512];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0700) && errno != EEXIST)
            return br_err_errno(err, BR_EIO, "cannot make folder %s", part);
        *slash = '/';
    }
    if (mkdir(part, 0700) && errno != EEXIST)
        return br_err_errno(err, BR_EIO, "cannot make folder %s", part);
    return 0;
}

/* Redis changes its folder, so paths have to be absolute. */
static int make_absolute(char *path, size_t size, struct br_err *err)
{
    char *full = realpath(path, NULL);
    if (!full || strlen(full) >= size) {
        free(full);
        return br_err_errno(err, BR_EIO, "folder %s", path);
    }
    strcpy(path, full);
    free(full);
    return 0;
}

/* Two Redis on one append-only file would destroy it. The lock is inherited by the children, Redis among them, and so
 * held until the last of them is gone, even when this process is killed; they then need a moment to end. */
static int lock_data_dir(struct serve *s, struct br_err *err)
{
    struct br_err why;
    char path[600];
    int rc;
    snprintf(path, sizeof path, "%s/lock", s->redis.data_dir);
    rc = cli_lock_take(path, g_lock_wait_s, &s->lock, &why);
    if (rc == BR_EBUSY)
        return br_err_set(err, rc, "data-dir: %s: give this one another --data-dir", why.msg);
    return rc ? br_err_set(err, rc, "data-dir: %s", why.msg) : 0;
}

static int choose_data_dir(struct serve *s, struct br_err *err)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *dir = s->redis.data_dir;
    size_t size = sizeof s->redis.data_dir;
    if (s->config.data_dir)
        snprintf(dir, size, "%s", s->config.data_dir);
    else if (state && *state)
        snprintf(dir, size, "%s/briareus/%u", state, s->config.scheduler.port);
    else
        snprintf(dir, size, "%s/.local/state/briareus/%u", home ? home : "/tmp", s->config.scheduler.port);
    if (make_dirs(dir, err) || make_absolute(dir, size, err))
        return err->code;
    return lock_data_dir(s, err);
}

static int choose_run_dir(struct serve *s, struct br_err *err)
{
    const char *tmp = getenv("TMPDIR");
    char template[96];
    if (!s->config.run_dir) {
        if (!tmp || tmp[0] != '/' || strlen(tmp) > 64) /* a socket's path must be short */
            tmp = "/tmp";
        snprintf(template, sizeof template, "%s/briareus-XXXXXX", tmp);
        if (!mkdtemp(template))
            return br_err_errno(err, BR_EIO, "cannot make a folder for sockets in %s", tmp);
        s->config.run_dir = br_strdup(template);
        s->own_run_dir = true;
    } else {
        char full[512];
        snprintf(full, sizeof full, "%s", s->config.run_dir);
        if (make_dirs(full, err) || make_absolute(full, sizeof full, err))
            return err->code;
        free(s->config.run_dir);
        s->config.run_dir = br_strdup(full);
    }
    if (strlen(s->config.run_dir) > 90)
        return br_err_set(err, BR_EINVAL, "run-dir: '%s' is too long for a socket's path (90 bytes)",
                          s->config.run_dir);
    return 0;
}

/* "unix:DIR/NAME" unless something was given. */
static void default_socket(char **option, const char *dir, const char *name)
{
    char text[256];
    if (*option)
        return;
    snprintf(text, sizeof text, "unix:%s/%s", dir, name);
    *option = br_strdup(text);
}

static int serve_folders(struct serve *s, struct br_err *err)
{
    if (choose_data_dir(s, err) || choose_run_dir(s, err))
        return err->code;
    s->redis.memory_bytes = s->config.redis_memory;
    snprintf(s->redis.program, sizeof s->redis.program, "%s", s->config.redis_server);
    snprintf(s->redis_log, sizeof s->redis_log, "%s/redis.log", s->redis.data_dir);
    snprintf(s->redis.socket, sizeof s->redis.socket, "%s/redis.sock", s->config.run_dir);
    default_socket(&s->config.scheduler.redis, s->config.run_dir, "redis.sock");
    default_socket(&s->config.scheduler.worker_address, s->config.run_dir, "worker.sock");
    return 0;
}

static void remove_sockets(const struct serve *s)
{
    static const char *const names[] = {"redis.sock", "worker.sock"};
    for (int i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", s->config.run_dir, names[i]);
        unlink(path);
    }
}

/* ---- */

static void remove_port_file(const struct serve *s)
{
    if (s->config.port_file)
        unlink(s->config.port_file);
}

static int write_port_file(const struct serve *s, struct br_err *err)
{
    FILE *f;
    char part[600];
    if (!s->config.port_file)
        return 0;
    snprintf(part, sizeof part, "%s.part", s->config.port_file);
    f = fopen(part, "w");
    if (!f || fprintf(f, "%u\n", s->config.scheduler.port) < 0 || fclose(f) || rename(part, s->config.port_file))
        return br_err_errno(err, BR_EIO, "cannot write %s", s->config.port_file);
    return 0;
}

/* An older one of that name goes. What is there and no trace stays, and is told. */
static int trace_begin(const struct serve *s, struct br_err *err)
{
    struct br_trace *trace;
    if (!s->config.trace)
        return 0;
    if (br_trace_join(s->config.trace, s->config.trace_bytes, &trace, err))
        return err->code;
    br_trace_close(trace, err);
    unlink(s->config.trace);
    if (br_trace_join(s->config.trace, s->config.trace_bytes, &trace, err))
        return err->code;
    return br_trace_close(trace, err);
}

/* A wrong configuration is told before anything starts. */
static int serve_check(const struct serve *s, struct br_err *err)
{
    struct br_worker_config worker;
    struct br_worker_model *models;
    if (cli_worker_config(&s->config, &worker, &models, err))
        return err->code;
    cli_worker_models_free(models, worker.n_models);
    return 0;
}

static void list_swap(struct br_option_list *a, struct br_option_list *b)
{
    struct br_option_list old = *a;
    *a = *b;
    *b = old;
}

/* A child that has to be started again starts with the models of now. */
static void on_hangup(void *ctx)
{
    struct serve *s = ctx;
    struct cli_config fresh;
    struct br_err err;
    if (cli_config_reread(&s->config.source, &fresh, &err))
        br_log(BR_ERROR, "reload_failed", "why=%s", BR_Q(err.msg));
    else {
        list_swap(&s->config.scheduler.models, &fresh.scheduler.models);
        list_swap(&s->config.scheduler.terms, &fresh.scheduler.terms);
    }
    cli_config_free(&fresh);
}

static int serve_children(struct serve *s, struct br_err *err)
{
    int rc;
    if (pipe2(s->ready_pipe, O_CLOEXEC))
        return br_err_errno(err, BR_EIO, "pipe");
    s->children = (struct cli_children){
        .n = 3,
        .hangup = on_hangup,
        .hangup_ctx = s,
        .list = {
            {.name = "redis", .run = cli_redis_run, .ctx = &s->redis, .ready = cli_redis_ready, .log = s->redis_log},
            {.name = "scheduler",
             .run = run_scheduler,
             .ctx = s,
             .ready = scheduler_ready,
             .reloads = true,
             .drain_s = s->config.scheduler.shutdown_timeout_s},
            {.name = "worker", .run = run_worker, .ctx = s}}};
    rc = cli_children_start(&s->children, err);
    if (rc == 0 && (rc = write_port_file(s, err)) == 0) /* 1: stopped while it started */
        cli_children_watch(&s->children, s->config.run_for_s > 0 ? s->config.run_for_s : -1);
    cli_children_stop(&s->children);
    if (rc == 0 && s->children.hopeless)
        rc = br_err_set(err, BR_EINVAL, "the %s cannot work with this configuration; the log above says why",
                        s->children.hopeless);
    return rc;
}

static int serve_run(struct serve *s, struct br_err *err)
{
    int rc = serve_folders(s, err);
    if (rc == 0)
        rc = serve_check(s, err);
    if (rc == 0)
        rc = trace_begin(s, err);
    if (rc == 0) {
        remove_port_file(s); /* one that a killed serve left would name its port */
        rc = serve_children(s, err);
        remove_port_file(s);
        remove_sockets(s);
    }
    if (s->own_run_dir)
        rmdir(s->config.run_dir);
    return rc;
}

int br_cli_serve(int argc, char **argv)
{
    struct serve s = {.lock = -1, .ready_pipe = {-1, -1}};
    struct br_err err;
    int rc =
        cli_config_read(&s.config, CLI_SERVE, "briareus serve",
                        "Serves models on this machine: a private Redis, a scheduler and a worker.", argc, argv, &err);
    if (rc == 0)
        rc = serve_run(&s, &err);
    cli_config_free(&s.config);
    if (rc < 0)
        fprintf(stderr, "briareus serve: %s\n", err.msg);
    if (rc < 0)
        return err.code == BR_EINVAL ? 2 : 1;
    return 0;
}
