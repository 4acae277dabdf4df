/* Real checkpoints in F32 against llama.cpp's recorded greedy ids and logits, for every instruction set of this CPU. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/unit/worker/engine/device_any.h"
#include "worker/engine/engine.h"
#include "worker/weights/image.h"

enum { CONTEXT = 256, BLOCKS = CONTEXT / BR_KV_BLOCK_TOKENS };
static const double LOGIT_TOLERANCE = 2e-3, TIE = 1e-3; /* two F32 engines that add in different orders */

struct golden {
    struct br_device *dev;
    struct br_stream *stream;
    struct br_event *done;
    struct br_engine *engine;
    struct br_engine_model *model;
    struct br_weight_image *image;
    br_devptr blocks[BLOCKS];
    float *logits;
    char cache[64];
};

static const char *shared_path(char *out, size_t size, const char *what, const char *name)
{
    const char *shared = getenv("BRIAREUS_SHARED");
    snprintf(out, size, "%s/data/%s/%s", shared && *shared ? shared : "../shared", what, name);
    return out;
}

static void check(int rc, const struct br_err *err)
{
    if (rc)
        fail_msg("%s", err->msg);
}

static void load(struct golden *g)
{
    const struct br_model_layout *m = &g->image->layout;
    br_devptr at = g->dev->memory;
    for (uint32_t u = 0; u < m->units; u++) {
        g->dev->ops->copy(g->stream, BR_COPY_H2D, (void *)(uintptr_t)at, br_weight_image_unit(g->image, u),
                          br_layout_unit_bytes(m, u));
        br_engine_model_place(g->model, u, at, NULL); /* the same stream computes */
        at += br_layout_unit_bytes(m, u);
    }
    for (uint32_t b = 0; b < BLOCKS; b++)
        g->blocks[b] = at + b * br_kv_block_bytes(&m->shape, m->numeric);
}

static void golden_open(struct golden *g, const char *name, const char *isa)
{
    char dir[1024];
    struct br_err err;
    struct br_engine_limits limits = {CONTEXT, 1, CONTEXT};
    strcpy(g->cache, "/tmp/br-golden-XXXXXX");
    assert_non_null(mkdtemp(g->cache));
    check(br_weight_image_open(shared_path(dir, sizeof dir, "models", name), name, g->cache, BR_NUMERIC_F32, &g->image,
                               &err),
          &err);
    const struct br_model_layout *m = &g->image->layout;
    struct br_device_config config = {.threads = 2, .isa = isa};
    config.memory_bytes = br_layout_total_bytes(m) + BLOCKS * br_kv_block_bytes(&m->shape, m->numeric);
    check(device_any(&config, &g->dev, &err), &err);
    check(g->dev->ops->stream_create(g->dev, &g->stream, &err), &err);
    check(g->dev->ops->event_create(g->dev, &g->done, &err), &err);
    check(br_engine_create(g->dev, &limits, &g->engine, &err), &err);
    check(br_engine_model_create(g->engine, m, &g->model, &err), &err);
    g->logits = br_malloc(m->shape.vocab * sizeof *g->logits);
    load(g);
}

static void golden_close(struct golden *g)
{
    char command[128];
    g->dev->ops->stream_destroy(g->stream);
    g->dev->ops->event_destroy(g->done);
    br_engine_model_destroy(g->model);
    br_engine_destroy(g->engine);
    g->dev->ops->destroy(g->dev);
    br_weight_image_close(g->image);
    free(g->logits);
    snprintf(command, sizeof command, "rm -r %s", g->cache);
    assert_int_equal(system(command), 0);
}

static void run(struct golden *g, const int32_t *ids, uint32_t n, uint32_t pos)
{
    struct br_step_item item = {ids, n, pos, g->blocks, true, g->logits};
    struct br_err err;
    check(br_engine_step(g->engine, g->model, g->stream, &item, 1, &err), &err);
    g->dev->ops->event_record(g->done, g->stream);
    g->dev->ops->event_sync(g->done);
}

