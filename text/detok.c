#include "text/detok.h"

#include <string.h>

#include "text/tokenizer_impl.h"
#include "text/utf8.h"

void br_detok_init(struct br_detok *detok, const struct br_tokenizer *t, bool skip_special)
{
    *detok =
        (struct br_detok){.tokenizer = t, .skip_special = skip_special, .first = true, .strip = t->decoder.strip_start};
}

void br_detok_continue(struct br_detok *detok)
{
    detok->first = false;
    detok->strip = 0;
}

static void detok_emit(struct br_detok *detok, const char *text, size_t len, struct br_buf *out)
{
    while (detok->strip > 0 && len > 0) {
        if (text[0] != ' ') {
            detok->strip = 0;
            break;
        }
        detok->strip--;
        text++;
        len--;
    }
    br_buf_add(out, text, len);
}

/* Replaces the first n pending bytes: by one U+FFFD in a byte-level vocabulary, else by one for each. */
static void detok_spoil(struct br_detok *detok, size_t n, struct br_buf *out)
{
    size_t marks = detok->tokenizer->decoder.coding == BR_CODING_BYTELEVEL ? 1 : n;
    for (size_t i = 0; i < marks; i++)
        detok_emit(detok, BR_UTF8_REPLACEMENT, 3, out);
    detok->n_pending = (unsigned char)(detok->n_pending - n);
    memmove(detok->pending, detok->pending + n, detok->n_pending);
}

static void detok_byte(struct br_detok *detok, char byte, struct br_buf *out)
{
    int step;
    detok->pending[detok->n_pending++] = byte;
    while (detok->n_pending > 0 && (step = br_utf8_step(detok->pending, detok->n_pending)) != 0) {
        if (step < 0) {
            detok_spoil(detok, (size_t)-step, out);
            continue;
        }
        detok_emit(detok, detok->pending, (size_t)step, out);
        detok->n_pending = 0; /* a character completes with its last byte: nothing is behind it */
    }
}

static void detok_bytes(struct br_detok *detok, const char *text, size_t len, struct br_buf *out)
{
    size_t i = 0;
    while (i < len) {
        size_t good = detok->n_pending ? 0 : br_utf8_valid_len(text + i, len - i);
        if (good)
            detok_emit(detok, text + i, good, out);
        i += good;
        if (i < len)
            detok_byte(detok, text[i++], out);
    }
}

void br_detok_push(struct br_detok *detok, int32_t id, struct br_buf *out)
{
    const struct br_decoder *decoder = &detok->tokenizer->decoder;
    const struct br_piece *piece = br_vocab_piece(&detok->tokenizer->vocab, id);
    const char *raw;
    size_t len;
    if (!piece || (detok->skip_special && (piece->flags & BR_PIECE_SPECIAL)))
        return;
    raw = piece->raw;
    len = piece->raw_len;
    if (decoder->coding != BR_CODING_BYTELEVEL && !(piece->flags & BR_PIECE_BYTE))
        br_detok_flush(detok, out); /* only tokens of single bytes make characters together */
    while (detok->first && decoder->first_piece_spaces && len > 0 && raw[0] == ' ') {
        raw++;
        len--;
    }
    detok->first = false;
    detok_bytes(detok, raw, len, out);
}

void br_detok_flush(struct br_detok *detok, struct br_buf *out)
{
    if (detok->n_pending)
        detok_spoil(detok, detok->n_pending, out);
}
