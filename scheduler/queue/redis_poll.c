#include "scheduler/queue/redis_poll.h"

#include <stdlib.h>

#include "base/buf.h"

struct redis_poll {
    uv_poll_t handle;
    redisAsyncContext *ac; /* NULL once hiredis has freed it */
    int events;
};

static void poll_ready(uv_poll_t *handle, int status, int events);

static void poll_watch(struct redis_poll *poll, int events)
{
    poll->events = events;
    if (events)
        uv_poll_start(&poll->handle, events, poll_ready);
    else
        uv_poll_stop(&poll->handle);
}

/* status < 0: an error lies on the socket and libuv has stopped to watch it; reading tells hiredis which. */
static void poll_ready(uv_poll_t *handle, int status, int events)
{
    struct redis_poll *poll = handle->data;
    if (poll->ac && (status < 0 || (events & UV_READABLE)))
        redisAsyncHandleRead(poll->ac);
    if (poll->ac && status == 0 && (events & UV_WRITABLE))
        redisAsyncHandleWrite(poll->ac);
    if (poll->ac && status < 0)
        poll_watch(poll, poll->events);
}

static void poll_add_read(void *data)
{
    struct redis_poll *poll = data;
    poll_watch(poll, poll->events | UV_READABLE);
}

static void poll_del_read(void *data)
{
    struct redis_poll *poll = data;
    poll_watch(poll, poll->events & ~UV_READABLE);
}

static void poll_add_write(void *data)
{
    struct redis_poll *poll = data;
    poll_watch(poll, poll->events | UV_WRITABLE);
}

static void poll_del_write(void *data)
{
    struct redis_poll *poll = data;
    poll_watch(poll, poll->events & ~UV_WRITABLE);
}

static void poll_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void poll_cleanup(void *data)
{
    struct redis_poll *poll = data;
    poll->ac = NULL;
    uv_close((uv_handle_t *)&poll->handle, poll_closed);
}

int br_redis_attach(redisAsyncContext *ac, uv_loop_t *loop)
{
    struct redis_poll *poll;
    if (ac->ev.data)
        return REDIS_ERR;
    poll = br_calloc(1, sizeof *poll);
    if (uv_poll_init(loop, &poll->handle, ac->c.fd)) {
        free(poll);
        return REDIS_ERR;
    }
    poll->ac = ac;
    poll->handle.data = poll;
    ac->ev.data = poll;
    ac->ev.addRead = poll_add_read;
    ac->ev.delRead = poll_del_read;
    ac->ev.addWrite = poll_add_write;
    ac->ev.delWrite = poll_del_write;
    ac->ev.cleanup = poll_cleanup;
    return REDIS_OK;
}