/* Recorded logits of one step: top entries, mean and norm of the row. */
static void check_logits(const struct golden *g, const json_t *want)
{
    uint32_t vocab = g->image->layout.shape.vocab;
    double sum = 0, squares = 0, mean = json_number_value(json_object_get(want, "mean"));
    double norm = json_number_value(json_object_get(want, "l2"));
    size_t i;
    json_t *pair;
    json_array_foreach(json_object_get(want, "top"), i, pair)
    {
        float got = g->logits[json_integer_value(json_array_get(pair, 0))];
        assert_true(fabs(got - json_number_value(json_array_get(pair, 1))) < LOGIT_TOLERANCE);
    }
    assert_int_equal(i, 16);
    for (uint32_t v = 0; v < vocab; v++) {
        sum += g->logits[v];
        squares += (double)g->logits[v] * g->logits[v];
    }
    assert_true(fabs(sum / vocab - mean) < LOGIT_TOLERANCE);
    assert_true(fabs(sqrt(squares) - norm) < 1e-4 * norm + LOGIT_TOLERANCE);
}

/* The recorded id is the largest logit, or within a tie of it: so it is fed on, and later steps stay comparable. */
static void check_id(const struct golden *g, int32_t id)
{
    float most = g->logits[0];
    for (uint32_t v = 1; v < g->image->layout.shape.vocab; v++)
        most = g->logits[v] > most ? g->logits[v] : most;
    assert_true(most - g->logits[id] < TIE);
}

static void check_case(struct golden *g, const json_t *c, uint32_t chunk)
{
    const json_t *prompt = json_object_get(c, "prompt_ids"), *greedy = json_object_get(c, "greedy_ids");
    const json_t *logits = json_object_get(c, "logits");
    uint32_t n = (uint32_t)json_array_size(prompt), steps = (uint32_t)json_array_size(greedy), next = 0;
    int32_t ids[CONTEXT];
    assert_true(n > 0 && steps == 48 && n + steps <= CONTEXT);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(prompt, i));
    for (uint32_t pos = 0; pos < n; pos += chunk)
        run(g, ids + pos, n - pos < chunk ? n - pos : chunk, pos);
    for (uint32_t step = 0; step < steps; step++) {
        const json_t *want = json_array_get(logits, next);
        if (want && json_integer_value(json_object_get(want, "step")) == step) {
            check_logits(g, want);
            next++;
        }
        ids[0] = (int32_t)json_integer_value(json_array_get(greedy, step));
        check_id(g, ids[0]);
        run(g, ids, 1, n + step);
    }
    assert_int_equal(next, 5);
}

static void golden(const char *name, const char *isa)
{
    char path[1024], file[128];
    struct golden g = {0};
    json_error_t error;
    size_t i;
    json_t *c;
    snprintf(file, sizeof file, "%s.json", name);
    json_t *all = json_load_file(shared_path(path, sizeof path, "golden", file), 0, &error);
    if (!all)
        fail_msg("%s: %s (is BRIAREUS_SHARED set?)", path, error.text);
    golden_open(&g, name, isa);
    json_array_foreach(json_object_get(all, "cases"), i, c) check_case(&g, c, i % 2 ? 7 : CONTEXT);
    assert_true(i >= 5);
    print_message("%s, %s: %zu cases\n", name, g.dev->numeric_profile, i);
    golden_close(&g);
    json_decref(all);
}

static void golden_all(const char *name)
{
    static const char *const isas[] = {"generic", "avx2", "avx512", "cuda"};
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        struct br_device_config config = {.memory_bytes = 4096, .threads = 1, .isa = isas[i]};
        struct br_device *dev;
        struct br_err err;
        if (device_any(&config, &dev, &err)) {
            assert_int_equal(err.code, BR_ENOTSUP); /* not on this CPU */
            assert_string_not_equal(isas[i], "cuda");
            continue;
        }
        dev->ops->destroy(dev);
        golden(name, isas[i]);
    }
    golden(name, NULL);
}

static void test_stories(void **state)
{
    (void)state;
    golden_all("stories260K");
}

static void test_qwen2(void **state)
{
    (void)state;
    golden_all("tiny-qwen2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stories), cmocka_unit_test(test_qwen2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
