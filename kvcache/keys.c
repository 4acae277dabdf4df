/* Keys of prefixes. */
#include <string.h>
#include <xxhash.h>

#include "kvcache/prefix.h"

static struct br_kv_key key_of(XXH128_hash_t hash)
{
    return (struct br_kv_key){hash.low64, hash.high64};
}

/* A hash of hashes, so that no two pairs of strings run together into the same bytes. */
struct br_kv_key br_kv_key_root(const void *layout, size_t layout_len, const void *salt, size_t salt_len)
{
    XXH128_hash_t parts[2] = {XXH3_128bits(layout, layout_len), XXH3_128bits(salt, salt_len)};
    return key_of(XXH3_128bits(parts, sizeof parts));
}

struct br_kv_key br_kv_key_next(struct br_kv_key parent, const int32_t *ids)
{
    struct {
        struct br_kv_key parent;
        int32_t ids[BR_KV_TOKENS];
    } block = {.parent = parent};
    memcpy(block.ids, ids, sizeof block.ids);
    return key_of(XXH3_128bits(&block, sizeof block));
}

uint32_t br_kv_keys(struct br_kv_key root, const int32_t *ids, uint32_t n, struct br_kv_key *keys)
{
    for (uint32_t i = 0; i < n / BR_KV_TOKENS; i++)
        keys[i] = root = br_kv_key_next(root, ids + (size_t)i * BR_KV_TOKENS);
    return n / BR_KV_TOKENS;
}
