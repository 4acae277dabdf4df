/* Cached weights on huge pages: the bytes stay, and so does what the cache takes of memory. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/unit/worker/weights/store_fixture.h"
#include "worker/weights/huge.h"
#include "worker/weights/memory.h"

/* Does this kernel move pages of a file in memory? */
static bool kernel_moves(void)
{
    char path[] = "/dev/shm/briareus-test-XXXXXX";
    int fd = mkstemp(path);
    unsigned char *at;
    uint64_t huge;
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(ftruncate(fd, BR_HUGE_PAGE), 0);
    at = br_memory_map(fd, 0, BR_HUGE_PAGE, true);
    memset(at, 1, BR_HUGE_PAGE);
    huge = br_memory_collapse(at, BR_HUGE_PAGE);
    assert_true(huge == 0 || br_memory_huge_bytes(at) == BR_HUGE_PAGE);
    br_memory_unmap(at, BR_HUGE_PAGE);
    close(fd);
    return huge > 0;
}

/* Wide enough that layers are larger than huge pages. */
static void units_move_and_stay_what_they_are(void **state)
{
    struct store_fixture f;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct br_weight_stats stats;
    struct stat before, after;
    const char *path;
    uint64_t huge, fit = 0;
    (void)state;
    sf_make(&f, 800);
    path = sf_build(&f, 0);
    sf_device_config(&f, &config);
    store = sf_device(&config, &f, &image);
    assert_int_equal(stat(path, &before), 0);
    for (uint32_t u = 0; u < SF_UNITS; u++)
        fit += br_layout_unit_bytes(&f.layout, u) / BR_HUGE_PAGE * BR_HUGE_PAGE;
    assert_true(fit >= 4 * BR_HUGE_PAGE);
    huge = br_huge_end(br_huge_start(store), false);
    br_weight_store_stats(store, &stats);
    assert_int_equal(stats.hits + stats.misses, 0);
    assert_true(huge <= fit);
    assert_true(!kernel_moves() || huge > 0);
    for (uint32_t u = 0; u < SF_UNITS; u++)
        sf_use(&f, image, u);
    assert_true(br_weight_image_huge_bytes(image) >= huge);
    assert_int_equal(stat(path, &after), 0);
    assert_true((uint64_t)after.st_blocks * 512 <= (uint64_t)before.st_blocks * 512 + SF_UNITS * BR_HUGE_PAGE);
    br_weight_image_close(image);
    br_weight_store_close(store);
    sf_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(units_move_and_stay_what_they_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
