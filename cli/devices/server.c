#include "cli/devices/server.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

enum { START_S = 300, LOOK_US = 50000, LOG_MAX = 64 << 20, LOG_END = 600, OWN_WORDS = 16 };

static void path_of(const struct devices_server *s, const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", s->dir, name);
}

/* In the child. It ends with its parent: nobody else knows of it. */
static void become(const struct devices_server *s, const char *program, char *const *words, uint32_t n)
{
    char port_file[128], data[128], run[128], log[128];
    char *argv[DEVICES_MAX_WORDS + OWN_WORDS] = {"briareus", "serve"};
    uint32_t argc = 2;
    path_of(s, "port", port_file);
    path_of(s, "data", data);
    path_of(s, "run", run);
    path_of(s, "log", log);
    for (uint32_t i = 0; i < n; i++)
        argv[argc++] = words[i];
    char *const own[] = {"--port",    "0", "--port-file", port_file, "--data-dir", data,
                         "--run-dir", run, "--log-level", "info",    NULL};
    memcpy(&argv[argc], own, sizeof own);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv(program, argv);
    _exit(127);
}

static uint32_t port_read(const struct devices_server *s)
{
    char path[128];
    unsigned port = 0;
    path_of(s, "port", path);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%u", &port) != 1)
        port = 0;
    if (f)
        fclose(f);
    return port;
}

static void log_read(const struct devices_server *s, struct br_buf *out)
{
    char path[128];
    path_of(s, "log", path);
    br_buf_clear(out);
    br_buf_read_file(out, path, LOG_MAX);
}

static uint32_t devices_up(const struct devices_server *s)
{
    struct br_buf log = {0};
    uint32_t n = 0;
    log_read(s, &log);
    for (const char *at = log.data; at && (at = strstr(at, "event=device_up ")); at++)
        n++;
    br_buf_free(&log);
    return n;
}

static int failed(const struct devices_server *s, const char *what, struct br_err *err)
{
    struct br_buf log = {0};
    log_read(s, &log);
    const char *end = log.len > LOG_END ? log.data + log.len - LOG_END : log.data;
    const char *line = end && log.len > LOG_END && strchr(end, '\n') ? strchr(end, '\n') + 1 : end;
    br_err_set(err, BR_EIO, "briareus serve %s; the end of its log:\n%s", what, line ? line : "");
    br_buf_free(&log);
    return err->code;
}

static int await(struct devices_server *s, uint32_t devices, struct br_err *err)
{
    int64_t until_ns = br_now_ns() + START_S * BR_NS_PER_S;
    while (br_now_ns() < until_ns) {
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
            s->pid = 0;
            return failed(s, "ended at once", err);
        }
        if ((s->port = port_read(s)) && devices_up(s) >= devices)
            return 0;
        usleep(LOOK_US); /* another process: there is nothing to be woken by */
    }
    return failed(s, "does not get its devices up", err);
}

int devices_server_start(const char *program, char *const *words, uint32_t n, uint32_t devices,
                         struct devices_server *out, struct br_err *err)
{
    const char *tmp = getenv("TMPDIR");
    *out = (struct devices_server){0};
    if (n > DEVICES_MAX_WORDS)
        return br_err_set(err, BR_EINVAL, "more than %d words for briareus serve", DEVICES_MAX_WORDS);
    snprintf(out->dir, sizeof out->dir, "%.32s/briareus-find-XXXXXX",
             tmp && *tmp == '/' && strlen(tmp) < 32 ? tmp : "/tmp");
    if (!mkdtemp(out->dir))
        return br_err_errno(err, BR_EIO, "cannot make a folder %s", out->dir);
    fflush(NULL);
    out->pid = fork();
    if (out->pid == 0)
        become(out, program, words, n);
    if (out->pid < 0)
        br_err_errno(err, BR_EIO, "fork");
    int rc = out->pid < 0 ? err->code : await(out, devices, err);
    if (rc)
        devices_server_stop(out);
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void devices_server_stop(struct devices_server *s)
{
    if (s->pid > 0) {
        kill(s->pid, SIGTERM); /* it sees to it that its own children end */
        waitpid(s->pid, NULL, 0);
    }
    if (s->dir[0])
        nftw(s->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    *s = (struct devices_server){0};
}
