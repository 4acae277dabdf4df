#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "tests/cmocka.h"

struct target {
    bool flag;
    uint32_t port;
    uint64_t memory, body;
    double ttft_s, rate;
    char *host;
    struct br_option_list models;
};

static const struct br_option table[] = {
    {"keep-cache", BR_OPT_BOOL, offsetof(struct target, flag), NULL, 0, 0, "keep it"},
    {"port", BR_OPT_UINT, offsetof(struct target, port), "8000", 1, 65535, "PORT: where to listen"},
    {"device-memory", BR_OPT_BYTES, offsetof(struct target, memory), "1G", 0, 0, "BYTES: device memory"},
    {"max-body", BR_OPT_BYTES, offsetof(struct target, body), "1M", 1024, 3 << 19, "BYTES: of a request"},
    {"ttft", BR_OPT_SECONDS, offsetof(struct target, ttft_s), "10s", 0.001, 3600, "TIME: SLO"},
    {"rate", BR_OPT_NUMBER, offsetof(struct target, rate), "1.5", 0, 1e6, "RATE: requests/s"},
    {"host", BR_OPT_STRING, offsetof(struct target, host), "127.0.0.1", 0, 0, "HOST: address"},
    {"model", BR_OPT_LIST, offsetof(struct target, models), NULL, 0, 0, "NAME=DIR: a model"},
};
enum { N = sizeof table / sizeof table[0] };

static int read_args(struct target *t, struct br_err *err, int argc, char **argv)
{
    return br_options_read(table, N, t, "test", "A test.", argc, argv, err);
}

static void flag_beats_environment_beats_default(void **state)
{
    struct target t = {0};
    struct br_err err;
    char *argv[] = {"test", "--port=9", "--model", "a=x", "--model", "b=y", "--keep-cache", "--ttft", "250ms"};
    (void)state;
    setenv("BRIAREUS_PORT", "7", 1);
    setenv("BRIAREUS_DEVICE_MEMORY", "1.5M", 1);
    assert_int_equal(read_args(&t, &err, 9, argv), 0);
    assert_int_equal(t.port, 9);
    assert_int_equal(t.memory, 3 << 19);
    assert_true(t.flag && t.ttft_s == 0.25 && t.rate == 1.5);
    assert_string_equal(t.host, "127.0.0.1");
    assert_int_equal(t.models.n, 2);
    assert_string_equal(t.models.items[1], "b=y");
    unsetenv("BRIAREUS_PORT");
    unsetenv("BRIAREUS_DEVICE_MEMORY");
    br_options_free(table, N, &t);
}

static void yaml_sets_and_names_line_and_neighbour(void **state)
{
    struct target t = {0};
    struct br_err err;
    static const struct {
        const char *yaml, *message;
    } bad[] = {
        {"port: 1\nhots: x\n", "f.yaml:2: unknown key 'hots': did you mean 'host'?"},
        {"port: 70000\n", "f.yaml:1: port: '70000' is not a whole number from 1 to 65535"},
        {"port: 1\nport: 2\n", "f.yaml:2: 'port' is there twice (first in line 1)"},
        {"- a\n", "f.yaml: a mapping of option names to values is needed"},
        {"host: [1]\n", "f.yaml:1: host: a plain value is needed"},
        {"device_memory: -1\n", "f.yaml:1: device-memory: '-1' is not bytes, as in 4096, 64K, 1.5G"},
        {"max-body: 1023\n", "f.yaml:1: max-body: '1023' is not bytes, as in 4096, 64K, 1.5G from 1K to 1536K"},
        {"max-body: 4G\n", "f.yaml:1: max-body: '4G' is not bytes, as in 4096, 64K, 1.5G from 1K to 1536K"},
        {"ttft: nan\n", "f.yaml:1: ttft: 'nan' is not a time, as in 10s, 100ms from 0.001 to 3600"},
        {"rate: -1\n", "f.yaml:1: rate: '-1' is not a number from 0 to 1e+06"},
        {"rate: 10s\n", "f.yaml:1: rate: '10s' is not a number from 0 to 1e+06"},
        {"rate: inf\n", "f.yaml:1: rate: 'inf' is not a number from 0 to 1e+06"},
    };
    const char *good = "device_memory: 64K\nrate: 2.5e-1\nmodel:\n  p: demo/p\n  q: demo/q\n";
    (void)state;
    assert_int_equal(br_options_yaml(table, N, &t, good, strlen(good), "f.yaml", &err), 0);
    assert_int_equal(t.memory, 65536);
    assert_true(t.rate == 0.25);
    assert_string_equal(t.models.items[1], "q=demo/q");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(br_options_yaml(table, N, &t, bad[i].yaml, strlen(bad[i].yaml), "f.yaml", &err), BR_EINVAL);
        assert_string_equal(err.msg, bad[i].message);
    }
    assert_int_equal(br_options_yaml(table, N, &t, "a: [", 4, "f.yaml", &err), BR_EINVAL);
    br_options_free(table, N, &t);
}

static void bad_flags_are_named(void **state)
{
    struct target t = {0};
    struct br_err err;
    char *typo[] = {"test", "--prot", "1"}, *bare[] = {"test", "--port"}, *word[] = {"test", "port"};
    (void)state;
    assert_int_equal(read_args(&t, &err, 3, typo), BR_EINVAL);
    assert_string_equal(err.msg, "unknown option 'prot': did you mean 'port'?");
    assert_int_equal(read_args(&t, &err, 2, bare), BR_EINVAL);
    assert_string_equal(err.msg, "--port needs a value");
    assert_int_equal(read_args(&t, &err, 2, word), BR_EINVAL);
    br_options_free(table, N, &t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flag_beats_environment_beats_default),
        cmocka_unit_test(yaml_sets_and_names_line_and_neighbour),
        cmocka_unit_test(bad_flags_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
