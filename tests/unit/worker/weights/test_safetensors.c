/* Files that lie about themselves: each lie is refused, with file, tensor and numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/unit/worker/weights/model_dir.h"
#include "worker/weights/safetensors.h"

/* The bytes of a file: header text, then n data bytes. Caller frees. */
static unsigned char *file_make(const char *header, size_t n, size_t *size)
{
    uint64_t len = strlen(header);
    unsigned char *file = calloc(1, 8 + len + n + 1);
    memcpy(file, &len, 8);
    memcpy(file + 8, header, len);
    *size = 8 + len + n;
    return file;
}

static int parse(const char *header, size_t n, struct br_tensor_table *table, struct br_err *err)
{
    size_t size;
    unsigned char *file = file_make(header, n, &size);
    unsigned char *exact = malloc(size); /* so that ASan sees a read past the end */
    int rc;
    memcpy(exact, file, size);
    rc = br_safetensors_parse(exact, size, "f.safetensors", table, err);
    free(file);
    free(exact);
    return rc;
}

static void well_formed(void **state)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
                                 "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[4,4]},"
                                 "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                                 "\"fp4\":{\"dtype\":\"F4\",\"shape\":[6],\"data_offsets\":[16,19]}}   ";
    struct br_tensor_table t;
    struct br_err err;
    char shape[64];
    (void)state;
    if (parse(header, 19, &t, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(t.n, 4);
    assert_string_equal(t.tensors[0].name, "b");
    assert_int_equal(t.tensors[0].dtype, BR_TENSOR_BF16);
    assert_int_equal(t.tensors[0].elements, 6);
    assert_string_equal(br_tensor_shape_text(&t.tensors[0], shape, sizeof shape), "[2, 3]");
    assert_int_equal(t.tensors[2].dtype, BR_TENSOR_OTHER);
    assert_string_equal(t.tensors[2].dtype_name, "F4");
    assert_int_equal(t.tensors[3].bytes, 4);
    br_tensor_table_free(&t);
}

#define T(name, dtype, shape, begin, end)                                                                              \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void lies_are_refused(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *parts[3];
    } cases[] = {
        {"{" T("w", "F32", "[4]", 0, 16) "," T("v", "F32", "[4]", 8, 24) "}",
         24,
         {"v begins at 8", "overlaps tensor w", "16"}},
        {"{" T("w", "F32", "[4]", 0, 16) "," T("v", "F32", "[4]", 0, 16) "}", 16, {"overlaps", "begins at 0", "16"}},
        {"{" T("w", "F32", "[4]", 0, 16) "," T("v", "F32", "[1]", 20, 24) "}",
         24,
         {"bytes 16 to 20", "no tensor", "v"}},
        {"{" T("w", "F32", "[4]", 0, 16) "}", 20, {"tensors end at 16", "20 data bytes"}},
        {"{}", 4, {"end at 0", "4 data bytes"}},
        {"{" T("w", "F32", "[4]", 0, 16) "}", 15, {"tensor w", "[0, 16]", "15 data bytes"}},
        {"{" T("w", "F32", "[5]", 0, 16) "}", 16, {"tensor w", "shape [5] is 20 bytes", "span 16"}},
        {"{" T("w", "F16", "[2, 2]", 0, 16) "}", 16, {"F16 of shape [2, 2] is 8 bytes", "span 16"}},
        {"{" T("w", "F4", "[3]", 0, 2) "}", 2, {"tensor w", "whole number of bytes"}},
        {"{" T("w", "X7", "[4]", 0, 16) "}", 16, {"tensor w", "unknown dtype \"X7\""}},
        {"{" T("w", "F32", "[-4]", 0, 16) "}", 16, {"tensor w", "integers from 0 up"}},
        {"{" T("w", "F32", "[4.0]", 0, 16) "}", 16, {"tensor w", "integers"}},
        {"{" T("w", "F32", "[4294967296,4294967296,4]", 0, 16) "}", 16, {"tensor w", "overflows"}},
        {"{" T("w", "F32", "[4611686018427387904]", 0, 16) "}", 16, {"tensor w", "2^64"}},
        {"{" T("w", "F32", "[1,1,1,1,1,1,1,1,4]", 0, 16) "}", 16, {"tensor w", "rank 9", "at most 8"}},
        {"{" T("w", "F32", "4", 0, 16) "}", 16, {"tensor w", "shape"}},
        {"{" T("w", "F32", "[4]", 16, 0) "}", 16, {"tensor w", "begin <= end"}},
        {"{" T("w", "F32", "[4]", -16, 0) "}", 16, {"tensor w", "begin <= end"}},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0]}}", 16, {"tensor w", "data_offsets"}},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,\"16\"]}}", 16, {"tensor w", "data_offsets"}},
        {"{\"w\":{\"shape\":[4],\"data_offsets\":[0,16]}}", 16, {"tensor w", "dtype is missing"}},
        {"{\"w\":7}", 0, {"tensor w", "not a JSON object"}},
        {"{" T("w", "F32", "[1]", 0, 4) "," T("w", "F32", "[1]", 4, 8) "}", 8, {"duplicate", "w"}},
        {"[]", 0, {"not a JSON object"}},
        {"{\"w\":", 0, {"header, byte"}},
        {"", 0, {"header, byte"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct br_tensor_table t;
        struct br_err err;
        if (parse(cases[i].header, cases[i].data, &t, &err) >= 0)
            fail_msg("taken: %s", cases[i].header);
        assert_non_null(strstr(err.msg, "f.safetensors"));
        for (int j = 0; j < 3 && cases[i].parts[j]; j++)
            if (!strstr(err.msg, cases[i].parts[j]))
                fail_msg("\"%s\" lacks \"%s\"", err.msg, cases[i].parts[j]);
    }
}

