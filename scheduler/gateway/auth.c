#include "scheduler/gateway/auth.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/metrics.h"
#include "base/rng.h"

struct br_auth {
    struct br_client **clients; /* owned */
    uint32_t n;
    uint32_t open;            /* requests under way, of all */
    double open_weights;      /* of the clients that have some */
    unsigned char secret[16]; /* what salts are made with: whoever could guess one could aim at another's prefixes */
};

/* ---- making keys ---- */

static void hash_of(const char *key, unsigned char out[BR_KEY_HASH])
{
    SHA256((const unsigned char *)key, strlen(key), out);
}

/* base64url without padding (RFC 4648, 5): 32 bytes give 43 characters. */
static void base64url(const unsigned char *in, size_t n, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t bits = 0;
    int have = 0;
    for (size_t i = 0; i < n; i++) {
        bits = bits << 8 | in[i];
        for (have += 8; have >= 6; have -= 6)
            *out++ = digits[bits >> (have - 6) & 63];
    }
    if (have)
        *out++ = digits[bits << (6 - have) & 63];
    *out = 0;
}

int br_key_new(char text[BR_KEY_TEXT], char hash[2 * BR_KEY_HASH + 1], struct br_err *err)
{
    unsigned char bytes[BR_KEY_HASH];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return br_err_set(err, BR_EIO, "the system gives no random numbers");
    strcpy(text, "brk-");
    base64url(bytes, sizeof bytes, text + 4);
    hash_of(text, bytes);
    for (int i = 0; i < BR_KEY_HASH; i++)
        snprintf(hash + 2 * i, 3, "%02x", bytes[i]);
    OPENSSL_cleanse(bytes, sizeof bytes);
    return 0;
}

/* ---- clients ---- */

struct br_auth *br_auth_create(void)
{
    struct br_auth *auth = br_calloc(1, sizeof *auth);
    uint64_t halves[2] = {br_rng_entropy(), br_rng_entropy()};
    memcpy(auth->secret, halves, sizeof auth->secret);
    return auth;
}

static void key_free(struct br_key *key)
{
    struct br_key_list one = {.keys = br_malloc(sizeof *key), .n = 1};
    *one.keys = *key;
    br_keys_free(&one);
}

static void client_free(struct br_client *client)
{
    key_free(&client->key);
    free(client);
}

void br_auth_destroy(struct br_auth *auth)
{
    if (!auth)
        return;
    for (uint32_t i = 0; i < auth->n; i++)
        client_free(auth->clients[i]);
    free(auth->clients);
    free(auth);
}

static void client_drop(struct br_auth *auth, struct br_client *client)
{
    for (uint32_t i = 0; i < auth->n; i++)
        if (auth->clients[i] == client)
            auth->clients[i] = auth->clients[--auth->n];
    client_free(client);
}

static void bucket_fill(struct br_bucket *bucket, double now_s)
{
    double level = bucket->level + (now_s - bucket->at_s) * bucket->limit / 60;
    bucket->level = level < bucket->limit ? level : bucket->limit;
    bucket->at_s = now_s;
}

/* Another limit: what has been used counts on. What was used without a limit does not. */
static void bucket_limit(struct br_bucket *bucket, double limit, double now_s)
{
    bucket_fill(bucket, now_s);
    bucket->level = bucket->limit > 0 ? bucket->level + limit - bucket->limit : limit;
    bucket->limit = limit;
}

static struct br_client *client_named(struct br_auth *auth, const char *name)
{
    for (uint32_t i = 0; i < auth->n; i++)
        if (strcmp(auth->clients[i]->key.name, name) == 0)
            return auth->clients[i];
    return NULL;
}

static struct br_client *client_make(struct br_auth *auth, double now_s)
{
    struct br_client *client = br_calloc(1, sizeof *client);
    client->auth = auth;
    client->requests.at_s = client->tokens.at_s = now_s;
    auth->clients = br_realloc(auth->clients, (auth->n + 1) * sizeof(void *));
    return auth->clients[auth->n++] = client;
}

