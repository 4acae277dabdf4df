/* A private Redis: a Unix socket and a folder of its own, no TCP port, append-only file. */
#ifndef BRIAREUS_CLI_REDIS_H
#define BRIAREUS_CLI_REDIS_H

#include <stdint.h>

#include "base/err.h"

struct cli_redis {
    char program[256]; /* "redis-server", or its path */
    char data_dir[512];
    uint64_t memory_bytes; /* maxmemory: it then takes nothing new, and evicts nothing */
    char socket[108];      /* a Unix socket's path must be short */
};

int cli_redis_run(void *redis);                       /* child: becomes the server */
int cli_redis_ready(void *redis, struct br_err *err); /* parent: does it answer PING? */

#endif
