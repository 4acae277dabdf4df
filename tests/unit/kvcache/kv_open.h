/* Books, shapes and sequences that have to come into being. */
#ifndef BRIAREUS_TESTS_KV_OPEN_H
#define BRIAREUS_TESTS_KV_OPEN_H

#include "kvcache/kvcache.h"
#include "tests/cmocka.h"

static inline struct br_kv *kv_created(const struct br_kv_config *config)
{
    struct br_err err;
    struct br_kv *kv = NULL;
    assert_int_equal(br_kv_create(config, &kv, &err), 0);
    return kv;
}

static inline uint32_t kv_shape(struct br_kv *kv, uint64_t bytes)
{
    struct br_err err;
    uint32_t s = 0;
    assert_int_equal(br_kv_shape_add(kv, bytes, &s, &err), 0);
    return s;
}

static inline int32_t kv_opened(struct br_kv *kv, uint32_t shape)
{
    struct br_err err;
    int32_t seq = -1;
    assert_int_equal(br_kv_open(kv, shape, &seq, &err), 0);
    return seq;
}

#endif
