/* The sampler against a plain reference: double precision, full sort, no shortcuts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/cmocka.h"
#include "worker/sampler/sampler.h"
#include "worker/sampler/sampler_math.h"

struct ref {
    double p; /* probability after everything */
    float logit;
    int32_t id;
};

static struct br_seq_spec plain_spec(float temperature)
{
    return (struct br_seq_spec){
        .id = 1,
        .sampling = {.temperature = temperature, .top_p = 1, .repetition_penalty = 1, .seed = 11, .logprobs = -1},
        .max_tokens = 100};
}

static int by_value(const void *a, const void *b)
{
    const struct ref *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

/* Fills r[vocab], most likely first, with the distribution that the header promises. */
static void reference(const struct br_sampling *s, const float *logits, uint32_t vocab, struct ref *r)
{
    double total = 0, before = 0, kept = 0;
    uint32_t n = s->top_k > 0 && (uint32_t)s->top_k < vocab ? (uint32_t)s->top_k : vocab;
    for (uint32_t i = 0; i < vocab; i++)
        r[i] = (struct ref){.logit = logits[i], .id = (int32_t)i};
    qsort(r, vocab, sizeof *r, by_value);
    for (uint32_t i = 0; i < n; i++)
        total += r[i].p = exp(((double)r[i].logit - (double)r[0].logit) / (double)s->temperature);
    for (uint32_t i = 0; i < n; i++) {
        double share = r[i].p / total;
        bool keep = (before < (double)s->top_p || i == 0) && r[i].p >= (double)s->min_p;
        before += share;
        kept += r[i].p = keep ? share : 0;
    }
    for (uint32_t i = 0; i < n; i++)
        r[i].p /= kept;
}

static void random_logits(float *x, uint32_t n, double spread, uint64_t seed)
{
    struct br_rng rng = {.seed = seed};
    for (uint32_t i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < 12; j++)
            sum += br_rng_next(&rng);
        x[i] = (float)(spread * (sum - 6));
    }
}

static int32_t draw(struct br_sampler *s, const struct br_seq_spec *spec, const float *logits)
{
    struct br_token t;
    struct br_err err;
    if (br_sampler_draw(s, spec, spec->prompt, spec->n_prompt, logits, NULL, 0, &t, &err))
        fail_msg("%s", err.msg);
    return t.id;
}

/* P(chi-square with k degrees >= x), Wilson and Hilferty's normal approximation. */
static double chi_square_p(double x, double k)
{
    double z = (cbrt(x / k) - (1 - 2 / (9 * k))) / sqrt(2 / (9 * k));
    return 0.5 * erfc(z / sqrt(2));
}

static void draws_follow(const struct br_sampling *sampling)
{
    enum { VOCAB = 200, DRAWS = 40000 };
    float logits[VOCAB];
    struct ref r[VOCAB];
    uint32_t count[VOCAB] = {0};
    double chi = 0, rest_want = 0, rest_got = 0;
    int cells = 0;
    struct br_sampler *s;
    struct br_err err;
    struct br_seq_spec spec = plain_spec(1);
    spec.sampling = *sampling;
    random_logits(logits, VOCAB, 2, 3);
    reference(sampling, logits, VOCAB, r);
    assert_int_equal(br_sampler_create(VOCAB, &s, &err), 0);
    for (uint32_t i = 0; i < DRAWS; i++) {
        spec.sampling.seed = i;
        count[draw(s, &spec, logits)]++;
    }
    br_sampler_destroy(s);
    for (int i = 0; i < VOCAB; i++) {
        double want = r[i].p * DRAWS, got = count[r[i].id];
        if (want == 0)
            assert_true(got == 0);
        if (want < 10) { /* too few for a cell of their own */
            rest_want += want;
            rest_got += got;
            continue;
        }
        chi += (got - want) * (got - want) / want;
        cells++;
    }
    if (rest_want >= 10) {
        chi += (rest_got - rest_want) * (rest_got - rest_want) / rest_want;
        cells++;
    }
    assert_true(cells > 2);
    assert_true(chi_square_p(chi, cells - 1) > 1e-4);
}

