/* tokenizer.json -> struct br_tokenizer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/bytelevel.h"
#include "text/json_get.h"
#include "text/tokenizer_impl.h"

static int refuse_option(json_t *model, const char *key, struct br_err *err)
{
    json_t *value = json_object_get(model, key);
    if (!value || json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0) ||
        (json_is_number(value) && json_number_value(value) == 0))
        return 0;
    return br_err_set(err, BR_ENOTSUP, "model: \"%s\" is set, which is not supported", key);
}

static int model_check(json_t *model, struct br_err *err)
{
    static const char *const options[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = json_string_value(json_object_get(model, "type"));
    if (br_json_has(model, "type") && !type)
        return br_err_set(err, BR_EINVAL, "model: \"type\" is %s, not a string",
                          br_json_kind(json_object_get(model, "type")));
    if (type && strcmp(type, "BPE") != 0)
        return br_err_set(err, BR_ENOTSUP, "model: type \"%.40s\" is not supported (BPE is)", type);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (refuse_option(model, options[i], err) != 0)
            return err->code;
    return 0;
}

static int load_flags(struct br_tokenizer *t, json_t *model, struct br_err *err)
{
    json_t *unk = json_object_get(model, "unk_token");
    t->unk = -1;
    if (br_json_bool(model, "fuse_unk", false, &t->fuse_unk, "model", err) != 0 ||
        br_json_bool(model, "byte_fallback", false, &t->byte_fallback, "model", err) != 0 ||
        br_json_bool(model, "ignore_merges", false, &t->ignore_merges, "model", err) != 0)
        return err->code;
    if (!unk || json_is_null(unk))
        return 0;
    if (!json_is_string(unk))
        return br_err_set(err, BR_EINVAL, "model: \"unk_token\" is %s, not a string", br_json_kind(unk));
    t->unk = br_vocab_find(&t->vocab, json_string_value(unk), json_string_length(unk));
    if (t->unk < 0)
        return br_err_set(err, BR_ECORRUPT, "model: unk_token \"%.80s\" is not in the vocabulary",
                          json_string_value(unk));
    return 0;
}

/* The ids that single bytes start from. */
static void index_bytes(struct br_tokenizer *t)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        size_t len = 6;
        if (t->pretokenizer.bytelevel)
            len = br_bytelevel_put((unsigned char)byte, text);
        else
            snprintf(text, sizeof text, "<0x%02X>", byte);
        t->byte_ids[byte] = br_vocab_find(&t->vocab, text, len);
    }
    for (int32_t id = 0; id < t->vocab.size; id++)
        if (t->vocab.pieces[id].text_len > t->max_text)
            t->max_text = t->vocab.pieces[id].text_len;
}

static bool is_marked(const struct br_piece *piece)
{
    return piece->text_len >= 3 && memcmp(piece->text, "\xE2\x96\x81", 3) == 0;
}

static bool ends_marked(const struct br_piece *piece)
{
    return piece->text_len >= 3 && memcmp(piece->text + piece->text_len - 3, "\xE2\x96\x81", 3) == 0;
}

static bool words_stay_apart(const struct br_tokenizer *t)
{
    for (size_t i = 0; i <= t->merges.mask; i++) {
        const struct br_merge *merge = &t->merges.slots[i];
        if (merge->left >= 0 && is_marked(&t->vocab.pieces[merge->right]) &&
            !ends_marked(&t->vocab.pieces[merge->left]))
            return false;
    }
    return br_vocab_find(&t->vocab, "\xE2\x96\x81", 3) >= 0;
}

static int load_model(struct br_tokenizer *t, json_t *root, struct br_err *err)
{
    json_t *model = br_json_need(root, "model", JSON_OBJECT, "file", err);
    json_t *vocab, *merges, *added = json_object_get(root, "added_tokens");
    if (!model || model_check(model, err) != 0)
        return err->code;
    vocab = br_json_need(model, "vocab", JSON_OBJECT, "model", err);
    merges = vocab ? br_json_need(model, "merges", JSON_ARRAY, "model", err) : NULL;
    if (!merges)
        return err->code;
    if (added && !json_is_array(added) && !json_is_null(added))
        return br_err_set(err, BR_EINVAL, "file: \"added_tokens\" is %s, not a list", br_json_kind(added));
    if (br_vocab_build(&t->vocab, vocab, added, t->decoder.coding, err) != 0 ||
        br_merges_build(&t->merges, merges, &t->vocab, err) != 0 || load_flags(t, model, err) != 0)
        return err->code;
    index_bytes(t);
    t->words_apart = !t->pretokenizer.bytelevel && words_stay_apart(t);
    return 0;
}

/* A token marked `normalized` is looked for in normalised text, under its normalised text; where that is the same text,
 * looking in the raw text finds it too, and then its bounds are known there. */
