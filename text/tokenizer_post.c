/* The `decoder` and `post_processor` of a tokenizer.json. */
#include <string.h>

#include "text/json_get.h"
#include "text/tokenizer_impl.h"

/* What the steps of a SentencePiece decoder have been so far. */
struct decoder_seen {
    bool replace, fallback, fuse, strip;
};

static int decoder_replace(json_t *json, struct br_err *err)
{
    const char *from = json_string_value(json_object_get(json_object_get(json, "pattern"), "String"));
    const char *to = json_string_value(json_object_get(json, "content"));
    if (!from || !to || strcmp(from, "\xE2\x96\x81") != 0 || strcmp(to, " ") != 0)
        return br_err_set(err, BR_ENOTSUP, "decoder Replace: only U+2581 -> space is supported");
    return 0;
}

static int decoder_strip(struct br_decoder *decoder, json_t *json, const struct decoder_seen *seen, struct br_err *err)
{
    const char *content = json_string_value(json_object_get(json, "content"));
    json_t *start = json_object_get(json, "start"), *stop = json_object_get(json, "stop");
    if (!content || strcmp(content, " ") != 0 || json_integer_value(stop) != 0 || !json_is_integer(start) ||
        json_integer_value(start) < 0 || json_integer_value(start) > 1000 || !seen->fuse)
        return br_err_set(err, BR_ENOTSUP,
                          "decoder Strip: only leading spaces (content \" \", stop 0) after Fuse are "
                          "supported");
    decoder->strip_start = (uint32_t)json_integer_value(start);
    return 0;
}

static int decoder_step(struct br_decoder *decoder, json_t *json, struct decoder_seen *seen, struct br_err *err)
{
    const char *type = br_json_string(json, "type", NULL, "decoder Sequence", err);
    bool *was;
    if (!type)
        return err->code;
    was = strcmp(type, "Replace") == 0        ? &seen->replace
          : strcmp(type, "ByteFallback") == 0 ? &seen->fallback
          : strcmp(type, "Fuse") == 0         ? &seen->fuse
          : strcmp(type, "Strip") == 0        ? &seen->strip
                                              : NULL;
    if (!was || *was || seen->strip)
        return br_err_set(err, BR_ENOTSUP,
                          "decoder Sequence: step \"%.40s\" is not supported%s (Replace, ByteFallback, "
                          "Fuse, Strip are, once and in this order)",
                          type, was ? " here" : "");
    *was = true;
    if (was == &seen->replace)
        return decoder_replace(json, err);
    return was == &seen->strip ? decoder_strip(decoder, json, seen, err) : 0;
}

static int decoder_sequence(struct br_decoder *decoder, json_t *list, struct br_err *err)
{
    struct decoder_seen seen = {0};
    json_t *entry;
    size_t i;
    json_array_foreach(list, i, entry)
    {
        if (decoder_step(decoder, entry, &seen, err) != 0)
            return err->code;
    }
    decoder->coding = seen.fallback ? BR_CODING_FALLBACK : BR_CODING_METASPACE;
    if (!seen.replace)
        return br_err_set(err, BR_ENOTSUP, "decoder Sequence: one without Replace is not supported");
    return 0;
}

int br_decoder_parse(struct br_decoder *decoder, json_t *json, struct br_err *err)
{
    const char *type = br_json_string(json, "type", NULL, "decoder", err);
    json_t *list;
    if (!type)
        return err->code;
    *decoder = (struct br_decoder){.coding = BR_CODING_METASPACE};
    if (strcmp(type, "ByteLevel") == 0) {
        decoder->coding = BR_CODING_BYTELEVEL;
        return 0;
    }
    if (strcmp(type, "Metaspace") == 0) {
        const char *scheme = json_string_value(json_object_get(json, "prepend_scheme"));
        if (scheme)
            decoder->first_piece_spaces = strcmp(scheme, "never") != 0;
        else
            return br_json_bool(json, "add_prefix_space", true, &decoder->first_piece_spaces, "decoder Metaspace", err);
        return 0;
    }
    if (strcmp(type, "Sequence") != 0)
        return br_err_set(err, BR_ENOTSUP,
                          "decoder: type \"%.40s\" is not supported (ByteLevel, Metaspace, Sequence "
                          "are)",
                          type);
    list = br_json_need(json, "decoders", JSON_ARRAY, "decoder Sequence", err);
    if (!list)
        return err->code;
    if (json_array_size(list) == 1)
        return br_decoder_parse(decoder, json_array_get(list, 0), err);
    return decoder_sequence(decoder, list, err);
}

