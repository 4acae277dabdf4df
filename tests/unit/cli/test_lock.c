#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/lock.h"
#include "tests/cmocka.h"

static char g_dir[] = "/tmp/br-lock-XXXXXX", g_path[64];

/* A process that takes the lock and says so; with `orphan` it leaves the lock to a child and ends. */
struct holder {
    pid_t pid, child;
    int hold; /* closing it ends whoever holds the lock */
};

static void holder_main(int said, int hold, bool orphan)
{
    struct br_err err;
    char byte;
    pid_t child = 0;
    int fd;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (cli_lock_take(g_path, 0, &fd, &err))
        _exit(1);
    if (orphan && (child = fork()) == 0) {
        close(said);
        _exit(read(hold, &byte, 1) != 0);
    }
    if (write(said, &child, sizeof child) != sizeof child)
        _exit(1);
    _exit(orphan ? 0 : read(hold, &byte, 1) != 0);
}

static struct holder holder_start(bool orphan)
{
    struct holder holder;
    int said[2], hold[2];
    assert_int_equal(pipe(said) | pipe(hold), 0);
    holder.pid = fork();
    if (holder.pid == 0) {
        close(hold[1]);
        holder_main(said[1], hold[0], orphan);
    }
    close(said[1]);
    close(hold[0]);
    holder.hold = hold[1];
    assert_int_equal(read(said[0], &holder.child, sizeof holder.child), sizeof holder.child);
    close(said[0]);
    return holder;
}

static void free_lock_is_taken_with_our_pid(void **state)
{
    struct br_err err;
    char text[32] = "";
    int fd;
    (void)state;
    assert_int_equal(cli_lock_take(g_path, 0, &fd, &err), 0);
    assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
    assert_int_equal(atoi(text), getpid());
    close(fd);
}

static void living_holder_is_named(void **state)
{
    struct holder holder = holder_start(false);
    double start_s = br_now_s();
    struct br_err err;
    char want[160];
    int fd;
    (void)state;
    assert_int_equal(cli_lock_take(g_path, 0.2, &fd, &err), BR_EBUSY);
    assert_true(br_now_s() - start_s >= 0.2 && fd == -1);
    snprintf(want, sizeof want, "%s is in use by process %d", g_path, (int)holder.pid);
    assert_string_equal(err.msg, want);
    close(holder.hold);
    waitpid(holder.pid, NULL, 0);
}

/* As when `serve` is killed: dead, reaped or not, while a child of it still holds what it took. */
static void dead_holder_is_not_named_as_one(void **state)
{
    struct holder holder = holder_start(true);
    struct br_err err;
    siginfo_t info;
    int fd;
    (void)state;
    assert_int_equal(waitid(P_PID, (id_t)holder.pid, &info, WEXITED | WNOWAIT), 0); /* it stays a zombie */
    assert_int_equal(cli_lock_take(g_path, 0, &fd, &err), BR_EBUSY);
    assert_non_null(strstr(err.msg, "unknown process"));
    waitpid(holder.pid, NULL, 0);
    assert_int_equal(cli_lock_take(g_path, 0, &fd, &err), BR_EBUSY);
    assert_non_null(strstr(err.msg, "unknown process"));
    close(holder.hold); /* the child ends some time later */
    assert_int_equal(cli_lock_take(g_path, 20, &fd, &err), 0);
    close(fd);
}

static void no_such_folder(void **state)
{
    struct br_err err;
    int fd;
    (void)state;
    assert_int_equal(cli_lock_take("/nonexistent/lock", 0, &fd, &err), BR_EIO);
    assert_string_equal(err.msg, "cannot open /nonexistent/lock: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_lock_is_taken_with_our_pid),
        cmocka_unit_test(living_holder_is_named),
        cmocka_unit_test(dead_holder_is_not_named_as_one),
        cmocka_unit_test(no_such_folder),
    };
    int rc;
    if (!mkdtemp(g_dir))
        return 1;
    snprintf(g_path, sizeof g_path, "%s/lock", g_dir);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(g_path);
    rmdir(g_dir);
    return rc;
}
