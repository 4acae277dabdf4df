/* Models without weights on a sim device: sizes as published, steps as cost/ says, tokens a function of the sequence.
 */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/device/sim/sim.h"
#include "worker/engine/engine.h"
#include "worker/weights/image.h"

enum { VOCAB = 300, FIRST = 32, N = 95 };

struct rig {
    struct br_device *dev;
    struct br_engine *engine;
    struct br_stream *compute, *load;
    struct br_weight_image *image[2];
    struct br_engine_model *model[2];
    float logits[8][VOCAB];
    br_devptr blocks[64];
};

static void entry(struct br_model_entry *e, const char *name, const char *catalogue, enum br_weight_format weights,
                  enum br_kv_format kv)
{
    struct br_model_size size;
    struct br_err err;
    assert_int_equal(br_catalogue_find(catalogue, &size, &err), 0);
    *e = (struct br_model_entry){.context = 1024};
    snprintf(e->name, sizeof e->name, "%s", name);
    br_footprint_init(&e->footprint, &size, weights, kv);
}

static void rig_init(struct rig *r, uint32_t tp)
{
    struct br_device_config config = {
        .kind = "sim:h20", .memory_bytes = 80000000000, .tensor_parallel = tp, .speed = 100};
    struct br_engine_limits limits = {.max_rows = 512, .max_items = 8, .max_context = 1024};
    static const char *const names[2] = {"one", "two"};
    struct br_err err;
    memset(r, 0, sizeof *r);
    assert_int_equal(br_device_create(&config, &r->dev, &err), 0);
    assert_int_equal(br_engine_create(r->dev, &limits, &r->engine, &err), 0);
    assert_int_equal(r->dev->ops->stream_create(r->dev, &r->compute, &err), 0);
    assert_int_equal(r->dev->ops->stream_create(r->dev, &r->load, &err), 0);
    for (int i = 0; i < 2; i++) {
        struct br_model_entry e;
        entry(&e, names[i], "Qwen2.5-72B", BR_WEIGHTS_INT4, BR_KV_BF16);
        br_weight_image_outline(&e, tp, VOCAB, FIRST, N, &r->image[i]);
        assert_int_equal(br_engine_model_create(r->engine, &r->image[i]->layout, &r->model[i], &err), 0);
        for (uint32_t u = 0; u < r->image[i]->layout.units; u++)
            br_engine_model_place(r->model[i], u, r->dev->memory + 64, NULL);
    }
    for (int i = 0; i < 64; i++)
        r->blocks[i] = r->dev->memory;
}

static void rig_free(struct rig *r)
{
    for (int i = 0; i < 2; i++) {
        br_engine_model_destroy(r->model[i]);
        br_weight_image_close(r->image[i]);
    }
    r->dev->ops->stream_destroy(r->compute);
    r->dev->ops->stream_destroy(r->load);
    br_engine_destroy(r->engine);
    r->dev->ops->destroy(r->dev);
}

static struct br_step_item item(struct rig *r, const int32_t *ids, uint32_t n, uint32_t pos, int logits)
{
    return (struct br_step_item){.ids = ids,
                                 .n_ids = n,
                                 .pos = pos,
                                 .blocks = r->blocks,
                                 .want_logits = logits >= 0,
                                 .logits = logits >= 0 ? r->logits[logits] : NULL};
}

static void step(struct rig *r, int model, const struct br_step_item *items, uint32_t n)
{
    struct br_err err;
    if (br_engine_step(r->engine, r->model[model], r->compute, items, n, &err))
        fail_msg("%s", err.msg);
}

