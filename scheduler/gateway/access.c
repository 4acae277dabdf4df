#include "scheduler/gateway/access.h"

#include <string.h>
#include <strings.h>

#include "scheduler/gateway/gateway_impl.h"

enum access { ACCESS_PUBLIC, ACCESS_KEY, ACCESS_ADMIN };

/* A path ending in '/' stands for everything below it. What is not here needs a key. */
static const struct {
    const char *path;
    enum access access;
} paths[] = {
    {"/health", ACCESS_PUBLIC}, {"/health/", ACCESS_PUBLIC}, {"/metrics", ACCESS_ADMIN}, {"/stats", ACCESS_ADMIN},
    {"/running", ACCESS_ADMIN}, {"/models", ACCESS_ADMIN},   {"/models/", ACCESS_ADMIN}, {"/admin/", ACCESS_ADMIN},
};

static enum access access_of(const char *target)
{
    size_t len = strcspn(target, "?");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        size_t n = strlen(paths[i].path);
        if (strncmp(target, paths[i].path, n) == 0 && (len == n || paths[i].path[n - 1] == '/'))
            return paths[i].access;
    }
    return ACCESS_KEY;
}

/* "Authorization: Bearer KEY" (OpenAI) or "x-api-key: KEY" (Anthropic); NULL: neither. */
static const char *presented(const struct br_http *http)
{
    const char *value = http->header[BR_HEADER_AUTHORIZATION];
    if (strncasecmp(value, "Bearer ", 7) == 0) {
        value += 7;
        return value + strspn(value, " ");
    }
    return http->header[BR_HEADER_API_KEY][0] ? http->header[BR_HEADER_API_KEY] : NULL;
}

static bool refuse(struct br_http *http, int status, const char *code, const char *message)
{
    struct br_problem problem;
    br_problem_set(&problem, status, code, NULL, "%s", message);
    br_http_answer_problem(http, &problem, status == 401 ? "WWW-Authenticate: Bearer\r\n" : "");
    return false;
}

static bool take_key(struct br_http *http, struct br_auth *auth)
{
    const char *key = presented(http);
    if (!key)
        return refuse(http, 401, "missing_api_key",
                      "This server asks for an API key: send it as 'Authorization: Bearer KEY'.");
    http->client = br_auth_find(auth, key);
    return http->client ? true : refuse(http, 401, "invalid_api_key", "The API key is not one of this server's.");
}

/* Operators read freely on their own listener, which is not for the public; what changes something needs an operator's
 * key there too, once there are keys. */
static bool admin_allowed(struct br_http *http, struct br_auth *auth, bool own_listener)
{
    const struct br_client *client;
    if (!auth || (own_listener && (http->method == HTTP_GET || http->method == HTTP_HEAD)))
        return true;
    if (!take_key(http, auth))
        return false;
    client = http->client;
    return client->key.admin ? true : refuse(http, 403, "not_admin", "This needs an operator's key (admin: true).");
}

bool br_access(struct br_http *http)
{
    struct br_gateway *gateway = br_server_ctx(http);
    bool admin_listener = gateway->admin && br_server_of(http) == gateway->admin;
    enum access access = access_of(http->target.data ? http->target.data : "");
    http->client = NULL;
    if (access == ACCESS_PUBLIC || http->method == HTTP_OPTIONS)
        return true;
    if (access == ACCESS_ADMIN) {
        if (gateway->admin && !admin_listener)
            return refuse(http, 404, "unknown_path", "This path is on the listener of --admin-listen.");
        return admin_allowed(http, gateway->auth, admin_listener);
    }
    if (admin_listener)
        return refuse(http, 404, "unknown_path", "Models are served on the other listener (--host, --port).");
    return gateway->auth ? take_key(http, gateway->auth) : true;
}
