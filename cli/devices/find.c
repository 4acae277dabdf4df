#include "cli/devices/find.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/devices/predict.h"
#include "cli/devices/search.h"
#include "cli/devices/server.h"
#include "cli/devices/stats.h"
#include "cli/devices/trial.h"

enum { MAX_MOST = 64, POLICY_WORDS = 8 };
static const char PROGRAM[] = "/proc/self/exe";
static const char *const g_policies[] = {"dedicated", "request", "aegaeon", "slack"};

struct find {
    const struct load_config *load;
    char *const *words;
    uint32_t n_words, n_models, most;
    struct devices_predict predict;
    bool predicts;
    /* of the policy at hand */
    const char *policy;
    json_t *trials;
};

static bool is_dedicated(const char *policy)
{
    return strcmp(policy, "dedicated") == 0;
}

/* ---- one run ---- */

/* Which device takes what, and what a device does. `aegaeon` hands KV from device to device, which workers do not do:
 * live, its turns are those of each device, prompts included, and requests are placed as slack places them. */
static void policy_words(const char *policy, char *out[2])
{
    static char slack[] = "slack";
    out[0] = is_dedicated(policy) ? slack : (char *)(uintptr_t)policy;
    out[1] = strcmp(policy, "aegaeon") == 0 ? slack : out[0];
}

/* The SLOs that the load is judged by are the server's, unless it is told others. */
static int start(const struct find *f, uint32_t devices, struct devices_server *server, struct br_err *err)
{
    char ttft[32], tbt[32], n[16];
    char *words[DEVICES_MAX_WORDS], *words_of[2];
    uint32_t argc = 0;
    policy_words(f->policy, words_of);
    if (f->n_words + 16 > DEVICES_MAX_WORDS)
        return br_err_set(err, BR_EINVAL, "too many words for briareus serve");
    snprintf(ttft, sizeof ttft, "%.9gs", f->load->ttft_s);
    snprintf(tbt, sizeof tbt, "%.9gs", f->load->tbt_s);
    snprintf(n, sizeof n, "%u", devices);
    char *const slo[] = {"--ttft", ttft, "--tbt", tbt};
    char *const kind[] = {"--devices", n, "--policy", words_of[0], "--placement", words_of[1], "--dedicated"};
    for (size_t i = 0; i < sizeof slo / sizeof *slo; i++)
        words[argc++] = slo[i];
    for (uint32_t i = 0; i < f->n_words; i++)
        words[argc++] = f->words[i];
    for (size_t i = 0; i < sizeof kind / sizeof *kind - !is_dedicated(f->policy); i++)
        words[argc++] = kind[i];
    return devices_server_start(PROGRAM, words, argc, devices, server, err);
}

static void trial_print(const struct find *f, const json_t *t)
{
    double planned = json_number_value(json_object_get(t, "plan_attainment"));
    bool early = json_is_true(json_object_get(t, "stopped_early"));
    printf("%-10s %3d devices: %s%6.2f %% on time%s", f->policy, (int)json_integer_value(json_object_get(t, "devices")),
           early ? "at most " : "", 100 * json_number_value(json_object_get(t, "attainment")),
           early ? " (stopped)" : "");
    if (json_is_number(json_object_get(t, "plan_attainment")))
        printf(", plan %.2f %%", 100 * planned);
    printf("%s\n", json_is_false(json_object_get(t, "valid")) ? "; the generator fell behind" : "");
    fflush(stdout);
}

static int measure(const struct find *f, const struct load_config *config, uint32_t devices, uint32_t port,
                   json_t **out, struct br_err *err)
{
    struct load_session s;
    struct load_outcome_of_run run = {.config = config, .offer = &s.offer, .journal = &s.journal, .note = s.note};
    char label[96];
    json_t *result;
    double switches = 0;
    snprintf(label, sizeof label, "load: %s, %u devices", f->policy, devices);
    int rc = load_session_open(&s, config, err);
    if (rc == 0)
        rc = load_session_run(&s, 1, config->seed, label, err);
    if (rc == 0 && s.journal.interrupted)
        rc = br_err_set(err, BR_EBUSY, "interrupted");
    if (rc == 0)
        rc = devices_stats_switches(port, &switches, err);
    if (rc == 0 && (rc = load_result_make(&run, &result, err)) == 0) {
        *out = trial_measured(&s, devices, result, switches);
        json_decref(result);
    }
    load_session_close(&s);
    return rc;
}

