/* The host cache: what it holds, streams, repairs, drops and gives back. Every unit is held against the one that was
 * packed from the folder by itself. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/unit/worker/weights/store_fixture.h"

static void close_both(struct br_weight_image *image, struct br_weight_store *store)
{
    br_weight_image_close(image);
    br_weight_store_close(store);
}

/* Where the file has a unit: units lie on pages, one behind the other. */
static uint64_t image_offset(const struct store_fixture *f, uint32_t unit)
{
    return br_image_header_bytes(SF_UNITS) + sf_span(f, unit);
}

static uint64_t file_size(const char *path)
{
    struct stat sb;
    assert_int_equal(stat(path, &sb), 0);
    return (uint64_t)sb.st_size;
}

/* Until what came through the ring has been kept, or not. */
static void lease_settle(struct br_weight_store *store)
{
    pthread_mutex_lock(&store->lock);
    while (store->running)
        pthread_cond_wait(&store->changed, &store->lock);
    pthread_mutex_unlock(&store->lock);
}

static void limit_is_kept_and_the_rest_streams(void **state)
{
    struct store_fixture f;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct br_weight_stats stats;
    uint64_t limit;
    (void)state;
    sf_make(&f, 0);
    store = sf_supervise(&f, sf_span(&f, 3) + 100, &image);
    for (uint32_t u = 0; u < SF_UNITS; u++)
        assert_int_equal(br_weight_image_has(image, u), u < 3);
    assert_int_equal(br_weight_store_used(store, &limit), sf_span(&f, 3));
    assert_int_equal(limit, sf_span(&f, 3) + 100);
    close_both(image, store);
    sf_device_config(&f, &config);
    store = sf_device(&config, &f, &image);
    for (int round = 0; round < 3; round++)
        for (uint32_t u = 0; u < SF_UNITS; u++)
            sf_use(&f, image, u);
    br_weight_store_stats(store, &stats);
    assert_int_equal(stats.hits, 3 * 3);
    assert_int_equal(stats.misses, 3 * 3);
    assert_true(stats.disk_bytes > 0 && stats.wait_s > 0);
    assert_int_equal(stats.filled, 0); /* no room */
    close_both(image, store);
    sf_free(&f);
}

struct waiter {
    const struct store_fixture *f;
    struct br_lease *lease[2 * SF_UNITS];
};

/* As a stream does: waits for each, copies, releases. */
static void *stream(void *arg)
{
    struct waiter *w = arg;
    for (uint32_t i = 0; i < 2 * SF_UNITS; i++) {
        assert_int_equal(br_lease_wait(w->lease[i]), 0);
        sf_same(w->f, i % SF_UNITS, br_lease_data(w->lease[i]));
        br_lease_release(w->lease[i]);
    }
    return NULL;
}

/* Twelve leases at once over a ring of two slots: slots are used again only when they were given back. */
static void ring_slots_are_used_again_in_order(void **state)
{
    struct store_fixture f;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct waiter w = {.f = &f};
    pthread_t thread;
    (void)state;
    sf_make(&f, 0);
    sf_build(&f, 4096); /* room for no unit but the last */
    sf_device_config(&f, &config);
    config.staging_bytes = 2 * ((br_layout_unit_bytes(&f.layout, 5) + 4095) / 4096 * 4096);
    store = sf_device(&config, &f, &image);
    assert_int_equal(store->n_slots, 2);
    for (uint32_t i = 0; i < 2 * SF_UNITS; i++)
        w.lease[i] = br_lease_acquire(image, i % SF_UNITS);
    assert_int_equal(pthread_create(&thread, NULL, stream, &w), 0);
    pthread_join(thread, NULL);
    close_both(image, store);
    sf_free(&f);
}

static void staging_too_small_is_told_with_numbers(void **state)
{
    struct store_fixture f;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct br_lease *lease;
    struct br_err err;
    char number[32];
    (void)state;
    sf_make(&f, 0);
    sf_build(&f, sf_span(&f, 2));
    sf_device_config(&f, &config);
    config.staging_bytes = 8192;
    store = sf_device(&config, &f, &image);
    assert_true(br_weight_image_failed(image, &err));
    snprintf(number, sizeof number, "%d", 2 * (int)((br_layout_unit_bytes(&f.layout, 5) + 4095) / 4096 * 4096));
    assert_non_null(strstr(err.msg, "8192 bytes of staging"));
    assert_non_null(strstr(err.msg, number));
    assert_non_null(strstr(err.msg, "host-staging"));
    sf_use(&f, image, 0); /* what is cached can be had all the same */
    lease = br_lease_acquire(image, 5);
    assert_true(br_lease_wait(lease) < 0);
    br_lease_release(lease);
    close_both(image, store);
    sf_free(&f);
}

