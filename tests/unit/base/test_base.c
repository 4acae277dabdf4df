#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hist.h"
#include "base/log.h"
#include "base/rng.h"
#include "tests/cmocka.h"

/* Known answers of Philox4x32-10 from the Random123 distribution (kat_vectors). */
static void philox_known_answers(void **state)
{
    (void)state;
    assert_true((uint32_t)br_rng_u64(0, 0, 0, 0) == 0x6627e8d5u);
    assert_true((uint32_t)(br_rng_u64(0, 0, 0, 0) >> 32) == 0xe169c58du);
    assert_true((uint32_t)br_rng_u64(UINT64_MAX, UINT32_MAX, UINT64_MAX, UINT32_MAX) == 0x408f276du);
    assert_true((uint32_t)(br_rng_u64(UINT64_MAX, UINT32_MAX, UINT64_MAX, UINT32_MAX) >> 32) == 0x41c83b0eu);
}

/* The mean of n exponentials lies within 5 standard errors of its parameter. */
static void exponential_mean(void **state)
{
    struct br_rng rng = {.seed = 7};
    double sum = 0;
    const int n = 100000;
    (void)state;
    for (int i = 0; i < n; i++)
        sum += br_rng_exp(&rng, 2.0);
    assert_true(fabs(sum / n - 2.0) < 5 * 2.0 / sqrt(n));
}

static void hist_quantiles_of_a_ramp(void **state)
{
    struct br_hist *h = malloc(sizeof *h);
    (void)state;
    br_hist_init(h);
    for (uint64_t v = 1; v <= 100000; v++)
        br_hist_add(h, v);
    for (int p = 1; p <= 100; p++) {
        double got = (double)br_hist_quantile(h, p / 100.0), want = p * 1000.0;
        assert_true(got >= want && got <= want * (1 + 1.0 / 64) + 1);
    }
    br_hist_add(h, UINT64_MAX);
    assert_true(br_hist_quantile(h, 1.0) == UINT64_MAX);
    free(h);
}

static void err_wraps_outwards(void **state)
{
    struct br_err err;
    (void)state;
    assert_int_equal(br_err_set(&err, BR_EINVAL, "line %d", 3), BR_EINVAL);
    assert_int_equal(br_err_wrap(&err, "file %s", "x"), BR_EINVAL);
    assert_string_equal(err.msg, "file x: line 3");
    assert_string_equal(br_err_name(BR_ECORRUPT), "corrupt");
}

static void buf_grows_and_limits(void **state)
{
    struct br_buf buf = {0};
    (void)state;
    for (int i = 0; i < 1000; i++)
        br_buf_printf(&buf, "%03d,", i);
    assert_int_equal(buf.len, 4000);
    br_buf_consume(&buf, 3996);
    assert_string_equal(buf.data, "999,");
    br_buf_free(&buf);
    assert_int_equal(br_buf_read_file(&buf, "/proc/self/maps", 10), -1);
    assert_int_equal(errno, EFBIG);
    br_buf_free(&buf);
}

/* A FIFO would wait for its writer, a device may never end. */
static void only_regular_files_are_read(void **state)
{
    char dir[] = "/tmp/briareus-base-XXXXXX", fifo[64], memory[64];
    const char *bad[] = {fifo, dir, "/dev/zero"};
    struct br_buf buf = {0};
    struct br_err err;
    int fd = memfd_create("test", MFD_CLOEXEC);
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    alarm(10);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(br_buf_read_file(&buf, bad[i], 1 << 20), -1);
        assert_int_equal(errno, EINVAL);
        assert_int_equal(br_buf_read_error(&err, BR_EIO, "file %d", i), BR_EIO);
        assert_non_null(strstr(err.msg, ": not a regular file"));
    }
    alarm(0);
    assert_int_equal(br_buf_read_file(&buf, "/nonexistent", 1 << 20), -1);
    br_buf_read_error(&err, BR_ENOENT, "file");
    assert_string_equal(err.msg, "file: No such file or directory");
    assert_int_equal(buf.len, 0);
    assert_int_equal(write(fd, "plan", 4), 4);
    snprintf(memory, sizeof memory, "/proc/self/fd/%d", fd);
    assert_int_equal(br_buf_read_file(&buf, memory, 1 << 20), 0);
    assert_string_equal(buf.data, "plan");
    br_buf_free(&buf);
    close(fd);
    unlink(fifo);
    rmdir(dir);
}

static void log_quote_escapes(void **state)
{
    (void)state;
    assert_string_equal(BR_Q("a \"b\"\n"), "\"a \\\"b\\\"\\x0a\"");
}

static void backoff_doubles_and_forgets(void **state)
{
    static const double young_s[] = {0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5};
    struct br_backoff backoff = {0};
    (void)state;
    for (size_t i = 0; i < sizeof young_s / sizeof young_s[0]; i++)
        assert_true(fabs(br_backoff_s(&backoff, 2.9) - young_s[i]) < 1e-9);
    assert_true(br_backoff_s(&backoff, 3) == 0); /* it has lived: as if it had never died */
    assert_true(fabs(br_backoff_s(&backoff, 0) - 0.1) < 1e-9);
    assert_true(br_backoff_s(&backoff, 1e6) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),     cmocka_unit_test(exponential_mean),
        cmocka_unit_test(hist_quantiles_of_a_ramp), cmocka_unit_test(err_wraps_outwards),
        cmocka_unit_test(buf_grows_and_limits),     cmocka_unit_test(only_regular_files_are_read),
        cmocka_unit_test(log_quote_escapes),        cmocka_unit_test(backoff_doubles_and_forgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