/* Modelled seconds of a step that begins where the former one ended: both are enqueued at once. */
static double step_s(struct rig *r, int before, int model, const struct br_step_item *items, uint32_t n)
{
    int32_t id = 1;
    struct br_step_item first = item(r, &id, 1, 0, -1);
    struct br_event *e[2];
    struct br_err err;
    double took;
    for (int i = 0; i < 2; i++)
        assert_int_equal(r->dev->ops->event_create(r->dev, &e[i], &err), 0);
    step(r, before, &first, 1);
    r->dev->ops->event_record(e[0], r->compute);
    step(r, model, items, n);
    r->dev->ops->event_record(e[1], r->compute);
    r->dev->ops->event_sync(e[1]);
    took = (double)(e[1]->done_ns - e[0]->done_ns) / 1e9 * r->dev->config.speed;
    for (int i = 0; i < 2; i++)
        r->dev->ops->event_destroy(e[i]);
    return took;
}

static void step_costs(uint32_t tp)
{
    static int32_t ids[256];
    struct rig *r = calloc(1, sizeof *r);
    struct br_step_item items[3];
    struct br_model_entry e;
    struct br_cost cost;
    struct br_cost_step want = {.decodes = 2, .kv_tokens = 601 + 101};
    struct br_err err;
    double expected, switching;
    const struct br_gpu *gpu = br_gpu_find("H20", &err);
    rig_init(r, tp);
    entry(&e, "one", "Qwen2.5-72B", BR_WEIGHTS_INT4, BR_KV_BF16);
    assert_int_equal(br_cost_init(&cost, &e.footprint, gpu, tp, br_calibration_for(gpu), &err), 0);
    br_cost_add_chunks(&want, 1, 200, 48);
    expected = br_cost_step_s(&cost, &want);
    items[0] = item(r, ids, 1, 600, 0);
    items[1] = item(r, ids, 1, 100, 1);
    items[2] = item(r, ids, 200, 48, -1);
    assert_true(fabs(step_s(r, 0, 0, items, 3) - expected) < 1e-6);
    switching = br_cost_resident_switch_s(&cost);
    assert_true(switching > .001 && fabs(step_s(r, 1, 0, items, 3) - expected - switching) < 1e-6);
    rig_free(r);
    free(r);
}

static void test_step_costs(void **state)
{
    (void)state;
    step_costs(1);
    step_costs(4);
}

/* Units that come one after the other: the last one's share of the step is left after the last copy. */
static void test_behind_a_load(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    const struct br_model_layout *m;
    struct br_event *ready[128], *done;
    int32_t id = 5;
    struct br_step_item one;
    struct br_err err;
    double after, whole;
    (void)state;
    rig_init(r, 1);
    m = &r->image[0]->layout;
    one = item(r, &id, 1, 100, -1);
    whole = step_s(r, 0, 0, &one, 1);
    for (uint32_t u = 0; u < m->units; u++) {
        assert_int_equal(r->dev->ops->event_create(r->dev, &ready[u], &err), 0);
        assert_null(br_weight_image_unit(r->image[0], u));
        r->dev->ops->copy(r->load, BR_COPY_H2D, NULL, br_weight_image_unit(r->image[0], u), br_layout_unit_bytes(m, u));
        r->dev->ops->event_record(ready[u], r->load);
        br_engine_model_place(r->model[0], u, r->dev->memory + 64, ready[u]);
    }
    assert_int_equal(r->dev->ops->event_create(r->dev, &done, &err), 0);
    step(r, 0, &one, 1);
    r->dev->ops->event_record(done, r->compute);
    r->dev->ops->event_sync(done);
    after = (double)(done->done_ns - ready[m->units - 1]->done_ns) / 1e9 * r->dev->config.speed;
    assert_true(fabs(after - whole / m->units) < 1e-6);
    for (uint32_t u = 0; u < m->units; u++)
        r->dev->ops->event_destroy(ready[u]);
    r->dev->ops->event_destroy(done);
    rig_free(r);
    free(r);
}

