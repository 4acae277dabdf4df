/* The input is a whole file of API keys. What is taken has unique names and hashes and limits that can be worked with;
 * an error leaves nothing behind. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gateway/auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void key_check(const struct br_key *k)
{
    if (!k->name[0] || !k->tenant[0] || !isfinite(k->requests_per_min) || k->requests_per_min < 0 ||
        !isfinite(k->tokens_per_min) || k->tokens_per_min < 0 || !(k->weight > 0) || !isfinite(k->weight))
        abort();
}

/* Every key at work once. */
static void use(struct br_key_list *list)
{
    struct br_auth *auth = br_auth_create();
    struct br_problem problem;
    struct br_buf text = {0};
    br_auth_set(auth, list, 0);
    for (uint32_t i = 0; br_auth_at(auth, i); i++) {
        struct br_client *client = (struct br_client *)(uintptr_t)br_auth_at(auth, i);
        if (br_client_begin(client, 0, &problem))
            abort(); /* a full bucket lets one in */
        br_client_charge(client, 1, 0, &problem);
        br_client_headers(client, 1, &text);
        if (!(br_client_share(client) > 0))
            abort();
        br_client_end(client);
    }
    br_auth_metrics(auth, &text);
    br_buf_free(&text);
    br_auth_destroy(auth);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_key_list list = {0};
    struct br_err err;
    if (br_keys_parse((const char *)data, size, "input", &list, &err)) {
        if (list.keys || list.n || !err.msg[0])
            abort();
        return 0;
    }
    if (list.n == 0 || list.n > BR_KEYS_MAX)
        abort();
    for (uint32_t i = 0; i < list.n; i++) {
        key_check(&list.keys[i]);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(list.keys[i].name, list.keys[k].name) == 0 ||
                memcmp(list.keys[i].hash, list.keys[k].hash, BR_KEY_HASH) == 0)
                abort();
    }
    use(&list);
    return 0;
}
