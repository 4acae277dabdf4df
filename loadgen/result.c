#include "loadgen/result.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "loadgen/series.h"

const struct load_metric load_metrics[] = {
    {"ttft", "TTFT", "Time to First Token", offsetof(struct load_group, ttft_sent)},
    {"tpot", "TPOT", "Time per Output Token (excl. 1st token)", offsetof(struct load_group, tpot)},
    {"itl", "ITL", "Inter-token Latency", offsetof(struct load_group, itl)},
    {"e2el", "E2EL", "End-to-end Latency", offsetof(struct load_group, e2e_sent)},
    {"ttft_scheduled", "TTFT", "Time to First Token, from the scheduled send", offsetof(struct load_group, ttft)},
    {"e2el_scheduled", "E2EL", "End-to-end Latency, from the scheduled send", offsetof(struct load_group, e2e)},
    {"dispatch_delay", "dispatch delay", "Dispatch Delay (actual - scheduled send)",
     offsetof(struct load_group, dispatch)},
};
const uint32_t load_n_metrics = sizeof load_metrics / sizeof *load_metrics;

struct wanted {
    double p[LOAD_MAX_PERCENTILES];
    uint32_t n;
    struct load_bounds bounds;
};

static int parse_percentiles(const char *text, struct wanted *out, struct br_err *err)
{
    for (const char *at = text; *at;) {
        char *end;
        double p = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(p >= 0 && p <= 100) || out->n == LOAD_MAX_PERCENTILES)
            return br_err_set(err, BR_EINVAL, "metric-percentiles: '%s' is not a list such as 50,90,99 (at most %d)",
                              text, LOAD_MAX_PERCENTILES);
        out->p[out->n++] = p;
        at = *end ? end + 1 : end;
    }
    return 0;
}

static int parse_goodput(const struct br_option_list *list, struct load_bounds *out, struct br_err *err)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const char *item = list->items[i], *colon = strchr(item, ':');
        size_t n = colon ? (size_t)(colon - item) : 0;
        char *end = NULL;
        double s = colon ? strtod(colon + 1, &end) * 1e-3 : 0;
        double *to = n == 4 && memcmp(item, "ttft", 4) == 0   ? &out->ttft_s
                     : n == 4 && memcmp(item, "tpot", 4) == 0 ? &out->tpot_s
                     : n == 4 && memcmp(item, "e2el", 4) == 0 ? &out->e2el_s
                                                              : NULL;
        if (!to || end == colon + 1 || *end || !(s > 0 && s < 1e9))
            return br_err_set(err, BR_EINVAL, "goodput: '%s' is not ttft:MS, tpot:MS or e2el:MS", item);
        *to = s;
    }
    return 0;
}

static int parse_wanted(const struct load_config *config, struct wanted *out, struct br_err *err)
{
    *out = (struct wanted){0};
    if (parse_percentiles(config->percentiles, out, err) || parse_goodput(&config->goodput, &out->bounds, err))
        return err->code;
    return 0;
}

int load_result_check(const struct load_config *config, struct br_err *err)
{
    struct wanted wanted;
    return parse_wanted(config, &wanted, err);
}

/* ---- one group ---- */

static void set_number(json_t *out, const char *key, double value)
{
    json_object_set_new(out, key, isfinite(value) ? json_real(value) : json_null());
}

static void set_count(json_t *out, const char *key, uint64_t value)
{
    json_object_set_new(out, key, json_integer((json_int_t)value));
}

static void put_metric(json_t *out, const struct load_metric *metric, struct load_dist *dist, const struct wanted *w)
{
    char key[64];
    snprintf(key, sizeof key, "mean_%s_ms", metric->key);
    set_number(out, key, load_dist_mean(dist) * 1e3);
    snprintf(key, sizeof key, "median_%s_ms", metric->key);
    set_number(out, key, load_dist_quantile(dist, .5) * 1e3);
    snprintf(key, sizeof key, "std_%s_ms", metric->key);
    set_number(out, key, load_dist_std(dist) * 1e3);
    for (uint32_t i = 0; i < w->n; i++) {
        snprintf(key, sizeof key, "p%.10g_%s_ms", w->p[i], metric->key);
        set_number(out, key, load_dist_quantile(dist, w->p[i] / 100) * 1e3);
    }
}

static void put_outcomes(json_t *out, const struct load_group *g)
{
    json_t *kinds = json_object();
    for (int i = LOAD_OK; i < LOAD_OUTCOMES; i++)
        if (g->outcomes[i])
            set_count(kinds, load_outcome_name(i), g->outcomes[i]);
    json_object_set_new(out, "outcomes", kinds);
}

