#include "scheduler/link/address.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int unix_parse(const char *path, struct br_address *out, struct br_err *err)
{
    out->is_unix = true;
    if (!*path || strlen(path) >= sizeof out->path)
        return br_err_set(err, BR_EINVAL, "socket path has %zu bytes, must have 1 to %zu", strlen(path),
                          sizeof out->path - 1);
    strcpy(out->path, path);
    return 0;
}

static int tcp_parse(const char *text, struct br_address *out, struct br_err *err)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    char *end;
    long port = colon ? strtol(colon + 1, &end, 10) : -1;
    if (len > 2 && text[0] == '[' && text[len - 1] == ']')
        text++, len -= 2;
    if (len == 0 || len >= sizeof out->host)
        return br_err_set(err, BR_EINVAL, "address has no host or a too long one; write tcp:HOST:PORT");
    if (port < 0 || port > 65535 || end == colon + 1 || *end)
        return br_err_set(err, BR_EINVAL, "port \"%s\" is not a number from 0 to 65535", colon + 1);
    out->is_unix = false;
    memcpy(out->host, text, len);
    out->host[len] = 0;
    snprintf(out->service, sizeof out->service, "%d", (int)port);
    return 0;
}

int br_address_parse(const char *text, struct br_address *out, struct br_err *err)
{
    int rc;
    *out = (struct br_address){0};
    if (strncmp(text, "unix:", 5) == 0)
        rc = unix_parse(text + 5, out, err);
    else if (strncmp(text, "tcp:", 4) == 0)
        rc = tcp_parse(text + 4, out, err);
    else
        rc = br_err_set(err, BR_EINVAL, "unknown kind of address; write unix:/PATH or tcp:HOST:PORT");
    return rc ? br_err_wrap(err, "address \"%.200s\"", text) : 0;
}

/* 0: nobody listens; 1: somebody does; negative: error. */
static int unix_probe(const char *path, struct br_err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int rc, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return br_err_errno(err, BR_EIO, "socket");
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    rc = connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0 || errno == EAGAIN; /* EAGAIN: its backlog is full */
    if (!rc && errno != ECONNREFUSED)
        rc = br_err_errno(err, BR_EIO, "socket %s cannot be probed", path);
    close(fd);
    return rc;
}

int br_address_clear_stale(const char *path, struct br_err *err)
{
    struct stat st;
    int rc;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : br_err_errno(err, BR_EIO, "socket %s", path);
    if (!S_ISSOCK(st.st_mode))
        return br_err_set(err, BR_EINVAL, "%s exists and is no socket; remove it or choose another path", path);
    rc = unix_probe(path, err);
    if (rc < 0)
        return rc;
    if (rc)
        return br_err_set(err, BR_EBUSY, "somebody listens on %s already", path);
    if (unlink(path) && errno != ENOENT)
        return br_err_errno(err, BR_EIO, "old socket %s cannot be removed", path);
    return 0;
}

static void unix_peer_name(const uv_stream_t *stream, char *out, size_t size)
{
    struct ucred cred;
    socklen_t len = sizeof cred;
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)stream, &fd) == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0)
        snprintf(out, size, "unix:pid=%d,uid=%u", (int)cred.pid, (unsigned)cred.uid);
}

static void tcp_peer_name(const uv_stream_t *stream, char *out, size_t size)
{
    struct sockaddr_storage addr = {0};
    char ip[INET6_ADDRSTRLEN] = "?";
    int port = 0, len = sizeof addr;
    if (uv_tcp_getpeername((const uv_tcp_t *)stream, (struct sockaddr *)&addr, &len))
        return;
    if (addr.ss_family == AF_INET6) {
        uv_ip6_name((struct sockaddr_in6 *)&addr, ip, sizeof ip);
        port = ntohs(((struct sockaddr_in6 *)&addr)->sin6_port);
    } else {
        uv_ip4_name((struct sockaddr_in *)&addr, ip, sizeof ip);
        port = ntohs(((struct sockaddr_in *)&addr)->sin_port);
    }
    snprintf(out, size, "tcp:%s:%d", ip, port);
}

void br_address_peer_name(const uv_stream_t *stream, char *out, size_t size)
{
    snprintf(out, size, "?");
    if (stream->type == UV_TCP)
        tcp_peer_name(stream, out, size);
    else
        unix_peer_name(stream, out, size);
}