static void draws_follow_the_exact_distribution(void **state)
{
    static const struct br_sampling cases[] = {
        {.temperature = 1, .top_p = 1},
        {.temperature = 0.6f, .top_p = 1},
        {.temperature = 1.7f, .top_p = 1},
        {.temperature = 1, .top_p = 1, .top_k = 7},
        {.temperature = 1, .top_p = 0.9f},
        {.temperature = 1, .top_p = 0.5f},
        {.temperature = 1, .top_p = 1, .min_p = 0.1f},
        {.temperature = 1.3f, .top_p = 0.8f, .top_k = 40, .min_p = 0.05f},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct br_sampling s = cases[i];
        s.repetition_penalty = 1;
        s.logprobs = -1;
        draws_follow(&s);
    }
}

/* The very token that inverting the cumulative distribution gives: by id without filters, else by value. */
static void check_inverse(struct br_sampler *s, const struct br_seq_spec *spec, const float *logits, uint32_t vocab,
                          struct ref *r)
{
    double u = br_rng_unit(spec->sampling.seed, spec->choice, 0, 0), sum = 0;
    bool filters = (spec->sampling.top_k > 0 && (uint32_t)spec->sampling.top_k < vocab) || spec->sampling.top_p < 1 ||
                   spec->sampling.min_p > 0;
    int32_t got = draw(s, spec, logits);
    reference(&spec->sampling, logits, vocab, r);
    if (!filters) {
        double *by_id = calloc(vocab, sizeof *by_id);
        for (uint32_t i = 0; i < vocab; i++)
            by_id[r[i].id] = r[i].p;
        for (uint32_t i = 0; i < vocab; i++)
            r[i] = (struct ref){.p = by_id[i], .id = (int32_t)i};
        free(by_id);
    }
    for (uint32_t i = 0; i < vocab; i++) {
        bool near = fabs(sum - u) < 1e-9 || fabs(sum + r[i].p - u) < 1e-9;
        sum += r[i].p;
        if (near || sum < u)
            continue;
        if (got != r[i].id)
            fail_msg("vocabulary %u, temperature %g, top_k %d, top_p %g, min_p %g, u %.17g: got %d, want %d", vocab,
                     (double)spec->sampling.temperature, spec->sampling.top_k, (double)spec->sampling.top_p,
                     (double)spec->sampling.min_p, u, got, r[i].id);
        return;
    }
}

static void large_vocabularies_take_no_shortcut_in_the_result(void **state)
{
    static const uint32_t vocabs[] = {1, 63, 64, 65, 1000, 20011};
    static const struct br_sampling cases[] = {
        {.temperature = 1, .top_p = 1},
        {.temperature = 0.3f, .top_p = 1},
        {.temperature = 1, .top_p = 1, .top_k = 1},
        {.temperature = 1, .top_p = 1, .top_k = 50},
        {.temperature = 2, .top_p = 1, .top_k = 700},
        {.temperature = 1, .top_p = 0.9f},
        {.temperature = 3, .top_p = 0.99f},
        {.temperature = 1, .top_p = 1e-6f},
        {.temperature = 1, .top_p = 1, .min_p = 0.02f},
        {.temperature = 1.5f, .top_p = 0.7f, .top_k = 300, .min_p = 0.01f},
    };
    (void)state;
    for (size_t v = 0; v < sizeof vocabs / sizeof vocabs[0]; v++) {
        uint32_t vocab = vocabs[v];
        float *logits = malloc(vocab * sizeof *logits);
        struct ref *r = malloc(vocab * sizeof *r);
        struct br_sampler *s;
        struct br_err err;
        assert_int_equal(br_sampler_create(vocab, &s, &err), 0);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0] * 4; i++) {
            struct br_seq_spec spec = plain_spec(1);
            spec.sampling = cases[i / 4];
            spec.sampling.repetition_penalty = 1;
            spec.sampling.logprobs = -1;
            spec.sampling.seed = i;
            random_logits(logits, vocab, 1 + (double)(i % 4), i);
            for (uint32_t j = 0; i % 2 && j < vocab; j++) /* many ties */
                logits[j] = floorf(logits[j] * 4) / 4;
            check_inverse(s, &spec, logits, vocab, r);
        }
        br_sampler_destroy(s);
        free(logits);
        free(r);
    }
}