static void put_group(json_t *out, struct load_group *g, const struct wanted *w, double seconds)
{
    double s = seconds > 0 ? seconds : 1;
    bool bounded = w->bounds.ttft_s > 0 || w->bounds.tpot_s > 0 || w->bounds.e2el_s > 0;
    set_count(out, "requests", g->requests);
    set_count(out, "completed", g->outcomes[LOAD_OK]);
    set_count(out, "failed", load_failed(g));
    set_count(out, "total_input_tokens", g->prompt_tokens);
    set_count(out, "total_output_tokens", g->tokens);
    set_number(out, "request_throughput", (double)g->outcomes[LOAD_OK] / s);
    set_number(out, "request_goodput", bounded ? (double)g->good / s : NAN);
    set_number(out, "output_throughput", (double)g->tokens / s);
    set_number(out, "total_token_throughput", (double)(g->tokens + g->prompt_tokens) / s);
    set_number(out, "attainment", load_attainment(g));
    set_number(out, "gap_attainment", load_gap_attainment(g));
    set_number(out, "aegaeon_qos", load_qos(g));
    set_count(out, "tokens_on_time", g->on_time);
    set_count(out, "tokens_owed", g->owed);
    set_count(out, "slow_readers", g->slow);
    put_outcomes(out, g);
    for (uint32_t i = 0; i < load_n_metrics; i++)
        put_metric(out, &load_metrics[i], (struct load_dist *)((char *)g + load_metrics[i].offset), w);
}

/* ---- the whole ---- */

static void put_errors(json_t *out, const struct load_journal *j)
{
    json_t *first = json_object();
    for (int i = 0; i < LOAD_OUTCOMES; i++)
        if (j->why[i][0]) {
            json_t *text = json_string(j->why[i]);
            json_object_set_new(first, load_outcome_name(i), text ? text : json_string("(bytes that are no text)"));
        }
    json_object_set_new(out, "first_errors", first);
}

/* Did the generator keep up? */
static void put_validity(json_t *out, const struct load_outcome_of_run *run, struct load_measure *m)
{
    double p99 = load_dist_quantile(&m->all.dispatch, .99), limit = run->config->max_dispatch_delay_s;
    double busy = run->journal->wall_s > 0 ? run->journal->busy_s / run->journal->wall_s : 0;
    char reason[200] = "";
    if (p99 > limit && !run->config->max_concurrency)
        snprintf(reason, sizeof reason, "the generator fell behind: p99 of the dispatch delay is %.1f ms (limit %.1f)",
                 p99 * 1e3, limit * 1e3);
    else if (busy > .05)
        snprintf(reason, sizeof reason, "the generator had no pause in %.0f %% of the time: it may have read late",
                 100 * busy);
    json_object_set_new(out, "valid", json_boolean(!reason[0]));
    json_object_set_new(out, "invalid_reason", reason[0] ? json_string(reason) : json_null());
    json_object_set_new(out, "interrupted", json_boolean(run->journal->interrupted));
    json_object_set_new(out, "stopped_early", json_boolean(run->journal->hopeless > 0));
    if (run->journal->hopeless > 0)
        set_number(out, "attainment_at_most", run->journal->hopeless);
    json_object_set_new(out, "generator",
                        json_pack("{s:f,s:I,s:I,s:I}", "busy_share", busy, "connections",
                                  (json_int_t)run->journal->connections, "stale_connections",
                                  (json_int_t)run->journal->stale, "token_times_lost",
                                  (json_int_t)run->journal->n_lost));
}

static json_t *text_or_null(const char *text)
{
    json_t *string = text && *text ? json_string(text) : NULL;
    return string ? string : json_null();
}

