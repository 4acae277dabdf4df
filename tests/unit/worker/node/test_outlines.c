/* Models without weights in a worker: what fits, how memory is divided, what is refused. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/node/outline.h"

struct rig {
    struct br_model_entry entries[2];
    struct br_worker_model models[2];
    struct node_image images[2];
    struct br_worker_config config;
};

static void model(struct rig *r, uint32_t i, const char *name, const char *catalogue, enum br_weight_format weights)
{
    struct br_model_size size;
    struct br_err err;
    assert_int_equal(br_catalogue_find(catalogue, &size, &err), 0);
    r->entries[i] = (struct br_model_entry){.context = 4096};
    snprintf(r->entries[i].name, sizeof r->entries[i].name, "%s", name);
    br_footprint_init(&r->entries[i].footprint, &size, weights, BR_KV_BF16);
    r->models[i] = (struct br_worker_model){.name = r->entries[i].name, .outline = &r->entries[i]};
}

/* Two models, as br_worker_config_check sees them. */
static void rig_init(struct rig *r, enum br_weight_format first, enum br_weight_format second)
{
    memset(r, 0, sizeof *r);
    model(r, 0, "a", "Qwen2.5-72B", first);
    model(r, 1, "b", "Qwen2.5-72B", second);
    br_worker_config_init(&r->config);
    r->config.node = "n";
    r->config.scheduler = "unix:/x";
    r->config.models = r->models;
    r->config.n_models = 2;
    r->config.device_kind = "sim:h20";
    r->config.kv_bytes = 0;
}

static void check(const struct br_worker_config *config, int code, const char *says)
{
    struct br_err err = {0};
    if (br_worker_config_check(config, &err) != code || (says && !strstr(err.msg, says)))
        fail_msg("%d: %s", err.code, err.msg);
}

/* .9 of 96 GB less 1 GB are 85.4 GB: two models of 41.5 GB are resident, the rest is for KV. */
static void test_split(void **state)
{
    struct rig r;
    uint64_t weights;
    (void)state;
    rig_init(&r, BR_WEIGHTS_INT4, BR_WEIGHTS_INT4);
    check(&r.config, 0, NULL);
    node_outlines_settle(&r.config, r.images);
    assert_true(r.config.memory_bytes > 85400000000 - 4096 && r.config.memory_bytes <= 85400000000);
    weights = r.config.memory_bytes - r.config.kv_bytes;
    assert_true((double)weights >= 2 * r.entries[0].footprint.weight_bytes);
    assert_true((double)weights < 2 * r.entries[0].footprint.weight_bytes + 1e6);
    assert_null(r.images[0].error);
    assert_null(r.images[1].error);
    model(&r, 1, "b", "Qwen2.5-7B", BR_WEIGHTS_BF16); /* all fit together: no more than they need */
    r.config.kv_bytes = 0;
    node_outlines_settle(&r.config, r.images);
    weights = r.config.memory_bytes - r.config.kv_bytes;
    assert_true((double)weights >= r.entries[0].footprint.weight_bytes + r.entries[1].footprint.weight_bytes);
    assert_true((double)weights < r.entries[0].footprint.weight_bytes + r.entries[1].footprint.weight_bytes + 1e6);
}

static void test_group_and_options(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, BR_WEIGHTS_BF16, BR_WEIGHTS_BF16); /* 145 GB each: 2 GPUs hold one, 4 hold two */
    r.config.tensor_parallel = 2;
    node_outlines_settle(&r.config, r.images);
    assert_true(r.config.memory_bytes > 2 * 85400000000 - 4096);
    assert_true((double)r.config.kv_bytes > 2 * 85.4e9 - 146e9 && (double)r.config.kv_bytes < 2 * 85.4e9 - 145e9);
    rig_init(&r, BR_WEIGHTS_INT4, BR_WEIGHTS_INT4);
    r.config.memory_bytes = 60000000000;
    r.config.kv_bytes = 10000000000;
    node_outlines_settle(&r.config, r.images);
    assert_int_equal(r.config.kv_bytes, 10000000000);
    assert_true(r.config.memory_bytes <= 60000000000);
}

/* 72.7e9 parameters in 16 bits are 145.4 GB. */
static void test_too_large(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, BR_WEIGHTS_BF16, BR_WEIGHTS_BF16);
    check(&r.config, BR_EINVAL, "none of 2 models can be served; the first: a has 145.4 GB of weights, 1 x H20");
    r.config.n_models = 1;
    check(&r.config, BR_EINVAL, "a has 145.4 GB of weights, 1 x H20 has room for 83.3 GB of them (85.4 GB in all");
    rig_init(&r, BR_WEIGHTS_BF16, BR_WEIGHTS_INT4);
    check(&r.config, 0, NULL); /* the other one is served */
    node_outlines_settle(&r.config, r.images);
    assert_non_null(strstr(r.images[0].error, "145.4 GB"));
    assert_null(r.images[1].error);
    free(r.images[0].error);
}

static void test_refused(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, BR_WEIGHTS_INT4, BR_WEIGHTS_INT4);
    r.config.device_kind = "sim:h21";
    check(&r.config, BR_EINVAL, "did you mean 'H20'");
    r.config.device_kind = "tpu";
    check(&r.config, BR_EINVAL, "device: 'tpu' is not built in");
    r.config.device_kind = "cpu";
    check(&r.config, BR_EINVAL, "model a has a shape but no weights");
    r.config.speed = 2;
    check(&r.config, BR_EINVAL, "speed: only with --device sim:GPU");
    r.config.device_kind = "sim:h20";
    r.config.speed = 1e9;
    check(&r.config, BR_EINVAL, "speed: 1e+09 is not from 0.01 to 1000");
    r.config.speed = 1;
    r.config.tensor_parallel = 6;
    check(&r.config, BR_EINVAL, "tensor-parallel-size: 6 is none of 1, 2, 4, 8");
    r.config.tensor_parallel = 8;
    model(&r, 0, "a", "Qwen2.5-7B", BR_WEIGHTS_INT4); /* 28 heads */
    model(&r, 1, "b", "Qwen2.5-7B", BR_WEIGHTS_INT4);
    check(&r.config, BR_EINVAL, "divide the 28 heads");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_group_and_options),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
