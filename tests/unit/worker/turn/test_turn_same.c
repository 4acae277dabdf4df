/* Preemption changes nothing: whatever is swapped, evicted, moved, chunked, batched, dropped or resumed, a sequence's
 * ids and logprobs are those of the sequence run alone, bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "fixture.h"
#include "late_device.h"

enum { SEQS = 8 };

static struct fx_models models;
static struct fx_result want[FX_MODELS][SEQS];
static const char *const policies[] = {"quota-rr", "slack"};
enum { POLICIES = sizeof policies / sizeof *policies };

static int setup(void **state)
{
    (void)state;
    fx_models_open(&models);
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

/* Bytes of one model's weights and KV of so many tokens, whichever needs most. */
static uint64_t largest_with_kv(uint32_t n_models, uint64_t tokens)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < n_models; i++) {
        const struct br_model_layout *layout = &models.image[i]->layout;
        uint64_t block = br_kv_block_bytes(&layout->shape, layout->numeric);
        uint64_t bytes = br_layout_total_bytes(layout) + tokens * block / 16;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Memory for little more than one model, and for KV in so many slabs: under slack what its largest model needs at
 * least counts among these. */
static void memory_set(struct br_turn_config *config, uint32_t n_models, uint32_t slabs)
{
    config->kv_bytes = slabs * config->slab_bytes;
    config->device.memory_bytes = largest_with_kv(n_models, 0) * 5 / 4 + config->kv_bytes + 4096;
    if (strcmp(config->policy, "slack") == 0)
        config->device.memory_bytes =
            largest_with_kv(n_models, 300) * 16 / 15 + config->slab_bytes + config->kv_bytes / 2;
}

/* Another model after every step, batches and chunks small. */
static void tight(struct br_turn_config *config, uint32_t n_models, uint32_t policy)
{
    fx_config(&models, config);
    config->policy = policies[policy];
    config->slab_bytes = 96 << 10;
    memory_set(config, n_models, 10);
    config->switch_every_step = true;
    config->quota_max_s = .02;
    config->max_batch = 8;
    config->prefill_chunk = 32;
}

/* Every second is one cause's, and nothing takes longer than all of it. */
static void stalls_add_up(const struct br_turn_stats *s)
{
    double causes[] = {s->stalled_weights_s, s->stalled_compaction_s, s->stalled_kv_s, s->stalled_room_s,
                       s->stalled_other_s};
    double sum = 0;
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        assert_true(causes[i] >= 0);
        sum += causes[i];
    }
    assert_true(fabs(sum - s->stalled_s) < 1e-6 * (1 + s->wall_s));
    assert_true(s->compute_s + s->stalled_s < s->wall_s + 1e-6);
    assert_true(s->load_s <= s->wall_s && s->kv_in_s <= s->wall_s && s->kv_out_s <= s->wall_s);
    assert_true((s->kv_out_bytes > 0) == (s->swaps_out > 0) && (s->kv_moved_bytes > 0) == (s->kv_moved_s > 0));
}

/* All sequences of models [0, n) at once, against the references. */
static struct br_turn_stats run_all(const struct br_turn_config *config, uint32_t n)
{
    static struct fx_run run;
    struct br_turn_stats stats;
    struct br_seq_spec spec;
    fx_start(&run, config, &models, n);
    for (uint32_t k = 0; k < SEQS; k++)
        for (uint32_t m = 0; m < n; m++) {
            fx_spec(&models, m, k, &spec);
            fx_add(&run, &spec, NULL, 0);
            br_seq_spec_free(&spec);
        }
    fx_wait(&run);
    for (uint32_t i = 0; i < run.n; i++)
        fx_same(&want[i % n][i / n], &run.results[i], 0);
    br_turn_stats(run.turn, &stats, NULL);
    stalls_add_up(&stats);
    fx_stop(&run);
    return stats;
}

static void test_references_differ(void **state)
{
    (void)state; /* sampled sequences of one model are not all the same: the test has something to find */
    for (uint32_t m = 0; m < FX_MODELS; m++)
        assert_memory_not_equal(&want[m][1].tokens[0], &want[m][3].tokens[0], sizeof(struct br_token));
}

static void print_stats(const char *policy, const struct br_turn_stats *s)
{
    print_message("%s: steps %lu switches %lu loaded %lu moved %lu swaps %lu/%lu ahead %lu drops %lu compactions %u "
                  "slides %u shortages %u stalled %.3f of %.3f s\n",
                  policy, (unsigned long)s->steps, (unsigned long)s->switches, (unsigned long)s->loaded_bytes,
                  (unsigned long)s->moved_bytes, (unsigned long)s->swaps_out, (unsigned long)s->swaps_in,
                  (unsigned long)s->swaps_ahead, (unsigned long)s->drops, s->compactions, s->slides, s->shortages,
                  s->stalled_s, s->wall_s);
}

static void test_preempted_every_step(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < POLICIES; p++) {
        struct br_turn_config config;
        struct br_turn_stats stats;
        tight(&config, FX_MODELS, p);
        stats = run_all(&config, FX_MODELS);
        print_stats(policies[p], &stats);
        assert_true(stats.switches > stats.steps / 2);
        assert_true(stats.swaps_out > 100 && stats.swaps_in > 100);
        assert_true(p || stats.swaps_ahead > 10); /* while another slot computed */
        assert_true(stats.loaded_bytes > 10 * models.all_bytes);
    }
}