static void restart_verifies_and_reads_nothing(void **state)
{
    struct store_fixture f;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct br_weight_stats stats;
    const char *path;
    (void)state;
    sf_make(&f, 0);
    path = sf_build(&f, 0);
    store = sf_supervise(&f, 0, &image);
    br_weight_store_stats(store, &stats);
    assert_int_equal(stats.disk_bytes, 0);
    assert_int_equal(stats.checked_bytes, br_layout_total_bytes(&f.layout));
    close_both(image, store);
    sf_flip(path, image_offset(&f, 2) + 1000);
    store = sf_supervise(&f, 0, &image); /* that unit is read again, the others are not */
    br_weight_store_stats(store, &stats);
    assert_int_equal(stats.filled_bytes, br_layout_unit_bytes(&f.layout, 2));
    for (uint32_t u = 0; u < SF_UNITS; u++)
        sf_same(&f, u, br_weight_image_unit(image, u));
    close_both(image, store);
    sf_free(&f);
}

/* A bit that flips while the cache is in use is found before the unit's next use, if that is not at once. */
static void flipped_bit_is_repaired_before_use(void **state)
{
    struct store_fixture f;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct br_weight_stats stats;
    const char *path;
    (void)state;
    sf_make(&f, 0);
    path = sf_build(&f, 0);
    sf_device_config(&f, &config);
    config.recheck_s = 0;
    store = sf_device(&config, &f, &image);
    for (uint32_t u = 0; u < SF_UNITS; u++) {
        sf_flip(path, image_offset(&f, u) + 77);
        sf_use(&f, image, u);
        sf_use(&f, image, u);
    }
    br_weight_store_stats(store, &stats);
    assert_int_equal(stats.repaired, SF_UNITS);
    assert_int_equal(stats.failures, 0);
    close_both(image, store);
    assert_int_equal(br_weight_image_attach(path, &image, &(struct br_err){0}), 0); /* it is right in the file too */
    br_weight_image_close(image);
    sf_free(&f);
}

static void no_recheck_within_the_time(void **state)
{
    struct store_fixture f;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct br_weight_stats stats;
    (void)state;
    sf_make(&f, 0);
    sf_build(&f, 0);
    sf_device_config(&f, &config);
    config.recheck_s = 1e6;
    store = sf_device(&config, &f, &image);
    for (uint32_t u = 0; u < SF_UNITS; u++)
        sf_use(&f, image, u);
    br_weight_store_stats(store, &stats);
    assert_int_equal(stats.checked_bytes, 0);
    atomic_store(&image_state(image, 1)->verified_ns, INT64_MAX); /* of a clock before this boot */
    sf_use(&f, image, 1);
    br_weight_store_stats(store, &stats);
    assert_int_equal(stats.checked_bytes, br_layout_unit_bytes(&f.layout, 1));
    close_both(image, store);
    sf_free(&f);
}

/* ---- model folders that change ---- */

/* how: a shell command on $f. */
static void rewrite(const struct store_fixture *f, const char *how)
{
    char command[400];
    snprintf(command, sizeof command, "f='%s'; %s", f->weights, how);
    assert_int_equal(system(command), 0);
}

static void use_fails(struct br_weight_image *image, uint32_t unit, const char *part)
{
    struct br_lease *lease = br_lease_acquire(image, unit);
    struct br_err err;
    assert_true(br_lease_wait(lease) < 0);
    assert_true(br_weight_image_failed(image, &err));
    if (!strstr(err.msg, part))
        fail_msg("\"%s\" lacks \"%s\"", err.msg, part);
    br_lease_release(lease);
}

