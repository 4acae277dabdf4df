/* What does not fit, what goes away, and what is wrong: numbers in the message, and the others go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fixture.h"

static struct fx_models models;
static struct fx_run run;

static int setup(void **state)
{
    (void)state;
    fx_models_open(&models);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fx_models_close(&models);
    return 0;
}

static uint32_t add(uint32_t model, uint32_t k)
{
    struct br_seq_spec spec;
    uint32_t index;
    fx_spec(&models, model, k, &spec);
    index = fx_add(&run, &spec, NULL, 0);
    br_seq_spec_free(&spec);
    return index;
}

static void model_too_large(const char *policy)
{
    struct br_turn_config config;
    char numbers[64];
    fx_config(&models, &config);
    config.policy = policy;
    config.kv_bytes = 0;
    config.slab_bytes = 24 << 10;
    config.device.memory_bytes = models.largest_bytes / config.slab_bytes * config.slab_bytes + config.slab_bytes;
    fx_start(&run, &config, &models, FX_MODELS);
    for (uint32_t i = 0; i < FX_MODELS; i++) {
        const struct br_turn_model_info *info = br_turn_model_info(run.turn, i);
        uint32_t index = add(i, 0);
        fx_wait(&run);
        if (info->weight_bytes < models.largest_bytes) {
            assert_int_not_equal(run.results[index].end, BR_END_FAILED);
            continue;
        }
        snprintf(numbers, sizeof numbers, "weights need %lu bytes", (unsigned long)models.largest_bytes);
        assert_non_null(strstr(info->error, numbers));
        assert_int_equal(run.results[index].end, BR_END_FAILED);
        assert_non_null(strstr(run.results[index].error, numbers));
    }
    fx_stop(&run);
}

static void test_model_too_large(void **state)
{
    (void)state;
    model_too_large("quota-rr");
    model_too_large("slack");
}

static void test_cancelled_within_a_step(void **state)
{
    struct br_turn_config config;
    struct br_seq_spec spec;
    uint32_t index, n;
    (void)state;
    fx_config(&models, &config);
    fx_start(&run, &config, &models, FX_MODELS);
    fx_spec(&models, 3, 0, &spec);
    spec.max_tokens = 150;
    spec.ignore_eos = true;
    index = fx_add(&run, &spec, NULL, 0);
    fx_wait_tokens(&run, index, 3);
    br_turn_cancel(run.turn, spec.id, 0); /* an older fence: ignored */
    fx_wait_tokens(&run, index, 8);
    br_turn_cancel(run.turn, spec.id, 1);
    pthread_mutex_lock(&run.mutex);
    n = run.results[index].n;
    pthread_mutex_unlock(&run.mutex);
    fx_wait(&run);
    assert_int_equal(run.results[index].end, BR_END_CANCELLED);
    assert_true(run.results[index].n >= 8 && run.results[index].n <= n + 1);
    br_seq_spec_free(&spec);
    fx_stop(&run);
}

static uint32_t tokens_of(uint32_t index)
{
    uint32_t n;
    pthread_mutex_lock(&run.mutex);
    n = run.results[index].n;
    pthread_mutex_unlock(&run.mutex);
    return n;
}

