#include "cli/devices/trial.h"

#include <math.h>

/* A device's; all of the workload's, warm-up included. */
static double switches_per_minute(double switches, uint32_t devices, double seconds)
{
    return 60 * switches / devices / seconds;
}

static void copy_keys(json_t *to, const json_t *from)
{
    static const char *const keys[] = {"requests",
                                       "failed",
                                       "stopped_early",
                                       "attainment_at_most",
                                       "valid",
                                       "median_ttft_scheduled_ms",
                                       "p99_ttft_scheduled_ms",
                                       "median_itl_ms",
                                       "p99_itl_ms",
                                       "p99_dispatch_delay_ms"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(from, keys[i]))
            json_object_set(to, keys[i], json_object_get(from, keys[i]));
}

static json_t *four(const json_t *result, const char *metric)
{
    static const char *const names[] = {"mean", "p50", "p90", "p99"};
    json_t *out = json_object();
    for (int i = 0; i < 4; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s_%s_ms", names[i], metric);
        json_t *value = json_object_get(result, key);
        json_object_set(out, names[i], value ? value : json_null());
    }
    return out;
}

json_t *trial_measured(const struct load_session *s, uint32_t devices, const json_t *result, double switches)
{
    const struct load_slo slo = {s->config->ttft_s, s->config->tbt_s};
    double attainment, error;
    load_attainment_error(&s->journal, &slo, s->config->warmup_s, &attainment, &error);
    if (s->journal.hopeless > 0)
        attainment = fmin(attainment, s->journal.hopeless);
    json_t *trial =
        json_pack("{s:i, s:f, s:f, s:o, s:o, s:f}", "devices", (int)devices, "attainment", attainment, "standard_error",
                  error, "ttft_ms", four(result, "ttft_scheduled"), "tbt_ms", four(result, "itl"),
                  "switches_per_minute", switches_per_minute(switches, devices, s->journal.sending_s));
    copy_keys(trial, result);
    return trial;
}

static json_t *quantiles(const struct br_hist *h, double speed)
{
    double ms = 1e3 * speed;
    return json_pack("{s:f, s:f, s:f, s:f}", "mean", (double)h->sum / (double)(h->total ? h->total : 1) / ms, "p50",
                     (double)br_hist_quantile(h, .5) / ms, "p90", (double)br_hist_quantile(h, .9) / ms, "p99",
                     (double)br_hist_quantile(h, .99) / ms);
}

/* First tokens as they come: the tally's histogram is too coarse for a comparison of a few percent. */
struct firsts {
    const struct devices_predict *predict;
    struct load_dist ttft;
};

static void request_seen(void *ctx, double now_s, enum sim_request_event what, uint32_t request)
{
    struct firsts *f = ctx;
    double at_s = f->predict->requests.list[request].at_s;
    if (what == SIM_REQUEST_FIRST_TOKEN && at_s >= f->predict->ask.margin_s)
        load_dist_add(&f->ttft, now_s - at_s);
}

static json_t *exact(struct load_dist *d, double speed)
{
    double ms = 1e3 / speed;
    return json_pack("{s:f, s:f, s:f, s:f}", "mean", ms * load_dist_mean(d), "p50", ms * load_dist_quantile(d, .5),
                     "p90", ms * load_dist_quantile(d, .9), "p99", ms * load_dist_quantile(d, .99));
}

int trial_planned(struct devices_predict *p, const char *policy, uint32_t devices, json_t **out, struct br_err *err)
{
    double speed = devices_predict_speed(p);
    struct firsts firsts = {.predict = p};
    struct sim_observer observer = {.ctx = &firsts, .request = request_seen};
    struct plan_tally t;
    plan_tally_init(&t);
    double attainment = devices_predict_run(p, policy, devices, &t, &observer, err);
    if (attainment >= 0)
        *out = json_pack("{s:f, s:o, s:o, s:f}", "attainment", attainment, "ttft_ms", exact(&firsts.ttft, speed),
                         "tbt_ms", quantiles(t.tbt_us, speed), "switches_per_minute",
                         switches_per_minute(t.switches, devices, (p->ask.horizon_s - p->ask.margin_s) / speed));
    load_dist_free(&firsts.ttft);
    plan_tally_free(&t);
    return attainment < 0 ? err->code : 0;
}
