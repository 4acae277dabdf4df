/* Files of a plan: whole or not at all, and never in the place of what is not a plain file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/plan/write.h"
#include "tests/cmocka.h"

static char g_dir[] = "/tmp/br-write-XXXXXX";

static const char *at(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", g_dir, name);
    return path[turn];
}

static void check_content(const char *path, const char *want)
{
    char text[64] = {0};
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fread(text, 1, sizeof text - 1, f), strlen(want));
    fclose(f);
    assert_string_equal(text, want);
}

static void test_new_and_again(void **state)
{
    struct br_err err;
    struct stat st;
    (void)state;
    assert_int_equal(plan_write(at("a"), "one", 3, &err), 0);
    assert_int_equal(chmod(at("a"), 0600), 0);
    assert_int_equal(plan_write_check(at("a"), &err), 0);
    check_content(at("a"), "one");
    assert_int_equal(plan_write(at("a"), "two!", 4, &err), 0);
    check_content(at("a"), "two!");
    assert_int_equal(stat(at("a"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(access(at("a.part"), F_OK), -1);
}

static void test_link(void **state)
{
    struct br_err err;
    struct stat st;
    (void)state;
    assert_int_equal(symlink("a", at("link")), 0);
    assert_int_equal(plan_write(at("link"), "three", 5, &err), 0);
    check_content(at("a"), "three");
    assert_int_equal(lstat(at("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void test_pipe(void **state)
{
    char text[8] = {0};
    struct br_err err;
    struct stat st;
    int fd;
    (void)state;
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    fd = open(at("pipe"), O_RDONLY | O_NONBLOCK);
    assert_int_equal(plan_write_check(at("pipe"), &err), 0);
    assert_int_equal(plan_write(at("pipe"), "four", 4, &err), 0);
    assert_int_equal(read(fd, text, sizeof text), 4);
    assert_string_equal(text, "four");
    close(fd);
    assert_int_equal(stat(at("pipe"), &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
}

static void test_nowhere(void **state)
{
    struct br_err err;
    (void)state;
    assert_int_equal(plan_write_check(at("no/such"), &err), BR_EIO);
    assert_int_equal(plan_write(at("no/such"), "x", 1, &err), BR_EIO);
    assert_int_equal(plan_write("/dev/full", "x", 1, &err), BR_EIO);
}

static int begin(void **state)
{
    (void)state;
    return mkdtemp(g_dir) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    unlink(at("a")), unlink(at("link")), unlink(at("pipe"));
    return rmdir(g_dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_and_again),
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_nowhere),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
