/* GGUF files made by hand, byte by byte: what is read of them, and that every cut and contradiction is refused. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tests/cmocka.h"
#include "worker/weights/gguf.h"

static void put(struct br_buf *b, const void *bytes, size_t n)
{
    br_buf_add(b, bytes, n);
}

static void put_number(struct br_buf *b, uint64_t value, size_t bytes)
{
    put(b, &value, bytes);
}

static void put_text(struct br_buf *b, const char *text)
{
    put_number(b, strlen(text), 8);
    put(b, text, strlen(text));
}

struct made {
    const char *arch, *name;
    uint32_t version, type;
    uint64_t width, offset;
};

static const struct made sound = {"qwen2", "blk.3.ffn_down.weight", 3, 8, 64, 0};

/* One tensor of 2 rows. */
static void make(struct br_buf *b, const struct made *m)
{
    br_buf_clear(b);
    put(b, "GGUF", 4);
    put_number(b, m->version, 4);
    put_number(b, 1, 8);
    put_number(b, 3, 8);
    put_text(b, "general.architecture");
    put_number(b, 8, 4);
    put_text(b, m->arch);
    put_text(b, "general.alignment");
    put_number(b, 4, 4);
    put_number(b, 64, 4);
    put_text(b, "some.numbers");
    put_number(b, 9, 4);
    put_number(b, 6, 4);
    put_number(b, 3, 8);
    put(b, "123456789012", 12);
    put_text(b, m->name);
    put_number(b, 2, 4);
    put_number(b, m->width, 8);
    put_number(b, 2, 8);
    put_number(b, m->type, 4);
    put_number(b, m->offset, 8);
    while (b->len % 64)
        put(b, "", 1);
    for (int i = 0; i < 2 * 2 * 34; i++)
        put_number(b, (uint64_t)i, 1);
}

static int parse(const struct br_buf *b, struct br_tensor_table *table, struct br_err *err)
{
    struct br_gguf_info info;
    return br_gguf_parse(b->data, b->len, "file", table, &info, err);
}

static void test_sound(void **state)
{
    struct br_tensor_table table;
    struct br_buf b = {0};
    struct br_err err;
    (void)state;
    make(&b, &sound);
    if (parse(&b, &table, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(table.n, 1);
    const struct br_tensor *t = table.tensors;
    assert_string_equal(t->name, "model.layers.3.mlp.down_proj.weight");
    assert_string_equal(t->dtype_name, "Q8_0");
    assert_true(t->rank == 2 && t->shape[0] == 2 && t->shape[1] == 64);
    assert_int_equal(t->bytes, 2 * 2 * 34);
    assert_ptr_equal(t->data, (unsigned char *)b.data + b.len - 2 * 2 * 34);
    br_tensor_table_free(&table);
    br_buf_free(&b);
}

/* However short it is cut, it is refused, and nothing beyond the cut is touched (the copy is of that size). */
static void test_cut(void **state)
{
    struct br_buf b = {0};
    (void)state;
    make(&b, &sound);
    for (size_t n = 0; n < b.len; n++) {
        struct br_tensor_table table;
        struct br_gguf_info info;
        struct br_err err;
        unsigned char *cut = br_malloc(n + !n);
        memcpy(cut, b.data, n);
        assert_int_equal(br_gguf_parse(cut, n, "file", &table, &info, &err), BR_ECORRUPT);
        free(cut);
    }
    br_buf_free(&b);
}

static void test_refused(void **state)
{
    struct made cases[6];
    static const char *const says[6] = {"mamba", "version 1", "Q5_K", "Q8_0 blocks", "expected at 0", "head_count"};
    struct br_buf b = {0};
    (void)state;
    for (int i = 0; i < 6; i++)
        cases[i] = sound;
    cases[0].arch = "mamba";
    cases[1].version = 1;
    cases[2].type = 13;
    cases[3].width = 48;
    cases[4].offset = 64;
    cases[5].arch = "llama";
    for (int i = 0; i < 6; i++) {
        struct br_tensor_table table;
        struct br_err err = {0};
        make(&b, &cases[i]);
        assert_true(parse(&b, &table, &err) < 0);
        if (!strstr(err.msg, says[i]))
            fail_msg("\"%s\" does not say %s", err.msg, says[i]);
    }
    br_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sound), cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
