#include "scheduler/reload.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/log.h"

enum { LOOK_MS = 1000 };

struct item {
    struct br_reload *reload;
    uv_fs_poll_t poll;
    bool watched;
    void (*fn)(void *ctx);
    void *ctx;
    struct item *next;
};

struct br_reload {
    uv_loop_t *loop;
    uv_signal_t hangup;
    struct item *items; /* owned */
    uint32_t open;      /* handles */
};

static void on_hangup(uv_signal_t *handle, int signum)
{
    struct br_reload *reload = handle->data;
    br_log(BR_INFO, "reload", "signal=%d", signum);
    for (struct item *item = reload->items; item; item = item->next)
        item->fn(item->ctx);
}

static void on_change(uv_fs_poll_t *poll, int status, const uv_stat_t *before, const uv_stat_t *after)
{
    struct item *item = poll->data;
    (void)before;
    (void)after;
    if (status == 0) /* a file that is away for a moment is being replaced */
        item->fn(item->ctx);
}

struct br_reload *br_reload_start(uv_loop_t *loop)
{
    struct br_reload *reload = br_calloc(1, sizeof *reload);
    reload->loop = loop;
    reload->open = 1;
    uv_signal_init(loop, &reload->hangup);
    reload->hangup.data = reload;
    uv_signal_start(&reload->hangup, on_hangup, SIGHUP);
    uv_unref((uv_handle_t *)&reload->hangup);
    return reload;
}

int br_reload_add(struct br_reload *reload, const char *path, void (*fn)(void *ctx), void *ctx, struct br_err *err)
{
    struct item *item = br_calloc(1, sizeof *item), **last = &reload->items;
    int rc = 0;
    while (*last)
        last = &(*last)->next;
    *last = item;
    *item = (struct item){.reload = reload, .fn = fn, .ctx = ctx};
    if (!path)
        return 0;
    uv_fs_poll_init(reload->loop, &item->poll);
    item->poll.data = item;
    item->watched = true;
    reload->open++;
    rc = uv_fs_poll_start(&item->poll, on_change, path, LOOK_MS);
    uv_unref((uv_handle_t *)&item->poll);
    return rc < 0 ? br_err_set(err, BR_EIO, "cannot watch %s: %s", path, uv_strerror(rc)) : 0;
}

static void on_closed(struct br_reload *reload)
{
    struct item *next;
    if (--reload->open > 0)
        return;
    for (struct item *item = reload->items; item; item = next) {
        next = item->next;
        free(item);
    }
    free(reload);
}

static void on_signal_closed(uv_handle_t *handle)
{
    on_closed(handle->data);
}

static void on_poll_closed(uv_handle_t *handle)
{
    on_closed(((struct item *)handle->data)->reload);
}

void br_reload_stop(struct br_reload *reload)
{
    if (!reload)
        return;
    for (struct item *item = reload->items; item; item = item->next)
        if (item->watched)
            uv_close((uv_handle_t *)&item->poll, on_poll_closed);
    uv_close((uv_handle_t *)&reload->hangup, on_signal_closed);
}
