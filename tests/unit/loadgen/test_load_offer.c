/* From options to a workload, and what options are refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/unit/loadgen/drive.h"

static void offer(const char *const *args, double factor, struct load_offer *out)
{
    struct load_config c;
    struct br_err err;
    if (drive_config(&c, NULL, args, &err) || load_offer_make(&c, factor, c.seed, out, &err))
        fail_msg("%s", err.msg);
    drive_config_free(&c);
}

static double count_of(const struct load_offer *o, const char *name)
{
    double n = 0;
    for (size_t i = 0; i < o->workload.n; i++)
        n += strcmp(o->workload.names[o->workload.requests[i].model], name) == 0;
    return n;
}

/* Poisson counts: within five standard deviations. */
static void poisson_near(double n, double expected)
{
    if (fabs(n - expected) > 5 * sqrt(expected))
        fail_msg("%g requests, expected %g", n, expected);
}

static void models_get_their_rates(void **state)
{
    const char *own[] = {"--model", "a=3", "--model", "b=1", "--duration", "2000", NULL};
    const char *weights[] = {"--model", "a=3", "--model", "b=1", "--request-rate", "8", "--duration", "1000", NULL};
    const char *zipf[] = {"--model", "a",          "--model", "b", "--popularity", "zipf:1", "--request-rate",
                          "6",       "--duration", "1000",    NULL};
    const char *plain[] = {"--model", "a", "--model", "b", "--duration", "3000", NULL};
    struct load_offer o;
    (void)state;
    offer(own, 1, &o);
    poisson_near(count_of(&o, "a"), 6000);
    poisson_near(count_of(&o, "b"), 2000);
    load_offer_free(&o);
    offer(own, .5, &o);
    poisson_near(count_of(&o, "a"), 3000);
    load_offer_free(&o);
    offer(weights, 1, &o);
    poisson_near(count_of(&o, "a"), 6000);
    poisson_near(count_of(&o, "b"), 2000);
    load_offer_free(&o);
    offer(zipf, 1, &o);
    poisson_near(count_of(&o, "a"), 4000);
    poisson_near(count_of(&o, "b"), 2000);
    load_offer_free(&o);
    offer(plain, 1, &o);
    poisson_near(count_of(&o, "a"), 3000);
    load_offer_free(&o);
}

/* A ramp from 0 to 20/s over 1000 s offers 10,000, three quarters of them in its second half. */
static void processes_by_name(void **state)
{
    const char *ramp[] = {"--model",
                          "m",
                          "--ramp-up-strategy",
                          "linear",
                          "--ramp-up-start-rps",
                          "0",
                          "--ramp-up-end-rps",
                          "20",
                          "--duration",
                          "1000",
                          NULL};
    const char *constant[] = {"--model", "m",          "--arrivals", "constant", "--request-rate",
                              "10",      "--duration", "100",        NULL};
    struct load_offer o;
    double late = 0;
    (void)state;
    offer(ramp, 1, &o);
    for (size_t i = 0; i < o.workload.n; i++)
        late += o.workload.requests[i].at_s >= 500;
    poisson_near((double)o.workload.n, 10000);
    poisson_near(late, 7500);
    load_offer_free(&o);
    offer(constant, 1, &o);
    assert_int_equal(o.workload.n, 1000);
    load_offer_free(&o);
}

static const char *shared(const char *path)
{
    static char full[4096];
    const char *root = getenv("BRIAREUS_SHARED");
    snprintf(full, sizeof full, "%s/data/%s", root ? root : "../shared", path);
    if (access(full, R_OK))
        fail_msg("%s is not there: set BRIAREUS_SHARED", full);
    return full;
}