static void greedy_takes_the_lowest_of_equals(void **state)
{
    float logits[300];
    struct br_sampler *s;
    struct br_err err;
    struct br_seq_spec spec = plain_spec(0);
    (void)state;
    assert_int_equal(br_sampler_create(300, &s, &err), 0);
    for (int i = 0; i < 300; i++)
        logits[i] = -1;
    logits[250] = logits[131] = logits[190] = 3.5f;
    assert_int_equal(draw(s, &spec, logits), 131);
    for (int i = 0; i < 300; i++)
        logits[i] = -1;
    logits[70] = -0.0f; /* equal to 0 */
    logits[71] = 0;
    assert_int_equal(draw(s, &spec, logits), 70);
    spec.sampling.temperature = 1;
    spec.sampling.top_k = 1;
    assert_int_equal(draw(s, &spec, logits), 70);
    br_sampler_destroy(s);
}

/* vLLM: logit > 0 ? logit / repetition : logit * repetition over prompt and output; then minus frequency * count in
 * the output, minus presence if there. Prompt {0, 1}, output {1, 2, 2}, repetition 2, frequency .5, presence .25:
 *   id 0:  4         / 2              =  2
 *   id 1:  6         / 2 -  .5 - .25  =  2.25
 *   id 2: -1         * 2 - 1   - .25  = -3.25
 *   id 3:  2.125                      =  2.125 */
static void penalties_come_in_vllm_order(void **state)
{
    static const float logits[] = {4, 6, -1, 2.125f};
    static const int32_t history[] = {0, 1, 1, 2, 2};
    double want[] = {2, 2.25, -3.25, 2.125}, total = 0;
    struct br_sampler *s;
    struct br_token t;
    struct br_err err;
    struct br_seq_spec spec = plain_spec(0);
    uint32_t count[4] = {0};
    (void)state;
    spec.n_prompt = 2;
    spec.sampling.repetition_penalty = 2;
    spec.sampling.frequency_penalty = 0.5f;
    spec.sampling.presence_penalty = 0.25f;
    spec.sampling.logprobs = 4;
    assert_int_equal(br_sampler_create(4, &s, &err), 0);
    assert_int_equal(br_sampler_draw(s, &spec, history, 5, logits, NULL, 0, &t, &err), 0);
    assert_int_equal(t.id, 1);
    assert_int_equal(t.top_id[0], 1);
    assert_int_equal(t.top_id[3], 2);
    /* raw logprobs, before penalties: 6 - ln(e^4 + e^6 + e^-1 + e^2.125) */
    assert_true(fabs((double)t.logprob - (6 - log(exp(4) + exp(6) + exp(-1) + exp(2.125)))) < 1e-6);
    spec.sampling.temperature = 1;
    for (int i = 0; i < 4; i++)
        total += exp(want[i]);
    for (uint32_t i = 0; i < 40000; i++) {
        spec.sampling.seed = i;
        assert_int_equal(br_sampler_draw(s, &spec, history, 5, logits, NULL, 0, &t, &err), 0);
        count[t.id]++;
    }
    for (int i = 0; i < 4; i++) { /* within 5 standard errors */
        double p = exp(want[i]) / total;
        assert_true(fabs(count[i] / 40000.0 - p) < 5 * sqrt(p * (1 - p) / 40000));
    }
    br_sampler_destroy(s);
}

/* OpenAI: added to the logits before sampling, so the distribution is softmax(logits + bias), log probabilities stay
 * those of the model, and 100 or -100 decide. Before the penalties, as in vLLM: 2 + 4 is above zero and is divided. */
