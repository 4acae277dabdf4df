#include "text/merges.h"

#include <string.h>

#include "base/buf.h"
#include "text/json_get.h"

static size_t merge_hash(int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key = (key ^ key >> 29) * 0x9e3779b97f4a7c15u;
    return (size_t)(key >> 24);
}

const struct br_merge *br_merges_find(const struct br_merges *merges, int32_t left, int32_t right)
{
    size_t slot = merge_hash(left, right) & merges->mask;
    for (; merges->slots[slot].left >= 0; slot = (slot + 1) & merges->mask) {
        const struct br_merge *merge = &merges->slots[slot];
        if (merge->left == left && merge->right == right)
            return merge;
    }
    return NULL;
}

static void merge_put(struct br_merges *merges, const struct br_merge *merge)
{
    size_t slot = merge_hash(merge->left, merge->right) & merges->mask;
    while (merges->slots[slot].left >= 0 &&
           (merges->slots[slot].left != merge->left || merges->slots[slot].right != merge->right))
        slot = (slot + 1) & merges->mask;
    merges->slots[slot] = *merge; /* a pair named twice has its last rank, as in the reference */
}

/* Cuts "a b" or takes ["a", "b"] apart. */
static int merge_parts(json_t *entry, size_t index, const char *part[2], size_t len[2], struct br_err *err)
{
    if (json_is_array(entry) && json_array_size(entry) == 2 && json_is_string(json_array_get(entry, 0)) &&
        json_is_string(json_array_get(entry, 1))) {
        for (size_t i = 0; i < 2; i++) {
            part[i] = json_string_value(json_array_get(entry, i));
            len[i] = json_string_length(json_array_get(entry, i));
        }
        return 0;
    }
    part[0] = json_string_value(entry);
    part[1] = part[0] ? strchr(part[0], ' ') : NULL;
    if (!part[1] || strchr(part[1] + 1, ' '))
        return br_err_set(err, BR_EINVAL, "merges: entry %zu is neither \"a b\" nor [\"a\", \"b\"]", index);
    len[0] = (size_t)(part[1] - part[0]);
    len[1] = strlen(++part[1]);
    return 0;
}

static int merge_parse(json_t *entry, size_t index, const struct br_vocab *vocab, struct br_merge *out,
                       struct br_err *err)
{
    const char *part[2];
    char joined[2 * BR_VOCAB_MAX_TEXT];
    size_t len[2];
    int rc = merge_parts(entry, index, part, len, err);
    if (rc)
        return rc;
    if (len[0] > BR_VOCAB_MAX_TEXT || len[1] > BR_VOCAB_MAX_TEXT)
        return br_err_set(err, BR_EINVAL, "merges: entry %zu is longer than any token", index);
    memcpy(joined, part[0], len[0]);
    memcpy(joined + len[0], part[1], len[1]);
    out->left = br_vocab_find(vocab, part[0], len[0]);
    out->right = br_vocab_find(vocab, part[1], len[1]);
    out->id = br_vocab_find(vocab, joined, len[0] + len[1]);
    out->rank = (uint32_t)index;
    if (out->left < 0 || out->right < 0 || out->id < 0)
        return br_err_set(err, BR_ECORRUPT, "merges: entry %zu (\"%.*s\" + \"%.*s\"): %s is not in the vocabulary",
                          index, (int)(len[0] < 60 ? len[0] : 60), part[0], (int)(len[1] < 60 ? len[1] : 60), part[1],
                          out->left < 0    ? "the first part"
                          : out->right < 0 ? "the second part"
                                           : "the result");
    return 0;
}

int br_merges_build(struct br_merges *merges, json_t *list, const struct br_vocab *vocab, struct br_err *err)
{
    size_t slots = 16, i;
    json_t *entry;
    while (slots < 2 * json_array_size(list))
        slots *= 2;
    merges->mask = slots - 1;
    merges->slots = br_malloc(slots * sizeof *merges->slots);
    memset(merges->slots, 0xFF, slots * sizeof *merges->slots);
    json_array_foreach(list, i, entry)
    {
        struct br_merge merge;
        if (merge_parse(entry, i, vocab, &merge, err) != 0) {
            br_merges_free(merges);
            return err->code;
        }
        merge_put(merges, &merge);
    }
    return 0;
}

void br_merges_free(struct br_merges *merges)
{
    free(merges->slots);
    *merges = (struct br_merges){0};
}
