/* Host memory: what does not fit is an error, not a signal; limits are named; mappings lie where huge pages can. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/unit/worker/weights/store_fixture.h"
#include "worker/weights/memory.h"

/* Runs in a process of its own and returns what that ended with. */
static int apart(int (*body)(void *ctx), void *ctx)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body(ctx));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/* A user without privileges and a limit of 64 KiB. */
static int pin_too_much(void *ctx)
{
    const struct rlimit limit = {65536, 65536};
    struct br_err err;
    unsigned char *at = br_pages_alloc(1 << 20, NULL);
    (void)ctx;
    if (!at || setrlimit(RLIMIT_MEMLOCK, &limit) < 0 || (getuid() == 0 && setresuid(65534, 65534, 65534) < 0))
        return 2;
    if (br_memory_pin(at, 1 << 20, &err) != BR_ENOMEM)
        return 3;
    if (!strstr(err.msg, "1048576 bytes") || !strstr(err.msg, "65536 bytes") || !strstr(err.msg, "ulimit -l"))
        return 4;
    return br_memory_pin(at, 4096, &err) == 0 ? 0 : 5;
}

static void locked_memory_has_its_limit_named(void **state)
{
    (void)state;
    assert_int_equal(apart(pin_too_much, NULL), 0);
}

/* A small tmpfs that nobody else sees. */
static int tmpfs_make(const char *dir, const char *size)
{
    char option[32];
    snprintf(option, sizeof option, "size=%s", size);
    if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return -1;
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return mount("none", dir, "tmpfs", 0, option);
}

/* 1 MiB for a file of 4: the pages that fit are taken, the rest is refused, and nobody gets a signal. */
static int populate_too_much(void *ctx)
{
    struct br_err err;
    unsigned char *at;
    int fd;
    (void)ctx;
    if (tmpfs_make("/mnt", "1m"))
        return 2;
    fd = open("/mnt/x", O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4 << 20) < 0 || !(at = br_memory_map(fd, 0, 4 << 20, true)))
        return 3;
    if (br_memory_populate(fd, 0, at, 512 << 10, &err))
        return 4;
    memset(at, 1, 512 << 10);
    return br_memory_populate(fd, 0, at, 4 << 20, &err) == BR_ENOMEM && strstr(err.msg, "4194304 bytes") ? 0 : 5;
}

static void full_file_system_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(apart(populate_too_much, NULL), 0);
}

static void image_in(struct store_fixture *f)
{
    test_dir_remove(f->cache);
    snprintf(f->cache, sizeof f->cache, "/mnt/cache");
}

/* A cache whose folder is too small for the model: the model is served, what finds no room streams. */
static int cache_too_small(void *ctx)
{
    struct store_fixture *f = ctx;
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct br_weight_stats stats;
    if (tmpfs_make("/mnt", "256k"))
        return 2;
    image_in(f);
    sf_build(f, 0);
    sf_device_config(f, &config);
    store = sf_device(&config, f, &image);
    for (uint32_t u = 0; u < SF_UNITS; u++)
        sf_use(f, image, u);
    br_weight_store_stats(store, &stats);
    br_weight_image_close(image);
    br_weight_store_close(store);
    return stats.hits > 0 && stats.misses > 0 && stats.failures == 0 ? 0 : 3;
}

/* The same, by a program that needs all of it in one place. */
static int image_too_large(void *ctx)
{
    struct store_fixture *f = ctx;
    struct br_weight_image *image;
    struct br_err err;
    char number[40];
    if (tmpfs_make("/mnt", "256k"))
        return 2;
    image_in(f);
    if (br_weight_image_open(f->model.dir, "m", f->cache, BR_NUMERIC_AUTO, &image, &err) != BR_ENOMEM)
        return 3;
    snprintf(number, sizeof number, "needs %llu bytes", (unsigned long long)br_layout_total_bytes(&f->layout));
    if (!strstr(err.msg, number) || !strstr(err.msg, "bytes free"))
        return 4;
    return access("/mnt/cache/m.weights", F_OK) == 0 ? 5 : 0;
}

static void cache_folder_too_small(void **state)
{
    struct store_fixture f;
    (void)state;
    sf_make(&f, 0);
    assert_true(br_layout_total_bytes(&f.layout) > 256 << 10);
    assert_int_equal(apart(cache_too_small, &f), 0);
    sf_free(&f);
    sf_make(&f, 0);
    assert_int_equal(apart(image_too_large, &f), 0);
    sf_free(&f);
}

static void mappings_lie_where_huge_pages_fit(void **state)
{
    char path[] = "/dev/shm/briareus-test-XXXXXX";
    int fd = mkstemp(path);
    unsigned char *whole, *part, *alone;
    (void)state;
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(ftruncate(fd, 16 << 20), 0);
    whole = br_memory_map(fd, 0, 16 << 20, true);
    part = br_memory_map(fd, 3 << 20, 5 << 20, true);
    alone = br_pages_alloc(3 << 20, NULL);
    assert_non_null(whole);
    assert_non_null(part);
    assert_non_null(alone);
    assert_int_equal((uintptr_t)whole % BR_HUGE_PAGE, 0);
    assert_int_equal((uintptr_t)part % BR_HUGE_PAGE, 1 << 20); /* as in the file */
    assert_int_equal((uintptr_t)alone % BR_HUGE_PAGE, 0);
    part[7] = 42;
    assert_int_equal(whole[(3 << 20) + 7], 42);
    assert_true(br_memory_spread(whole, 16 << 20) >= 1);
    br_memory_unmap(whole, 16 << 20);
    br_memory_unmap(part, 5 << 20);
    br_pages_free(alone, 3 << 20);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locked_memory_has_its_limit_named),
        cmocka_unit_test(full_file_system_is_an_error),
        cmocka_unit_test(cache_folder_too_small),
        cmocka_unit_test(mappings_lie_where_huge_pages_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