static void logit_bias_shifts_the_distribution(void **state)
{
    static const float logits[] = {2, 1, 0, -1};
    int32_t ids[] = {3, 0, 77, -1};
    float bias[] = {2.5f, -1.5f, 9, 9};
    static const double shifted[] = {0.5, 1, 0, 1.5};
    static const int32_t history[] = {0};
    struct br_seq_spec spec = plain_spec(1);
    uint32_t count[4] = {0};
    struct br_sampler *s;
    struct br_token t;
    struct br_err err;
    double total = 0;
    (void)state;
    spec.bias_ids = ids;
    spec.bias = bias;
    spec.n_bias = 4; /* two of them outside the vocabulary */
    spec.sampling.logprobs = 0;
    assert_int_equal(br_sampler_create(4, &s, &err), 0);
    for (uint32_t i = 0; i < 40000; i++) {
        spec.sampling.seed = i;
        assert_int_equal(br_sampler_draw(s, &spec, NULL, 0, logits, NULL, 0, &t, &err), 0);
        assert_true(fabs((double)t.logprob - ((double)logits[t.id] - log(exp(2) + exp(1) + 1 + exp(-1)))) < 1e-6);
        count[t.id]++;
    }
    for (int i = 0; i < 4; i++)
        total += exp(shifted[i]);
    for (int i = 0; i < 4; i++) { /* within 5 standard errors */
        double p = exp(shifted[i]) / total;
        assert_true(fabs(count[i] / 40000.0 - p) < 5 * sqrt(p * (1 - p) / 40000));
    }
    bias[0] = 100;
    assert_int_equal(br_sampler_draw(s, &spec, NULL, 0, logits, NULL, 0, &t, &err), 0);
    assert_int_equal(t.id, 3);
    bias[0] = 0;
    bias[1] = 4; /* 6 / 3 = 2; the other way round it would be 2 / 3 + 4 */
    ids[0] = 1;
    bias[0] = 1.5f; /* 2.5 */
    spec.sampling.temperature = 0;
    spec.sampling.repetition_penalty = 3;
    spec.n_prompt = 1;
    assert_int_equal(br_sampler_draw(s, &spec, history, 1, logits, NULL, 0, &t, &err), 0);
    assert_int_equal(t.id, 1);
    br_sampler_destroy(s);
}

static void min_tokens_masks_ends(void **state)
{
    float logits[] = {1, 9, 8, 7, 0};
    int32_t eos[] = {1}, stop[] = {2}, history[] = {0, 0, 3};
    struct br_sampler *s;
    struct br_token t;
    struct br_err err;
    struct br_seq_spec spec = plain_spec(0);
    (void)state;
    spec.n_prompt = 1;
    spec.min_tokens = 2;
    spec.stop_ids = stop;
    spec.n_stop_ids = 1;
    spec.sampling.logprobs = 0;
    assert_int_equal(br_sampler_create(5, &s, &err), 0);
    assert_int_equal(br_sampler_draw(s, &spec, history, 2, logits, eos, 1, &t, &err), 0); /* index 1 */
    assert_int_equal(t.id, 3);
    assert_int_equal(br_sampler_draw(s, &spec, history, 3, logits, eos, 1, &t, &err), 0); /* index 2 */
    assert_int_equal(t.id, 1);
    spec.sampling.temperature = 100;
    spec.sampling.top_k = 4;
    for (uint32_t i = 0; i < 2000; i++) {
        spec.sampling.seed = i;
        assert_int_equal(br_sampler_draw(s, &spec, history, 1, logits, eos, 1, &t, &err), 0);
        assert_true(t.id != 1 && t.id != 2);
    }
    br_sampler_destroy(s);
}

static void logprobs_are_log_softmax(void **state)
{
    enum { VOCAB = 5000 };
    static float logits[VOCAB];
    static struct ref r[VOCAB];
    struct br_sampler *s;
    struct br_token t;
    struct br_err err;
    struct br_seq_spec spec = plain_spec(0.8f);
    struct br_sampling one = {.temperature = 1, .top_p = 1};
    double sum = 0;
    (void)state;
    random_logits(logits, VOCAB, 3, 8);
    logits[4000] = logits[17] = logits[2300] = 20;
    reference(&one, logits, VOCAB, r);
    assert_int_equal(br_sampler_create(VOCAB, &s, &err), 0);
    spec.sampling.logprobs = 20;
    assert_int_equal(br_sampler_draw(s, &spec, NULL, 0, logits, NULL, 0, &t, &err), 0);
    assert_int_equal(t.n_top, 20);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(t.top_id[i], r[i].id); /* 17, 2300, 4000 first: ties by id */
        assert_true(fabs((double)t.top_logprob[i] - log(r[i].p)) < 1e-6);
    }
    br_sampler_destroy(s);
    assert_int_equal(br_sampler_create(15, &s, &err), 0);
    assert_int_equal(br_sampler_draw(s, &spec, NULL, 0, logits, NULL, 0, &t, &err), 0);
    assert_int_equal(t.n_top, 15);
    for (int i = 0; i < 15; i++)
        sum += exp((double)t.top_logprob[i]);
    assert_true(fabs(sum - 1) < 1e-6);
    br_sampler_destroy(s);
}

