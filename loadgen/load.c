#include "loadgen/load.h"

#include <jansson.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"
#include "loadgen/client.h"
#include "loadgen/schedule.h"

enum { MAX_PROMPTS_BYTES = 16 << 20 };

struct run {
    const struct load_config *config;
    struct load_result *result;
    uv_loop_t loop;
    uv_timer_t send, progress, drain;
    struct sockaddr_in to;
    char host[300];
    struct load_arrival *arrivals;
    uint32_t n_arrivals, next, open;
    struct request *requests; /* [n_arrivals] */
    char **prompts;
    uint32_t n_prompts;
    double start_s;
};

struct request {
    struct run *run;
    struct load_client *client;
    uint32_t model;
    struct load_progress progress;
};

/* ---- what is asked ---- */

static const char *const g_words[] = {"time",   "river",  "light", "stone",  "number", "garden", "letter", "machine",
                                      "winter", "island", "music", "silver", "forest", "window", "answer", "circle"};

static void add_random_words(struct br_buf *text, uint32_t n, uint64_t draw)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bits = br_rng_u64(draw, 0, i, 0);
        br_buf_printf(text, "%s%s", i ? " " : "", g_words[bits % (sizeof g_words / sizeof g_words[0])]);
    }
}

static json_t *question(const struct run *run, const struct load_arrival *a)
{
    if (run->n_prompts) {
        const char *text = run->prompts[a->draw % run->n_prompts];
        return json_pack("{s:[{s:s,s:s}]}", "messages", "role", "user", "content", text);
    }
    struct br_buf words = {0};
    json_t *body;
    add_random_words(&words, run->config->input_words, a->draw);
    body = json_pack("{s:s}", "prompt", words.data ? words.data : "");
    br_buf_free(&words);
    return body;
}

static char *request_body(const struct run *run, const struct load_arrival *a)
{
    const struct load_config *c = run->config;
    json_t *body = question(run, a);
    char *text;
    json_object_set_new(body, "model", json_string(run->result->names[a->model]));
    json_object_set_new(body, "max_tokens", json_integer(c->max_tokens));
    json_object_set_new(body, "temperature", json_real(c->temperature));
    json_object_set_new(body, "seed", json_integer((json_int_t)(a->draw >> 2)));
    json_object_set_new(body, "stream", json_true());
    json_object_set_new(body, "stream_options",
                        json_pack("{s:b,s:b}", "include_usage", 1, "continuous_usage_stats", 1));
    if (c->ignore_eos)
        json_object_set_new(body, "ignore_eos", json_true());
    text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return text;
}

/* ---- sending and hearing ---- */

static double run_now(const struct run *run)
{
    return br_now_s() - run->start_s;
}

static void on_tokens(void *ctx, uint32_t total)
{
    struct request *r = ctx;
    load_stats_tokens(&r->run->result->models[r->model], &r->progress, &r->run->config->slo, total, run_now(r->run));
}

static void maybe_finished(struct run *run)
{
    if (run->next < run->n_arrivals || run->open)
        return;
    uv_timer_stop(&run->send);
    uv_timer_stop(&run->progress);
    uv_timer_stop(&run->drain);
}

static void on_done(void *ctx, bool ok, const char *why)
{
    struct request *r = ctx;
    struct load_model_stats *stats = &r->run->result->models[r->model];
    r->client = NULL;
    r->run->open--;
    if (ok) {
        load_stats_finish(stats, &r->progress);
    } else {
        load_stats_fail(stats, &r->progress, r->run->config->max_tokens);
        if (!r->run->result->first_error[0])
            snprintf(r->run->result->first_error, sizeof r->run->result->first_error, "%s", why);
    }
    maybe_finished(r->run);
}

static void send_one(struct run *run, uint32_t index)
{
    const struct load_arrival *a = &run->arrivals[index];
    struct request *r = &run->requests[index];
    struct load_client_cb cb = {.ctx = r, .tokens = on_tokens, .done = on_done};
    char *body;
    *r = (struct request){.run = run, .model = a->model, .progress = {.scheduled_s = a->at_s}};
    run->open++;
    if (run->open > run->config->max_in_flight) {
        on_done(r, false, "more requests in flight than --max-in-flight");
        return;
    }
    body = request_body(run, a);
    r->client = load_client_start(&run->loop, &run->to, run->host,
                                  run->n_prompts ? "/v1/chat/completions" : "/v1/completions", body, &cb);
    free(body);
}

static void on_send(uv_timer_t *timer)
{
    struct run *run = timer->data;
    while (run->next < run->n_arrivals && run->arrivals[run->next].at_s <= run_now(run))
        send_one(run, run->next++);
    if (run->next < run->n_arrivals) {
        double wait_s = run->arrivals[run->next].at_s - run_now(run);
        uv_timer_start(timer, on_send, wait_s > 0 ? (uint64_t)(wait_s * 1000) : 0, 0);
    }
}

static void on_progress(uv_timer_t *timer)
{
    struct run *run = timer->data;
    if (!run->config->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\rload: %5.1f s, %u of %u requests sent, %u open ", run_now(run), run->next, run->n_arrivals,
                run->open);
}

static void on_drain_over(uv_timer_t *timer)
{
    struct run *run = timer->data;
    for (uint32_t i = 0; i < run->next; i++)
        if (run->requests[i].client)
            load_client_abort(run->requests[i].client, "not answered when the run ended (--drain)");
}

/* ---- setting up ---- */

