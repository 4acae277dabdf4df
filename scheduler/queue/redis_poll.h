/* hiredis on libuv. hiredis' own adapter gives up watching the socket when epoll reports an error (Redis was killed
 * while it had unread bytes), so that the connection looks idle for ever. Private to scheduler/queue. */
#ifndef BRIAREUS_SCHEDULER_QUEUE_REDIS_POLL_H
#define BRIAREUS_SCHEDULER_QUEUE_REDIS_POLL_H

#include <hiredis/async.h>
#include <uv.h>

/* REDIS_OK or REDIS_ERR, as redisLibuvAttach. */
int br_redis_attach(redisAsyncContext *ac, uv_loop_t *loop);

#endif
