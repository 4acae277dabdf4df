#include <string.h>

#include "tests/cmocka.h"
#include "worker/node/limits.h"

static const uint64_t g_gib = 1ull << 30;

static int check(uint64_t memory, uint32_t devices, uint64_t host_kv, uint64_t link, const char *kind,
                 struct br_err *err)
{
    struct br_worker_config config;
    br_worker_config_init(&config);
    config.memory_bytes = memory;
    config.devices = devices;
    config.host_kv_bytes = host_kv;
    config.link_bytes_per_s = link;
    config.device_kind = kind;
    return node_limits_check(&config, 16 * g_gib, err);
}

static void memory_is_held_against_the_machine(void **state)
{
    struct br_err err;
    (void)state;
    assert_int_equal(check(0, 1, g_gib, 0, "cpu", &err), 0);
    assert_int_equal(check(8 * g_gib, 2, g_gib, 0, "cpu", &err), 0);
    assert_int_equal(check(8 * g_gib + 1, 2, g_gib, 0, "cpu", &err), BR_EINVAL);
    assert_int_equal(check(10000 * g_gib, 2, g_gib, 0, "cpu", &err), BR_EINVAL);
    assert_string_equal(err.msg,
                        "device-memory: 10000.0G for each of 2 is more than the 16.0G of memory that this machine has");
    assert_int_equal(check(0, 1, 17 * g_gib, 0, "cpu", &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "host-kv-memory: 17.0G"));
    assert_int_equal(check(96 * g_gib, 1, g_gib, 0, "other", &err), 0); /* memory of its own */
}

static void link_rate_is_none_or_sane(void **state)
{
    static const struct {
        uint64_t rate;
        int rc;
    } cases[] = {{0, 0},           {1, BR_EINVAL},  {(1 << 20) - 1, BR_EINVAL},   {1 << 20, 0},
                 {64ull << 30, 0}, {1ull << 40, 0}, {(1ull << 40) + 1, BR_EINVAL}};
    struct br_err err;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(check(0, 1, g_gib, cases[i].rate, "cpu", &err), cases[i].rc);
    assert_string_equal(err.msg, "device-link: 1099511627777 bytes a second is not 0 nor from 1M to 1T");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_held_against_the_machine),
        cmocka_unit_test(link_rate_is_none_or_sane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
