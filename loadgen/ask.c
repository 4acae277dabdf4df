#include "loadgen/ask.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "loadgen/journal.h"
#include "traffic/draws.h"

enum { MAX_PROMPTS_BYTES = 64 << 20, DRAWS = 8 };
/* Purposes of draws, apart from those of traffic/draws.h. */
enum { DRAW_TRAIT = 64, DRAW_QUESTION, DRAW_KEY, DRAW_SEED };

static char *as_json(const char *text)
{
    json_t *string = json_string(text);
    char *out = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    json_decref(string);
    return out;
}

static int read_questions(struct load_ask *ask, struct br_err *err)
{
    struct br_buf text = {0};
    const char *path = ask->config->prompts;
    char *save = NULL;
    if (!path)
        return 0;
    if (br_buf_read_file(&text, path, MAX_PROMPTS_BYTES)) {
        br_buf_read_error(err, BR_ENOENT, "prompts file %s", path);
        br_buf_free(&text);
        return err->code;
    }
    for (char *line = text.data ? strtok_r(text.data, "\r\n", &save) : NULL; line;
         line = strtok_r(NULL, "\r\n", &save)) {
        char *json = as_json(line);
        if (!json) {
            br_buf_free(&text);
            return br_err_set(err, BR_EINVAL, "prompts file %s: line %u is not UTF-8", path, ask->n_questions + 1);
        }
        ask->questions = br_realloc(ask->questions, (ask->n_questions + 1) * sizeof *ask->questions);
        ask->questions[ask->n_questions++] = json;
    }
    br_buf_free(&text);
    return ask->n_questions ? 0 : br_err_set(err, BR_EINVAL, "prompts file %s is empty", path);
}

static int write_tail(struct load_ask *ask, struct br_err *err)
{
    const struct load_config *c = ask->config;
    struct br_buf *tail = &ask->tail;
    br_buf_printf(tail, ",\"temperature\":%.6g", c->temperature);
    if (c->ignore_eos)
        br_buf_puts(tail, ",\"ignore_eos\":true");
    if (!c->no_stream)
        br_buf_puts(tail,
                    ",\"stream\":true,\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}");
    if (c->extra_body) {
        json_error_t why;
        json_t *extra = json_loads(c->extra_body, 0, &why);
        char *dump = json_is_object(extra) ? json_dumps(extra, JSON_COMPACT) : NULL;
        if (dump && json_object_size(extra))
            br_buf_printf(tail, ",%.*s", (int)strlen(dump) - 2, dump + 1);
        free(dump);
        if (!json_is_object(extra)) {
            json_decref(extra);
            return br_err_set(err, BR_EINVAL, "extra-body: not a JSON object: '%s'", c->extra_body);
        }
        json_decref(extra);
    }
    br_buf_puts(tail, "}");
    return 0;
}

static int write_head(struct load_ask *ask, const struct load_target *target, struct br_err *err)
{
    const struct load_config *c = ask->config;
    const char *path = c->endpoint ? c->endpoint : ask->chat ? "/v1/chat/completions" : "/v1/completions";
    if (path[0] != '/' || strpbrk(path, " \r\n"))
        return br_err_set(err, BR_EINVAL, "endpoint: '%s' is not a path such as /v1/completions", path);
    br_buf_printf(&ask->head, "POST %s%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: %s\r\n",
                  target->prefix, path, target->host, c->no_stream ? "application/json" : "text/event-stream");
    for (uint32_t i = 0; i < c->headers.n; i++) {
        const char *header = c->headers.items[i], *equals = strchr(header, '=');
        if (!equals || equals == header || strpbrk(header, "\r\n") || strcspn(header, " :") < (size_t)(equals - header))
            return br_err_set(err, BR_EINVAL, "header: '%s' is not NAME=VALUE", header);
        br_buf_printf(&ask->head, "%.*s: %s\r\n", (int)(equals - header), header, equals + 1);
    }
    for (uint32_t i = 0; i < c->keys.n; i++)
        if (!c->keys.items[i][0] || strpbrk(c->keys.items[i], "\r\n"))
            return br_err_set(err, BR_EINVAL, "api-key: key %u is empty or has line ends", i + 1);
    return 0;
}

int load_ask_init(struct load_ask *ask, const struct load_config *config, const struct load_target *target,
                  const struct br_workload *workload, const struct load_lexicon *lexicons, uint64_t seed,
                  struct br_err *err)
{
    *ask = (struct load_ask){.config = config, .workload = workload, .lexicons = lexicons, .seed = seed};
    ask->chat = config->prompts || (config->backend && strcmp(config->backend, "openai-chat") == 0);
    ask->ids = strcmp(config->prompt_format, "ids") == 0;
    ask->names = br_calloc(workload->n_models + 1, sizeof *ask->names);
    for (; ask->n_names < workload->n_models; ask->n_names++) {
        ask->names[ask->n_names] = as_json(workload->names[ask->n_names]);
        if (!ask->names[ask->n_names])
            return br_err_set(err, BR_EINVAL, "the name of model %u is not UTF-8", ask->n_names);
    }
    if (write_head(ask, target, err) || write_tail(ask, err) || read_questions(ask, err))
        return err->code;
    return 0;
}

