/* Prefix hits on the Mooncake conversation trace: its hash_ids stand for blocks of 512 tokens. With an unbounded cache
 * the index finds each block that was there before, and no other: 36.6 %, the trace's ideal rate. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "kvcache/prefix.h"
#include "tests/cmocka.h"

enum { MAX_BLOCKS = 1024, MAX_IDS = 1 << 19 };

struct run {
    struct br_kv *kv;
    uint32_t shape;
    bool seen[MAX_IDS];
    uint64_t requests, blocks, ideal, hits;
};

/* The books' block holds 16 tokens; here the hash id stands for all of them. */
static uint32_t keys_of(const json_t *hash_ids, struct br_kv_key *keys, int32_t *ids)
{
    struct br_kv_key key = br_kv_key_root("trace", 5, "", 0);
    uint32_t n = (uint32_t)json_array_size(hash_ids);
    assert_true(n <= MAX_BLOCKS);
    for (uint32_t i = 0; i < n; i++) {
        int32_t tokens[BR_KV_TOKENS] = {0};
        tokens[0] = ids[i] = (int32_t)json_integer_value(json_array_get(hash_ids, i));
        assert_in_range(ids[i], 0, MAX_IDS - 1);
        keys[i] = key = br_kv_key_next(key, tokens);
    }
    return n;
}

static void request(struct run *r, const json_t *hash_ids)
{
    static struct br_kv_key keys[MAX_BLOCKS];
    static int32_t ids[MAX_BLOCKS];
    uint32_t n = keys_of(hash_ids, keys, ids);
    struct br_kv_match match;
    struct br_kv_swap swap;
    struct br_err err;
    int32_t seq;
    br_kv_lookup(r->kv, r->shape, keys, n, &match);
    assert_int_equal(br_kv_open(r->kv, r->shape, &seq, &err), 0);
    assert_int_equal(br_kv_adopt(r->kv, seq, keys, match.blocks, &swap, &err), 0);
    assert_int_equal(br_kv_extend(r->kv, seq, n * BR_KV_TOKENS, &err), 0);
    br_kv_publish(r->kv, seq, match.blocks, keys + match.blocks, n - match.blocks);
    br_kv_close(r->kv, seq);
    for (uint32_t i = 0; i < n; i++)
        r->ideal += r->seen[ids[i]];
    for (uint32_t i = 0; i < n; i++)
        r->seen[ids[i]] = true;
    r->requests++;
    r->blocks += n;
    r->hits += match.blocks;
}

static void trace_run(struct run *r, FILE *file)
{
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, file) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        request(r, json_object_get(object, "hash_ids"));
        json_decref(object);
    }
    free(line);
}

static void ideal_hit_rate(void **state)
{
    const char *shared = getenv("BRIAREUS_SHARED");
    struct br_kv_config c = {.device_bytes = 64ull << 20,
                             .slab_bytes = 1 << 20,
                             .max_shapes = 1,
                             .max_seqs = 1,
                             .max_blocks_per_seq = MAX_BLOCKS,
                             .min_block_bytes = 64,
                             .max_cached = 1 << 19};
    static struct run r;
    struct br_kv_stats stats;
    struct br_err err = {0};
    char path[4096];
    FILE *file;
    (void)state;
    snprintf(path, sizeof path, "%s/data/traces/mooncake_conversation.jsonl", shared ? shared : "../shared");
    file = fopen(path, "r");
    if (!file)
        fail_msg("%s: cannot be read; set BRIAREUS_SHARED", path);
    assert_int_equal(br_kv_create(&c, &r.kv, &err), 0);
    assert_int_equal(br_kv_shape_add(r.kv, 64, &r.shape, &err), 0);
    trace_run(&r, file);
    fclose(file);
    br_kv_stats(r.kv, &stats);
    print_message("%llu requests, %llu blocks: %llu hits (%.4f %%), ideal %llu (%.4f %%); %llu blocks in the index\n",
                  (unsigned long long)r.requests, (unsigned long long)r.blocks, (unsigned long long)r.hits,
                  100 * (double)r.hits / (double)r.blocks, (unsigned long long)r.ideal,
                  100 * (double)r.ideal / (double)r.blocks, (unsigned long long)stats.index_blocks);
    assert_int_equal(r.hits, r.ideal);
    assert_int_equal(stats.index_hits, r.ideal);
    assert_int_equal(stats.index_evicted, 0);
    assert_int_equal((uint64_t)(1000.0 * (double)r.hits / (double)r.blocks + 0.5), 366);
    assert_int_equal(br_kv_check(r.kv, &err), 0);
    br_kv_destroy(r.kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ideal_hit_rate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
