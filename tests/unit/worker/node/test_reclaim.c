/* Caches of killed workers go; those that somebody uses, keeps, or only made look like one stay. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/unit/worker/weights/model_dir.h"
#include "worker/node/cache.h"
#include "worker/node/reclaim.h"

/* The path of a cache folder's file (or of the folder: ""), in one of a few buffers. */
static const char *in(const char *root, const char *name, const char *file)
{
    static char paths[4][300];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/briareus-%u-%s%s%s", root, (unsigned)getuid(), name, *file ? "/" : "", file);
    return path;
}

static bool there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void cache_make(const char *root, const char *name)
{
    static const char *const files[] = {"lock", "a%2Fb.weights", "a%2Fb.weights.lock"};
    assert_int_equal(mkdir(in(root, name, ""), 0700), 0);
    for (int i = 0; i < 3; i++)
        test_file_write(in(root, name, ""), files[i], "x", 1);
}

static void all_remove(const char *root)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

static int lock_of(const char *root, const char *name)
{
    int fd = open(in(root, name, "lock"), O_RDWR);
    assert_true(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    return fd;
}

static void only_dead_caches_go(void **state)
{
    static const char *const stay[] = {"own", "used", "kept", "open", "linked", "unlocked", "pipe"};
    char root[64], own[64];
    int lock;
    (void)state;
    test_dir_make(root);
    cache_make(root, "dead");
    for (int i = 0; i < 7; i++)
        if (strcmp(stay[i], "linked") != 0)
            cache_make(root, stay[i]);
    lock = lock_of(root, "used");
    test_file_write(in(root, "kept", ""), NODE_CACHE_KEEP, "", 0);
    assert_int_equal(chmod(in(root, "open", ""), 0755), 0);
    test_dir_make(own); /* elsewhere, behind a link */
    test_file_write(own, "lock", "", 0);
    test_file_write(own, "a.weights", "x", 1);
    assert_int_equal(symlink(own, in(root, "linked", "")), 0);
    unlink(in(root, "unlocked", "lock"));
    unlink(in(root, "pipe", "lock"));
    assert_int_equal(mkfifo(in(root, "pipe", "lock"), 0600), 0);
    node_cache_reclaim(root, strrchr(in(root, "own", ""), '/') + 1);
    assert_false(there(in(root, "dead", "")));
    assert_false(there(in(root, "dead.reclaimed", "")));
    for (int i = 0; i < 7; i++)
        assert_true(there(in(root, stay[i], "")));
    for (int i = 0; i < 7; i++)
        assert_true(strcmp(stay[i], "linked") == 0 || there(in(root, stay[i], "a%2Fb.weights")));
    snprintf(own + strlen(own), 16, "/a.weights");
    assert_true(there(own));
    *strrchr(own, '/') = 0;
    close(lock);
    node_cache_reclaim(root, "none"); /* its worker is gone now */
    assert_false(there(in(root, "used", "")));
    assert_false(there(in(root, "own", "")));
    test_dir_remove(own);
    all_remove(root);
}

/* Only files that a cache makes; a link there is removed, not what it leads to. */
static void other_files_stay(void **state)
{
    char root[64], target[128];
    (void)state;
    test_dir_make(root);
    cache_make(root, "dead");
    test_file_write(root, "precious", "x", 1);
    snprintf(target, sizeof target, "%s/precious", root);
    assert_int_equal(symlink(target, in(root, "dead", "link.weights")), 0);
    test_file_write(in(root, "dead", ""), "notes", "x", 1);
    node_cache_reclaim(root, "none");
    assert_true(there(target));
    assert_true(there(in(root, "dead", "notes")));
    assert_false(there(in(root, "dead", "a%2Fb.weights")));
    all_remove(root);
}

static void config_of(struct br_worker_config *c, const char *node, const char *dir, bool keep)
{
    br_worker_config_init(c);
    c->node = node;
    c->cache_dir = dir;
    c->keep_cache = keep;
}

static void a_start_reclaims_and_marks_what_it_keeps(void **state)
{
    struct node_cache cache;
    struct br_worker_config c;
    struct br_err err;
    char dead[64], node[64];
    (void)state;
    snprintf(dead, sizeof dead, "test-dead-%d", getpid());
    snprintf(node, sizeof node, "test-node-%d", getpid());
    cache_make("/dev/shm", dead);
    config_of(&c, node, NULL, true);
    assert_int_equal(node_cache_open(&cache, &c, &err), 0);
    assert_false(there(in("/dev/shm", dead, "")));
    node_cache_close(&cache, true);
    node_cache_reclaim("/dev/shm", "none");
    assert_true(there(in("/dev/shm", node, NODE_CACHE_KEEP)));
    c.keep_cache = false;
    assert_int_equal(node_cache_open(&cache, &c, &err), 0);
    assert_false(there(in("/dev/shm", node, NODE_CACHE_KEEP)));
    node_cache_close(&cache, false);
    assert_false(there(in("/dev/shm", node, "")));
}

/* In place of the C library's: something may happen between the open of a lock and the lock. */
static _Thread_local const char *g_reclaim_first;

int flock(int fd, int operation)
{
    const char *root = g_reclaim_first;
    g_reclaim_first = NULL;
    if (root)
        node_cache_reclaim(root, "none");
    return (int)syscall(SYS_flock, fd, operation);
}

/* The lock that was opened is that of a folder which is gone. */
static void a_lock_removed_under_a_start_is_taken_anew(void **state)
{
    char root[64], dir[300];
    struct node_cache cache;
    struct br_worker_config c;
    struct br_err err;
    (void)state;
    test_dir_make(root);
    cache_make(root, "node");
    snprintf(dir, sizeof dir, "%s", in(root, "node", ""));
    config_of(&c, "node", dir, false);
    g_reclaim_first = root;
    assert_int_equal(node_cache_open(&cache, &c, &err), 0);
    assert_true(node_cache_same_file(cache.lock, AT_FDCWD, in(root, "node", "lock")));
    assert_false(there(in(root, "node", "a%2Fb.weights")));
    node_cache_close(&cache, false);
    assert_false(there(dir));
    test_dir_remove(root);
}

static atomic_bool g_stop;

static void *reclaim_often(void *arg)
{
    while (!g_stop)
        node_cache_reclaim(arg, "none");
    return NULL;
}

/* A worker that starts while others look through the folders: it always gets a cache, and one that stays its own. */
static void a_start_wins_against_reclaimers(void **state)
{
    char root[64], dir[300];
    pthread_t threads[2];
    struct br_worker_config c;
    (void)state;
    test_dir_make(root);
    snprintf(dir, sizeof dir, "%s", in(root, "node", ""));
    config_of(&c, "node", dir, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reclaim_often, root), 0);
    for (int i = 0; i < 2000; i++) {
        struct node_cache cache;
        struct br_err err;
        if (node_cache_open(&cache, &c, &err))
            fail_msg("%s", err.msg);
        test_file_write(dir, "m.weights", "x", 1);
        assert_true(node_cache_same_file(cache.lock, AT_FDCWD, in(root, "node", "lock")));
        assert_true(there(in(root, "node", "m.weights")));
        node_cache_close(&cache, true); /* as if killed: nothing is removed, no mark */
    }
    g_stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    node_cache_reclaim(root, "none");
    assert_false(there(dir));
    test_dir_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_dead_caches_go),
        cmocka_unit_test(other_files_stay),
        cmocka_unit_test(a_start_reclaims_and_marks_what_it_keeps),
        cmocka_unit_test(a_lock_removed_under_a_start_is_taken_anew),
        cmocka_unit_test(a_start_wins_against_reclaimers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
