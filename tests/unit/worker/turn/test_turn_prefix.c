/* Sharing of prefixes changes nothing but the work: whatever of a prompt is known already, ids and logprobs are those
 * of the sequence run alone without any cache, bit for bit; and cached counts are what 16-token blocks give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"
#include "fixture.h"
#include "late_device.h"

enum { SEQS = 10, BLOCK = 16, PREFIX = 80 };

static struct fx_models models;
static struct fx_result want[FX_MODELS][SEQS];

/* Sequence k begins with so many tokens of its model's common text; 96 has a whole number of blocks in all. */
static const uint32_t shared[SEQS] = {80, 64, 0, 33, 80, 16, 64, 80, 15, 48};
static const uint32_t tails[SEQS] = {9, 32, 40, 3, 16, 1, 32, 9, 30, 16};

static void ids_fill(int32_t *ids, uint32_t n, uint32_t vocab, uint64_t seed)
{
    struct br_rng rng = {.seed = seed};
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)(vocab * br_rng_next(&rng));
}

static void spec_make(uint32_t model, uint32_t k, struct br_seq_spec *out)
{
    uint32_t vocab = models.image[model]->layout.shape.vocab;
    fx_spec(&models, model, k, out);
    free(out->prompt);
    out->n_prompt = shared[k] + tails[k];
    out->prompt = br_malloc(sizeof *out->prompt * (PREFIX + out->n_prompt));
    ids_fill(out->prompt, PREFIX, vocab, 7000 + model);
    ids_fill(out->prompt + shared[k], tails[k], vocab, 8000 + 100 * model + k);
}

static int setup(void **state)
{
    (void)state;
    fx_models_open(&models);
    for (uint32_t m = 0; m < FX_MODELS; m++)
        for (uint32_t k = 0; k < SEQS; k++) {
            struct br_seq_spec spec;
            spec_make(m, k, &spec);
            fx_alone_spec(&models, m, &spec, &want[m][k]);
            br_seq_spec_free(&spec);
        }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fx_models_close(&models);
    return 0;
}

static uint32_t add(struct fx_run *run, uint32_t m, uint32_t k, uint64_t id)
{
    struct br_seq_spec spec;
    uint32_t index;
    spec_make(m, k, &spec);
    spec.id = id;
    index = fx_add(run, &spec, NULL, 0);
    br_seq_spec_free(&spec);
    return index;
}

/* Of a prompt of n tokens whose first `known` are cached as whole blocks, the last token always being computed. */
static uint32_t hits(uint32_t n, uint32_t known)
{
    uint32_t blocks = known / BLOCK * BLOCK;
    return blocks < n ? blocks : n - 1;
}

static void config_set(struct br_turn_config *config, const char *policy)
{
    fx_config(&models, config);
    config->policy = policy;
    config->device.memory_bytes *= 2;
}

/* One after the other, twice: first what the ones before had in common with it, then all of it. */
static void counts(const char *policy, uint32_t m)
{
    static struct fx_run run;
    struct br_turn_config config;
    uint32_t known = 0;
    config_set(&config, policy);
    fx_start(&run, &config, &models, FX_MODELS);
    for (uint32_t i = 0; i < 2 * SEQS; i++) {
        uint32_t k = i % SEQS, n = shared[k] + tails[k];
        uint32_t r = add(&run, m, k, 1 + i);
        fx_wait(&run);
        fx_same(&want[m][k], &run.results[r], 0);
        assert_int_equal(run.results[r].cached, hits(n, i < SEQS ? (shared[k] < known ? shared[k] : known) : n));
        known = shared[k] > known ? shared[k] : known;
    }
    fx_stop(&run);
}

static void test_hits_are_counted(void **state)
{
    (void)state;
    for (uint32_t m = 0; m < FX_MODELS; m++) {
        counts("slack", m);
        counts("quota-rr", m);
    }
}

/* A chat's next turn: the question, the answer to it and more. The KV of the answer's last token was never computed. */
static void test_answers_are_known_too(void **state)
{
    static struct fx_run run;
    struct br_turn_config config;
    (void)state;
    config_set(&config, "slack");
    fx_start(&run, &config, &models, FX_MODELS);
    for (uint32_t m = 0; m < FX_MODELS; m++) {
        struct br_seq_spec spec;
        struct fx_result first, alone;
        uint32_t n, r = add(&run, m, 0, 10 * m + 1);
        fx_wait(&run);
        first = run.results[r];
        spec_make(m, 0, &spec);
        n = spec.n_prompt + first.n;
        spec.prompt = br_realloc(spec.prompt, sizeof *spec.prompt * (n + 5));
        for (uint32_t i = 0; i < first.n; i++)
            spec.prompt[spec.n_prompt + i] = first.tokens[i].id;
        ids_fill(spec.prompt + n, 5, 50, 9);
        spec.id = 10 * m + 2;
        spec.n_prompt = n + 5;
        fx_alone_spec(&models, m, &spec, &alone);
        r = fx_add(&run, &spec, NULL, 0);
        fx_wait(&run);
        fx_same(&alone, &run.results[r], 0);
        assert_int_equal(run.results[r].cached, hits(n + 5, n - 1));
        br_seq_spec_free(&spec);
    }
    fx_stop(&run);
}

