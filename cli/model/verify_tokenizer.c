#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/model/verify.h"
#include "text/tokenizer.h"

static bool same_ids(const struct br_ids *got, const int32_t *want, uint32_t n)
{
    return got->len == n && (n == 0 || memcmp(got->data, want, n * sizeof *want) == 0);
}

/* The first id that differs, for the message. */
static void print_ids_difference(size_t index, const struct br_ids *got, const int32_t *want, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && i < got->len && got->data[i] == want[i])
        i++;
    printf("FAIL case %zu: %zu ids, golden %u; id %u is %d, golden %d\n", index, got->len, n, i,
           i < got->len ? got->data[i] : -1, i < n ? want[i] : -1);
}

static bool check_ids(const struct br_tokenizer *tokenizer, size_t index, const json_t *golden, bool quiet)
{
    const json_t *text = json_object_get(golden, "text");
    struct br_ids got = {0};
    int32_t *want = NULL;
    uint32_t n = 0;
    struct br_err err;
    bool same = false;
    if (!json_is_string(text) || !br_verify_ids(golden, "ids", &want, &n))
        printf("FAIL case %zu: text or ids missing\n", index);
    else if (br_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), BR_ENCODE_PARSE_SPECIAL,
                                 &got, &err))
        printf("FAIL case %zu: %s\n", index, err.msg);
    else if (!(same = same_ids(&got, want, n)) && !quiet)
        print_ids_difference(index, &got, want, n);
    br_ids_free(&got);
    free(want);
    return same;
}

static bool check_decoded(const struct br_tokenizer *tokenizer, size_t index, const json_t *golden, bool quiet)
{
    const json_t *text = json_object_get(golden, "decoded");
    struct br_buf got = {0};
    int32_t *ids = NULL;
    uint32_t n = 0;
    bool same = true;
    if (json_is_string(text) && br_verify_ids(golden, "ids", &ids, &n)) {
        br_tokenizer_decode(tokenizer, ids, n, false, &got);
        same = got.len == json_string_length(text) && (!got.len || !memcmp(got.data, json_string_value(text), got.len));
    }
    if (!same && !quiet)
        printf("FAIL case %zu: decodes to \"%.200s\", golden \"%.200s\"\n", index, got.data ? got.data : "",
               json_string_value(text));
    br_buf_free(&got);
    free(ids);
    return same;
}

int br_verify_tokenizer(const char *dir, const json_t *golden)
{
    const json_t *cases = json_object_get(golden, "cases"), *one;
    struct br_tokenizer *tokenizer;
    struct br_err err;
    char path[4096];
    int wrong = 0;
    size_t i;
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    if (br_tokenizer_load(path, &tokenizer, &err)) {
        printf("FAIL golden: %s\n", err.msg);
        return 1;
    }
    json_array_foreach(cases, i, one)
    {
        wrong += !check_ids(tokenizer, i, one, wrong > 0);
        wrong += !check_decoded(tokenizer, i, one, wrong > 0);
    }
    printf("%s golden: %zu tokenizer cases, %d differences\n", wrong ? "FAIL" : "ok  ", json_array_size(cases), wrong);
    br_tokenizer_free(tokenizer);
    return wrong;
}
