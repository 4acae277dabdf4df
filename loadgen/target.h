/* Where the server is: http://host[:port]. */
#ifndef BRIAREUS_LOADGEN_TARGET_H
#define BRIAREUS_LOADGEN_TARGET_H

#include <sys/socket.h>

#include "base/err.h"

struct load_target {
    struct sockaddr_storage address;
    char host[300];   /* for the Host header */
    char prefix[256]; /* path of the base URL, without a slash at its end */
};

int load_target_parse(const char *url, struct load_target *out, struct br_err *err);

#endif