static int parse_url(struct run *run, struct br_err *err)
{
    const char *url = run->config->base_url, *host = url, *colon, *end;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    char name[256], port[8] = "80";
    if (strncmp(url, "http://", 7) == 0)
        host += 7;
    else if (strstr(url, "://"))
        return br_err_set(err, BR_EINVAL, "base-url: '%s' must begin with http://", url);
    end = host + strcspn(host, "/");
    colon = memchr(host, ':', (size_t)(end - host));
    snprintf(name, sizeof name, "%.*s", (int)((colon ? colon : end) - host), host);
    if (colon)
        snprintf(port, sizeof port, "%.*s", (int)(end - colon - 1), colon + 1);
    if (getaddrinfo(name, port, &hints, &found) || !found)
        return br_err_set(err, BR_EINVAL, "base-url: '%s' names no IPv4 address", url);
    memcpy(&run->to, found->ai_addr, sizeof run->to);
    freeaddrinfo(found);
    snprintf(run->host, sizeof run->host, "%.255s:%s", name, port);
    return 0;
}

static int parse_models(const struct load_config *c, struct load_result *out, double *rates, struct br_err *err)
{
    for (uint32_t i = 0; i < c->models.n; i++) {
        const char *arg = c->models.items[i], *equals = strrchr(arg, '=');
        char *end = NULL;
        rates[i] = equals ? strtod(equals + 1, &end) : c->request_rate;
        if ((equals && (end == equals + 1 || *end)) || !(rates[i] >= 0 && rates[i] <= 1e6))
            return br_err_set(err, BR_EINVAL, "model: '%s' is not NAME or NAME=RATE with a rate from 0 to 1e6", arg);
        out->names[i] = equals ? strndup(arg, (size_t)(equals - arg)) : br_strdup(arg);
    }
    return 0;
}

static int read_prompts(struct run *run, struct br_err *err)
{
    struct br_buf text = {0};
    char *save = NULL;
    if (!run->config->prompts)
        return 0;
    if (br_buf_read_file(&text, run->config->prompts, MAX_PROMPTS_BYTES)) {
        br_buf_read_error(err, BR_ENOENT, "prompts file %s", run->config->prompts);
        br_buf_free(&text);
        return err->code;
    }
    for (char *line = text.data ? strtok_r(text.data, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        run->prompts = br_realloc(run->prompts, (run->n_prompts + 1) * sizeof *run->prompts);
        run->prompts[run->n_prompts++] = br_strdup(line);
    }
    br_buf_free(&text);
    return run->n_prompts ? 0 : br_err_set(err, BR_EINVAL, "prompts file %s is empty", run->config->prompts);
}

static int prepare(struct run *run, struct br_err *err)
{
    const struct load_config *c = run->config;
    struct load_result *out = run->result;
    double *rates;
    int rc;
    if (c->models.n == 0)
        return br_err_set(err, BR_EINVAL, "no --model given");
    out->n_models = c->models.n;
    out->names = br_calloc(c->models.n, sizeof *out->names);
    out->models = br_calloc(c->models.n, sizeof *out->models);
    for (uint32_t i = 0; i < c->models.n; i++)
        load_stats_init(&out->models[i]);
    rates = br_calloc(c->models.n, sizeof *rates);
    rc = parse_models(c, out, rates, err);
    if (rc == 0 && (rc = parse_url(run, err)) == 0 && (rc = read_prompts(run, err)) == 0) {
        run->n_arrivals = load_schedule(rates, c->models.n, c->duration_s, c->seed, &run->arrivals);
        run->requests = br_calloc(run->n_arrivals + 1, sizeof *run->requests);
    }
    free(rates);
    return rc;
}

static void run_loop(struct run *run)
{
    const struct load_config *c = run->config;
    uv_loop_init(&run->loop);
    uv_timer_init(&run->loop, &run->send);
    uv_timer_init(&run->loop, &run->progress);
    uv_timer_init(&run->loop, &run->drain);
    run->send.data = run->progress.data = run->drain.data = run;
    run->start_s = br_now_s();
    uv_timer_start(&run->progress, on_progress, 500, 500);
    uv_timer_start(&run->drain, on_drain_over, (uint64_t)((c->duration_s + c->drain_s) * 1000), 0);
    on_send(&run->send);
    maybe_finished(run);
    uv_run(&run->loop, UV_RUN_DEFAULT);
    run->result->wall_s = run_now(run);
    if (!c->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\n");
    uv_close((uv_handle_t *)&run->send, NULL);
    uv_close((uv_handle_t *)&run->progress, NULL);
    uv_close((uv_handle_t *)&run->drain, NULL);
    uv_run(&run->loop, UV_RUN_DEFAULT);
    uv_loop_close(&run->loop);
}

int load_run(const struct load_config *config, struct load_result *out, struct br_err *err)
{
    struct run run = {.config = config, .result = out};
    int rc;
    memset(out, 0, sizeof *out);
    rc = prepare(&run, err);
    if (rc == 0)
        run_loop(&run);
    for (uint32_t i = 0; i < run.n_prompts; i++)
        free(run.prompts[i]);
    free(run.prompts);
    free(run.arrivals);
    free(run.requests);
    return rc;
}

void load_result_free(struct load_result *result)
{
    for (uint32_t i = 0; i < result->n_models; i++)
        free(result->names[i]);
    free(result->names);
    free(result->models);
    memset(result, 0, sizeof *result);
}