/* A single count is wanted: nothing is searched for, and all of the run's figures are. */
static bool one_count(const struct load_config *load)
{
    return load->min_devices && load->min_devices == load->max_devices;
}

static int run_server(struct find *f, uint32_t devices, json_t **trial, struct br_err *err)
{
    struct load_config config = *f->load; /* borrows all that it points to */
    struct devices_server server;
    char url[64];
    int rc = start(f, devices, &server, err);
    if (rc)
        return rc;
    snprintf(url, sizeof url, "http://127.0.0.1:%u", server.port);
    config.base_url = url;
    config.stop_below = one_count(f->load) ? 0 : f->load->target;
    rc = measure(f, &config, devices, server.port, trial, err);
    devices_server_stop(&server);
    return rc;
}

static int hold(void *ctx, uint32_t devices, struct br_err *err)
{
    struct find *f = ctx;
    json_t *planned = NULL, *trial = NULL;
    int rc = f->predicts ? trial_planned(&f->predict, f->policy, devices, &planned, err) : 0;
    if (rc == 0)
        rc = run_server(f, devices, &trial, err);
    if (rc) {
        json_decref(planned);
        return rc;
    }
    if (planned) {
        json_object_set(trial, "plan_attainment", json_object_get(planned, "attainment"));
        json_object_set_new(trial, "plan", planned);
    }
    trial_print(f, trial);
    json_array_append_new(f->trials, trial);
    return json_number_value(json_object_get(trial, "attainment")) >= f->load->target / 100;
}

/* ---- a policy ---- */

static json_t *trial_of(const json_t *trials, uint32_t devices)
{
    size_t i;
    json_t *trial;
    json_array_foreach(trials, i, trial)
    {
        if (json_integer_value(json_object_get(trial, "devices")) == (json_int_t)devices)
            return trial;
    }
    return NULL;
}

static void summary_set(json_t *out, const json_t *trials, uint32_t devices)
{
    static const char *const keys[] = {"attainment", "plan_attainment", "median_ttft_scheduled_ms",
                                       "p99_ttft_scheduled_ms", "p99_itl_ms"};
    const json_t *trial = trial_of(trials, devices);
    json_object_set_new(out, "devices", devices ? json_integer(devices) : json_null());
    for (size_t i = 0; trial && i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(trial, keys[i]))
            json_object_set(out, keys[i], json_object_get(trial, keys[i]));
}

/* `dedicated` is a device a model. The planner's aegaeon has a device to prefill and one to decode. */
static uint32_t least_of(const struct find *f, bool planned)
{
    uint32_t least = planned && strcmp(f->policy, "aegaeon") == 0 ? 2 : 1;
    if (is_dedicated(f->policy))
        return f->n_models;
    return f->load->min_devices > least ? f->load->min_devices : least;
}

static int policy_find(struct find *f, json_t *out, struct br_err *err)
{
    uint32_t most = is_dedicated(f->policy) ? f->n_models : f->most;
    int32_t planned = 0, found;
    if (least_of(f, false) > most)
        return br_err_set(err, BR_EINVAL, "find-devices: min-devices is above max-devices (or the number of models)");
    if (f->predicts && least_of(f, true) <= most && !one_count(f->load)) {
        planned = devices_predict_need(&f->predict, f->policy, f->load->target / 100, least_of(f, true), most, err);
        if (planned < 0)
            return planned;
        json_object_set_new(out, "plan_devices", planned ? json_integer(planned) : json_null());
        printf("%-10s plan: %s%d devices\n", f->policy, planned ? "" : "more than ", planned ? planned : (int)most);
    }
    found = devices_search(planned > 0 ? (uint32_t)planned : 0, least_of(f, false), most, hold, f, err);
    if (found < 0)
        return found;
    summary_set(out, f->trials, (uint32_t)found);
    return 0;
}