static void a_draw_is_a_function_of_its_key(void **state)
{
    enum { VOCAB = 3000 };
    static float logits[VOCAB];
    int32_t history[8] = {0};
    struct br_sampler *a, *b;
    struct br_token t, u;
    struct br_err err;
    struct br_seq_spec spec = plain_spec(1);
    int differ = 0;
    (void)state;
    random_logits(logits, VOCAB, 1, 5);
    assert_int_equal(br_sampler_create(VOCAB, &a, &err), 0);
    assert_int_equal(br_sampler_create(VOCAB, &b, &err), 0);
    spec.n_prompt = 1;
    for (uint32_t n = 1; n < 8; n++) {
        assert_int_equal(br_sampler_draw(a, &spec, history, n, logits, NULL, 0, &t, &err), 0);
        assert_int_equal(br_sampler_draw(b, &spec, history, n, logits, NULL, 0, &u, &err), 0);
        assert_int_equal(t.id, u.id);
        spec.choice = 1;
        assert_int_equal(br_sampler_draw(b, &spec, history, n, logits, NULL, 0, &u, &err), 0);
        differ += t.id != u.id;
        spec.choice = 0;
    }
    assert_true(differ >= 6);
    br_sampler_destroy(a);
    br_sampler_destroy(b);
}

static void damaged_logits_are_refused(void **state)
{
    float logits[200] = {0};
    int32_t history[] = {0, 7, 200};
    struct br_sampler *s;
    struct br_token t;
    struct br_err err;
    struct br_seq_spec spec = plain_spec(1);
    (void)state;
    assert_int_equal(br_sampler_create(200, &s, &err), 0);
    logits[137] = NAN;
    assert_int_equal(br_sampler_draw(s, &spec, NULL, 0, logits, NULL, 0, &t, &err), BR_ECORRUPT);
    assert_non_null(strstr(err.msg, "logit of id 137 is nan"));
    logits[137] = -INFINITY;
    assert_int_equal(br_sampler_draw(s, &spec, NULL, 0, logits, NULL, 0, &t, &err), BR_ECORRUPT);
    logits[137] = 0;
    spec.sampling.presence_penalty = 1;
    assert_int_equal(br_sampler_draw(s, &spec, history, 3, logits, NULL, 0, &t, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "token 2 of the sequence is id 200"));
    br_sampler_destroy(s);
}

/* Vectors of any width give the bits of plain code; exp and ln against libm. */
static void arithmetic_is_the_same_on_every_isa(void **state)
{
    enum { N = 1000, BLOCKS = (N + 63) / 64 };
    static float x[N];
    float max[BR_ROW_BEST][BLOCKS];
    double sums[BR_ROW_BEST][BLOCKS];
    (void)state;
    random_logits(x, N, 9, 2);
    for (int isa = 0; isa < BR_ROW_BEST; isa++) {
        assert_true(br_row_scan(x, N, max[isa], (enum br_row_isa)isa));
        br_row_exp_sums(x, N, 60, 1.25, sums[isa], (enum br_row_isa)isa);
        assert_memory_equal(max[isa], max[0], sizeof max[0]);
        assert_memory_equal(sums[isa], sums[0], sizeof sums[0]);
    }
    for (double y = -700; y <= 0; y += 0.00917)
        assert_true(fabs(br_exp(y) - exp(y)) <= 1e-12 * exp(y));
    for (double y = 1e-200; y < 1e200; y *= 1.07)
        assert_true(fabs(br_ln(y) - log(y)) <= 1e-12 * fabs(log(y)));
    assert_true(br_exp(0) == 1 && br_exp(-701) == 0 && br_exp(-INFINITY) == 0 && br_ln(1) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_exact_distribution),
        cmocka_unit_test(large_vocabularies_take_no_shortcut_in_the_result),
        cmocka_unit_test(greedy_takes_the_lowest_of_equals),
        cmocka_unit_test(penalties_come_in_vllm_order),
        cmocka_unit_test(logit_bias_shifts_the_distribution),
        cmocka_unit_test(min_tokens_masks_ends),
        cmocka_unit_test(logprobs_are_log_softmax),
        cmocka_unit_test(a_draw_is_a_function_of_its_key),
        cmocka_unit_test(damaged_logits_are_refused),
        cmocka_unit_test(arithmetic_is_the_same_on_every_isa),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
