#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "cli/model/commands.h"
#include "cli/model/runner.h"
#include "cli/model/verify.h"

#define GAP_BOUND 1e-3
#define LOGIT_BOUND 2e-3

struct check {
    struct br_model_runner runner;
    float *logits;
    uint32_t vocab;
    double worst; /* largest difference of a logit */
    uint32_t n_logits, n_ids, ties;
    int wrong;
    size_t index; /* of the case */
};

/* Prints the first difference only; the rest is counted. */
static void differ(struct check *c, uint32_t step, const char *what, double got, double want)
{
    if (!c->wrong++)
        printf("FAIL case %zu, step %u: %s is %.7g, golden %.7g\n", c->index, step, what, got, want);
}

static uint32_t argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static void check_choice(struct check *c, uint32_t step, int32_t want, double gap)
{
    uint32_t got = argmax(c->logits, c->vocab);
    c->n_ids++;
    if (got == (uint32_t)want)
        return;
    if (gap < GAP_BOUND && (double)(c->logits[got] - c->logits[want]) < GAP_BOUND)
        c->ties++;
    else
        differ(c, step, "greedy id", got, want);
}

static void check_top(struct check *c, uint32_t step, const json_t *top)
{
    const json_t *pair;
    size_t i;
    json_array_foreach(top, i, pair)
    {
        json_int_t id = json_integer_value(json_array_get(pair, 0));
        double want = json_number_value(json_array_get(pair, 1)), error;
        char what[48];
        if (id < 0 || id >= (json_int_t)c->vocab) {
            differ(c, step, "vocabulary", c->vocab, (double)id);
            continue;
        }
        error = fabs((double)c->logits[id] - want);
        c->n_logits++;
        if (!(error <= c->worst))
            c->worst = error;
        snprintf(what, sizeof what, "logit of id %" PRId64, (int64_t)id);
        if (!(error <= LOGIT_BOUND))
            differ(c, step, what, (double)c->logits[id], want);
    }
}

/* Mean and norm of the row see all the logits that `top` leaves out. */
static void check_row(struct check *c, uint32_t step, const json_t *record)
{
    const json_t *mean = json_object_get(record, "mean"), *l2 = json_object_get(record, "l2");
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < c->vocab; i++) {
        sum += (double)c->logits[i];
        squares += (double)c->logits[i] * (double)c->logits[i];
    }
    if (mean && !(fabs(sum / c->vocab - json_number_value(mean)) <= LOGIT_BOUND))
        differ(c, step, "mean of the logits", sum / c->vocab, json_number_value(mean));
    if (l2 && !(fabs(sqrt(squares) - json_number_value(l2)) <= LOGIT_BOUND * sqrt(c->vocab)))
        differ(c, step, "norm of the logits", sqrt(squares), json_number_value(l2));
}

static void check_step(struct check *c, uint32_t step, const json_t *golden)
{
    const json_t *record;
    size_t i;
    json_array_foreach(json_object_get(golden, "logits"), i, record)
    {
        if (json_integer_value(json_object_get(record, "step")) != step)
            continue;
        check_top(c, step, json_object_get(record, "top"));
        check_row(c, step, record);
    }
}

static int run_case(struct check *c, const json_t *golden, const int32_t *prompt, uint32_t n_prompt, const int32_t *ids,
                    uint32_t n, struct br_err *err)
{
    const json_t *gap = json_object_get(golden, "min_top1_top2_gap");
    int rc;
    br_model_runner_restart(&c->runner);
    rc = br_model_runner_push(&c->runner, prompt, n_prompt, c->logits, err);
    for (uint32_t step = 0; step < n && !rc; step++) {
        if (ids[step] < 0 || (uint32_t)ids[step] >= c->vocab)
            return br_err_set(err, BR_EINVAL, "golden id %d is not in the vocabulary of %u", ids[step], c->vocab);
        check_step(c, step, golden);
        check_choice(c, step, ids[step], gap ? json_number_value(gap) : INFINITY);
        if (step + 1 < n)
            rc = br_model_runner_push(&c->runner, &ids[step], 1, c->logits, err);
    }
    return rc;
}

static int check_case(struct check *c, const json_t *golden, struct br_err *err)
{
    int32_t *prompt = NULL, *ids = NULL;
    uint32_t n_prompt, n;
    int rc;
    if (!br_verify_ids(golden, "prompt_ids", &prompt, &n_prompt) || !br_verify_ids(golden, "greedy_ids", &ids, &n) ||
        !n_prompt)
        rc = br_err_set(err, BR_EINVAL, "prompt_ids or greedy_ids missing");
    else
        rc = run_case(c, golden, prompt, n_prompt, ids, n, err);
    free(prompt);
    free(ids);
    return rc;
}

static int check_cases(struct check *c, const json_t *cases, struct br_err *err)
{
    const json_t *golden;
    json_array_foreach(cases, c->index, golden)
    {
        int rc = check_case(c, golden, err);
        if (rc)
            return br_err_wrap(err, "case %zu", c->index);
    }
    return 0;
}

static uint32_t longest(const json_t *cases)
{
    const json_t *golden;
    size_t i, most = 1;
    json_array_foreach(cases, i, golden)
    {
        size_t n = json_array_size(json_object_get(golden, "prompt_ids")) +
                   json_array_size(json_object_get(golden, "greedy_ids"));
        most = n > most ? n : most;
    }
    return (uint32_t)most;
}

/* A run that could not be finished has no counts to show: another model's file, mostly. */
static void print_misfit(const json_t *golden, const struct br_err *err)
{
    const char *model = json_string_value(json_object_get(golden, "model"));
    if (err->code == BR_EINVAL)
        printf("FAIL golden: %s: the file does not fit this model (it was made with %s)\n", err->msg,
               model ? model : "one that it does not name");
    else
        printf("FAIL golden: %s\n", err->msg);
}

static void print_counts(const struct check *c, size_t cases)
{
    printf("%s golden: %zu cases in %s, %u greedy ids (%u ties), %u logits, largest error %.3g, %d differences\n",
           c->wrong ? "FAIL" : "ok  ", cases, br_numeric_name(c->runner.layout.numeric), c->n_ids, c->ties, c->n_logits,
           c->worst, c->wrong);
}

int br_verify_logits(const char *dir, const json_t *golden, enum br_numeric numeric)
{
    const json_t *cases = json_object_get(golden, "cases");
    struct br_model_runner_options options = {
        .numeric = numeric, .threads = 1, .max_rows = 256, .max_items = 1, .context = longest(cases)};
    struct check c = {0};
    struct br_err err;
    int rc = br_model_runner_open(&c.runner, dir, &options, &err);
    if (rc) {
        printf("FAIL golden: %s\n", err.msg);
        return 1;
    }
    c.vocab = c.runner.layout.shape.vocab;
    c.logits = br_malloc(c.vocab * sizeof *c.logits);
    rc = check_cases(&c, cases, &err);
    if (rc)
        print_misfit(golden, &err);
    else
        print_counts(&c, json_array_size(cases));
    free(c.logits);
    br_model_runner_close(&c.runner);
    return rc || c.wrong;
}
