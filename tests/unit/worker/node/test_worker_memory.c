/* What can go wrong with memory while a worker serves: bits that flip in the host cache, model files that change, a
 * cache that holds too little. Whatever can be read again is; what cannot ends its own model's sequences alone. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/cmocka.h"
#include "tests/unit/worker/node/node_rig.h"

enum { STORIES = 3, TINY = 4, KINDS = 2, ROUNDS = 3 };

static struct fx_models models;
static struct fx_result want[KINDS];
static struct br_seq_spec specs[KINDS];
static char copy[64]; /* of the first model's folder */

/* $COPY is the copy of the folder, $FROM the folder. */
static void shell(const char *command)
{
    setenv("COPY", copy, 1);
    setenv("FROM", models.folder[STORIES], 1);
    assert_int_equal(system(command), 0);
}

/* Two models, memory for the larger one: each comes in where the other goes out. */
static void memory_open(struct rig *r, struct br_worker_config *c, struct br_worker_model list[KINDS])
{
    rig_config(r, c);
    list[0] = (struct br_worker_model){.name = "tiny-qwen2", .dir = models.folder[TINY]}; /* is cached first */
    list[1] = (struct br_worker_model){.name = "stories", .dir = copy};
    c->models = list;
    c->n_models = KINDS;
    c->memory_bytes = br_layout_total_bytes(&models.image[TINY]->layout) + (512 << 10);
    c->host_kv_bytes = 4 << 20;
    c->verify_after_s = 0;
}

/* Sequence i, of one kind, from beginning to end. */
static struct fx_result *ask(struct rig *r, uint32_t i, uint32_t kind)
{
    specs[kind].id = 100 + i;
    rig_assign(r, i, &specs[kind], 0, 0);
    RIG_UNTIL(r, r->results[i].end != BR_END_NONE);
    return &r->results[i];
}

static void ask_all(struct rig *r, uint32_t from)
{
    for (uint32_t i = 0; i < KINDS * ROUNDS; i++)
        fx_same(&want[i % KINDS], ask(r, from + i, i % KINDS), 0);
}

/* Flips a bit in every 50 KB of a file, behind the first 16. */
static void flip(const char *dir, const char *name)
{
    char path[300];
    struct stat sb;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &sb) == 0);
    for (off_t at = 16 << 10; at < sb.st_size; at += 50000) {
        unsigned char byte;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 8;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
}

static void flipped_bits_are_repaired_and_no_id_changes(void **state)
{
    static struct rig r;
    struct br_worker_model list[KINDS];
    struct br_worker_config c;
    (void)state;
    memory_open(&r, &c, list);
    rig_open(&r, &c);
    ask_all(&r, 0);
    flip(r.cache, "stories.weights");
    ask_all(&r, KINDS * ROUNDS);
    rig_reported(&r, 0);
    assert_true(r.devices[0].transfers.cache_repaired >= 2);
    assert_int_equal(r.devices[0].transfers.cache_failures, 0);
    rig_close(&r);
}

/* In place, where units are read from disk whenever they are needed; and in the end the file is as it was. */
static void a_file_that_is_written_to_harms_its_own_model_only(void **state)
{
    static struct rig r;
    struct br_worker_model list[KINDS];
    struct br_worker_config c;
    struct fx_result *got;
    (void)state;
    memory_open(&r, &c, list);
    c.host_cache_bytes = br_layout_total_bytes(&models.image[TINY]->layout) + (600 << 10);
    rig_open(&r, &c);
    ask_all(&r, 0);
    rig_reported(&r, 0);
    assert_true(r.devices[0].transfers.cache_misses > 0);
    flip(copy, "model.safetensors");
    got = ask(&r, 6, 0);
    assert_int_equal(got->end, BR_END_FAILED);
    assert_non_null(strstr(got->error, "model.safetensors"));
    fx_same(&want[1], ask(&r, 7, 1), 0);
    got = ask(&r, 8, 0);
    assert_int_equal(got->end, BR_END_FAILED); /* at once, and with the same reason */
    assert_non_null(strstr(got->error, "model.safetensors"));
    fx_same(&want[1], ask(&r, 9, 1), 0);
    rig_close(&r);
    flip(copy, "model.safetensors");
}

/* Put in its place by rename: the worker goes on with the file that it has open. */
static void a_file_that_is_replaced_does_not_matter(void **state)
{
    static struct rig r;
    struct br_worker_model list[KINDS];
    struct br_worker_config c;
    (void)state;
    memory_open(&r, &c, list);
    c.host_cache_bytes = br_layout_total_bytes(&models.image[TINY]->layout) + (600 << 10);
    rig_open(&r, &c);
    shell("cp \"$COPY/model.safetensors\" \"$COPY/model.next\"");
    flip(copy, "model.next");
    shell("mv \"$COPY/model.next\" \"$COPY/model.safetensors\"");
    ask_all(&r, 0);
    rig_reported(&r, 0);
    assert_true(r.devices[0].transfers.cache_misses > 0);
    rig_close(&r);
    flip(copy, "model.safetensors");
}

/* Host copies of weights that are on the device make room for others: fewer units come from disk than without. */
static void weights_on_the_device_give_up_their_host_copy(void **state)
{
    static struct rig r;
    struct br_worker_model list[KINDS];
    struct br_worker_config c;
    uint64_t larger = br_layout_total_bytes(&models.image[TINY]->layout);
    (void)state;
    memory_open(&r, &c, list);
    c.host_cache_bytes = larger + (600 << 10);
    c.drop_host_copies = true;
    rig_open(&r, &c);
    ask_all(&r, 0);
    rig_reported(&r, 0);
    assert_true(r.devices[0].transfers.cache_dropped_bytes > 0);
    assert_true(r.devices[0].transfers.cache_bytes <= r.devices[0].transfers.cache_limit_bytes);
    assert_int_equal(r.devices[0].transfers.cache_limit_bytes, c.host_cache_bytes);
    rig_close(&r);
}

/* Before any thread runs here: workers are forked from this process. */
static int setup(void **state)
{
    (void)state;
    fx_models_open(&models);
    for (uint32_t k = 0; k < KINDS; k++) {
        fx_alone(&models, STORIES + k, 1, &want[k]);
        fx_spec(&models, STORIES + k, 1, &specs[k]);
    }
    snprintf(copy, sizeof copy, "/tmp/briareus-copy-XXXXXX");
    assert_non_null(mkdtemp(copy));
    shell("cp \"$FROM\"/*.* \"$COPY\" && chmod u+w \"$COPY\"/*");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < KINDS; k++)
        br_seq_spec_free(&specs[k]);
    fx_models_close(&models);
    shell("rm -rf \"$COPY\"");
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flipped_bits_are_repaired_and_no_id_changes),
        cmocka_unit_test(a_file_that_is_written_to_harms_its_own_model_only),
        cmocka_unit_test(a_file_that_is_replaced_does_not_matter),
        cmocka_unit_test(weights_on_the_device_give_up_their_host_copy),
    };
    if (argc > 1 && strcmp(argv[1], BR_WORKER_DEVICE_PROCESS) == 0)
        return br_worker_device_process(argc, argv);
    return cmocka_run_group_tests(tests, setup, teardown);
}
