/* KV on disk: what comes back is what went, or it is noticed and computed again; whatever the disk does, sequences give
 * the tokens that they give alone. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "fixture.h"
#include "worker/turn/kv_disk.h"

enum { SEQS = 8, BLOCK = 4096, BLOCKS = 64 };

static struct fx_models models;
static struct fx_result want[FX_MODELS][SEQS];
static char path[128];

static int setup(void **state)
{
    (void)state;
    fx_models_open(&models);
    snprintf(path, sizeof path, "%s/kv", models.dir);
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

/* ---- the file alone ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void on_done(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static struct kv_disk_job job_run(struct kv_disk *disk, bool write, const struct br_kv_copy *copies, uint32_t n)
{
    struct kv_disk_job job = {.write = write, .copies = copies, .n = n, .block_bytes = BLOCK};
    pthread_mutex_lock(&mutex);
    kv_disk_start(disk, &job);
    while (!kv_disk_done(&job))
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return job;
}

static struct kv_disk *disk_open(const char *file, unsigned char *host)
{
    struct kv_disk_config config = {.path = file,
                                    .offset = 3 * BLOCK,
                                    .bytes = BLOCKS * BLOCK,
                                    .least_block = BLOCK,
                                    .host = host,
                                    .done = on_done};
    struct kv_disk *disk;
    struct br_err err;
    if (kv_disk_open(&config, &disk, &err))
        fail_msg("%s", err.msg);
    return disk;
}

static void flip(uint64_t byte, unsigned bit)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    unsigned char c;
    assert_int_equal(pread(fd, &c, 1, (off_t)byte), 1);
    c ^= (unsigned char)(1u << bit);
    assert_int_equal(pwrite(fd, &c, 1, (off_t)byte), 1);
    close(fd);
}

/* Two runs of blocks; one bit anywhere in them is found, and only by who reads that block. */
static void test_any_flipped_bit_is_found(void **state)
{
    static unsigned char host[BLOCKS * BLOCK], was[BLOCKS * BLOCK];
    const struct br_kv_copy copies[] = {{.host = BLOCK, .disk = 7 * BLOCK, .bytes = 5 * BLOCK},
                                        {.host = 20 * BLOCK, .disk = 0, .bytes = 2 * BLOCK}};
    struct br_rng rng = {.seed = 5};
    struct kv_disk *disk = disk_open(path, host);
    (void)state;
    for (size_t i = 0; i < sizeof host; i++)
        host[i] = (unsigned char)(256 * br_rng_next(&rng));
    memcpy(was, host, sizeof host);
    assert_int_equal(job_run(disk, true, copies, 2).rc, 0);
    for (int i = 0; i < 20; i++) {
        uint64_t byte = 3 * BLOCK + copies[0].disk + (uint64_t)(5 * BLOCK * br_rng_next(&rng));
        unsigned bit = (unsigned)(8 * br_rng_next(&rng));
        struct kv_disk_job job;
        memset(host, 0, sizeof host);
        assert_int_equal(job_run(disk, false, copies, 2).rc, 0);
        assert_memory_equal(host + BLOCK, was + BLOCK, 5 * BLOCK);
        assert_memory_equal(host + 20 * BLOCK, was + 20 * BLOCK, 2 * BLOCK);
        flip(byte, bit);
        job = job_run(disk, false, copies, 2);
        assert_int_equal(job.rc, BR_ECORRUPT);
        assert_non_null(strstr(job.err.msg, path));
        assert_int_equal(job_run(disk, false, copies + 1, 1).rc, 0);
        flip(byte, bit);
    }
    kv_disk_close(disk);
}

static void test_errors_say_what_and_where(void **state)
{
    static unsigned char host[BLOCKS * BLOCK];
    const struct br_kv_copy copy = {.host = 0, .disk = 0, .bytes = BLOCK};
    struct kv_disk_config config = {.path = "/nowhere/kv", .bytes = BLOCK, .least_block = BLOCK};
    struct kv_disk *disk = disk_open("/dev/full", host);
    struct kv_disk_job job = job_run(disk, true, &copy, 1);
    struct br_err err;
    (void)state;
    assert_int_equal(job.rc, BR_EIO);
    assert_non_null(strstr(job.err.msg, "/dev/full"));
    assert_non_null(strstr(job.err.msg, strerror(ENOSPC)));
    kv_disk_close(disk);
    disk = disk_open(path, host);
    assert_int_equal(job_run(disk, true, &copy, 1).rc, 0);
    assert_int_equal(truncate(path, 100), 0);
    job = job_run(disk, false, &copy, 1);
    assert_int_equal(job.rc, BR_EIO);
    assert_non_null(strstr(job.err.msg, path));
    kv_disk_close(disk);
    assert_int_equal(kv_disk_open(&config, &disk, &err), BR_EIO);
    assert_non_null(strstr(err.msg, "/nowhere/kv"));
    config.bytes = BLOCK - 1;
    assert_int_equal(kv_disk_open(&config, &disk, &err), BR_EINVAL);
}

/* ---- sequences ---- */