static void chunks_and_batches(uint32_t policy)
{
    static const uint32_t chunks[] = {1, 7, 64, 256}, batches[] = {1, 3, 8};
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t b = 0; b < 3; b++)
            for (uint32_t threads = 1; threads <= 2; threads++) {
                struct br_turn_config config;
                tight(&config, FX_RANDOM, policy);
                config.prefill_chunk = chunks[c];
                config.max_batch = batches[b];
                config.device.threads = threads;
                config.switch_every_step = (c + b) % 2 == 0;
                run_all(&config, FX_RANDOM);
            }
}

static void test_chunks_and_batches(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < POLICIES; p++)
        chunks_and_batches(p);
}

/* Host memory for the KV of a sequence or two: KV is dropped and recomputed. */
static void test_dropped_and_recomputed(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * POLICIES; i++) {
        struct br_turn_config config;
        struct br_turn_stats stats;
        tight(&config, FX_RANDOM, i / 2);
        config.host_kv_bytes = 2 * config.slab_bytes;
        memory_set(&config, FX_RANDOM, i / 2 ? 0 : 5);
        config.switch_every_step = i % 2;
        stats = run_all(&config, FX_RANDOM);
        print_stats(config.policy, &stats);
        assert_true(stats.drops > 0 || (i / 2 && !config.switch_every_step)); /* slack comes by without */
    }
}

static void test_no_host_memory(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * POLICIES; i++) {
        struct br_turn_config config;
        struct br_turn_stats stats;
        tight(&config, FX_RANDOM, i / 2);
        config.host_kv_bytes = 0;
        memory_set(&config, FX_RANDOM, i / 2 ? 0 : 4);
        config.switch_every_step = i % 2;
        stats = run_all(&config, FX_RANDOM);
        print_stats(config.policy, &stats);
        assert_true(stats.drops > 0 || (i / 2 && !config.switch_every_step));
    }
}

static uint32_t pick(struct br_rng *rng, uint32_t from, uint32_t to)
{
    return from + (uint32_t)((to - from + 1) * br_rng_next(rng));
}

/* Whatever the sizes, as long as one sequence fits by itself, all of them end, and with the same tokens. */
static void test_any_shortage(void **state)
{
    struct br_rng rng = {.seed = 11};
    (void)state;
    for (uint32_t i = 0; i < 20 * POLICIES; i++) {
        struct br_turn_config config;
        tight(&config, FX_MODELS, i % POLICIES);
        config.slab_bytes = pick(&rng, 0, 1) ? 24 << 10 : 96 << 10;
        memory_set(&config, FX_MODELS, (uint32_t)((150 << 10) / config.slab_bytes) + pick(&rng, 1, 8));
        config.host_kv_bytes = pick(&rng, 0, 6) * config.slab_bytes;
        config.max_batch = pick(&rng, 1, 8);
        config.prefill_chunk = pick(&rng, 1, 40);
        config.quota_max_s = .001 * pick(&rng, 1, 30);
        config.switch_every_step = pick(&rng, 0, 1);
        config.device.link_bytes_per_s = pick(&rng, 0, 3) ? 0 : 1u << 30;
        if (pick(&rng, 0, 2) == 0)
            config.device_create = late_device_create;
        run_all(&config, FX_MODELS);
    }
}

/* Every sequence of a model, cut after every token and resumed, all of them at once. */
static void resume_everywhere(uint32_t m, uint32_t policy)
{
    static struct fx_run run;
    struct br_turn_config config;
    struct br_seq_spec spec;
    static uint32_t of[512];
    uint32_t n = 0;
    tight(&config, FX_MODELS, policy);
    fx_start(&run, &config, &models, FX_MODELS);
    for (uint32_t k = 0; k < SEQS; k++)
        for (uint32_t cut = 1; cut < want[m][k].n; cut++) {
            fx_spec(&models, m, k, &spec);
            spec.id = 100000 + n;
            of[fx_add(&run, &spec, want[m][k].tokens, cut)] = k;
            br_seq_spec_free(&spec);
            n++;
        }
    fx_wait(&run);
    for (uint32_t i = 0; i < n; i++)
        fx_same(&want[m][of[i]], &run.results[i], run.results[i].given);
    fx_stop(&run);
}

static void test_resumed_after_any_token(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FX_MODELS * POLICIES; i++)
        resume_everywhere(i / POLICIES, i % POLICIES);
}

/* A sequence that had all of its tokens already ends at once. */
static void test_resumed_at_its_end(void **state)
{
    static struct fx_run run;
    struct br_turn_config config;
    struct br_seq_spec spec;
    (void)state;
    fx_config(&models, &config);
    fx_start(&run, &config, &models, 1);
    fx_spec(&models, 0, 0, &spec);
    fx_add(&run, &spec, want[0][0].tokens, want[0][0].n);
    fx_wait(&run);
    assert_int_equal(run.results[0].end, want[0][0].end);
    assert_int_equal(run.results[0].n, want[0][0].n);
    br_seq_spec_free(&spec);
    fx_stop(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references_differ),       cmocka_unit_test(test_preempted_every_step),
        cmocka_unit_test(test_chunks_and_batches),      cmocka_unit_test(test_dropped_and_recomputed),
        cmocka_unit_test(test_no_host_memory),          cmocka_unit_test(test_any_shortage),
        cmocka_unit_test(test_resumed_after_any_token), cmocka_unit_test(test_resumed_at_its_end),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
