/* Extents against a map of the bytes; and weights that were loaded, evicted and moved in any order against the logits
 * of the same model loaded once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"
#include "fixture.h"
#include "worker/turn/extents.h"
#include "worker/turn/residency.h"

/* ---- extents ---- */

enum { MAP = 256 }; /* units of 64 bytes */

struct map {
    int owner[MAP]; /* -1: free */
};

static uint64_t map_fit(const struct map *map, uint64_t n, uint64_t avoid, uint64_t avoid_n)
{
    for (uint64_t at = 0; at + n <= MAP; at++) {
        bool free = true;
        for (uint64_t i = at; i < at + n; i++)
            free = free && map->owner[i] < 0 && (i < avoid || i >= avoid + avoid_n);
        if (free)
            return at * 64;
    }
    return BR_EXTENT_NONE;
}

/* Least number of owned cells in any window that begins behind an extent and touches no extent of `fixed`. */
static uint64_t map_cheapest(const struct map *map, const struct br_extents *x, uint64_t n, uint32_t fixed)
{
    uint64_t best = UINT64_MAX;
    for (uint64_t at = 0; at + n <= MAP; at++) {
        uint64_t cost = 0;
        if (at && (map->owner[at - 1] < 0 || map->owner[at - 1] == map->owner[at]))
            continue;
        for (uint32_t i = 0; i < x->n; i++) {
            const struct br_extent *e = &x->list[i];
            if (e->at >= (at + n) * 64 || e->at + e->bytes <= at * 64)
                continue;
            cost = e->slot == fixed || cost == UINT64_MAX ? UINT64_MAX : cost + e->bytes;
        }
        best = cost < best ? cost : best;
    }
    return best;
}

static void check_window(const struct map *map, const struct br_extents *x, uint64_t n, uint32_t fixed)
{
    uint32_t first = 0, in_way = 0;
    uint64_t at = br_extents_window(x, n * 64, fixed, &first, &in_way), cost = 0, want = map_cheapest(map, x, n, fixed);
    assert_int_equal(at == BR_EXTENT_NONE, want == UINT64_MAX);
    if (at == BR_EXTENT_NONE)
        return;
    for (uint32_t i = 0; i < x->n; i++) {
        bool touches = x->list[i].at < at + n * 64 && x->list[i].at + x->list[i].bytes > at;
        assert_int_equal(touches, i >= first && i < first + in_way);
        cost += touches ? x->list[i].bytes : 0;
    }
    assert_int_equal(cost, want);
}

static void test_extents(void **state)
{
    struct br_rng rng = {.seed = 5};
    struct br_extents x;
    struct map map;
    (void)state;
    br_extents_init(&x, MAP * 64, MAP);
    memset(&map, -1, sizeof map);
    for (int round = 0, id = 0; round < 3000; round++) {
        uint64_t n = 1 + (uint64_t)(12 * br_rng_next(&rng)), avoid = (uint64_t)(MAP * br_rng_next(&rng));
        uint64_t avoid_n = (uint64_t)(30 * br_rng_next(&rng));
        if (br_rng_next(&rng) < .45 && x.n) {
            struct br_extent e = x.list[(uint32_t)(x.n * br_rng_next(&rng))];
            br_extents_give(&x, e.at);
            for (uint64_t i = e.at / 64; i < (e.at + e.bytes) / 64; i++)
                map.owner[i] = -1;
        } else {
            uint64_t at = br_extents_fit(&x, n * 64, avoid * 64, avoid_n * 64);
            assert_int_equal(at, map_fit(&map, n, avoid, avoid_n));
            if (at == BR_EXTENT_NONE)
                continue;
            br_extents_take(&x, at, n * 64, (uint32_t)id % 5, 0);
            for (uint64_t i = at / 64; i < at / 64 + n; i++)
                map.owner[i] = id;
            id++;
        }
        check_window(&map, &x, 5 + n, (uint32_t)round % 5);
        check_window(&map, &x, 5 + n, UINT32_MAX);
    }
    br_extents_free(&x);
}

/* ---- residency ---- */

enum { KV_BYTES = 1 << 20, PROMPT = 9 };

struct rig {
    struct br_device *dev;
    struct br_stream *compute;
    struct br_event *done;
    struct br_engine *engine;
    struct br_engine_model *engines[FX_MODELS];
    struct br_residency *residency;
    br_devptr kv;
    uint64_t bytes[FX_MODELS];
    struct br_rng rng;
};

static struct fx_models models;
static float *want[FX_MODELS];