static void folder_that_changes_is_told_or_does_not_matter(void **state)
{
    static const struct {
        const char *how, *part; /* part NULL: streaming goes on */
    } cases[] = {
        {"mv $f $f.old && head -c 100 /dev/zero > $f", NULL}, /* replaced: the old file is still open */
        {"rm $f", NULL},
        {"truncate -s 3000 $f", "was written to while it was served"},
        {"printf xxxx | dd of=$f bs=1 seek=200000 conv=notrunc status=none", "was written to while it was served"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct store_fixture f;
        struct br_weight_store_config config;
        struct br_weight_store *store;
        struct br_weight_image *image;
        sf_make(&f, 0);
        sf_build(&f, sf_span(&f, 1));
        sf_device_config(&f, &config);
        store = sf_device(&config, &f, &image);
        rewrite(&f, cases[i].how);
        sf_use(&f, image, 0);
        for (uint32_t u = 1; u < SF_UNITS && !cases[i].part; u++)
            sf_use(&f, image, u);
        if (cases[i].part) /* never read before: nothing but the file's state can tell */
            use_fails(image, 3, cases[i].part);
        sf_use(&f, image, 0); /* what is cached does not suffer */
        close_both(image, store);
        sf_free(&f);
    }
}

/* A damaged unit whose model folder has other weights by now is an error, never those weights. */
static void repair_takes_no_other_weights(void **state)
{
    struct store_fixture f;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    const char *path;
    (void)state;
    sf_make(&f, 0);
    path = sf_build(&f, 0);
    sf_device_config(&f, &config);
    config.recheck_s = 0;
    store = sf_device(&config, &f, &image);
    sf_flip(f.weights, file_size(f.weights) - 1); /* as if it was another model: lm_head or norm, whatever comes last */
    sf_flip(f.weights, file_size(f.weights) / 2);
    for (uint32_t u = 0; u < SF_UNITS; u++)
        sf_flip(path, image_offset(&f, u) + 64);
    uint32_t failed = 0;
    for (uint32_t u = 0; u < SF_UNITS; u++) {
        struct br_lease *lease = br_lease_acquire(image, u);
        if (br_lease_wait(lease))
            failed++;
        else
            sf_same(&f, u, br_lease_data(lease));
        br_lease_release(lease);
    }
    assert_true(failed == 1 || failed == 2);
    close_both(image, store);
    sf_free(&f);
}

/* ---- giving room ---- */

static void resident_units_give_room(void **state)
{
    struct store_fixture f;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct br_weight_stats stats;
    uint64_t limit;
    (void)state;
    sf_make(&f, 0);
    sf_build(&f, sf_span(&f, 3));
    sf_device_config(&f, &config);
    config.drop = true;
    store = sf_device(&config, &f, &image);
    for (uint32_t u = 0; u < 3; u++)
        br_weight_image_resident(image, u, u == 1 || u == 2);
    sf_use(&f, image, 4);
    lease_settle(store);
    assert_true(br_weight_image_has(image, 4)); /* at the cost of one that is on a device */
    assert_true(br_weight_image_has(image, 0));
    assert_false(br_weight_image_has(image, 1) && br_weight_image_has(image, 2));
    assert_true(br_weight_store_used(store, &limit) <= limit);
    for (uint32_t u = 0; u < SF_UNITS; u++)
        sf_use(&f, image, u);
    lease_settle(store);
    assert_true(br_weight_image_has(image, 0)); /* on no device: never dropped */
    assert_true(br_weight_store_used(store, &limit) <= limit);
    br_weight_store_stats(store, &stats);
    assert_true(stats.dropped_bytes > 0 && stats.filled >= 1);
    close_both(image, store);
    sf_free(&f);
}

static uint64_t blocks(const char *path)
{
    struct stat sb;
    assert_int_equal(stat(path, &sb), 0);
    return 512ull * (uint64_t)sb.st_blocks;
}

static void unloaded_means_free(void **state)
{
    struct store_fixture f;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct br_lease *lease;
    struct br_err err;
    uint64_t freed, limit, before;
    (void)state;
    sf_make(&f, 0);
    before = blocks(sf_build(&f, 0));
    sf_device_config(&f, &config);
    store = sf_device(&config, &f, &image);
    lease = br_lease_acquire(image, 2);
    assert_int_equal(br_weight_image_unload(image, &freed, &err), BR_EBUSY);
    assert_int_equal(freed, 0);
    sf_same(&f, 2, br_lease_data(lease));
    br_lease_release(lease);
    assert_int_equal(br_weight_image_unload(image, &freed, &err), 0);
    assert_int_equal(freed, before - image->books->header->header_bytes);
    assert_int_equal(freed, sf_span(&f, SF_UNITS));
    assert_int_equal(br_weight_store_used(store, &limit), 0);
    assert_int_equal(access(image->path, F_OK), -1);
    close_both(image, store);
    sf_free(&f);
}

static void what_a_dead_device_was_at_is_forgotten(void **state)
{
    struct store_fixture f;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    uint64_t limit, used;
    (void)state;
    sf_make(&f, 0);
    sf_build(&f, 0);
    sf_device_config(&f, &config);
    store = sf_device(&config, &f, &image);
    used = br_weight_store_used(store, &limit);
    atomic_store(&image_state(image, 1)->state, BR_UNIT_FILLING + 4); /* device 3's */
    atomic_store(&image_state(image, 2)->users, 1 << 3 | 1 << 5);
    close_both(image, store);
    store = sf_device(&config, &f, &image);
    assert_false(br_weight_image_has(image, 1));
    assert_int_equal(atomic_load(&image_state(image, 2)->users), 1 << 5);
    assert_int_equal(br_weight_image_drop(image, 2), 0); /* another device still reads it */
    assert_int_equal(br_weight_store_used(store, &limit), used - sf_span(&f, 2) + sf_span(&f, 1));
    sf_use(&f, image, 1); /* and into the cache again */
    lease_settle(store);
    assert_true(br_weight_image_has(image, 1));
    assert_int_equal(br_weight_store_used(store, &limit), used);
    close_both(image, store);
    sf_free(&f);
}

/* Several threads use, drop and mark units of one cache at once; what they get is right. */
struct crowd {
    const struct store_fixture *f;
    struct br_weight_image *image;
    uint64_t seed;
};

static void *crowd_main(void *arg)
{
    struct crowd *c = arg;
    for (uint64_t i = 0; i < 300; i++) {
        c->seed = c->seed * 6364136223846793005ull + 1442695040888963407ull;
        uint32_t u = (uint32_t)(c->seed >> 33) % SF_UNITS, what = (uint32_t)(c->seed >> 40) % 8;
        if (what == 0)
            br_weight_image_resident(c->image, u, c->seed >> 50 & 1);
        else if (what == 1)
            br_weight_image_drop(c->image, u);
        else
            sf_use(c->f, c->image, u);
    }
    return NULL;
}

static void crowds_get_what_is_right(void **state)
{
    enum { THREADS = 4 };
    struct store_fixture f;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct crowd crowd[THREADS];
    pthread_t threads[THREADS];
    uint64_t limit;
    (void)state;
    sf_make(&f, 0);
    sf_build(&f, sf_span(&f, 3));
    sf_device_config(&f, &config);
    config.drop = true;
    store = sf_device(&config, &f, &image);
    for (uint32_t i = 0; i < THREADS; i++) {
        crowd[i] = (struct crowd){&f, image, i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_main, &crowd[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    lease_settle(store);
    assert_true(br_weight_store_used(store, &limit) <= limit);
    uint64_t held = 0;
    for (uint32_t u = 0; u < SF_UNITS; u++)
        held += br_weight_image_has(image, u) ? br_image_span(image->books->header, u) : 0;
    assert_int_equal(br_weight_store_used(store, &limit), held);
    close_both(image, store);
    sf_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limit_is_kept_and_the_rest_streams),
        cmocka_unit_test(ring_slots_are_used_again_in_order),
        cmocka_unit_test(staging_too_small_is_told_with_numbers),
        cmocka_unit_test(restart_verifies_and_reads_nothing),
        cmocka_unit_test(flipped_bit_is_repaired_before_use),
        cmocka_unit_test(no_recheck_within_the_time),
        cmocka_unit_test(folder_that_changes_is_told_or_does_not_matter),
        cmocka_unit_test(repair_takes_no_other_weights),
        cmocka_unit_test(resident_units_give_room),
        cmocka_unit_test(unloaded_means_free),
        cmocka_unit_test(what_a_dead_device_was_at_is_forgotten),
        cmocka_unit_test(crowds_get_what_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