/* Appends the ids of one {"SpecialToken": {"id": NAME}}, which special_tokens lists under its name. */
static int post_special(struct br_post *post, json_t *special, json_t *table, bool before, const struct br_vocab *vocab,
                        struct br_err *err)
{
    const char *name = br_json_string(special, "id", NULL, "post_processor SpecialToken", err);
    json_t *ids, *id;
    size_t i;
    if (!name)
        return err->code;
    ids = json_object_get(json_object_get(table, name), "ids");
    if (!json_is_array(ids))
        return br_err_set(err, BR_ECORRUPT, "post_processor: special token \"%.80s\" has no ids in special_tokens",
                          name);
    json_array_foreach(ids, i, id)
    {
        size_t *n = before ? &post->n_before : &post->n_after;
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || value > INT32_MAX || !br_vocab_piece(vocab, (int32_t)value))
            return br_err_set(err, BR_ECORRUPT,
                              "post_processor: special token \"%.80s\" has an id that is not in the "
                              "vocabulary",
                              name);
        if (*n == BR_POST_IDS)
            return br_err_set(err, BR_ENOTSUP, "post_processor: more than %d special tokens", BR_POST_IDS);
        (before ? post->before : post->after)[(*n)++] = (int32_t)value;
    }
    return 0;
}

static int post_template(struct br_post *post, json_t *json, const struct br_vocab *vocab, struct br_err *err)
{
    json_t *single = br_json_need(json, "single", JSON_ARRAY, "post_processor TemplateProcessing", err);
    json_t *table = json_object_get(json, "special_tokens"), *entry;
    bool before = true;
    size_t i;
    if (!single)
        return err->code;
    json_array_foreach(single, i, entry)
    {
        json_t *special = json_object_get(entry, "SpecialToken");
        if (special) {
            if (post_special(post, special, table, before, vocab, err) != 0)
                return err->code;
        } else if (json_object_get(entry, "Sequence") && before) {
            before = false;
        } else {
            return br_err_set(err, BR_EINVAL,
                              "post_processor: entry %zu of \"single\" is neither a SpecialToken nor "
                              "the one Sequence",
                              i);
        }
    }
    return 0;
}

static int post_any(struct br_post *post, json_t *json, const struct br_vocab *vocab, int depth, struct br_err *err)
{
    const char *type = br_json_string(json, "type", NULL, "post_processor", err);
    json_t *list, *entry;
    size_t i;
    if (!type)
        return err->code;
    if (strcmp(type, "ByteLevel") == 0) /* only moves offsets, which are not kept here */
        return 0;
    if (strcmp(type, "TemplateProcessing") == 0)
        return post_template(post, json, vocab, err);
    if (strcmp(type, "Sequence") != 0 || depth > 4)
        return br_err_set(err, BR_ENOTSUP,
                          "post_processor: type \"%.40s\" is not supported (TemplateProcessing, "
                          "ByteLevel, Sequence are)",
                          type);
    if (!(list = br_json_need(json, "processors", JSON_ARRAY, "post_processor Sequence", err)))
        return err->code;
    json_array_foreach(list, i, entry)
    {
        if (post_any(post, entry, vocab, depth + 1, err) != 0)
            return err->code;
    }
    return 0;
}

int br_post_parse(struct br_post *post, json_t *json, const struct br_vocab *vocab, struct br_err *err)
{
    *post = (struct br_post){0};
    return !json || json_is_null(json) ? 0 : post_any(post, json, vocab, 0, err);
}
