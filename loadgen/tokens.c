#include "loadgen/tokens.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "loadgen/conn.h"
#include "text/tokenizer.h"

enum { TOKENIZE_TIMEOUT_MS = 10000 };

/* ---- on disk ---- */

static int count_local(void *ctx, const char *text, size_t len, uint32_t *tokens, struct br_err *err)
{
    struct br_ids ids = {0};
    int rc = br_tokenizer_encode(ctx, text, len, BR_ENCODE_ADD_SPECIAL, &ids, err);
    *tokens = (uint32_t)ids.len;
    br_ids_free(&ids);
    return rc;
}

/* Ids of the middle half: bytes and rare pieces lie below, added and special tokens above. */
static void middle_ids(struct load_lexicon *out, uint32_t vocabulary)
{
    out->first_id = (int32_t)(vocabulary / 4);
    out->n_ids = (int32_t)(vocabulary / 2);
}

static int from_disk(const char *path, struct load_lexicon *out, struct br_err *err)
{
    struct br_tokenizer *tokenizer;
    char file[4096];
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    int rc;
    snprintf(file, sizeof file, folder ? "%s/tokenizer.json" : "%s", path);
    rc = br_tokenizer_load(file, &tokenizer, err);
    if (rc)
        return br_err_wrap(err, "tokenizer");
    rc = load_lexicon_find(out, count_local, tokenizer, err);
    middle_ids(out, (uint32_t)br_tokenizer_vocab_size(tokenizer));
    br_tokenizer_free(tokenizer);
    return rc ? br_err_wrap(err, "tokenizer %s", path) : 0;
}

/* ---- the server's ---- */

struct remote {
    const struct load_config *config;
    const struct load_target *target;
    const char *model;
    uv_loop_t loop;
    uv_timer_t timer;
    struct load_pool *pool;
    struct load_conn *conn;
    enum load_outcome outcome;
    int64_t count;
    char why[160];
};

static void on_tokens(void *ctx, uint32_t n)
{
    (void)ctx, (void)n;
}

static void on_moved(void *ctx, struct load_conn *conn)
{
    ((struct remote *)ctx)->conn = conn;
}

static void on_end(void *ctx, const struct load_answer *answer)
{
    struct remote *r = ctx;
    r->outcome = answer->outcome;
    r->count = answer->chunk.count;
    snprintf(r->why, sizeof r->why, "%s", answer->why);
    r->conn = NULL;
    uv_timer_stop(&r->timer);
}

static void on_timeout(uv_timer_t *timer)
{
    struct remote *r = timer->data;
    if (r->conn)
        load_conn_abort(r->conn);
    r->conn = NULL;
    r->outcome = LOAD_TIMEOUT;
    snprintf(r->why, sizeof r->why, "no answer in %d s", TOKENIZE_TIMEOUT_MS / 1000);
}

/* Both vLLM's names of the fields and llama.cpp's. */
static void tokenize_request(const struct remote *r, const char *text, size_t len, struct br_buf *out)
{
    json_t *body = json_pack("{s:s,s:s%,s:s%,s:b}", "model", r->model, "prompt", text, len, "content", text, len,
                             "add_special", 1);
    char *dump = json_dumps(body, JSON_COMPACT);
    br_buf_printf(out, "POST %s/tokenize HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n", r->target->prefix,
                  r->target->host);
    if (r->config->keys.n)
        br_buf_printf(out, "Authorization: Bearer %s\r\n", r->config->keys.items[0]);
    br_buf_printf(out, "Content-Length: %zu\r\n\r\n%s", strlen(dump), dump);
    free(dump);
    json_decref(body);
}

static int count_remote(void *ctx, const char *text, size_t len, uint32_t *tokens, struct br_err *err)
{
    struct remote *r = ctx;
    struct br_buf request = {0};
    const struct load_conn_cb cb = {.ctx = r, .tokens = on_tokens, .moved = on_moved, .end = on_end};
    tokenize_request(r, text, len, &request);
    r->outcome = LOAD_PENDING;
    uv_timer_start(&r->timer, on_timeout, TOKENIZE_TIMEOUT_MS, 0);
    r->conn = load_conn_send(r->pool, &request, false, &cb);
    while (r->outcome == LOAD_PENDING && uv_run(&r->loop, UV_RUN_ONCE))
        ;
    if (r->outcome != LOAD_OK)
        return br_err_set(err, BR_EIO, "%s", r->why);
    if (r->count < 0)
        return br_err_set(err, BR_EIO, "an answer without a count of tokens");
    *tokens = (uint32_t)r->count;
    return 0;
}

static void remote_open(struct remote *r)
{
    uv_loop_init(&r->loop);
    uv_timer_init(&r->loop, &r->timer);
    r->timer.data = r;
    r->pool = br_malloc(sizeof *r->pool);
    load_pool_init(r->pool, &r->loop, r->target);
}

static void remote_close(struct remote *r)
{
    load_pool_close(r->pool);
    uv_close((uv_handle_t *)&r->timer, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    uv_loop_close(&r->loop);
    free(r->pool);
}

static void from_server(const struct load_config *config, const struct load_target *target, char *const *names,
                        uint32_t n, struct load_lexicon *out, char note[200])
{
    struct remote r = {.config = config, .target = target};
    struct br_err err;
    uint32_t i;
    remote_open(&r);
    for (i = 0; i < n; i++) {
        r.model = names[i];
        if (load_lexicon_find(&out[i], count_remote, &r, &err))
            break;
    }
    if (i < n)
        snprintf(note, 200, "prompt lengths are approximate: no --tokenizer, and the server's /tokenize: %.120s",
                 err.msg);
    for (; i < n; i++)
        load_lexicon_assume(&out[i]);
    remote_close(&r);
}

int load_lexicons_make(const struct load_config *config, const struct load_target *target, char *const *names,
                       uint32_t n, struct load_lexicon *out, char note[200], struct br_err *err)
{
    note[0] = 0;
    if (config->prompts)
        return 0;
    if (config->tokenizer) {
        if (from_disk(config->tokenizer, &out[0], err))
            return err->code;
        for (uint32_t i = 1; i < n; i++)
            out[i] = out[0];
    } else if (strcmp(config->prompt_format, "text") == 0) {
        from_server(config, target, names, n, out, note);
    }
    for (uint32_t i = 0; i < n && config->vocab_size; i++)
        middle_ids(&out[i], config->vocab_size);
    return 0;
}
