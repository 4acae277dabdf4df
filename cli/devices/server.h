/* `briareus serve` as a child: started with some options, awaited, stopped, its folders removed. */
#ifndef BRIAREUS_CLI_DEVICES_SERVER_H
#define BRIAREUS_CLI_DEVICES_SERVER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct devices_server {
    pid_t pid;
    char dir[64]; /* of its own: port, log, Redis, sockets */
    uint32_t port;
};

enum { DEVICES_MAX_WORDS = 512 };

/* Starts `program serve WORDS...` on a free port and waits until so many devices are up. BR_EIO with the end of its log
 * when it ends or is not there in five minutes. words: [n], none of --port, --port-file, --data-dir, --run-dir. */
int devices_server_start(const char *program, char *const *words, uint32_t n, uint32_t devices,
                         struct devices_server *out, struct br_err *err);
void devices_server_stop(struct devices_server *server);

#endif
