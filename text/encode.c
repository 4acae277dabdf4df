/* Text -> ids: added tokens, normalisation, words, BPE. */
#include <string.h>

#include "text/bytelevel.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

/* One call's state: the tokenizer is shared, everything that changes is here. */
struct encoder {
    const struct br_tokenizer *t;
    unsigned flags;
    const struct br_span *plain;
    size_t n_plain;
    struct br_ids *out;
    struct br_bpe_scratch bpe;
    struct br_regex_scratch regex;
    struct br_buf norm[2], words, mapped;
};

static void put_unknown(const struct encoder *e, size_t word_start)
{
    const struct br_tokenizer *t = e->t;
    struct br_ids *out = e->out;
    if (t->unk < 0) /* the reference drops such characters */
        return;
    if (t->fuse_unk && out->len > word_start && out->data[out->len - 1] == t->unk)
        return;
    br_ids_add(out, t->unk);
}

/* A character that is no token becomes its bytes' tokens, if all of them exist. */
static bool put_bytes(const struct encoder *e, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (e->t->byte_ids[(unsigned char)text[i]] < 0)
            return false;
    for (size_t i = 0; i < len; i++)
        br_ids_add(e->out, e->t->byte_ids[(unsigned char)text[i]]);
    return true;
}

static void put_symbols_bytelevel(const struct encoder *e, const char *word, size_t len)
{
    size_t start = e->out->len;
    for (size_t i = 0; i < len; i++) {
        int32_t id = e->t->byte_ids[(unsigned char)word[i]];
        if (id >= 0)
            br_ids_add(e->out, id);
        else
            put_unknown(e, start);
    }
}

static void put_symbols_chars(const struct encoder *e, const char *word, size_t len)
{
    size_t start = e->out->len;
    int step;
    for (size_t i = 0; i < len; i += (size_t)step) {
        int32_t id;
        (void)br_utf8_decode(word + i, &step);
        id = br_vocab_find(&e->t->vocab, word + i, (size_t)step);
        if (id >= 0)
            br_ids_add(e->out, id);
        else if (!e->t->byte_fallback || !put_bytes(e, word + i, (size_t)step))
            put_unknown(e, start);
    }
}

/* The id of a word that is a token as it stands; -1 if none. */
static int32_t whole_word(struct encoder *e, const char *word, size_t len)
{
    size_t n = 0;
    if (len > e->t->max_text)
        return -1;
    if (!e->t->pretokenizer.bytelevel)
        return br_vocab_find(&e->t->vocab, word, len);
    br_buf_clear(&e->mapped);
    br_buf_reserve(&e->mapped, 2 * len + 1);
    for (size_t i = 0; i < len; i++)
        n += br_bytelevel_put((unsigned char)word[i], e->mapped.data + n);
    return br_vocab_find(&e->t->vocab, e->mapped.data, n);
}

static void merge_word(struct encoder *e, const char *word, size_t len)
{
    size_t start = e->out->len;
    br_ids_reserve(e->out, len);
    if (e->t->pretokenizer.bytelevel)
        put_symbols_bytelevel(e, word, len);
    else
        put_symbols_chars(e, word, len);
    if (e->out->len > start)
        e->out->len = start + br_bpe_merge(&e->t->merges, e->out->data + start, e->out->len - start, &e->bpe);
}

/* Where the next run of U+2581 begins that has something else before it; len if there is none. */
static size_t next_marked(const char *text, size_t len)
{
    static const char mark[] = "\xE2\x96\x81";
    const char *hit;
    size_t at = 0;
    while (len - at >= 3 && memcmp(text + at, mark, 3) == 0)
        at += 3;
    hit = br_text_find(text + at, len - at, mark, 3);
    return hit ? (size_t)(hit - text) : len;
}

static int encode_word(void *user, const char *word, size_t len, struct br_err *err)
{
    struct encoder *e = user;
    int32_t whole = e->t->ignore_merges ? whole_word(e, word, len) : -1;
    (void)err;
    if (whole >= 0) {
        br_ids_add(e->out, whole);
        return 0;
    }
    while (len > 0) { /* a text without a pre_tokenizer is one word: small parts are far faster */
        size_t part = e->t->words_apart ? next_marked(word, len) : len;
        merge_word(e, word, part);
        word += part;
        len -= part;
    }
    return 0;
}