static int32_t any_victim(void *ctx, uint32_t target)
{
    struct rig *rig = ctx;
    uint32_t from = (uint32_t)(FX_MODELS * br_rng_next(&rig->rng));
    for (uint32_t i = 0; i < FX_MODELS; i++) {
        uint32_t slot = (from + i) % FX_MODELS;
        if (slot != target && rig->bytes[slot])
            return (int32_t)slot;
    }
    return -1;
}

static void note_bytes(void *ctx, uint32_t slot, uint64_t bytes, uint64_t all)
{
    struct rig *rig = ctx;
    assert_true(bytes <= all && all == br_layout_total_bytes(&models.image[slot]->layout));
    rig->bytes[slot] = bytes;
}

static void rig_open(struct rig *rig, uint64_t arena, uint64_t link, bool tell_at_once)
{
    struct br_device_config device = {.memory_bytes = arena + KV_BYTES, .threads = 1, .link_bytes_per_s = link};
    struct br_engine_limits limits = {.max_rows = 16, .max_items = 1, .max_context = 64};
    struct br_residency_cb cb = {.ctx = rig, .victim = any_victim, .changed = note_bytes};
    struct br_residency_config config = {.bytes = arena, .max_slots = FX_MODELS, .tell_at_once = tell_at_once};
    struct br_err err;
    *rig = (struct rig){.rng = {.seed = arena}};
    assert_int_equal(br_device_cpu_create(&device, &rig->dev, &err), 0);
    assert_int_equal(rig->dev->ops->stream_create(rig->dev, &rig->compute, &err), 0);
    assert_int_equal(rig->dev->ops->event_create(rig->dev, &rig->done, &err), 0);
    assert_int_equal(br_engine_create(rig->dev, &limits, &rig->engine, &err), 0);
    for (uint32_t i = 0; i < FX_MODELS; i++)
        config.max_units += models.image[i]->layout.units;
    config.memory = rig->dev->memory;
    assert_int_equal(br_residency_create(rig->dev, &config, &cb, &rig->residency, &err), 0);
    for (uint32_t i = 0; i < FX_MODELS; i++) {
        assert_int_equal(br_engine_model_create(rig->engine, &models.image[i]->layout, &rig->engines[i], &err), 0);
        assert_int_equal(br_residency_add(rig->residency, i, rig->engines[i], models.image[i], &err), 0);
    }
    rig->kv = rig->dev->memory + arena;
}

static void rig_close(struct rig *rig)
{
    rig->dev->ops->stream_destroy(rig->compute);
    br_residency_destroy(rig->residency);
    for (uint32_t i = 0; i < FX_MODELS; i++)
        br_engine_model_destroy(rig->engines[i]);
    br_engine_destroy(rig->engine);
    rig->dev->ops->event_destroy(rig->done);
    rig->dev->ops->destroy(rig->dev);
}

static const int32_t prompt[PROMPT] = {1, 5, 9, 42, 17, 88, 3, 64, 21};

static void step_start(struct rig *rig, uint32_t slot, float *logits)
{
    static struct br_step_item item;
    struct br_err err;
    item = (struct br_step_item){.ids = prompt, .n_ids = PROMPT, .blocks = &rig->kv, .want_logits = true};
    item.logits = logits;
    if (!br_residency_placed(rig->residency, slot))
        br_residency_load(rig->residency, slot, UINT64_MAX, true);
    assert_true(br_residency_placed(rig->residency, slot));
    if (br_engine_step(rig->engine, rig->engines[slot], rig->compute, &item, 1, &err))
        fail_msg("%s", err.msg);
    rig->dev->ops->event_record(rig->done, rig->compute);
    br_residency_running(rig->residency, (int32_t)slot);
}

static void step_check(struct rig *rig, uint32_t slot, const float *logits)
{
    rig->dev->ops->event_sync(rig->done);
    br_residency_running(rig->residency, -1);
    assert_memory_equal(logits, want[slot], models.image[slot]->layout.shape.vocab * sizeof *logits);
}

