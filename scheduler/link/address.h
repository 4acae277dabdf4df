/* "unix:/path" and "tcp:host:port": parsing, listening, naming the other side. */
#ifndef BRIAREUS_SCHEDULER_LINK_ADDRESS_H
#define BRIAREUS_SCHEDULER_LINK_ADDRESS_H

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"

struct br_address {
    bool is_unix;
    char path[108];             /* unix */
    char host[256], service[8]; /* tcp; [::1] without its brackets */
};

int br_address_parse(const char *text, struct br_address *out, struct br_err *err);
/* Removes a socket file that nobody listens on. BR_EBUSY: somebody does; BR_EINVAL: the file is no socket. */
int br_address_clear_stale(const char *path, struct br_err *err);
/* "unix:pid=3,uid=0" or "tcp:1.2.3.4:5" of a connected stream, "?" if the system does not say. */
void br_address_peer_name(const uv_stream_t *stream, char *out, size_t size);

#endif