/* Normalised text between added tokens that are matched in raw text. */
static int encode_normalized(struct encoder *e, const char *text, size_t len, bool first, struct br_err *err)
{
    struct br_added_iter iter = {.set = &e->t->added_normalized, .text = text, .len = len};
    struct br_added_piece piece;
    int rc = 0;
    iter.specials = (e->flags & BR_ENCODE_PARSE_SPECIAL) && e->n_plain == 0; /* ranges of raw text mean nothing here */
    while (rc == 0 && br_added_next(&iter, &piece)) {
        if (piece.token)
            br_ids_add(e->out, piece.token->id);
        else
            rc = br_pretokenizer_run(&e->t->pretokenizer, text + piece.from, piece.to - piece.from,
                                     first && piece.from == 0, &e->regex, &e->words, encode_word, e, err);
    }
    return rc;
}

static int encode_text(struct encoder *e, const char *text, size_t len, struct br_err *err)
{
    struct br_added_iter iter = {.set = &e->t->added_raw, .text = text, .len = len};
    struct br_added_piece piece;
    iter.specials = e->flags & BR_ENCODE_PARSE_SPECIAL;
    iter.plain = e->plain;
    iter.n_plain = e->n_plain;
    while (br_added_next(&iter, &piece)) {
        const char *norm;
        size_t norm_len;
        if (piece.token) {
            br_ids_add(e->out, piece.token->id);
            continue;
        }
        if (br_normalizer_apply(&e->t->normalizer, text + piece.from, piece.to - piece.from, e->norm, &norm, &norm_len,
                                err) != 0 ||
            encode_normalized(e, norm, norm_len, piece.from == 0, err) != 0)
            return err->code;
    }
    return 0;
}

/* encode_text after ill-formed bytes are replaced. */
static int encode_lossy(struct encoder *e, const char *text, size_t len, struct br_err *err)
{
    struct br_buf repaired = {0};
    int rc;
    if (br_utf8_valid_len(text, len) == len)
        return encode_text(e, text, len, err);
    br_utf8_lossy(&repaired, text, len);
    rc = encode_text(e, repaired.data, repaired.len, err);
    br_buf_free(&repaired);
    return rc;
}

static void encoder_free(struct encoder *e)
{
    br_bpe_scratch_free(&e->bpe);
    br_regex_scratch_free(&e->regex);
    br_buf_free(&e->norm[0]);
    br_buf_free(&e->norm[1]);
    br_buf_free(&e->words);
    br_buf_free(&e->mapped);
}

int br_tokenizer_encode_mixed(const struct br_tokenizer *t, const char *text, size_t len, unsigned flags,
                              const struct br_span *plain, size_t n, struct br_ids *out, struct br_err *err)
{
    struct encoder e = {.t = t, .flags = flags, .plain = plain, .n_plain = n, .out = out};
    size_t start = out->len;
    int rc;
    if (len > BR_ENCODE_MAX_BYTES)
        return br_err_set(err, BR_EINVAL, "text: %zu bytes long, limit %d", len, BR_ENCODE_MAX_BYTES);
    if (flags & BR_ENCODE_ADD_SPECIAL)
        for (size_t i = 0; i < t->post.n_before; i++)
            br_ids_add(out, t->post.before[i]);
    rc = encode_lossy(&e, text, len, err);
    encoder_free(&e);
    if (rc) {
        out->len = start;
        return rc;
    }
    if (flags & BR_ENCODE_ADD_SPECIAL)
        for (size_t i = 0; i < t->post.n_after; i++)
            br_ids_add(out, t->post.after[i]);
    return 0;
}

int br_tokenizer_encode(const struct br_tokenizer *t, const char *text, size_t len, unsigned flags, struct br_ids *out,
                        struct br_err *err)
{
    return br_tokenizer_encode_mixed(t, text, len, flags, NULL, 0, out, err);
}