/* Steps of random models, each with prefetches of others beside it. */
static struct br_residency_stats shuffle(uint64_t arena, uint64_t link, uint32_t steps)
{
    struct rig rig;
    struct br_residency_stats stats;
    float *logits = br_malloc(2048 * sizeof *logits);
    rig_open(&rig, arena, link, true);
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t slot = (uint32_t)(FX_MODELS * br_rng_next(&rig.rng));
        step_start(&rig, slot, logits);
        for (uint32_t k = 0; k < 2; k++)
            br_residency_load(rig.residency, (uint32_t)(FX_MODELS * br_rng_next(&rig.rng)), UINT64_MAX, true);
        step_check(&rig, slot, logits);
        if (i % 17 == 16)
            br_residency_evict(rig.residency, (slot + 1) % FX_MODELS, UINT64_MAX);
    }
    br_residency_stats(rig.residency, &stats);
    free(logits);
    rig_close(&rig);
    return stats;
}

static int setup(void **state)
{
    struct rig rig;
    (void)state;
    fx_models_open(&models);
    rig_open(&rig, models.all_bytes, 0, true);
    for (uint32_t i = 0; i < FX_MODELS; i++) {
        want[i] = br_malloc(models.image[i]->layout.shape.vocab * sizeof *want[i]);
        step_start(&rig, i, want[i]);
        rig.dev->ops->event_sync(rig.done);
        br_residency_running(rig.residency, -1);
    }
    rig_close(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FX_MODELS; i++)
        free(want[i]);
    fx_models_close(&models);
    return 0;
}

static void test_arenas_of_many_sizes(void **state)
{
    struct br_residency_stats all = {0};
    (void)state;
    for (uint32_t i = 0; i <= 8; i++) {
        uint64_t arena = (models.largest_bytes + i * (models.all_bytes - models.largest_bytes) / 8) & ~63ull;
        struct br_residency_stats s = shuffle(arena, 0, 150);
        all.compactions += s.compactions;
        all.moved_bytes += s.moved_bytes;
        all.slides += s.slides;
        if (i == 8)
            assert_int_equal(s.compactions, 0); /* all of it fits: nothing is ever in the way */
    }
    print_message("compactions %u, slides %u, %lu bytes moved\n", all.compactions, all.slides,
                  (unsigned long)all.moved_bytes);
    assert_true(all.compactions > 0 && all.slides > 0);
}

/* With a slow link every step begins long before its last layer is there. */
static void test_slow_link(void **state)
{
    (void)state;
    shuffle(models.largest_bytes * 5 / 4 & ~63ull, 400000000, 40);
}

/* ---- a policy that knows what fits ---- */

/* What a load can keep to: whole units within what was asked for, or the next one alone. */
static uint64_t whole_of(const struct rig *rig, uint32_t slot, uint64_t ask)
{
    uint64_t next = br_residency_next_bytes(rig->residency, slot);
    uint64_t whole = br_residency_whole_bytes(rig->residency, slot, ask);
    assert_int_equal(whole > 0, next > 0);
    assert_true(whole >= next);
    assert_true(whole <= ask || whole == next);
    return whole;
}

/* Without victims: as long as enough bytes are free, wherever they are, a unit finds room. */
static void load_some(struct rig *rig, uint32_t slot, uint64_t end, bool running)
{
    uint64_t next = br_residency_next_bytes(rig->residency, slot), used = br_residency_used(rig->residency);
    uint64_t before = br_residency_bytes(rig->residency, slot), ask = 1 + (uint64_t)(400000 * br_rng_next(&rig->rng));
    uint64_t whole = whole_of(rig, slot, ask), got = br_residency_load(rig->residency, slot, whole, false);
    assert_int_equal(br_residency_bytes(rig->residency, slot), before + got);
    assert_true(got <= whole);
    if (next && !running && used + next <= end)
        assert_true(got >= next);
    assert_true(got == 0 || used + got <= end);
    assert_true(rig->bytes[slot] <= before + got); /* told of when it is there */
}

static void evict_some(struct rig *rig, uint32_t slot)
{
    uint64_t before = br_residency_bytes(rig->residency, slot), ask = 1 + (uint64_t)(300000 * br_rng_next(&rig->rng));
    uint64_t freed = br_residency_evict(rig->residency, slot, ask);
    assert_true(freed >= (ask < before ? ask : before));
    assert_int_equal(br_residency_bytes(rig->residency, slot), before - freed);
}

/* Something else takes the far end, or gives it back. */
static uint64_t end_move(struct rig *rig, uint64_t arena, bool running)
{
    uint64_t end = (arena / 2 + (uint64_t)((double)(arena / 2) * br_rng_next(&rig->rng))) & ~63ull;
    bool fits = br_residency_used(rig->residency) <= end, done = br_residency_lower(rig->residency, end);
    if (!running)
        assert_int_equal(done, fits);
    if (!done)
        end = br_residency_top(rig->residency);
    assert_true(br_residency_top(rig->residency) <= end);
    br_residency_end(rig->residency, end);
    if (br_residency_cooling(rig->residency, end)) {
        rig->dev->ops->event_sync(br_residency_cooling(rig->residency, end));
        assert_null(br_residency_cooling(rig->residency, end));
    }
    memset((void *)(uintptr_t)(rig->dev->memory + end), 0xff, arena - end); /* all of it is free to be written */
    return end;
}

