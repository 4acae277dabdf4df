#include "loadgen/target.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

/* Splits host[:port]; [v6]:port too. */
static int split(const char *at, size_t n, char name[256], char port[8])
{
    const char *end = at + n, *colon, *close = at[0] == '[' ? memchr(at, ']', n) : NULL;
    if (close) {
        snprintf(name, 256, "%.*s", (int)(close - at - 1), at + 1);
        colon = close + 1 < end && close[1] == ':' ? close + 1 : NULL;
    } else {
        colon = memchr(at, ':', n);
        snprintf(name, 256, "%.*s", (int)((colon ? colon : end) - at), at);
    }
    if (colon && (end - colon < 2 || end - colon > 6))
        return -1;
    snprintf(port, 8, "%.*s", colon ? (int)(end - colon - 1) : 2, colon ? colon + 1 : "80");
    return name[0] && strspn(port, "0123456789") == strlen(port) ? 0 : -1;
}

int load_target_parse(const char *url, struct load_target *out, struct br_err *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    const char *host = strncmp(url, "http://", 7) == 0 ? url + 7 : url;
    size_t n = strcspn(host, "/"), path = strlen(host + n);
    char name[256], port[8];
    int rc;
    if (host == url && strstr(url, "://"))
        return br_err_set(err, BR_EINVAL, "base-url: '%s' must begin with http:// (TLS: put a proxy before it)", url);
    if (n > 255 || path >= sizeof out->prefix || split(host, n, name, port) || strpbrk(url, " \r\n\t"))
        return br_err_set(err, BR_EINVAL, "base-url: '%s' is not http://HOST[:PORT][/PATH]", url);
    rc = getaddrinfo(name, port, &hints, &found);
    if (rc || !found)
        return br_err_set(err, BR_EINVAL, "base-url: '%s': %s", url, gai_strerror(rc));
    memset(&out->address, 0, sizeof out->address);
    memcpy(&out->address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    while (path && host[n + path - 1] == '/')
        path--;
    snprintf(out->prefix, sizeof out->prefix, "%.*s", (int)path, host + n);
    snprintf(out->host, sizeof out->host, "%.*s", (int)n, host);
    return 0;
}