/* Another model does not know what this one has computed, though ids and KV shape may be the same. */
static void test_models_share_nothing(void **state)
{
    static struct fx_run run;
    struct br_turn_config config;
    struct br_seq_spec spec;
    struct fx_models twins = models;
    struct fx_result *results;
    (void)state;
    config_set(&config, "slack");
    twins.model[1] = twins.model[0];
    twins.model[1].name = "twin";
    fx_start(&run, &config, &twins, 2);
    results = run.results;
    add(&run, 0, 0, 1);
    fx_wait(&run);
    spec_make(0, 0, &spec);
    spec.id = 2;
    snprintf(spec.model, sizeof spec.model, "twin");
    fx_add(&run, &spec, NULL, 0);
    fx_wait(&run);
    fx_same(&results[0], &results[1], 0);
    assert_int_equal(results[1].cached, 0);
    br_seq_spec_free(&spec);
    fx_stop(&run);
}

/* Tenants with salts of their own: each knows its own prompts only. */
static void test_salts_share_nothing(void **state)
{
    static struct fx_run run;
    struct br_turn_config config;
    (void)state;
    config_set(&config, "slack");
    fx_start(&run, &config, &models, 1);
    for (uint32_t i = 0; i < 6; i++) {
        struct br_seq_spec spec;
        spec_make(0, 0, &spec);
        spec.id = 1 + i;
        spec.salt = i % 3;
        fx_add(&run, &spec, NULL, 0);
        fx_wait(&run);
        fx_same(&want[0][0], &run.results[i], 0);
        assert_int_equal(run.results[i].cached, i < 3 ? 0 : hits(spec.n_prompt, spec.n_prompt));
        br_seq_spec_free(&spec);
    }
    fx_stop(&run);
}

static void test_switched_off(void **state)
{
    static struct fx_run run;
    struct br_turn_config config;
    struct br_turn_stats stats;
    (void)state;
    config_set(&config, "slack");
    config.prefix_cache = false;
    fx_start(&run, &config, &models, 1);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t r = add(&run, 0, 0, 1 + i);
        fx_wait(&run);
        fx_same(&want[0][0], &run.results[r], 0);
        assert_int_equal(run.results[r].cached, 0);
    }
    br_turn_stats(run.turn, &stats, NULL);
    assert_int_equal(stats.cached_tokens, 0);
    fx_stop(&run);
}

/* The second comes while the first still computes its prompt, a block a step: it takes over what is there. */
static void test_first_still_prefills(void **state)
{
    (void)state;
    for (uint32_t m = 0; m < FX_MODELS; m++) {
        static struct fx_run run;
        struct br_turn_config config;
        config_set(&config, m % 2 ? "slack" : "quota-rr");
        config.prefill_chunk = config.max_step_tokens = BLOCK;
        fx_start(&run, &config, &models, FX_MODELS);
        for (uint32_t i = 0; i < 6; i++)
            add(&run, m, i % 2 ? 7 : 0, 1 + i);
        fx_wait(&run);
        for (uint32_t i = 0; i < 6; i++)
            fx_same(&want[m][i % 2 ? 7 : 0], &run.results[i], 0);
        assert_int_equal(run.results[0].cached, 0);
        assert_int_equal(run.results[5].cached % BLOCK, 0);
        assert_true(run.results[5].cached >= BLOCK); /* as its prompt's first rows came after another's */
        fx_stop(&run);
    }
}

