#include "cli/plan/money.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static const double HOURS_A_MONTH = 730;

struct mix mix_best(const uint32_t *need, uint32_t n, double on_demand, double reserved)
{
    struct mix best = {0};
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = need[i] > most ? need[i] : most;
    for (uint32_t r = 0; r <= most; r++) {
        double cost = r * reserved;
        for (uint32_t i = 0; i < n; i++)
            cost += need[i] > r ? (need[i] - r) * on_demand / n : 0;
        if (r == 0)
            best = (struct mix){0, cost, cost, most * reserved};
        else if (cost < best.per_hour) {
            best.reserved = r;
            best.per_hour = cost;
        }
    }
    return best;
}

int load_curve_parse(const char *text, double *shares, struct br_err *err)
{
    int n = 0;
    for (const char *at = text; *at;) {
        char *end;
        double v = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(v > 0 && v <= 1) || n == MONEY_MAX_HOURS)
            return br_err_set(err, BR_EINVAL,
                              "load curve '%.40s': must be up to %d shares above 0 and up to 1, with commas", at,
                              MONEY_MAX_HOURS);
        shares[n++] = v;
        at = *end ? end + 1 : end;
    }
    return n ? n : br_err_set(err, BR_EINVAL, "the load curve is empty");
}

static const struct plan_result *result_on(const struct plan_material *m, const struct plan_answer *a, uint32_t gpu)
{
    uint32_t policy = 0;
    for (uint32_t p = 0; p < m->ask.n_policies; p++)
        if (strcmp(m->ask.policies[p], "slack") == 0)
            policy = p;
    return &a->results[policy * m->ask.n_gpus + gpu];
}

/* GPUs of the same policy at a share of the load, first seed. */
static int need_at(const struct plan_material *m, const char *policy, uint32_t gpu, double share, uint32_t *need,
                   struct br_err *err)
{
    struct plan_ask ask = m->ask;
    struct plan_answer answer;
    ask.models = br_calloc(ask.n_models, sizeof *ask.models);
    memcpy(ask.models, m->ask.models, ask.n_models * sizeof *ask.models);
    for (uint32_t i = 0; i < ask.n_models; i++)
        br_process_scale(&ask.models[i].source.process, share);
    ask.policies[0] = policy;
    ask.gpus[0] = m->ask.gpus[gpu];
    ask.n_policies = ask.n_gpus = ask.n_seeds = 1;
    ask.curve = false;
    int rc = plan_solve(&ask, &answer, err);
    if (rc == 0) {
        *need = answer.results[0].gpus;
        plan_answer_free(&answer);
    }
    free(ask.models);
    return rc;
}

static int curve_needs(const struct plan_material *m, const struct plan_result *r, uint32_t gpu, const double *shares,
                       uint32_t n, uint32_t *need, struct br_err *err)
{
    uint32_t level[11] = {[10] = r->gpus};
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        int step = (int)ceil(10 * shares[i] - 1e-9);
        if (level[step] == 0)
            rc = need_at(m, r->policy, gpu, step / 10.0, &level[step], err);
        need[i] = level[step] < r->gpus ? level[step] : r->gpus; /* fewer seeds are never a reason for more */
    }
    return rc;
}

struct train {
    const struct br_gpu *gpu;
    uint32_t gpus;
    double hours;
};
struct train_words {
    uint32_t gpus;
    double hours;
};
static const struct br_option g_train[] = {
    {"gpus", BR_OPT_UINT, offsetof(struct train_words, gpus), NULL, 1, 1e6, "N: of the training fleet"},
    {"hours", BR_OPT_NUMBER, offsetof(struct train_words, hours), NULL, 0, 744, "H: a month that it trains"},
};

/* "A100-80 gpus=64 hours=300". */
static int train_parse(const char *line, struct train *out, struct br_err *err)
{
    char *copy = br_strdup(line), *rest = NULL, *name = strtok_r(copy, " \t", &rest);
    struct train_words w = {1, 730};
    int rc = name ? 0 : br_err_set(err, BR_EINVAL, "train needs a GPU");
    if (rc == 0 && !(out->gpu = br_gpu_find(name, err)))
        rc = err->code;
    for (char *word; rc == 0 && (word = strtok_r(NULL, " \t", &rest));) {
        char *equals = strchr(word, '=');
        if (equals)
            *equals = 0;
        rc = equals ? br_options_set(g_train, 2, &w, word, equals + 1, err)
                    : br_err_set(err, BR_EINVAL, "'%.40s' must be gpus=N or hours=H", word);
    }
    out->gpus = w.gpus;
    out->hours = w.hours;
    free(copy);
    return rc < 0 ? br_err_wrap(err, "train '%.60s'", line) : 0;
}

/* On demand by the hour, or reserved for the month, whichever is less. */
static double train_cost(const struct prices *prices, const struct br_gpu *gpu, double gpus, double hours)
{
    const struct price *p = prices_find(prices, gpu->name);
    return gpus * fmin(hours * p->on_demand, HOURS_A_MONTH * p->reserved);
}

struct books { /* of one serving GPU kind */
    const struct plan_result *result;
    const struct price *price;
    struct mix mix;
    double serve; /* $/month */
};

static json_t *mix_json(const struct books *b, const uint32_t *need, uint32_t n)
{
    json_t *needs = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(needs, json_integer(need[i]));
    return json_pack("{s:s, s:s, s:o, s:I, s:f, s:f, s:f}", "policy", b->result->policy, "gpu", b->result->gpu,
                     "gpus_by_hour", needs, "reserved_gpus", (json_int_t)b->mix.reserved, "cost_per_hour",
                     b->mix.per_hour, "all_on_demand_per_hour", b->mix.all_on_demand, "all_reserved_per_hour",
                     b->mix.all_reserved);
}