static void client_set(struct br_client *client, const struct br_key *key, double now_s)
{
    if (client->open)
        client->auth->open_weights += key->weight - client->key.weight;
    if (client->key.name[0])
        key_free(&client->key);
    client->key = *key;
    client->gone = false;
    bucket_limit(&client->requests, key->requests_per_min, now_s);
    bucket_limit(&client->tokens, key->tokens_per_min, now_s);
}

void br_auth_set(struct br_auth *auth, struct br_key_list *list, double now_s)
{
    for (uint32_t i = 0; i < auth->n; i++)
        auth->clients[i]->gone = true;
    for (uint32_t i = 0; i < list->n; i++) {
        struct br_client *client = client_named(auth, list->keys[i].name);
        client_set(client ? client : client_make(auth, now_s), &list->keys[i], now_s);
    }
    free(list->keys); /* what they own went to the clients */
    *list = (struct br_key_list){0};
    for (uint32_t i = auth->n; i-- > 0;)
        if (auth->clients[i]->gone && auth->clients[i]->open == 0)
            client_drop(auth, auth->clients[i]);
}

struct br_client *br_auth_find(struct br_auth *auth, const char *key)
{
    unsigned char hash[BR_KEY_HASH];
    struct br_client *found = NULL;
    hash_of(key, hash);
    for (uint32_t i = 0; i < auth->n; i++) /* all of them, whichever it is */
        if (CRYPTO_memcmp(hash, auth->clients[i]->key.hash, BR_KEY_HASH) == 0 && !auth->clients[i]->gone)
            found = auth->clients[i];
    return found;
}

const struct br_client *br_auth_at(const struct br_auth *auth, uint32_t i)
{
    return i < auth->n ? auth->clients[i] : NULL;
}

bool br_client_may(const struct br_client *client, const char *model)
{
    for (uint32_t i = 0; i < client->key.models.n; i++)
        if (strcmp(client->key.models.items[i], model) == 0)
            return true;
    return client->key.models.n == 0;
}

uint64_t br_client_salt(const struct br_client *client)
{
    unsigned char text[sizeof client->auth->secret + BR_KEY_NAME], hash[BR_KEY_HASH];
    size_t n = sizeof client->auth->secret, len = strlen(client->key.tenant);
    uint64_t salt;
    memcpy(text, client->auth->secret, n);
    memcpy(text + n, client->key.tenant, len);
    SHA256(text, n + len, hash);
    memcpy(&salt, hash, sizeof salt);
    return salt ? salt : 1;
}

/* ---- limits ---- */

static int limit_problem(struct br_client *client, struct br_problem *problem, const char *what, double limit,
                         double wait_s)
{
    client->n_refused++;
    br_problem_set(problem, 429, "rate_limit_exceeded", NULL,
                   "Key '%s' has reached its limit of %g %s. Try again in %.1f s.", client->key.name, limit, what,
                   wait_s);
    problem->retry_after_s = wait_s > 0.1 ? wait_s : 0.1;
    return -1;
}

int br_client_begin(struct br_client *client, double now_s, struct br_problem *problem)
{
    struct br_bucket *bucket = &client->requests;
    bucket_fill(bucket, now_s);
    if (client->key.concurrency && client->open >= client->key.concurrency)
        return limit_problem(client, problem, "requests at a time", client->key.concurrency, 1);
    if (bucket->limit > 0 && bucket->level < 1 && bucket->level < bucket->limit)
        return limit_problem(client, problem, "requests per minute", bucket->limit,
                             (1 - bucket->level) * 60 / bucket->limit);
    bucket->level -= 1;
    client->n_requests++;
    client->auth->open++;
    if (client->open++ == 0)
        client->auth->open_weights += client->key.weight;
    return 0;
}

void br_client_end(struct br_client *client)
{
    struct br_auth *auth = client->auth;
    auth->open--;
    if (--client->open > 0)
        return;
    auth->open_weights -= client->key.weight;
    if (auth->open == 0)
        auth->open_weights = 0; /* no rounding adds up */
    if (client->gone)
        client_drop(auth, client);
}