/* Memory for one model and a half: weights come and go over what is cached, and nothing that runs has to make way. */
static void test_cached_blocks_make_way(void **state)
{
    static struct fx_run run;
    struct br_turn_config config;
    struct br_turn_stats stats;
    uint64_t kv;
    (void)state;
    fx_config(&models, &config);
    config.policy = "slack";
    config.kv_bytes = 0;
    config.slab_bytes = 96 << 10;
    kv = 12 * config.slab_bytes;
    config.device.memory_bytes = models.largest_bytes * 3 / 2 + kv;
    fx_start(&run, &config, &models, FX_MODELS);
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t m = i / 2 % FX_MODELS, k = i / 2 * 7 % SEQS, r = add(&run, m, k, 1 + i), n = shared[k] + tails[k];
        fx_wait(&run);
        fx_same(&want[m][k], &run.results[r], 0);
        assert_true(i % 2 == 0 || run.results[r].cached == hits(n, n)); /* its model is still there */
    }
    br_turn_stats(run.turn, &stats, NULL);
    print_message("cached %lu of %lu tokens, loaded %lu, swaps %lu, drops %lu, shortages %u\n",
                  (unsigned long)stats.cached_tokens, (unsigned long)stats.prompt_tokens,
                  (unsigned long)stats.loaded_bytes, (unsigned long)stats.swaps_out, (unsigned long)stats.drops,
                  stats.shortages);
    assert_true(stats.loaded_bytes > models.all_bytes); /* some have come again */
    assert_int_equal(stats.swaps_out + stats.drops + stats.shortages, 0);
    fx_stop(&run);
}

/* Everything at once, in little memory, another model after every step: shared blocks are swapped, dropped, moved. */
static struct br_turn_stats crowd(struct br_turn_config *config, uint64_t seed)
{
    static struct fx_run run;
    struct br_turn_stats stats;
    struct br_rng rng = {.seed = seed};
    uint8_t of[3 * FX_MODELS * SEQS][2];
    fx_start(&run, config, &models, FX_MODELS);
    for (uint32_t i = 0; i < 3 * FX_MODELS * SEQS; i++) {
        of[i][0] = (uint8_t)(FX_MODELS * br_rng_next(&rng));
        of[i][1] = (uint8_t)(SEQS * br_rng_next(&rng));
        add(&run, of[i][0], of[i][1], 1 + i);
        if (i % 25 == 24)
            fx_wait(&run);
    }
    fx_wait(&run);
    for (uint32_t i = 0; i < run.n; i++) {
        fx_same(&want[of[i][0]][of[i][1]], &run.results[i], 0);
        assert_true(run.results[i].cached < shared[of[i][1]] + tails[of[i][1]]);
    }
    br_turn_stats(run.turn, &stats, NULL);
    print_message("seed %lu %s: steps %lu cached %lu of %lu, from the host %lu, swaps %lu/%lu drops %lu kv moved %lu, "
                  "%.2f s\n",
                  (unsigned long)seed, config->policy, (unsigned long)stats.steps, (unsigned long)stats.cached_tokens,
                  (unsigned long)stats.prompt_tokens, (unsigned long)stats.prefixes_in, (unsigned long)stats.swaps_out,
                  (unsigned long)stats.swaps_in, (unsigned long)stats.drops, (unsigned long)stats.kv_moved_bytes,
                  stats.wall_s);
    fx_stop(&run);
    return stats;
}

static void test_preempted(void **state)
{
    struct br_turn_stats sum = {0};
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        struct br_rng rng = {.seed = 300 + i};
        struct br_turn_config config;
        struct br_turn_stats s;
        fx_config(&models, &config);
        config.policy = i % 2 ? "slack" : "quota-rr";
        config.slab_bytes = br_rng_next(&rng) < .5 ? 24 << 10 : 96 << 10;
        config.kv_bytes = (uint64_t)(10 + 10 * br_rng_next(&rng)) * (96 << 10);
        config.device.memory_bytes = models.largest_bytes * 3 / 2 + config.kv_bytes;
        config.host_kv_bytes = br_rng_next(&rng) < .3 ? 4 * config.slab_bytes : 16 << 20;
        config.switch_every_step = i % 3;
        config.quota_max_s = .02;
        config.max_batch = 1 + (uint32_t)(8 * br_rng_next(&rng));
        config.prefill_chunk = 1 + (uint32_t)(40 * br_rng_next(&rng));
        if (i == 2 || i == 5)
            config.device_create = late_device_create;
        late_device_seed(500 + i);
        s = crowd(&config, 300 + i);
        sum.cached_tokens += s.cached_tokens;
        sum.prefixes_in += s.prefixes_in;
        sum.swaps_out += s.swaps_out;
        sum.drops += s.drops;
        sum.kv_moved_bytes += s.kv_moved_bytes;
    }
    assert_true(sum.cached_tokens > 1000 && sum.swaps_out > 100 && sum.drops > 0 && sum.kv_moved_bytes > 0);
    assert_true(sum.prefixes_in > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits_are_counted),       cmocka_unit_test(test_answers_are_known_too),
        cmocka_unit_test(test_models_share_nothing),   cmocka_unit_test(test_salts_share_nothing),
        cmocka_unit_test(test_switched_off),           cmocka_unit_test(test_first_still_prefills),
        cmocka_unit_test(test_cached_blocks_make_way), cmocka_unit_test(test_preempted),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