static void mix_print(const struct books *b)
{
    printf("%s on %s: best mix over the load curve: %u of %u GPUs reserved, %.2f $/h (all on demand %.2f, all reserved "
           "%.2f)\n",
           b->result->policy, b->result->gpu, b->mix.reserved, b->result->gpus, b->mix.per_hour, b->mix.all_on_demand,
           b->mix.all_reserved);
}

static int books_fill(const struct plan_material *m, const struct plan_answer *a, uint32_t gpu, const double *shares,
                      uint32_t n, json_t *list, bool print, struct books *b, struct br_err *err)
{
    uint32_t need[MONEY_MAX_HOURS] = {0}, hours = n ? n : 1;
    b->result = result_on(m, a, gpu);
    b->price = prices_find(&m->prices, m->ask.gpus[gpu]->name);
    if (b->result->gpus == 0)
        return 0;
    need[0] = b->result->gpus;
    int rc = n ? curve_needs(m, b->result, gpu, shares, n, need, err) : 0;
    if (rc < 0)
        return rc;
    b->mix = mix_best(need, hours, b->price->on_demand, b->price->reserved);
    b->serve = b->mix.per_hour * HOURS_A_MONTH;
    if (n && list)
        json_array_append_new(list, mix_json(b, need, n));
    if (n && print)
        mix_print(b);
    return 0;
}

/* Work is taken to scale with the 16-bit peak: a training GPU of half the peak trains twice as long. */
static json_t *tco_row(const struct plan_options *o, const struct plan_material *m, const struct books *b,
                       const struct train *trains, uint32_t n, bool print)
{
    double train = 0, same = 0;
    const struct br_gpu *gpu = b->price->gpu;
    for (uint32_t i = 0; i < n; i++) {
        train += train_cost(&m->prices, trains[i].gpu, trains[i].gpus, trains[i].hours);
        double gpus = trains[i].gpus * trains[i].gpu->peak_bf16 / gpu->peak_bf16;
        same += train_cost(&m->prices, gpu, gpus, trains[i].hours);
    }
    if (print)
        printf("| %-8s | %4u | %8.0f | %8.0f | %9.0f | %10.0f | %9.0f |\n", b->result->gpu, b->result->gpus, b->serve,
               train, b->serve + train, (b->serve + train) * o->months, b->serve + same);
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "gpu", b->result->gpu, "policy",
                     b->result->policy, "gpus", (json_int_t)b->result->gpus, "serve_per_month", b->serve,
                     "train_per_month", train, "per_month", b->serve + train, "months", o->months, "total",
                     (b->serve + train) * o->months, "per_month_if_it_trains_too", b->serve + same);
}

static int tco(const struct plan_options *o, const struct plan_material *m, const struct books *books, json_t *root,
               bool print, struct br_err *err)
{
    struct train trains[MONEY_MAX_TRAIN];
    if (o->train.n > MONEY_MAX_TRAIN)
        return br_err_set(err, BR_EINVAL, "at most %d training fleets", MONEY_MAX_TRAIN);
    for (uint32_t i = 0; i < o->train.n; i++)
        if (train_parse(o->train.items[i], &trains[i], err) < 0)
            return err->code;
    if (print)
        printf("\nTotal cost, $ (%g months)\n| serve on | GPUs | serving a month | training a month | both | total | a "
               "month if it trains too |\n|---|--:|--:|--:|--:|--:|--:|\n",
               o->months);
    json_t *list = json_array();
    for (uint32_t g = 0; g < m->ask.n_gpus; g++)
        if (books[g].result->gpus)
            json_array_append_new(list, tco_row(o, m, &books[g], trains, o->train.n, print));
    if (root)
        json_object_set_new(root, "tco", list);
    else
        json_decref(list);
    return 0;
}

int money_check(const struct plan_options *o, struct br_err *err)
{
    double shares[MONEY_MAX_HOURS];
    struct train train;
    if (o->train.n > MONEY_MAX_TRAIN)
        return br_err_set(err, BR_EINVAL, "at most %d training fleets", MONEY_MAX_TRAIN);
    for (uint32_t i = 0; i < o->train.n; i++)
        if (train_parse(o->train.items[i], &train, err) < 0)
            return err->code;
    if (o->load_curve && (o->market || o->traffic))
        return br_err_set(err, BR_EINVAL, "--load-curve scales drawn traffic (--model, --rates, --total-rate)");
    return o->load_curve && load_curve_parse(o->load_curve, shares, err) < 0 ? err->code : 0;
}

int money_command(const struct plan_options *o, struct plan_material *m, const struct plan_answer *a, json_t *root,
                  bool print, struct br_err *err)
{
    double shares[MONEY_MAX_HOURS];
    struct books books[PLAN_MAX_GPUS] = {0};
    int n = o->load_curve ? load_curve_parse(o->load_curve, shares, err) : 0;
    if (n < 0)
        return n;
    json_t *list = root && n ? json_array() : NULL;
    int rc = 0;
    for (uint32_t g = 0; rc == 0 && g < m->ask.n_gpus; g++)
        rc = books_fill(m, a, g, shares, (uint32_t)n, list, print, &books[g], err);
    if (list)
        json_object_set_new(root, "mix", list);
    if (rc == 0 && o->train.n)
        rc = tco(o, m, books, root, print, err);
    return rc;
}