/* ---- all ---- */

static json_t *workload_json(const struct load_config *c, const struct br_workload *w)
{
    struct br_workload_sums sums;
    br_workload_sum(w, &sums);
    return json_pack("{s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "models", (int)w->n_models, "requests",
                     (json_int_t)w->n, "request_rate", (double)w->n / c->duration_s, "mean_prompt_tokens",
                     (double)sums.prompt / (double)(w->n ? w->n : 1), "mean_output_tokens",
                     (double)sums.output / (double)(w->n ? w->n : 1), "duration_s", c->duration_s, "warmup_s",
                     c->warmup_s, "ttft_s", c->ttft_s, "tbt_s", c->tbt_s, "seed", (int)c->seed);
}

static int policies_find(struct find *f, json_t *list, struct br_err *err)
{
    const struct br_option_list *asked = &f->load->policies;
    uint32_t n = asked->n ? asked->n : sizeof g_policies / sizeof *g_policies;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        json_t *one = json_object();
        f->policy = asked->n ? asked->items[i] : g_policies[i];
        f->trials = json_array();
        json_object_set_new(one, "policy", json_string(f->policy));
        json_object_set_new(one, "trials", f->trials);
        json_array_append_new(list, one);
        rc = policy_find(f, one, err);
    }
    return rc;
}

/* The options of serve that the planner has to know; a mistake in them is told before anything starts. */
static int serve_read(const struct find *f, struct cli_config *serve, struct br_err *err)
{
    char *argv[DEVICES_MAX_WORDS + 1] = {"serve"};
    if (f->n_words >= DEVICES_MAX_WORDS)
        return br_err_set(err, BR_EINVAL, "too many words for briareus serve");
    memcpy(argv + 1, f->words, f->n_words * sizeof *argv);
    int rc = cli_config_read(serve, CLI_SERVE, "briareus serve", "", (int)f->n_words + 1, argv, err);
    if (rc == 0 && !serve->node)
        serve->node = br_strdup("find");
    if (rc == 0 && !serve->scheduler.worker_address) /* serve chooses one */
        serve->scheduler.worker_address = br_strdup("unix:/none");
    return rc > 0 ? br_err_set(err, BR_EINVAL, "find-devices: see briareus serve --help") : rc;
}

static int predict_open(struct find *f, const struct cli_config *serve, const struct br_workload *w, struct br_err *err)
{
    int rc = devices_predict_open(&f->predict, serve, f->load, w, err);
    f->predicts = rc == 0;
    if (rc == BR_ENOTSUP) {
        printf("no prediction of briareus plan: %s\n", err->msg);
        rc = 0;
    }
    return rc;
}

int devices_find(const struct load_config *load, char *const *words, uint32_t n, json_t **out, struct br_err *err)
{
    struct find f = {.load = load, .words = words, .n_words = n};
    struct cli_config serve = {0};
    struct load_offer offer = {0};
    json_t *list = json_array();
    *out = json_pack("{s:f, s:o}", "target", load->target / 100, "policies", list);
    int rc = load_config_check(load, err);
    if (rc == 0)
        rc = load_offer_make(load, 1, load->seed, &offer, err);
    if (rc == 0)
        json_object_set_new(*out, "workload", workload_json(load, &offer.workload));
    f.n_models = offer.workload.n_models;
    f.most = load->max_devices ? load->max_devices : f.n_models < MAX_MOST ? f.n_models : MAX_MOST;
    if (rc == 0 && offer.workload.n == 0)
        rc = br_err_set(err, BR_EINVAL, "find-devices: the load offers no request (rate x duration too small)");
    if (rc == 0)
        rc = serve_read(&f, &serve, err);
    if (rc == 0 && (rc = predict_open(&f, &serve, &offer.workload, err)) == 0) {
        rc = policies_find(&f, list, err);
        if (f.predicts)
            devices_predict_close(&f.predict);
    }
    load_offer_free(&offer);
    cli_config_free(&serve);
    return rc;
}