static void test_planned(void **state)
{
    uint64_t arena = models.all_bytes & ~63ull, end = arena;
    float *logits = br_malloc(2048 * sizeof *logits);
    struct rig rig;
    uint32_t steps = 0;
    (void)state;
    rig_open(&rig, arena, 0, false);
    for (uint32_t i = 0; i < 1500; i++) {
        uint32_t slot = (uint32_t)(FX_MODELS * br_rng_next(&rig.rng)), other = (slot + 1 + i % 4) % FX_MODELS;
        bool running = br_residency_placed(rig.residency, slot);
        load_some(&rig, slot, end, false);
        if (running)
            step_start(&rig, slot, logits);
        load_some(&rig, other, end, running);
        if (br_rng_next(&rig.rng) < .4)
            evict_some(&rig, other);
        if (br_rng_next(&rig.rng) < .3)
            end = end_move(&rig, arena, running);
        if (running)
            step_check(&rig, slot, logits);
        steps += running;
        br_residency_poll(rig.residency);
    }
    br_residency_sync(rig.residency);
    br_residency_poll(rig.residency);
    for (uint32_t i = 0; i < FX_MODELS; i++)
        assert_int_equal(rig.bytes[i], br_residency_bytes(rig.residency, i));
    print_message("%u steps\n", steps);
    assert_true(steps > 100);
    free(logits);
    rig_close(&rig);
}

static void test_never_fits(void **state)
{
    struct rig rig;
    struct br_err err;
    struct br_residency *small;
    struct br_residency_cb cb = {.ctx = &rig, .victim = any_victim, .changed = note_bytes};
    struct br_residency_config config = {.bytes = 64000, .max_slots = 1, .max_units = 64, .tell_at_once = true};
    (void)state;
    rig_open(&rig, models.all_bytes, 0, true);
    config.memory = rig.dev->memory;
    assert_int_equal(br_residency_create(rig.dev, &config, &cb, &small, &err), 0);
    assert_int_equal(br_residency_add(small, 0, rig.engines[4], models.image[4], &err), BR_ENOMEM);
    assert_non_null(strstr(err.msg, "the device has 64000 bytes"));
    br_residency_destroy(small);
    rig_close(&rig);
}

/* The last test: model 0 is gone afterwards. Its copies are still under way when it is told to go. */
static void test_unloaded_is_free(void **state)
{
    struct rig rig;
    struct br_err err;
    uint64_t device_bytes, host_bytes, bytes = 0;
    const struct br_model_layout *layout = &models.image[0]->layout;
    (void)state;
    rig_open(&rig, models.all_bytes + (1 << 20), 64 << 20, true);
    for (uint32_t u = 0; u < layout->units; u++)
        bytes += (br_layout_unit_bytes(layout, u) + 63) / 64 * 64;
    assert_int_equal(br_residency_load(rig.residency, 0, UINT64_MAX, false), bytes);
    br_residency_running(rig.residency, 0);
    assert_int_equal(br_residency_unload(rig.residency, 0, &device_bytes, &host_bytes, &err), BR_EBUSY);
    assert_int_equal(br_residency_bytes(rig.residency, 0), bytes);
    br_residency_running(rig.residency, -1);
    assert_int_equal(access(models.image[0]->path, F_OK), 0);
    assert_int_equal(br_residency_unload(rig.residency, 0, &device_bytes, &host_bytes, &err), 0);
    assert_int_equal(device_bytes, bytes);
    assert_int_equal(br_residency_used(rig.residency), 0);
    assert_null(br_residency_cooling(rig.residency, 0)); /* whoever writes there now waits for nothing */
    assert_int_equal(br_weight_image_cached(models.image[0]), 0);
    assert_int_equal(access(models.image[0]->path, F_OK), -1);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extents),    cmocka_unit_test(test_arenas_of_many_sizes),
        cmocka_unit_test(test_slow_link),  cmocka_unit_test(test_planned),
        cmocka_unit_test(test_never_fits), cmocka_unit_test(test_unloaded_is_free),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
