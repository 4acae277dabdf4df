/* A plan comes out of the memory file as it went in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/node/plan.h"

static void test_round_trip(void **state)
{
    struct br_worker_model models[] = {
        {.name = "a/b \"x\"", .dir = "/models/ä"}, {.name = "c", .dir = "/models/c"}, {.name = "d"}};
    struct node_image images[] = {{(char *)"/dev/shm/a", NULL}, {NULL, (char *)"no\nweights"}, {NULL, NULL}};
    struct br_model_entry outline = {.name = "d", .context = 4096, .tokenizer = (char *)"/t/tokenizer.json"};
    struct br_model_size size;
    struct node_plan plan = {.images = images, .device = 3, .parent = 4711}, back;
    struct br_err err;
    int fd;
    (void)state;
    br_worker_config_init(&plan.config);
    plan.config.node = "n1";
    plan.config.scheduler = "unix:/x";
    plan.config.models = models;
    plan.config.n_models = 3;
    assert_int_equal(br_catalogue_find("Qwen3-30B-A3B", &size, &err), 0);
    br_footprint_init(&outline.footprint, &size, BR_WEIGHTS_INT4, BR_KV_FP8);
    models[2].outline = &outline;
    plan.config.tensor_parallel = 4;
    plan.config.speed = 12.5;
    plan.config.memory_bytes = 1ull << 40;
    plan.config.quota_max_s = 2.5;
    plan.config.kv_disk = "/x/kv";
    plan.config.kv_disk_bytes = 1 << 20;
    plan.config.devices = 4;
    plan.config.prefix_cache = false;
    plan.config.hysteresis = .25;
    plan.config.load_chunk_bytes = 77;
    plan.config.switch_every_step = true;
    plan.config.numeric = BR_NUMERIC_F32;
    plan.spent.disk_bytes = (1ull << 40) + 1;
    plan.spent.disk_s = 1.25;
    plan.parcels = plan.config.huge_pages = true;
    assert_int_equal(node_plan_write(&plan, &fd, &err), 0);
    assert_int_equal(node_plan_read(fd, &back, &err), 0);
    close(fd);
    assert_int_equal(back.device, 3);
    assert_int_equal(back.parent, 4711);
    assert_string_equal(back.config.models[0].name, "a/b \"x\"");
    assert_string_equal(back.config.models[0].dir, "/models/ä");
    assert_string_equal(back.images[0].path, "/dev/shm/a");
    assert_null(back.images[0].error);
    assert_null(back.images[1].path);
    assert_string_equal(back.images[1].error, "no\nweights");
    assert_null(back.config.token);
    assert_int_equal(back.config.memory_bytes, 1ull << 40);
    assert_true(back.config.quota_max_s == 2.5 && back.config.switch_every_step);
    assert_true(back.config.hysteresis == .25 && back.config.load_chunk_bytes == 77);
    assert_int_equal(back.config.numeric, BR_NUMERIC_F32);
    assert_int_equal(back.spent.disk_bytes, (1ull << 40) + 1);
    assert_true(back.spent.disk_s == 1.25);
    assert_true(back.parcels && back.config.huge_pages);
    assert_int_equal(back.spent.checked_bytes, 0);
    assert_string_equal(back.config.kv_disk, "/x/kv");
    assert_int_equal(back.kv_disk_bytes, 1 << 18);
    assert_int_equal(back.kv_disk_offset, 4096 + 3 * (1 << 18));
    assert_false(back.config.prefix_cache);
    assert_int_equal(back.config.max_context, plan.config.max_context);
    assert_int_equal(back.config.tensor_parallel, 4);
    assert_true(back.config.speed == 12.5);
    assert_null(back.config.models[0].outline);
    assert_null(back.config.models[2].dir);
    assert_string_equal(back.config.models[2].outline->tokenizer, "/t/tokenizer.json");
    assert_int_equal(back.config.models[2].outline->context, 4096);
    assert_true(back.config.models[2].outline->footprint.weight_bytes == outline.footprint.weight_bytes);
    assert_true(back.config.models[2].outline->footprint.kv_bytes_per_token == outline.footprint.kv_bytes_per_token);
    assert_int_equal(back.config.models[2].outline->footprint.size.experts_active, 8);
    node_plan_free(&back);
}

static void test_damaged(void **state)
{
    static const char *const bad[] = {"", "{", "[]", "{\"device\":1}"};
    struct node_plan back;
    struct br_err err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int fd = memfd_create("bad", 0);
        assert_int_equal(write(fd, bad[i], strlen(bad[i])), strlen(bad[i]));
        assert_int_equal(node_plan_read(fd, &back, &err), BR_ECORRUPT);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