static int load_added_token(struct br_tokenizer *t, json_t *json, struct br_err *err)
{
    json_t *content = json_object_get(json, "content");
    const char *text = json_string_value(content), *out;
    struct br_added_token token = {.id = (int32_t)json_integer_value(json_object_get(json, "id"))};
    size_t len = json_string_length(content), out_len;
    struct br_buf bufs[2] = {0};
    bool normalized;
    int rc = 0;
    if (br_json_bool(json, "special", false, &token.special, "added_tokens", err) != 0 ||
        br_json_bool(json, "lstrip", false, &token.lstrip, "added_tokens", err) != 0 ||
        br_json_bool(json, "rstrip", false, &token.rstrip, "added_tokens", err) != 0 ||
        br_json_bool(json, "single_word", false, &token.single_word, "added_tokens", err) != 0 ||
        br_json_bool(json, "normalized", !token.special, &normalized, "added_tokens", err) != 0)
        return err->code;
    if (!normalized)
        return br_added_put(&t->added_raw, text, len, &token, err);
    rc = br_normalizer_apply(&t->normalizer, text, len, bufs, &out, &out_len, err);
    if (rc == 0 && out_len > 0) {
        bool same = out_len == len && memcmp(out, text, len) == 0;
        rc = br_added_put(same ? &t->added_raw : &t->added_normalized, out, out_len, &token, err);
    }
    br_buf_free(&bufs[0]);
    br_buf_free(&bufs[1]);
    return rc;
}

static int load_added(struct br_tokenizer *t, json_t *list, struct br_err *err)
{
    json_t *entry;
    size_t i;
    json_array_foreach(list, i, entry)
    {
        if (load_added_token(t, entry, err) != 0)
            return err->code;
    }
    return 0;
}

static int load_root(struct br_tokenizer *t, json_t *root, struct br_err *err)
{
    json_t *model = json_is_object(root) ? json_object_get(root, "model") : NULL;
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!json_is_object(root))
        return br_err_set(err, BR_EINVAL, "file: is %s, not an object", br_json_kind(root));
    if (!model)
        return br_err_set(err, BR_EINVAL, "file: has no \"model\"");
    if (type && model_check(model, err) != 0) /* before the parts that differ with it */
        return err->code;
    if (br_normalizer_parse(&t->normalizer, json_object_get(root, "normalizer"), err) != 0 ||
        br_pretokenizer_parse(&t->pretokenizer, json_object_get(root, "pre_tokenizer"), err) != 0 ||
        br_decoder_parse(&t->decoder, json_object_get(root, "decoder"), err) != 0)
        return err->code;
    if (t->pretokenizer.bytelevel != (t->decoder.coding == BR_CODING_BYTELEVEL))
        return br_err_set(err, BR_ENOTSUP, "file: pre_tokenizer and decoder disagree: one is ByteLevel, the other not");
    if (load_model(t, root, err) != 0 ||
        br_post_parse(&t->post, json_object_get(root, "post_processor"), &t->vocab, err) != 0)
        return err->code;
    return load_added(t, json_object_get(root, "added_tokens"), err);
}

int br_tokenizer_parse(const char *json, size_t len, struct br_tokenizer **out, struct br_err *err)
{
    struct br_tokenizer *t;
    json_error_t where;
    json_t *root;
    int rc;
    *out = NULL;
    if (len > BR_TOKENIZER_MAX_BYTES)
        return br_err_set(err, BR_EINVAL, "tokenizer: %zu bytes long, limit %d", len, BR_TOKENIZER_MAX_BYTES);
    root = json_loadb(json, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
    if (!root)
        return br_err_set(err, BR_EINVAL, "tokenizer: not valid JSON: %s (line %d, byte %d)", where.text, where.line,
                          where.position);
    t = br_calloc(1, sizeof *t);
    rc = load_root(t, root, err);
    json_decref(root);
    if (rc) {
        br_tokenizer_free(t);
        return br_err_wrap(err, "tokenizer");
    }
    *out = t;
    return 0;
}

int br_tokenizer_load(const char *path, struct br_tokenizer **out, struct br_err *err)
{
    struct br_buf buf = {0};
    int rc;
    *out = NULL;
    if (br_buf_read_file(&buf, path, BR_TOKENIZER_MAX_BYTES) != 0) {
        rc = br_buf_read_error(err, errno == ENOENT ? BR_ENOENT : BR_EIO, "tokenizer %s", path);
    } else {
        rc = br_tokenizer_parse(buf.data ? buf.data : "", buf.len, out, err);
        if (rc)
            br_err_wrap(err, "%s", path);
    }
    br_buf_free(&buf);
    return rc;
}

void br_tokenizer_free(struct br_tokenizer *t)
{
    if (!t)
        return;
    br_vocab_free(&t->vocab);
    br_merges_free(&t->merges);
    br_normalizer_free(&t->normalizer);
    br_pretokenizer_free(&t->pretokenizer);
    br_added_free(&t->added_raw);
    br_added_free(&t->added_normalized);
    free(t);
}