int br_client_charge(struct br_client *client, uint64_t prompt_tokens, double now_s, struct br_problem *problem)
{
    struct br_bucket *bucket = &client->tokens;
    double need = (double)prompt_tokens;
    bucket_fill(bucket, now_s);
    if (bucket->limit > 0 && need > bucket->limit) { /* waiting does not help: no Retry-After */
        client->n_refused++;
        return br_problem_set(problem, 429, "rate_limit_exceeded", NULL,
                              "The request has %.0f tokens, and key '%s' has a limit of %g tokens per minute.", need,
                              client->key.name, bucket->limit);
    }
    if (bucket->limit > 0 && bucket->level < need)
        return limit_problem(client, problem, "tokens per minute", bucket->limit,
                             (need - bucket->level) * 60 / bucket->limit);
    bucket->level -= need;
    client->prompt_tokens += prompt_tokens;
    return 0;
}

void br_client_refund(struct br_client *client, uint64_t prompt_tokens, double now_s)
{
    bucket_fill(&client->tokens, now_s);
    client->tokens.level += (double)prompt_tokens;
    client->prompt_tokens -= prompt_tokens;
}

void br_client_generated(struct br_client *client, uint64_t tokens, double now_s)
{
    bucket_fill(&client->tokens, now_s);
    client->tokens.level -= (double)tokens;
    client->generated_tokens += tokens;
}

double br_client_share(const struct br_client *client)
{
    const struct br_auth *auth = client->auth;
    double mine, fair;
    if (client->open == 0 || !(auth->open_weights > 0))
        return 1;
    mine = client->open / client->key.weight;
    fair = auth->open / auth->open_weights;
    if (mine <= fair)
        return 1;
    return fair / mine > 1. / 16 ? fair / mine : 1. / 16;
}

static void bucket_headers(struct br_bucket *bucket, const char *what, double now_s, struct br_buf *out)
{
    double left;
    if (!(bucket->limit > 0))
        return;
    bucket_fill(bucket, now_s);
    left = bucket->level > 0 ? bucket->level : 0;
    br_buf_printf(out, "x-ratelimit-limit-%s: %.0f\r\nx-ratelimit-remaining-%s: %.0f\r\n", what, bucket->limit, what,
                  left - (left > 0 && left < 1 ? left : 0));
    br_buf_printf(out, "x-ratelimit-reset-%s: %.3fs\r\n", what, (bucket->limit - bucket->level) * 60 / bucket->limit);
}

void br_client_headers(struct br_client *client, double now_s, struct br_buf *out)
{
    bucket_headers(&client->requests, "requests", now_s, out);
    bucket_headers(&client->tokens, "tokens", now_s, out);
}

/* ---- metrics ---- */

static void put_one(const struct br_client *client, const char *name, const char *kind, double value,
                    struct br_buf *out)
{
    struct br_buf labels = {0};
    br_metric_label(&labels, "key", client->key.name);
    if (kind)
        br_metric_label(&labels, "kind", kind);
    br_metric_put(out, name, &labels, value);
    br_buf_free(&labels);
}

void br_auth_metrics(const struct br_auth *auth, struct br_buf *out)
{
    br_metric_family(out, "briareus_key_tokens_total", "counter", "Tokens by key.");
    for (uint32_t i = 0; i < auth->n; i++) {
        put_one(auth->clients[i], "briareus_key_tokens_total", "prompt", (double)auth->clients[i]->prompt_tokens, out);
        put_one(auth->clients[i], "briareus_key_tokens_total", "generated", (double)auth->clients[i]->generated_tokens,
                out);
    }
    br_metric_family(out, "briareus_key_requests_total", "counter", "Requests that a key's limits let in.");
    for (uint32_t i = 0; i < auth->n; i++)
        put_one(auth->clients[i], "briareus_key_requests_total", NULL, (double)auth->clients[i]->n_requests, out);
    br_metric_family(out, "briareus_key_refused_total", "counter", "Requests that a key's limits refused.");
    for (uint32_t i = 0; i < auth->n; i++)
        put_one(auth->clients[i], "briareus_key_refused_total", NULL, (double)auth->clients[i]->n_refused, out);
    br_metric_family(out, "briareus_key_open_requests", "gauge", "Requests of a key under way.");
    for (uint32_t i = 0; i < auth->n; i++)
        put_one(auth->clients[i], "briareus_key_open_requests", NULL, auth->clients[i]->open, out);
}
