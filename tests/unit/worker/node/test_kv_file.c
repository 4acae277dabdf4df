/* The file for KV: what is refused before anything starts, and that nothing of anybody's is overwritten. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "worker/node/kv_file.h"

static char dir[64], path[96];
static struct br_worker_config config;

static int begin(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/briareus-kv-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/kv", dir);
    br_worker_config_init(&config);
    config.kv_disk = path;
    config.kv_disk_bytes = 1 << 20;
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static void refused(int code, const char *word)
{
    struct node_kv_file file;
    struct br_err err;
    assert_int_equal(node_kv_file_open(&file, &config, &err), code);
    if (!strstr(err.msg, word))
        fail_msg("'%s' does not say %s", err.msg, word);
}

static void made_and_removed(void **state)
{
    struct node_kv_file file;
    struct br_err err;
    struct stat st;
    (void)state;
    for (int i = 0; i < 2; i++) { /* the second time over what a killed worker left */
        assert_int_equal(node_kv_file_open(&file, &config, &err), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        refused(BR_EBUSY, "another worker");
        if (i == 0)
            close(file.fd);
        else
            node_kv_file_close(&file);
    }
    assert_int_not_equal(stat(path, &st), 0);
}

static void others_files_stay(void **state)
{
    char text[16] = {0};
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    (void)state;
    assert_int_equal(write(fd, "my diary", 8), 8);
    refused(BR_EINVAL, path);
    assert_int_equal(pread(fd, text, sizeof text, 0), 8);
    assert_string_equal(text, "my diary");
    close(fd);
    config.kv_disk = "/dev/null";
    refused(BR_EINVAL, "/dev/null");
    config.kv_disk = "/nowhere/kv";
    refused(BR_EIO, "/nowhere/kv");
}

static void more_than_there_is(void **state)
{
    (void)state;
    config.kv_disk_bytes = 1ull << 60;
    refused(BR_ENOMEM, "kv-disk-size: 1073741824.0G");
}

/* Parts of three devices lie side by side within the size. */
static void parts(void **state)
{
    (void)state;
    config.devices = 3;
    for (uint32_t i = 0; i + 1 < config.devices; i++)
        assert_true(node_kv_file_offset(&config, i) + node_kv_file_bytes(&config) <=
                    node_kv_file_offset(&config, i + 1));
    assert_true(node_kv_file_bytes(&config) > (1 << 20) / 3 - 4096 && node_kv_file_bytes(&config) <= (1 << 20) / 3);
    config.kv_disk = NULL;
    assert_int_equal(node_kv_file_bytes(&config), 0);
}

static void options(void **state)
{
    struct br_err err;
    (void)state;
    assert_int_equal(node_kv_file_check(&config, &err), 0);
    config.kv_disk_bytes = 0;
    assert_int_equal(node_kv_file_check(&config, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "kv-disk-size is missing"));
    config.kv_disk_bytes = 1;
    config.kv_disk = NULL;
    assert_int_equal(node_kv_file_check(&config, &err), BR_EINVAL);
    config.kv_disk = path;
    config.device_kind = "sim:h20";
    assert_int_equal(node_kv_file_check(&config, &err), BR_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_and_removed, begin, end),
        cmocka_unit_test_setup_teardown(others_files_stay, begin, end),
        cmocka_unit_test_setup_teardown(more_than_there_is, begin, end),
        cmocka_unit_test_setup_teardown(parts, begin, end),
        cmocka_unit_test_setup_teardown(options, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
