/* Whatever the policy decides, however late and in whatever order transfers complete: the same tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "chaos_core.h"
#include "fixture.h"
#include "late_device.h"

enum { SEQS = 5, TWICE = 2 * SEQS }; /* each twice: the second shares what it finds of the first */

static struct fx_models models;
static char kv_path[80];
static struct fx_result want[FX_MODELS][SEQS];

static int setup(void **state)
{
    (void)state;
    fx_models_open(&models);
    snprintf(kv_path, sizeof kv_path, "%s/kv", models.dir);
    chaos_seed(1);
    for (uint32_t m = 0; m < FX_MODELS; m++)
        for (uint32_t k = 0; k < SEQS; k++)
            fx_alone(&models, m, k, &want[m][k]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fx_models_close(&models);
    return 0;
}

static void config_draw(struct br_rng *rng, bool late, struct br_turn_config *config)
{
    fx_config(&models, config);
    config->policy = "chaos";
    config->slab_bytes = br_rng_next(rng) < .5 ? 24 << 10 : 96 << 10;
    config->kv_bytes = 0;
    config->device.memory_bytes = models.largest_bytes + (256 << 10) + models.largest_bytes / 5 +
                                  (uint64_t)(br_rng_next(rng) * (double)models.all_bytes / 2);
    config->host_kv_bytes = br_rng_next(rng) < .3 ? 2 * config->slab_bytes : 16 << 20;
    if (br_rng_next(rng) < .5) {
        config->kv_disk_path = kv_path;
        config->kv_disk_bytes = 40 * config->slab_bytes;
        config->host_kv_bytes = 4 * config->slab_bytes;
    }
    config->max_batch = 1 + (uint32_t)(8 * br_rng_next(rng));
    config->prefill_chunk = 1 + (uint32_t)(40 * br_rng_next(rng));
    config->device.link_bytes_per_s = br_rng_next(rng) < .5 ? 0 : 2000000000;
    if (late)
        config->device_create = late_device_create;
}

static struct br_turn_stats run_all(const struct br_turn_config *config, bool pauses)
{
    static struct fx_run run;
    struct br_turn_stats stats;
    struct br_seq_spec spec;
    fx_start(&run, config, &models, FX_MODELS);
    for (uint32_t k = 0; k < TWICE; k++)
        for (uint32_t m = 0; m < FX_MODELS; m++) {
            fx_spec(&models, m, k % SEQS, &spec);
            spec.id = 1 + 1000 * m + k;
            fx_add(&run, &spec, NULL, 0);
            if (pauses && k % 2)
                br_turn_pause(run.turn, spec.id, 1);
            br_seq_spec_free(&spec);
        }
    for (uint32_t k = 1; pauses && k < TWICE; k += 2)
        for (uint32_t m = 0; m < FX_MODELS; m++)
            br_turn_resume(run.turn, 1 + 1000 * m + k, 1);
    fx_wait(&run);
    for (uint32_t i = 0; i < run.n; i++)
        fx_same(&want[i % FX_MODELS][i / FX_MODELS % SEQS], &run.results[i], 0);
    br_turn_stats(run.turn, &stats, NULL);
    fx_stop(&run);
    return stats;
}

static void runs(bool late, uint32_t n)
{
    struct br_turn_stats sum = {0};
    uint64_t delays = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct br_rng rng = {.seed = 40 + i};
        struct br_turn_config config;
        struct br_turn_stats s;
        chaos_seed(900 + i);
        late_device_seed(500 + i);
        config_draw(&rng, late, &config);
        s = run_all(&config, i % 2);
        struct chaos_counts c = chaos_counts();
        print_message(
            "seed %u: steps %lu waited %lu loads %lu partial %lu evicts %lu swaps %lu/%lu drops %lu besides %lu "
            "shortages %u kv moved %lu cached %lu disk %lu/%lu, %.2f s\n",
            i, (unsigned long)s.steps, (unsigned long)c.waited, (unsigned long)c.loads, (unsigned long)c.partial_loads,
            (unsigned long)c.evicts, (unsigned long)s.swaps_out, (unsigned long)s.swaps_in, (unsigned long)s.drops,
            (unsigned long)c.besides, s.shortages, (unsigned long)s.kv_moved_bytes, (unsigned long)s.cached_tokens,
            (unsigned long)s.kv_disk_out_bytes, (unsigned long)s.kv_disk_in_bytes, s.wall_s);
        sum.shortages += s.shortages;
        sum.kv_moved_bytes += s.kv_moved_bytes;
        sum.swaps_out += s.swaps_out;
        sum.drops += s.drops;
        sum.kv_disk_in_bytes += s.kv_disk_in_bytes;
        sum.cached_tokens += s.cached_tokens;
        sum.slides += s.slides;
        delays += late_device_delays();
    }
    assert_true(sum.swaps_out > 100 && sum.drops > 10 && sum.slides > 10 && sum.kv_moved_bytes > 0);
    assert_true(sum.cached_tokens > 100 && sum.kv_disk_in_bytes > 0);
    assert_true(!late || delays > 1000);
}

static void test_any_decision(void **state)
{
    (void)state;
    runs(false, 5);
}

static void test_transfers_late_and_out_of_order(void **state)
{
    (void)state;
    runs(true, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_decision),
        cmocka_unit_test(test_transfers_late_and_out_of_order),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