static int32_t likeliest(const float *logits)
{
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* In chunks, one by one or beside others: the same logits; other models and other sequences: others. */
static void test_tokens(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    int32_t ids[40], same = 0;
    struct br_step_item items[2];
    (void)state;
    rig_init(r, 1);
    for (int i = 0; i < 40; i++)
        ids[i] = 33 + i * 7 % 90;
    items[0] = item(r, ids, 40, 0, 0);
    step(r, 0, items, 1);
    items[0] = item(r, ids, 11, 100, 1);
    items[1] = item(r, ids + 39, 1, 39, 2);
    step(r, 0, items, 2);
    assert_memory_equal(r->logits[0], r->logits[2], sizeof r->logits[0]);
    for (int i = 0; i < VOCAB; i++)
        assert_true(isfinite(r->logits[0][i]) && (r->logits[0][i] >= 0) == (i >= FIRST && i < FIRST + N));
    for (int i = 0; i < 40; i++) {
        items[0] = item(r, ids + i, 1, (uint32_t)i, 0);
        step(r, 0, items, 1);
        items[0] = item(r, ids + i, 1, (uint32_t)i, 1);
        step(r, 1, items, 1);
        same += likeliest(r->logits[0]) == likeliest(r->logits[1]);
    }
    assert_true(same < 8); /* of 40, by chance 1 in 95 */
    rig_free(r);
    free(r);
}

/* 41 GB (within 2 %) and 320 KiB a token: the published figures of Qwen2.5-72B in 4 bits. */
static void test_sizes(void **state)
{
    struct br_weight_image *image;
    struct br_model_entry e;
    (void)state;
    entry(&e, "x", "Qwen2.5-72B", BR_WEIGHTS_INT4, BR_KV_BF16);
    br_weight_image_outline(&e, 8, VOCAB, FIRST, N, &image);
    assert_true(fabs((double)br_layout_total_bytes(&image->layout) / 41e9 - 1) < .02);
    assert_true(fabs((double)br_layout_total_bytes(&image->layout) - e.footprint.weight_bytes) < 64 * 82);
    assert_int_equal(image->layout.kv_block_bytes, 16 * 320 * 1024);
    assert_int_equal(image->layout.units, 80 + 2);
    br_weight_image_close(image);
    entry(&e, "x", "Qwen2.5-7B", BR_WEIGHTS_BF16, BR_KV_FP8); /* 4 KV heads: on 8 GPUs each is there twice */
    br_weight_image_outline(&e, 8, VOCAB, FIRST, N, &image);
    assert_int_equal(image->layout.kv_block_bytes, 16 * 56 * 1024);
    br_weight_image_close(image);
    br_weight_image_outline(&e, 4, VOCAB, FIRST, N, &image);
    assert_int_equal(image->layout.kv_block_bytes, 16 * 28 * 1024);
    br_weight_image_close(image);
}

/* A model with weights has nothing to do there, one without has nothing to do on a CPU. */
static void test_where_they_run(void **state)
{
    struct br_device_config config = {.memory_bytes = 1 << 20, .threads = 1};
    struct br_engine_limits limits = {.max_rows = 8, .max_items = 8, .max_context = 64};
    struct rig *r = calloc(1, sizeof *r);
    struct br_model_layout layout;
    struct br_engine_model *model;
    struct br_engine *engine;
    struct br_device *cpu;
    struct br_err err;
    (void)state;
    rig_init(r, 1);
    layout = r->image[0]->layout;
    assert_int_equal(br_device_create(&config, &cpu, &err), 0);
    assert_int_equal(br_engine_create(cpu, &limits, &engine, &err), 0);
    assert_int_equal(br_engine_model_create(engine, &layout, &model, &err), BR_ENOTSUP);
    layout.outline = NULL;
    assert_int_equal(br_engine_model_create(r->engine, &layout, &model, &err), BR_ENOTSUP);
    br_engine_destroy(engine);
    cpu->ops->destroy(cpu);
    rig_free(r);
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),  cmocka_unit_test(test_step_costs),     cmocka_unit_test(test_behind_a_load),
        cmocka_unit_test(test_tokens), cmocka_unit_test(test_where_they_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
