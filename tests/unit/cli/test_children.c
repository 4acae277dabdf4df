/* Children that die, that do not listen and that are stopped; each says on a pipe when it began. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/children.h"
#include "tests/cmocka.h"

static int g_began[2];

static void say_begun(void)
{
    double now_s = br_now_s();
    if (write(g_began[1], &now_s, sizeof now_s) != sizeof now_s)
        _exit(1);
}

static int dies(void *ctx)
{
    (void)ctx;
    say_begun();
    return 1;
}

static int is_deaf(void *ctx)
{
    (void)ctx;
    signal(SIGTERM, SIG_IGN);
    say_begun();
    while (pause())
        ;
    return 0;
}

static void on_term(int signum)
{
    (void)signum;
    _exit(0);
}

static int stops_itself(void *ctx)
{
    (void)ctx;
    signal(SIGTERM, on_term);
    say_begun();
    raise(SIGSTOP);
    while (pause())
        ;
    return 0;
}

static struct cli_children start(int (*run)(void *))
{
    struct cli_children children = {.n = 1, .list = {{.name = "child", .run = run}}};
    struct br_err err;
    assert_int_equal(pipe2(g_began, O_CLOEXEC), 0);
    assert_int_equal(cli_children_start(&children, &err), 0);
    return children;
}

static double wait_begun(void)
{
    double at_s;
    assert_int_equal(read(g_began[0], &at_s, sizeof at_s), sizeof at_s);
    return at_s;
}

static void close_pipe(void)
{
    close(g_began[0]);
    close(g_began[1]);
}

/* At once, then 0.1 and 0.2 s after the one before. */
static void a_child_that_dies_is_started_again(void **state)
{
    struct cli_children children = start(dies);
    double at_s[4];
    (void)state;
    cli_children_watch(&children, 1.5);
    cli_children_stop(&children);
    for (int i = 0; i < 4; i++)
        at_s[i] = wait_begun();
    assert_true(at_s[1] - at_s[0] < 0.1);
    assert_true(at_s[2] - at_s[1] >= 0.1);
    assert_true(at_s[3] - at_s[2] >= 0.2);
    close_pipe();
}

static void a_child_that_is_stopped_goes_on_to_end(void **state)
{
    struct cli_children children = start(stops_itself);
    siginfo_t info;
    double start_s;
    (void)state;
    wait_begun();
    assert_int_equal(waitid(P_PID, (id_t)children.list[0].pid, &info, WSTOPPED | WNOWAIT), 0);
    start_s = br_now_s();
    cli_children_stop(&children);
    assert_true(br_now_s() - start_s < 3.9); /* not by SIGKILL */
    assert_int_equal(children.list[0].pid, 0);
    close_pipe();
}

static void a_child_that_does_not_listen_is_killed(void **state)
{
    struct cli_children children = start(is_deaf);
    pid_t pid = children.list[0].pid;
    double start_s = br_now_s();
    (void)state;
    wait_begun();
    cli_children_stop(&children);
    assert_true(br_now_s() - start_s >= 4);
    assert_true(kill(pid, 0) == -1 && errno == ESRCH);
    close_pipe();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_that_dies_is_started_again),
        cmocka_unit_test(a_child_that_is_stopped_goes_on_to_end),
        cmocka_unit_test(a_child_that_does_not_listen_is_killed),
    };
    br_log_init("test", BR_LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
