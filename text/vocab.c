#include "text/vocab.h"

#include <string.h>

#include "base/buf.h"
#include "text/bytelevel.h"
#include "text/json_get.h"

struct vocab_extent {
    int64_t count, max_id;
    size_t bytes;
};

static uint64_t vocab_hash(const char *text, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, finished by a multiply so that the low bits mix */
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return (hash * 0x9e3779b97f4a7c15u) >> 24;
}

static int extent_add(struct vocab_extent *extent, const char *text, size_t len, const json_t *id, struct br_err *err)
{
    if (!json_is_integer(id))
        return br_err_set(err, BR_EINVAL, "vocab: the id of token \"%.80s\" is %s, not an integer", text,
                          br_json_kind(id));
    if (json_integer_value(id) < 0 || json_integer_value(id) >= BR_VOCAB_MAX_ID)
        return br_err_set(err, BR_ECORRUPT, "vocab: token \"%.80s\" has id %lld, outside 0..%d", text,
                          (long long)json_integer_value(id), BR_VOCAB_MAX_ID - 1);
    if (len > BR_VOCAB_MAX_TEXT)
        return br_err_set(err, BR_EINVAL, "vocab: token %lld is %zu bytes long, limit %d",
                          (long long)json_integer_value(id), len, BR_VOCAB_MAX_TEXT);
    extent->count++;
    extent->bytes += len + 1;
    if (json_integer_value(id) > extent->max_id)
        extent->max_id = json_integer_value(id);
    return 0;
}

/* The first walk: types, ranges, how much room. */
static int vocab_measure(struct vocab_extent *extent, json_t *model_vocab, json_t *added, struct br_err *err)
{
    const char *text;
    json_t *value;
    size_t i, len;
    int rc = 0;
    json_object_keylen_foreach(model_vocab, text, len, value)
    {
        if ((rc = extent_add(extent, text, len, value, err)) != 0)
            return rc;
    }
    json_array_foreach(added, i, value)
    {
        if (!(text = br_json_string(value, "content", &len, "added_tokens", err)))
            return err->code;
        if (len == 0)
            return br_err_set(err, BR_EINVAL, "added_tokens: entry %zu has an empty \"content\"", i);
        if ((rc = extent_add(extent, text, len, json_object_get(value, "id"), err)) != 0)
            return rc;
    }
    if (extent->count == 0)
        return br_err_set(err, BR_EINVAL, "vocab: there are no tokens at all");
    if (extent->max_id >= 2 * extent->count + 1024)
        return br_err_set(err, BR_ECORRUPT, "vocab: ids go up to %lld but there are only %lld tokens: the file is cut",
                          (long long)extent->max_id, (long long)extent->count);
    return 0;
}

static void vocab_index(struct br_vocab *vocab, int32_t id)
{
    const struct br_piece *piece = &vocab->pieces[id];
    size_t slot = vocab_hash(piece->text, piece->text_len) & vocab->mask;
    while (vocab->slots[slot] >= 0)
        slot = (slot + 1) & vocab->mask;
    vocab->slots[slot] = id;
}

static size_t metaspace_decode(const char *text, size_t len, bool fallback, char *out, unsigned *flags)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;
    if (fallback && len == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>') {
        const char *hi = memchr(hex, text[3], 16), *lo = memchr(hex, text[4], 16);
        if (hi && lo) {
            *flags |= BR_PIECE_BYTE;
            out[0] = (char)((hi - hex) << 4 | (lo - hex));
            return 1;
        }
    }
    for (size_t i = 0; i < len;) {
        bool space = len - i >= 3 && memcmp(text + i, "\xE2\x96\x81", 3) == 0;
        out[n++] = space ? ' ' : text[i];
        i += space ? 3 : 1;
    }
    return n;
}

/* Puts a token at its id; *at is the free part of the blob. A token may be named twice (in the vocabulary and as an
 * added one) only with the same text. */