/* A paused sequence gets nothing more than what was being computed, while others go on; resumed, it ends. */
static void test_paused(void **state)
{
    struct br_turn_config config;
    struct br_seq_spec spec;
    uint32_t paused, n;
    (void)state;
    fx_config(&models, &config);
    fx_start(&run, &config, &models, FX_MODELS);
    fx_spec(&models, 3, 0, &spec);
    spec.max_tokens = 150;
    spec.ignore_eos = true;
    paused = fx_add(&run, &spec, NULL, 0);
    fx_wait_tokens(&run, paused, 3);
    br_turn_pause(run.turn, spec.id, 0); /* an older fence: ignored */
    fx_wait_tokens(&run, paused, 8);
    br_turn_pause(run.turn, spec.id, 1);
    fx_wait_tokens(&run, add(3, 1), 1); /* whatever came before it has been taken now */
    n = tokens_of(paused);
    assert_true(n < 150);
    fx_wait_tokens(&run, add(3, 2), 160); /* its end */
    fx_wait_tokens(&run, add(0, 2), 160);
    assert_int_equal(tokens_of(paused), n);
    br_turn_resume(run.turn, spec.id, 1);
    fx_wait(&run);
    assert_int_equal(run.results[paused].end, BR_END_LENGTH);
    assert_int_equal(run.results[paused].n, 150);
    br_seq_spec_free(&spec);
    fx_stop(&run);
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A load of half a second: nothing is computed meanwhile, and next to no processor time is used. */
static void test_waits_asleep(void **state)
{
    struct br_turn_config config;
    double from_s, from_cpu_s, took_s;
    (void)state;
    fx_config(&models, &config);
    config.device.link_bytes_per_s = 2 * models.largest_bytes;
    fx_start(&run, &config, &models, FX_MODELS);
    from_s = br_now_s();
    from_cpu_s = cpu_s();
    fx_wait_tokens(&run, add(4, 0), 1);
    took_s = br_now_s() - from_s;
    assert_true(took_s > .45);
    assert_true(cpu_s() - from_cpu_s < .3 * took_s);
    fx_wait(&run);
    fx_stop(&run);
}

/* While one model comes in over a slow link, another one computes. */
static void test_computes_while_loading(void **state)
{
    struct br_turn_config config;
    struct br_turn_stats stats;
    struct br_seq_spec spec;
    uint32_t busy, n;
    (void)state;
    fx_config(&models, &config);
    config.device.link_bytes_per_s = 2 * models.largest_bytes;
    fx_start(&run, &config, &models, FX_MODELS);
    fx_spec(&models, 3, 0, &spec);
    spec.max_tokens = 150;
    spec.ignore_eos = true;
    busy = fx_add(&run, &spec, NULL, 0);
    fx_wait_tokens(&run, busy, 1);
    n = tokens_of(busy);
    fx_wait_tokens(&run, add(4, 0), 1);
    assert_true(tokens_of(busy) > n + 20);
    fx_wait(&run);
    br_turn_stats(run.turn, &stats, NULL);
    assert_true(stats.load_s > .45 && stats.load_s <= stats.wall_s);
    br_seq_spec_free(&spec);
    fx_stop(&run);
}

static void test_forgotten(void **state)
{
    struct br_turn_config config;
    struct br_seq_spec spec;
    (void)state;
    fx_config(&models, &config);
    fx_start(&run, &config, &models, FX_MODELS);
    fx_spec(&models, 3, 0, &spec);
    spec.max_tokens = 150;
    spec.ignore_eos = true;
    fx_wait_tokens(&run, fx_add(&run, &spec, NULL, 0), 3);
    br_turn_forget(run.turn, spec.id);
    br_turn_drain(run.turn);
    pthread_mutex_lock(&run.mutex);
    while (!run.drained)
        pthread_cond_wait(&run.changed, &run.mutex);
    pthread_mutex_unlock(&run.mutex);
    assert_int_equal(run.results[0].end, BR_END_NONE);
    assert_true(run.results[0].n < 150);
    br_seq_spec_free(&spec);
    fx_stop(&run);
}

static void expect_refused(const struct br_seq_spec *spec, const char *why)
{
    uint32_t index = fx_add(&run, spec, NULL, 0);
    fx_wait(&run);
    assert_int_equal(run.results[index].end, BR_END_FAILED);
    if (!strstr(run.results[index].error, why))
        fail_msg("\"%s\" lacks \"%s\"", run.results[index].error, why);
}

static void test_wrong_sequences(void **state)
{
    struct br_turn_config config;
    struct br_seq_spec spec;
    int32_t id;
    (void)state;
    fx_config(&models, &config);
    fx_start(&run, &config, &models, FX_MODELS);
    fx_spec(&models, 0, 0, &spec);
    snprintf(spec.model, sizeof spec.model, "nobody");
    expect_refused(&spec, "nobody");
    snprintf(spec.model, sizeof spec.model, "%s", models.model[0].name);
    spec.id++;
    id = spec.prompt[0];
    spec.prompt[0] = 150;
    expect_refused(&spec, "prompt token 0 is id 150, the model has ids 0..149");
    spec.prompt[0] = id;
    spec.id++;
    spec.prompt = realloc(spec.prompt, 201 * sizeof *spec.prompt);
    for (spec.n_prompt = 0; spec.n_prompt < 201; spec.n_prompt++)
        spec.prompt[spec.n_prompt] = id;
    expect_refused(&spec, "201 prompt and 0 output tokens, the context has 200");
    br_seq_spec_free(&spec);
    add(0, 7);
    fx_wait(&run);
    assert_int_not_equal(run.results[3].end, BR_END_FAILED);
    fx_stop(&run);
}

/* KV of 64 tokens on the device: longer ones are refused with the numbers, shorter ones are served. */
static void never_fits_kv(struct br_turn_config *config, uint64_t block)
{
    struct br_seq_spec spec;
    char numbers[64];
    fx_start(&run, config, &models, 1);
    assert_int_equal(br_turn_model_info(run.turn, 0)->max_context, 64);
    fx_spec(&models, 0, 0, &spec);
    spec.ignore_eos = true;
    spec.max_tokens = 65 - spec.n_prompt;
    snprintf(numbers, sizeof numbers, "65 tokens needs %lu bytes, the device has %lu", (unsigned long)(5 * block),
             (unsigned long)(4 * block));
    expect_refused(&spec, numbers);
    spec.id++;
    spec.max_tokens--;
    fx_add(&run, &spec, NULL, 0);
    fx_wait(&run);
    assert_int_equal(run.results[1].end, BR_END_LENGTH);
    assert_int_equal(run.results[1].n, spec.max_tokens);
    br_seq_spec_free(&spec);
    fx_stop(&run);
}

static void test_never_fits_kv(void **state)
{
    const struct br_model_layout *layout = &models.image[0]->layout;
    uint64_t block = br_kv_block_bytes(&layout->shape, layout->numeric);
    struct br_turn_config config;
    (void)state;
    fx_config(&models, &config);
    config.policy = "quota-rr";
    config.slab_bytes = block;
    config.kv_bytes = 4 * block;
    never_fits_kv(&config, block);
}

/* A policy that plans memory wants KV of 300 tokens beside the weights. A device that can serve nothing does not start.
 */
static void test_no_room_to_grow(void **state)
{
    const struct br_model_layout *layout = &models.image[0]->layout;
    uint64_t block = br_kv_block_bytes(&layout->shape, layout->numeric), weights = br_layout_total_bytes(layout);
    struct br_turn_config config;
    struct br_turn_cb cb = {.ctx = NULL};
    struct br_turn *turn;
    struct br_err err;
    uint32_t served = 0;
    (void)state;
    fx_config(&models, &config);
    config.kv_bytes = 0;
    config.slab_bytes = block;
    for (uint64_t blocks = 17; blocks <= 21; blocks++) {
        uint64_t memory = config.device.memory_bytes = (weights + block - 1) / block * block + blocks * block;
        uint64_t planned = memory - block; /* one slab may be filled in part */
        if (weights + 300 * block / 16 > planned) {
            assert_int_equal(br_turn_create(&config, models.model, 1, &cb, &turn, &err), BR_ENOMEM);
            assert_non_null(strstr(err.msg, "none of 1 models can be served"));
            assert_non_null(strstr(err.msg, "KV of 300 tokens"));
            continue;
        }
        fx_start(&run, &config, &models, 1);
        add(0, 0);
        fx_wait(&run);
        assert_int_not_equal(run.results[0].end, BR_END_FAILED);
        fx_stop(&run);
        served++;
    }
    assert_true(served > 0 && served < 5);
}

static void long_spec(uint32_t k, struct br_seq_spec *out)
{
    fx_spec(&models, 0, k, out);
    out->max_tokens = 110;
    out->ignore_eos = true;
}

/* Eight sequences whose answers outgrow the memory in which their prompts fitted, three at most side by side at their
 * end. Whole ones make way, and one that went does not come back only to push the next one out: the weights never move,
 * and no sequence goes more than twice. */
static void test_outgrown(void **state)
{
    const struct br_model_layout *layout = &models.image[0]->layout;
    uint64_t block = br_kv_block_bytes(&layout->shape, layout->numeric), weights = br_layout_total_bytes(layout);
    static const char *const policies[] = {"slack", "quota-rr"};
    (void)state;
    for (uint32_t p = 0; p < 2; p++) {
        struct br_turn_config config;
        struct br_turn_stats stats;
        struct fx_result want[8];
        for (uint32_t k = 0; k < 8; k++) {
            struct br_seq_spec spec;
            long_spec(k, &spec);
            fx_alone_spec(&models, 0, &spec, &want[k]);
            br_seq_spec_free(&spec);
        }
        fx_config(&models, &config);
        config.policy = policies[p];
        config.kv_bytes = 0;
        config.slab_bytes = block;
        config.device.memory_bytes = (weights + block - 1) / block * block + 28 * block;
        fx_start(&run, &config, &models, 1);
        for (uint32_t k = 0; k < 8; k++) {
            struct br_seq_spec spec;
            long_spec(k, &spec);
            fx_add(&run, &spec, NULL, 0);
            br_seq_spec_free(&spec);
        }
        fx_wait(&run);
        for (uint32_t k = 0; k < 8; k++)
            fx_same(&want[k], &run.results[k], 0);
        br_turn_stats(run.turn, &stats, NULL);
        print_message("%s: %lu steps, %lu swaps out, %lu in, %lu drops\n", policies[p], (unsigned long)stats.steps,
                      (unsigned long)stats.swaps_out, (unsigned long)stats.swaps_in, (unsigned long)stats.drops);
        fx_stop(&run);
        assert_true(stats.swaps_out + stats.drops > 0 && stats.swaps_out + stats.drops <= 16);
        assert_true(stats.loaded_bytes == weights);
    }
}

static void test_context_full(void **state)
{
    struct br_turn_config config;
    struct br_seq_spec spec;
    (void)state;
    fx_config(&models, &config);
    config.max_context = 96;
    fx_start(&run, &config, &models, 1);
    fx_spec(&models, 0, 0, &spec);
    spec.ignore_eos = true;
    spec.max_tokens = 1000;
    fx_add(&run, &spec, NULL, 0);
    fx_wait(&run);
    assert_int_equal(run.results[0].end, BR_END_LENGTH);
    assert_int_equal(run.results[0].n, 96 - spec.n_prompt);
    br_seq_spec_free(&spec);
    fx_stop(&run);
}

static void test_drained(void **state)
{
    struct br_turn_config config;
    (void)state;
    fx_config(&models, &config);
    fx_start(&run, &config, &models, FX_MODELS);
    add(0, 0);
    add(1, 1);
    br_turn_drain(run.turn);
    add(2, 2);
    fx_wait(&run);
    pthread_mutex_lock(&run.mutex);
    while (!run.drained)
        pthread_cond_wait(&run.changed, &run.mutex);
    pthread_mutex_unlock(&run.mutex);
    assert_int_not_equal(run.results[0].end, BR_END_FAILED);
    assert_int_not_equal(run.results[1].end, BR_END_FAILED);
    assert_int_equal(run.results[2].end, BR_END_FAILED);
    fx_stop(&run);
}

static void test_profile(void **state)
{
    struct br_turn_config config;
    (void)state;
    fx_config(&models, &config);
    config.no_profile = false;
    config.device.memory_bytes = models.largest_bytes * 3 / 2 + config.kv_bytes;
    config.device.link_bytes_per_s = 100000000;
    fx_start(&run, &config, &models, FX_MODELS);
    for (uint32_t i = 0; i < FX_MODELS; i++) {
        const struct br_turn_model_info *info = br_turn_model_info(run.turn, i);
        assert_true(info->step_s > 0 && info->step_s < 1);
        assert_true(info->load_s == (double)info->weight_bytes / 1e8);
    }
    add(1, 0);
    fx_wait(&run);
    assert_int_not_equal(run.results[0].end, BR_END_FAILED);
    fx_stop(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_too_large), cmocka_unit_test(test_cancelled_within_a_step),
        cmocka_unit_test(test_forgotten),       cmocka_unit_test(test_paused),
        cmocka_unit_test(test_waits_asleep),    cmocka_unit_test(test_computes_while_loading),
        cmocka_unit_test(test_wrong_sequences), cmocka_unit_test(test_never_fits_kv),
        cmocka_unit_test(test_no_room_to_grow), cmocka_unit_test(test_context_full),
        cmocka_unit_test(test_outgrown),        cmocka_unit_test(test_drained),
        cmocka_unit_test(test_profile),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
