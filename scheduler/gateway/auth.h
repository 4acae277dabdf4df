/* API keys: a file says whose they are and what they may do; only their SHA-256 is kept. Keys are made by
 * `briareus key new` with 256 random bits, so a plain hash is enough (there is nothing to guess).
 *
 *     keys:
 *       - name: alice            # unique; in logs and metrics
 *         hash: 9f86d0...        # of the key: 64 hexadecimal digits
 *         requests: 60           # a minute; absent: any number, as with the next two
 *         tokens: 100000         # a minute, prompt and answer
 *         concurrency: 8         # requests at a time
 *         models: [newton]       # absent: all
 *         weight: 2              # beside other keys when devices are short; 1
 *         tenant: acme           # keys of one tenant share cached prefixes; absent: its own name
 *         admin: true            # may use the endpoints of operators */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_AUTH_H
#define BRIAREUS_SCHEDULER_GATEWAY_AUTH_H

#include "base/options.h"
#include "scheduler/gateway/error.h"

enum {
    BR_KEY_NAME = 64,
    BR_KEY_HASH = 32,
    BR_KEY_TEXT = 64, /* "brk-", 43 characters, NUL */
    BR_KEYS_MAX = 2000,
    BR_KEYS_MAX_BYTES = 1 << 20,
};

struct br_key {
    char name[BR_KEY_NAME], tenant[BR_KEY_NAME];
    unsigned char hash[BR_KEY_HASH];
    double requests_per_min, tokens_per_min; /* 0: not limited */
    uint32_t concurrency;                    /* 0: not limited */
    struct br_option_list models;            /* owned; n = 0: all */
    double weight;
    bool admin;
};

struct br_key_list {
    struct br_key *keys; /* owned */
    uint32_t n;
};

/* Errors (BR_EINVAL) name `where` and the line; *out is untouched then. An empty list is an error: it would let nobody
 * in. */
int br_keys_parse(const char *yaml, size_t len, const char *where, struct br_key_list *out, struct br_err *err);
int br_keys_read(const char *path, struct br_key_list *out, struct br_err *err); /* also BR_EIO */
void br_keys_free(struct br_key_list *list);

/* A new key from the system's random numbers, and its hash as the file wants it. Errors: BR_EIO. */
int br_key_new(char text[BR_KEY_TEXT], char hash[2 * BR_KEY_HASH + 1], struct br_err *err);

/* ---- keys at work ---- */

/* What a limit leaves: fills up evenly, to one minute's worth. A level may be below zero. */
struct br_bucket {
    double limit, level, at_s;
};

/* A key with what it uses. It stays while a request refers to it, even when the file no longer has it. */
struct br_client {
    struct br_auth *auth;
    struct br_key key;
    struct br_bucket requests, tokens;
    uint32_t open; /* requests under way */
    bool gone;     /* no longer in the file */
    uint64_t n_requests, n_refused, prompt_tokens, generated_tokens;
};

struct br_auth;

struct br_auth *br_auth_create(void);
/* No request may refer to a client any more. */
void br_auth_destroy(struct br_auth *auth);
/* Takes the list's keys. A key whose name stays keeps its counters and what its limits have left. */
void br_auth_set(struct br_auth *auth, struct br_key_list *list, double now_s);
/* Whose key this is; NULL: nobody's. Its time does not depend on which key it is, or how nearly it is one. */
struct br_client *br_auth_find(struct br_auth *auth, const char *key);
/* i-th client, from 0; NULL beyond the last. */
const struct br_client *br_auth_at(const struct br_auth *auth, uint32_t i);

/* A request begins: 0, or -1 and *problem (429), and it does not count. */
int br_client_begin(struct br_client *client, double now_s, struct br_problem *problem);
void br_client_end(struct br_client *client);
bool br_client_may(const struct br_client *client, const char *model);
/* So many tokens of prompt are to be worked on: 0, or -1 and *problem (429), and they do not count. */
int br_client_charge(struct br_client *client, uint64_t prompt_tokens, double now_s, struct br_problem *problem);
void br_client_refund(struct br_client *client, uint64_t prompt_tokens, double now_s); /* they were refused after all */
void br_client_generated(struct br_client *client, uint64_t tokens, double now_s);
/* Weight of a new request beside those of other keys: below 1 for a key that has more than its share (by weight) of
 * all requests under way, at least 1/16. */
double br_client_share(const struct br_client *client);
/* x-ratelimit-* lines, as OpenAI's. */
void br_client_headers(struct br_client *client, double now_s, struct br_buf *out);
/* Separates what tenants may share; never 0. The same for a tenant as long as this process lives. */
uint64_t br_client_salt(const struct br_client *client);
/* tokens, requests and refusals by key */
void br_auth_metrics(const struct br_auth *auth, struct br_buf *out);

#endif