/* Little device memory, host memory for a sequence or two, another model after every step. */
static void config_set(struct br_turn_config *config, const char *policy, const char *file)
{
    fx_config(&models, config);
    config->policy = policy;
    config->slab_bytes = 96 << 10;
    config->kv_bytes = 10 * config->slab_bytes;
    config->device.memory_bytes = models.largest_bytes * 3 / 2 + config->kv_bytes;
    config->host_kv_bytes = 4 * config->slab_bytes;
    config->kv_disk_path = file;
    config->kv_disk_bytes = 64 * config->slab_bytes;
    config->kv_disk_offset = 3 * config->slab_bytes;
    config->switch_every_step = true;
    config->quota_max_s = .02;
    config->max_batch = 8;
    config->prefill_chunk = 32;
}

static struct br_turn_stats run_all(const struct br_turn_config *config)
{
    static struct fx_run run;
    struct br_turn_stats s;
    struct br_seq_spec spec;
    fx_start(&run, config, &models, FX_MODELS);
    for (uint32_t k = 0; k < SEQS; k++)
        for (uint32_t m = 0; m < FX_MODELS; m++) {
            fx_spec(&models, m, k, &spec);
            fx_add(&run, &spec, NULL, 0);
            br_seq_spec_free(&spec);
        }
    fx_wait(&run);
    for (uint32_t i = 0; i < run.n; i++)
        fx_same(&want[i % FX_MODELS][i / FX_MODELS], &run.results[i], 0);
    br_turn_stats(run.turn, &s, NULL);
    print_message("%s: steps %lu swaps %lu/%lu disk %lu/%lu bytes, failed %lu damaged %lu, drops %lu, %.2f s\n",
                  config->policy, (unsigned long)s.steps, (unsigned long)s.swaps_out, (unsigned long)s.swaps_in,
                  (unsigned long)s.kv_disk_out_bytes, (unsigned long)s.kv_disk_in_bytes,
                  (unsigned long)s.kv_disk_failures, (unsigned long)s.kv_disk_damaged, (unsigned long)s.drops,
                  s.wall_s);
    fx_stop(&run);
    return s;
}

/* What went to disk is not computed again. */
static void test_beyond_the_host(void **state)
{
    static const char *const policies[] = {"slack", "quota-rr"};
    (void)state;
    for (uint32_t p = 0; p < 2; p++) {
        struct br_turn_config config;
        struct br_turn_stats without, with;
        config_set(&config, policies[p], path);
        with = run_all(&config);
        config.kv_disk_bytes = 0;
        without = run_all(&config);
        assert_true(with.kv_disk_out_bytes > 0 && with.kv_disk_in_bytes > 0 && with.kv_disk_failures == 0);
        assert_true(with.drops < without.drops);
        assert_int_equal(without.kv_disk_out_bytes, 0);
    }
}

/* Half of what goes beyond the host finds no room on disk either. */
static void test_disk_too_small(void **state)
{
    struct br_turn_config config;
    struct br_turn_stats stats;
    (void)state;
    config_set(&config, "slack", path);
    config.kv_disk_bytes = 4 * config.slab_bytes;
    stats = run_all(&config);
    assert_true(stats.kv_disk_out_bytes > 0 && stats.drops > 0);
}

static void test_disk_full(void **state)
{
    static const char *const policies[] = {"slack", "quota-rr"};
    (void)state;
    for (uint32_t p = 0; p < 2; p++) {
        struct br_turn_config config;
        struct br_turn_stats stats;
        config_set(&config, policies[p], "/dev/full");
        stats = run_all(&config);
        assert_true(stats.kv_disk_failures > 0 && stats.kv_disk_in_bytes == 0);
    }
}

static bool flipping;

static void *flip_all_the_time(void *arg)
{
    struct br_rng rng = {.seed = 3};
    const struct br_turn_config *config = arg;
    while (__atomic_load_n(&flipping, __ATOMIC_RELAXED)) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        off_t at = (off_t)(config->kv_disk_offset + (uint64_t)(8 * (double)config->slab_bytes * br_rng_next(&rng)));
        unsigned char c;
        if (fd >= 0 && pread(fd, &c, 1, at) == 1) {
            c ^= (unsigned char)(1u << (unsigned)(8 * br_rng_next(&rng)));
            (void)!pwrite(fd, &c, 1, at);
        }
        if (fd >= 0)
            close(fd);
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL); /* a few bits, not all of them */
    }
    return NULL;
}

/* Bits of the file flip while sequences' KV is in it, again and again until one was hit: nobody's tokens change. */
static void test_bits_flip_under_sequences(void **state)
{
    static const char *const policies[] = {"slack", "quota-rr"};
    (void)state;
    for (uint32_t p = 0; p < 2; p++) {
        struct br_turn_config config;
        struct br_turn_stats stats = {0};
        config_set(&config, policies[p], path);
        for (int i = 0; i < 20 && stats.kv_disk_damaged == 0; i++) {
            pthread_t thread;
            flipping = true;
            assert_int_equal(pthread_create(&thread, NULL, flip_all_the_time, &config), 0);
            stats = run_all(&config);
            __atomic_store_n(&flipping, false, __ATOMIC_RELAXED);
            pthread_join(thread, NULL);
        }
        assert_true(stats.kv_disk_damaged > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_flipped_bit_is_found),
        cmocka_unit_test(test_errors_say_what_and_where),
        cmocka_unit_test(test_beyond_the_host),
        cmocka_unit_test(test_disk_too_small),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_bits_flip_under_sequences),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