static int vocab_put(struct br_vocab *vocab, char **at, const char *text, size_t len, int32_t id, unsigned flags,
                     enum br_piece_coding coding, struct br_err *err)
{
    struct br_piece *piece = &vocab->pieces[id];
    int32_t known = br_vocab_find(vocab, text, len);
    char *raw;
    if ((piece->flags || known >= 0) && known != id)
        return br_err_set(err, BR_ECORRUPT, "vocab: id %d is given to \"%.80s\", but %s \"%.80s\" has id %d", id, text,
                          piece->flags ? "token" : "the same text", piece->flags ? piece->text : text,
                          piece->flags ? id : known);
    if (!piece->flags) {
        piece->text = memcpy(*at, text, len);
        piece->text_len = (uint32_t)len;
        *at += len + 1;
    }
    piece->flags |= BR_PIECE_PRESENT | flags;
    raw =
        *at; /* a second naming decodes again: an added token of a byte-level vocabulary stands for its literal text */
    if (coding != BR_CODING_BYTELEVEL)
        piece->raw_len = (uint32_t)metaspace_decode(text, len, coding == BR_CODING_FALLBACK, raw, &piece->flags);
    else if (flags & BR_PIECE_ADDED)
        piece->raw_len = (uint32_t)len, memcpy(raw, text, len);
    else
        piece->raw_len = (uint32_t)br_bytelevel_decode(text, len, raw);
    piece->raw = raw;
    *at += piece->raw_len + 1;
    if (known < 0)
        vocab_index(vocab, id);
    return 0;
}

static int vocab_fill(struct br_vocab *vocab, json_t *model_vocab, json_t *added, enum br_piece_coding coding,
                      struct br_err *err)
{
    char *at = vocab->blob;
    const char *text;
    json_t *value;
    size_t i, len;
    int rc;
    json_object_keylen_foreach(model_vocab, text, len, value)
    {
        rc = vocab_put(vocab, &at, text, len, (int32_t)json_integer_value(value), 0, coding, err);
        if (rc)
            return rc;
    }
    json_array_foreach(added, i, value)
    {
        json_t *content = json_object_get(value, "content");
        int32_t id = (int32_t)json_integer_value(json_object_get(value, "id"));
        bool special;
        if ((rc = br_json_bool(value, "special", false, &special, "added_tokens", err)) != 0)
            return rc;
        rc = vocab_put(vocab, &at, json_string_value(content), json_string_length(content), id,
                       BR_PIECE_ADDED | (special ? BR_PIECE_SPECIAL : 0u), coding, err);
        if (rc)
            return rc;
    }
    return 0;
}

int br_vocab_build(struct br_vocab *vocab, json_t *model_vocab, json_t *added, enum br_piece_coding coding,
                   struct br_err *err)
{
    struct vocab_extent extent = {0};
    size_t slots = 1024;
    int rc = vocab_measure(&extent, model_vocab, added, err);
    if (rc)
        return rc;
    while (slots < 2 * (size_t)extent.count)
        slots *= 2;
    *vocab = (struct br_vocab){.size = (int32_t)extent.max_id + 1, .mask = slots - 1};
    vocab->pieces = br_calloc((size_t)vocab->size, sizeof *vocab->pieces);
    vocab->blob = br_calloc(2, extent.bytes);
    vocab->slots = br_malloc(slots * sizeof *vocab->slots);
    memset(vocab->slots, 0xFF, slots * sizeof *vocab->slots);
    rc = vocab_fill(vocab, model_vocab, added, coding, err);
    if (rc)
        br_vocab_free(vocab);
    return rc;
}

void br_vocab_free(struct br_vocab *vocab)
{
    free(vocab->pieces);
    free(vocab->blob);
    free(vocab->slots);
    *vocab = (struct br_vocab){0};
}

int32_t br_vocab_find(const struct br_vocab *vocab, const char *text, size_t len)
{
    size_t slot = vocab_hash(text, len) & vocab->mask;
    for (; vocab->slots[slot] >= 0; slot = (slot + 1) & vocab->mask) {
        const struct br_piece *piece = &vocab->pieces[vocab->slots[slot]];
        if (piece->text_len == len && memcmp(piece->text, text, len) == 0)
            return vocab->slots[slot];
    }
    return -1;
}

const struct br_piece *br_vocab_piece(const struct br_vocab *vocab, int32_t id)
{
    if (id < 0 || id >= vocab->size || !vocab->pieces[id].flags)
        return NULL;
    return &vocab->pieces[id];
}