static void header_length_lies(void **state)
{
    static const uint64_t lengths[] = {3, 1000, 100 << 20, (100 << 20) + 1, UINT64_MAX, UINT64_MAX - 7, 1ull << 63};
    unsigned char file[8 + 2] = {0};
    struct br_tensor_table t;
    struct br_err err;
    char text[32];
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memcpy(file, &lengths[i], 8);
        assert_int_equal(br_safetensors_parse(file, sizeof file, "f", &t, &err), BR_ECORRUPT);
        snprintf(text, sizeof text, "header of %llu bytes", (unsigned long long)lengths[i]);
        assert_non_null(strstr(err.msg, text));
        assert_non_null(strstr(err.msg, "file of 10"));
    }
    assert_int_equal(br_safetensors_parse(file, 7, "f", &t, &err), BR_ECORRUPT);
    assert_non_null(strstr(err.msg, "7 bytes"));
}

static const struct br_model_shape g_shape = {
    .hidden = 64, .ffn = 64, .layers = 2, .heads = 2, .kv_heads = 1, .head_dim = 32, .vocab = 70, .max_positions = 64};

static void shards_are_one_model(void **state)
{
    struct test_model m;
    struct br_safetensors *st;
    struct br_err err;
    (void)state;
    test_model_init(&m, &g_shape, "BF16", false);
    test_model_write(&m, 5);
    if (br_safetensors_open(m.dir, &st, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(st->n_files, 5);
    assert_int_equal(st->table.n, m.n);
    for (uint32_t i = 0; i < m.n; i++)
        assert_non_null(br_safetensors_find(st, m.tensors[i].name));
    assert_null(br_safetensors_find(st, "model.norm"));
    br_safetensors_close(st);
    test_model_free(&m);
}

static void open_refused(const char *dir, int code, const char *const parts[])
{
    struct br_safetensors *st;
    struct br_err err;
    assert_int_equal(br_safetensors_open(dir, &st, &err), code);
    assert_non_null(strstr(err.msg, dir));
    for (; *parts; parts++)
        if (!strstr(err.msg, *parts))
            fail_msg("\"%s\" lacks \"%s\"", err.msg, *parts);
}
#define OPEN_REFUSED(dir, code, ...) open_refused(dir, code, (const char *const[]){__VA_ARGS__, NULL})

static void indexes_that_point_elsewhere(void **state)
{
    static const char *const names[] = {
        "../model.safetensors", "/etc/passwd", "a/b", "..", ".", "", ".hidden", "a\\\\b"};
    static const char shard[] = "model-00001-of-00002.safetensors", index[] = "model.safetensors.index.json";
    struct test_model m;
    char text[512], path[128];
    (void)state;
    test_model_init(&m, &g_shape, "F32", false);
    test_model_write(&m, 2);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(text, sizeof text, "{\"weight_map\":{\"some.weight\":\"%s\"}}", names[i]);
        test_file_write(m.dir, index, text, strlen(text));
        OPEN_REFUSED(m.dir, BR_ECORRUPT, index, "some.weight", "not a plain file name");
    }
    snprintf(text, sizeof text, "{\"weight_map\":{\"some.weight\":\"%s\"}}", shard);
    test_file_write(m.dir, index, text, strlen(text));
    OPEN_REFUSED(m.dir, BR_ECORRUPT, "some.weight", "is not in its shard", shard);
    snprintf(text, sizeof text, "{\"weight_map\":{\"some.weight\":\"gone.safetensors\"}}");
    test_file_write(m.dir, index, text, strlen(text));
    OPEN_REFUSED(m.dir, BR_ENOENT, "gone.safetensors");
    test_file_write(m.dir, index, "{\"weight_map\":{}}", 17);
    OPEN_REFUSED(m.dir, BR_ECORRUPT, "weight_map is empty");
    test_file_write(m.dir, index, "{\"weight_map\":[]}", 17);
    OPEN_REFUSED(m.dir, BR_ECORRUPT, "weight_map");
    test_file_write(m.dir, index, "{", 1);
    OPEN_REFUSED(m.dir, BR_ECORRUPT, index);
    snprintf(path, sizeof path, "%s/%s", m.dir, index);
    unlink(path);
    OPEN_REFUSED(m.dir, BR_ENOENT, "neither model.safetensors nor model.safetensors.index.json");
    test_model_free(&m);
}

static void a_tensor_in_two_shards_is_refused(void **state)
{
    struct test_model m;
    (void)state;
    test_model_init(&m, &g_shape, "F32", false);
    test_model_add(&m, "model.embed_tokens.weight", "F32", 70, 64);
    test_model_write(&m, 2);
    /* the index itself would name it twice */
    test_file_write(m.dir, "model.safetensors.index.json",
                    "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
                    "\"b\":\"model-00002-of-00002.safetensors\"}}",
                    strlen("{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
                           "\"b\":\"model-00002-of-00002.safetensors\"}}"));
    OPEN_REFUSED(m.dir, BR_ECORRUPT, "model.embed_tokens.weight is in both", "model-00001-of-00002", "model-00002");
    test_model_free(&m);
}

static void truncated_files(void **state)
{
    struct test_model m;
    char path[128];
    (void)state;
    test_model_init(&m, &g_shape, "F32", false);
    test_model_write(&m, 1);
    snprintf(path, sizeof path, "%s/model.safetensors", m.dir);
    assert_int_equal(truncate(path, 50000), 0);
    OPEN_REFUSED(m.dir, BR_ECORRUPT, "model.safetensors", "beyond the file's", "truncated");
    assert_int_equal(truncate(path, 500), 0);
    OPEN_REFUSED(m.dir, BR_ECORRUPT, "model.safetensors", "header of", "file of 500");
    assert_int_equal(truncate(path, 0), 0);
    OPEN_REFUSED(m.dir, BR_ECORRUPT, "model.safetensors: 0 bytes");
    test_model_free(&m);
}

static void what_is_no_file_is_refused(void **state)
{
    char dir[64], weights[128], index[160];
    (void)state;
    test_dir_make(dir);
    snprintf(weights, sizeof weights, "%s/model.safetensors", dir);
    snprintf(index, sizeof index, "%s.index.json", weights);
    alarm(10); /* not a wait for the FIFO's writer */
    assert_int_equal(mkfifo(weights, 0600), 0);
    OPEN_REFUSED(dir, BR_EINVAL, "model.safetensors: not a regular file");
    assert_int_equal(rename(weights, index), 0);
    OPEN_REFUSED(dir, BR_EIO, "model.safetensors.index.json: not a regular file");
    unlink(index);
    assert_int_equal(mkdir(weights, 0700), 0);
    OPEN_REFUSED(dir, BR_EINVAL, "model.safetensors: not a regular file");
    rmdir(weights);
    assert_int_equal(symlink("model.safetensors", weights), 0);
    OPEN_REFUSED(dir, BR_EIO, "model.safetensors: Too many levels of symbolic links");
    alarm(0);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(header_length_lies),
        cmocka_unit_test(shards_are_one_model),
        cmocka_unit_test(indexes_that_point_elsewhere),
        cmocka_unit_test(a_tensor_in_two_shards_is_refused),
        cmocka_unit_test(truncated_files),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