void load_ask_free(struct load_ask *ask)
{
    for (uint32_t i = 0; i < ask->n_names; i++)
        free(ask->names[i]);
    for (uint32_t i = 0; i < ask->n_questions; i++)
        free(ask->questions[i]);
    free(ask->names);
    free(ask->questions);
    br_buf_free(&ask->head);
    br_buf_free(&ask->tail);
}

static struct br_draws draws(const struct load_ask *ask, const struct br_request *r, uint32_t purpose)
{
    return (struct br_draws){
        .seed = ask->seed, .next = (uint64_t)r->number * DRAWS, .model = r->model, .purpose = purpose};
}

unsigned load_ask_traits(const struct load_ask *ask, const struct br_request *r, uint32_t *cancel_after)
{
    const struct load_config *c = ask->config;
    struct br_draws d = draws(ask, r, DRAW_TRAIT);
    unsigned traits = 0; /* each share has its own draw, so that one does not move another's requests */
    traits |= br_draw_unit(&d) < c->cancel_share ? LOAD_CANCELS : 0;
    traits |= br_draw_unit(&d) < c->slow_share ? LOAD_SLOW : 0;
    traits |= br_draw_unit(&d) < c->deadline_share ? LOAD_HAS_DEADLINE : 0;
    traits |= br_draw_unit(&d) < c->priority_share ? LOAD_HAS_PRIORITY : 0;
    *cancel_after = traits & LOAD_CANCELS ? 1 + (uint32_t)(br_draw_unit(&d) * r->output) : 0;
    return traits;
}

static void write_prompt(const struct load_ask *ask, const struct br_request *r, struct br_buf *out)
{
    struct br_draws d = draws(ask, r, DRAW_QUESTION);
    if (ask->chat)
        br_buf_puts(out, ",\"messages\":[{\"role\":\"user\",\"content\":");
    else
        br_buf_puts(out, ",\"prompt\":");
    if (ask->n_questions) {
        br_buf_puts(out, ask->questions[(uint32_t)(br_draw_unit(&d) * ask->n_questions)]);
    } else if (ask->ids) {
        load_prompt_ids(&ask->lexicons[r->model], ask->workload, r, ask->seed, out);
    } else {
        br_buf_puts(out, "\"");
        load_prompt_text(&ask->lexicons[r->model], ask->workload, r, ask->seed, out);
        br_buf_puts(out, "\"");
    }
    if (ask->chat)
        br_buf_puts(out, "}]");
}

static void write_body(const struct load_ask *ask, const struct br_request *r, unsigned traits, struct br_buf *out)
{
    const struct load_config *c = ask->config;
    br_buf_printf(out, "{\"model\":%s", ask->names[r->model]);
    write_prompt(ask, r, out);
    br_buf_printf(out, ",\"max_tokens\":%u,\"seed\":%llu", r->output,
                  (unsigned long long)(br_rng_u64(ask->seed, DRAW_SEED, r->number, r->model) >> 12));
    if (traits & LOAD_HAS_PRIORITY)
        br_buf_printf(out, ",\"priority\":%u", c->priority);
    if (traits & LOAD_HAS_DEADLINE)
        br_buf_printf(out, ",\"deadline_ms\":%.0f", c->deadline_s * 1000);
    br_buf_add(out, ask->tail.data, ask->tail.len);
}

void load_ask_write(const struct load_ask *ask, const struct br_request *r, struct br_buf *out)
{
    enum { DIGITS = 10 };
    char length[DIGITS + 1];
    struct br_draws d = draws(ask, r, DRAW_KEY);
    uint32_t cancel_after;
    unsigned traits = load_ask_traits(ask, r, &cancel_after);
    size_t at, body;
    br_buf_add(out, ask->head.data, ask->head.len);
    if (ask->config->keys.n)
        br_buf_printf(out, "Authorization: Bearer %s\r\n",
                      ask->config->keys.items[(uint32_t)(br_draw_unit(&d) * ask->config->keys.n)]);
    br_buf_puts(out, "Content-Length: ");
    at = out->len; /* filled in once the body is there */
    br_buf_puts(out, "          \r\n\r\n");
    body = out->len;
    write_body(ask, r, traits, out);
    snprintf(length, sizeof length, "%10zu", out->len - body);
    memcpy(out->data + at, length, DIGITS);
}
