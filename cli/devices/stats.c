#include "cli/devices/stats.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"

enum { MAX_ANSWER = 64 << 20, TIMEOUT_S = 10 };
static const char REQUEST[] = "GET /stats HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";

static int open_socket(uint32_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval limit = {.tv_sec = TIMEOUT_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
        send(fd, REQUEST, sizeof REQUEST - 1, MSG_NOSIGNAL) == sizeof REQUEST - 1)
        return fd;
    close(fd);
    return -1;
}

static json_t *body_read(uint32_t port)
{
    struct br_buf answer = {0};
    char piece[8192];
    ssize_t n = 0;
    int fd = open_socket(port);
    while (fd >= 0 && answer.len < MAX_ANSWER && (n = recv(fd, piece, sizeof piece, 0)) > 0)
        br_buf_add(&answer, piece, (size_t)n);
    if (fd >= 0)
        close(fd);
    const char *body = answer.data ? strstr(answer.data, "\r\n\r\n") : NULL;
    json_t *root = body ? json_loads(body + 4, 0, NULL) : NULL;
    br_buf_free(&answer);
    return root;
}

int devices_stats_switches(uint32_t port, double *switches, struct br_err *err)
{
    json_t *root = body_read(port), *devices = json_object_get(root, "devices"), *device;
    size_t i;
    *switches = 0;
    json_array_foreach(devices, i, device) *switches += json_number_value(json_object_get(device, "switches"));
    int rc = json_is_array(devices) ? 0 : br_err_set(err, BR_EIO, "the server does not answer GET /stats");
    json_decref(root);
    return rc;
}