static void put_set_up(json_t *out, const struct load_outcome_of_run *run, const struct load_measure *m)
{
    const struct load_config *c = run->config;
    const struct br_workload *w = &run->offer->workload;
    double seconds = m->to_s > m->from_s ? m->to_s - m->from_s : 0;
    char date[32];
    time_t now = time(NULL);
    struct tm tm;
    strftime(date, sizeof date, "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
    json_object_set_new(out, "date", json_string(date));
    json_object_set_new(out, "label", text_or_null(c->label));
    json_object_set_new(out, "backend", json_string(c->prompts ? "openai-chat" : c->backend ? c->backend : "openai"));
    json_object_set_new(out, "base_url", text_or_null(c->base_url));
    json_object_set_new(out, "model_id", text_or_null(w->n_models == 1 ? w->names[0] : "(several)"));
    json_object_set_new(out, "tokenizer_id", text_or_null(c->tokenizer));
    set_count(out, "num_prompts", w->n);
    set_number(out, "request_rate", seconds > 0 ? (double)m->all.requests / seconds : NAN);
    set_number(out, "burstiness", c->burstiness);
    json_object_set_new(out, "max_concurrency", c->max_concurrency ? json_integer(c->max_concurrency) : json_null());
    json_object_set_new(out, "note", text_or_null(run->note));
    json_object_set_new(out, "workload",
                        json_pack("{s:f,s:f,s:I,s:f,s:f,s:o,s:o}", "duration_s", c->duration_s, "warmup_s", c->warmup_s,
                                  "seed", (json_int_t)c->seed, "ttft_s", c->ttft_s, "tbt_s", c->tbt_s, "dataset",
                                  text_or_null(c->dataset_path), "arrivals", text_or_null(c->arrivals)));
    if (run->offer->trace.lines)
        json_object_set_new(out, "trace_lines_skipped", json_integer((json_int_t)run->offer->trace.skipped));
}

static void put_models(json_t *out, const struct load_outcome_of_run *run, struct load_measure *m,
                       const struct wanted *w, double seconds)
{
    json_t *models = json_array();
    for (uint32_t i = 0; i < m->n_models; i++) {
        json_t *model = json_object();
        json_object_set_new(model, "model", text_or_null(run->offer->workload.names[i]));
        put_group(model, &m->models[i], w, seconds);
        json_array_append_new(models, model);
    }
    json_object_set_new(out, "models", models);
}

int load_result_make(const struct load_outcome_of_run *run, json_t **out, struct br_err *err)
{
    const struct load_config *c = run->config;
    const struct load_slo slo = {c->ttft_s, c->tbt_s};
    struct load_measure m;
    struct wanted w;
    json_t *root;
    double seconds;
    if (parse_wanted(c, &w, err))
        return err->code;
    load_measure_make(run->journal, run->offer->workload.n_models, c->warmup_s, &slo, &w.bounds, &m);
    root = json_object();
    seconds = run->journal->wall_s - c->warmup_s;
    put_set_up(root, run, &m);
    set_number(root, "duration", seconds);
    put_group(root, &m.all, &w, seconds);
    set_number(root, "max_output_tokens_per_s", m.peak_tokens_per_s);
    set_count(root, "max_concurrent_requests", m.peak_concurrency);
    put_validity(root, run, &m);
    put_errors(root, run->journal);
    put_models(root, run, &m, &w, seconds);
    load_series_put(root, run, &m);
    load_measure_free(&m);
    if (c->save_detailed)
        load_details_put(root, run);
    *out = root;
    return 0;
}

/* ---- files ---- */

int load_result_save(const json_t *result, const struct load_config *c, struct br_err *err)
{
    char name[4096];
    const char *date = json_string_value(json_object_get(result, "date"));
    int n = c->result_filename
                ? snprintf(name, sizeof name, "%s%s%s", c->result_dir ? c->result_dir : "", c->result_dir ? "/" : "",
                           c->result_filename)
                : snprintf(name, sizeof name, "%s/load-%s.json", c->result_dir ? c->result_dir : ".", date);
    if (n >= (int)sizeof name)
        return br_err_set(err, BR_EINVAL, "result-filename: longer than %zu bytes", sizeof name - 1);
    if (json_dump_file(result, name, JSON_INDENT(1) | JSON_REAL_PRECISION(9)))
        return br_err_errno(err, BR_EIO, "cannot write %s", name);
    return 0;
}

int load_result_read(const char *path, json_t **out, struct br_err *err)
{
    struct br_buf text = {0};
    json_error_t why;
    if (br_buf_read_file(&text, path, LOAD_MAX_RESULT_BYTES)) {
        br_buf_read_error(err, BR_ENOENT, "result %s", path);
        br_buf_free(&text);
        return err->code;
    }
    *out = json_loadb(text.data ? text.data : "", text.len, 0, &why);
    br_buf_free(&text);
    if (!*out)
        return br_err_set(err, BR_EINVAL, "%s:%d: %s", path, why.line, why.text);
    if (json_is_object(*out) && json_is_number(json_object_get(*out, "mean_ttft_ms")))
        return 0;
    json_decref(*out);
    *out = NULL;
    return br_err_set(err, BR_EINVAL, "%s is no result of briareus load or vllm bench serve (no mean_ttft_ms)", path);
}
