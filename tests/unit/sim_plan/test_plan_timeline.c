/* A timeline of cases whose times follow from sizes and rates. */
#include <math.h>
#include <stdlib.h>

#include "sim/plan/timeline.h"
#include "tests/cmocka.h"
#include "tests/unit/sim_plan/asks.h"

static struct br_length fixed(uint32_t tokens)
{
    return (struct br_length){.kind = BR_LENGTH_FIXED, .min = tokens, .max = tokens, .median = tokens};
}

static void record(struct plan_ask *ask, const char *policy, double from_s, double to_s, struct plan_timeline *out)
{
    struct plan_answer answer;
    struct br_err err = {0};
    ask->gpus[0] = gpu_named("H20");
    ask->policies[0] = policy;
    ask->n_gpus = ask->n_policies = 1;
    assert_int_equal(plan_solve(ask, &answer, &err), 0);
    int32_t part = plan_timeline_part(&answer.results[0]);
    assert_int_equal(part, 0);
    assert_int_equal(plan_timeline_record(ask, &answer, &answer.results[0], (uint32_t)part, from_s, to_s, out, &err),
                     0);
    plan_answer_free(&answer);
}

static double sum(const struct plan_timeline *t, enum plan_span_kind kind, double *bytes)
{
    double seconds = 0;
    *bytes = 0;
    for (uint32_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].kind == kind) {
            seconds += t->spans[i].to_s - t->spans[i].from_s;
            *bytes += t->spans[i].bytes;
        }
    return seconds;
}

/* One model alone: its weights come in once, at the link's rate, and each token is a decode row or a prompt's end. */
static void one_model_loads_once_and_steps_for_every_token(void **state)
{
    struct plan_model m = model_make("Qwen2.5-7B", BR_WEIGHTS_BF16, BR_KV_BF16);
    struct plan_ask ask = ask_make(&m, 1);
    struct plan_timeline t;
    double bytes;
    (void)state;
    m.source = (struct br_source){.process = {.kind = BR_PROCESS_CONSTANT, .rate = .02},
                                  .lengths = {fixed(100), fixed(10), NULL}};
    record(&ask, "slack", 0, 600, &t);
    const struct plan_kind kind = {gpu_named("H20"), 1};
    double seconds = sum(&t, PLAN_SPAN_LOAD, &bytes);
    assert_true(fabs(bytes - m.footprint.weight_bytes) < 1);
    assert_true(fabs(seconds - bytes / plan_kind_link(&ask, &kind)) < 1e-6);
    uint32_t rows = 0, prompt = 0;
    for (uint32_t i = 0; i < t.n_spans; i++) {
        rows += t.spans[i].decodes;
        prompt += t.spans[i].prefill;
    }
    assert_int_equal(rows, t.n_lives * 9); /* the first token comes with the prompt's last row */
    assert_int_equal(prompt, t.n_lives * 100);
    for (uint32_t i = 0; i < t.n_lives; i++)
        assert_true(t.lives[i].arrived_s < t.lives[i].first_s && t.lives[i].first_s < t.lives[i].ended_s &&
                    !t.lives[i].lost);
    plan_timeline_free(&t);
}

/* With more models than fit: no device steps twice at once, moves twice at once, or stalls while it steps; what is seen
 * is within the window. */
static void a_device_does_one_thing_of_a_kind_at_a_time(void **state)
{
    struct plan_model models[8];
    struct plan_timeline t;
    double ends[8][3] = {0}, bytes;
    (void)state;
    for (int i = 0; i < 8; i++) {
        models[i] = model_make("Qwen2.5-32B", BR_WEIGHTS_BF16, BR_KV_BF16);
        snprintf(models[i].name, sizeof models[i].name, "m%d", i);
        models[i].source = (struct br_source){.process = {.kind = BR_PROCESS_POISSON, .rate = .03},
                                              .lengths = {fixed(300), fixed(100), NULL}};
    }
    struct plan_ask ask = ask_make(models, 8);
    record(&ask, "request", 100, 300, &t);
    assert_true(t.n_devices <= 8 && sum(&t, PLAN_SPAN_STALL, &bytes) > 0);
    for (uint32_t i = 0; i < t.n_spans; i++) {
        const struct plan_span *s = &t.spans[i];
        int row = s->kind == PLAN_SPAN_STEP ? 0 : s->kind == PLAN_SPAN_STALL ? 2 : 1;
        assert_true(s->from_s >= 100 && s->from_s < 300 && s->to_s >= s->from_s && s->model < 8);
        if (s->kind == PLAN_SPAN_EVICT || s->kind == PLAN_SPAN_SWAP_OUT)
            continue;
        assert_true(s->from_s >= ends[s->device][row] - 1e-9);
        ends[s->device][row] = s->to_s;
    }
    for (uint32_t i = 0; i < t.n_spans; i++) /* against every step */
        for (uint32_t k = 0; t.spans[i].kind == PLAN_SPAN_STALL && k < t.n_spans; k++)
            if (t.spans[k].kind == PLAN_SPAN_STEP && t.spans[k].device == t.spans[i].device)
                assert_true(t.spans[k].to_s <= t.spans[i].from_s + 1e-9 || t.spans[k].from_s >= t.spans[i].to_s - 1e-9);
    plan_timeline_free(&t);
}

/* What the artifact does to its baseline does not make it better. */
static void handicaps_cost_gpus(void **state)
{
    struct plan_model models[8];
    struct plan_answer answer;
    struct br_err err = {0};
    (void)state;
    for (int i = 0; i < 8; i++) {
        models[i] = model_make("Qwen2.5-7B", BR_WEIGHTS_BF16, BR_KV_BF16);
        snprintf(models[i].name, sizeof models[i].name, "m%d", i);
        models[i].source = (struct br_source){.process = {.kind = BR_PROCESS_POISSON, .rate = .3},
                                              .lengths = {fixed(300), fixed(200), NULL}};
    }
    struct plan_ask ask = ask_make(models, 8);
    ask.gpus[0] = gpu_named("H20");
    ask.n_gpus = 1;
    ask.policies[ask.n_policies++] = "request";
    ask.policies[ask.n_policies++] = PLAN_HANDICAPPED;
    assert_int_equal(plan_solve(&ask, &answer, &err), 0);
    assert_true(answer.results[0].gpus > 0);
    assert_true(answer.results[1].gpus == 0 || answer.results[1].gpus > answer.results[0].gpus);
    plan_answer_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_model_loads_once_and_steps_for_every_token),
        cmocka_unit_test(a_device_does_one_thing_of_a_kind_at_a_time),
        cmocka_unit_test(handicaps_cost_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