/* The first minute at double speed: the same requests in half the time. Counts are the file's (awk). */
static void traces_replay(void **state)
{
    const char *args[] = {"--dataset-path", shared("traces/mooncake_conversation.jsonl"), "--duration", "60", NULL};
    const char *fast[] = {"--dataset-path", args[1], "--duration", "30", "--time-scale", ".5",
                          "--prompt-scale", "2",     NULL};
    const char *named[] = {"--dataset-path", args[1], "--duration", "60", "--model", "a", "--model", "b", NULL};
    struct load_offer o, f;
    (void)state;
    offer(args, 1, &o);
    assert_true(o.workload.n > 100);
    assert_int_equal(o.workload.block_tokens, 512);
    offer(fast, 1, &f);
    assert_int_equal(f.workload.n, o.workload.n);
    assert_int_equal(f.workload.block_tokens, 1024);
    for (size_t i = 0; i < o.workload.n; i++) {
        assert_true(fabs(f.workload.requests[i].at_s - o.workload.requests[i].at_s / 2) < 1e-9);
        assert_int_equal(f.workload.requests[i].prompt, 2 * o.workload.requests[i].prompt);
    }
    load_offer_free(&f);
    offer(named, 1, &f);
    assert_int_equal(f.workload.n, o.workload.n);
    poisson_near(count_of(&f, "a"), (double)o.workload.n / 2);
    load_offer_free(&f);
    load_offer_free(&o);
}

/* Lengths from the trace, times drawn: 20/s for 50 s. */
static void traces_give_lengths(void **state)
{
    const char *args[] = {"--dataset-path",
                          shared("traces/AzureLLMInferenceTrace_conv.csv"),
                          "--arrivals",
                          "poisson",
                          "--model",
                          "m",
                          "--request-rate",
                          "20",
                          "--duration",
                          "500",
                          NULL};
    struct load_offer o;
    double sum = 0;
    (void)state;
    offer(args, 1, &o);
    poisson_near((double)o.workload.n, 10000);
    for (size_t i = 0; i < o.workload.n; i++)
        sum += o.workload.requests[i].prompt;
    assert_true(fabs(sum / (double)o.workload.n - 1154.7) < 60); /* the file's mean, by awk */
    load_offer_free(&o);
}

static void what_is_refused(void **state)
{
    static const char *const bad[][5] = {
        {"--model", "m=-1"},
        {"--model", "m=x"},
        {NULL}, /* no model */
        {"--model", "m", "--input-len", "0"},
        {"--model", "m", "--input-len", "uniform:5:2"},
        {"--model", "m", "--output-len", "lognormal:100"},
        {"--model", "m", "--popularity", "zipf"},
        {"--model", "m", "--popularity", "zipf:x"},
        {"--model", "m", "--arrivals", "poison"},
        {"--model", "m", "--arrivals", "ramp"},
        {"--model", "m", "--backend", "tgi"},
        {"--model", "m", "--prompt-format", "ids"},
        {"--model", "m", "--warmup", "1000"},
        {"--model", "m", "--dataset-name", "azure"},
        {"--model", "m", "--dataset-path", "/nonexistent"},
        {"--model", "m", "--find-goodput", "0.9"},
        {"--model", "m=1", "--popularity", "equal"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct load_config c;
        struct load_offer o;
        struct br_err err = {0};
        int rc = drive_config(&c, NULL, bad[i], &err);
        if (rc == 0)
            rc = load_offer_make(&c, 1, 0, &o, &err);
        if (rc >= 0)
            fail_msg("case %zu was taken", i);
        assert_true(strlen(err.msg) > 10);
        drive_config_free(&c);
    }
}

static void targets(void **state)
{
    static const char *const bad[] = {
        "https://localhost",       "http://",           "http://localhost:", "http://localhost:x",
        "http://localhost:123456", "http://local host", "ftp://localhost"};
    struct load_target t;
    struct br_err err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(load_target_parse(bad[i], &t, &err), BR_EINVAL);
    assert_int_equal(load_target_parse("http://127.0.0.1:8000/v1x/", &t, &err), 0);
    assert_string_equal(t.host, "127.0.0.1:8000");
    assert_string_equal(t.prefix, "/v1x");
    assert_int_equal(load_target_parse("127.0.0.1", &t, &err), 0);
    assert_string_equal(t.prefix, "");
    assert_int_equal(load_target_parse("http://[::1]:80", &t, &err), 0);
    assert_int_equal(t.address.ss_family, AF_INET6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_get_their_rates), cmocka_unit_test(processes_by_name), cmocka_unit_test(traces_replay),
        cmocka_unit_test(traces_give_lengths),    cmocka_unit_test(what_is_refused),   cmocka_unit_test(targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
