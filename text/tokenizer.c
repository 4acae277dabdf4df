#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "text/detok.h"
#include "text/tokenizer_impl.h"

void br_ids_reserve(struct br_ids *ids, size_t extra)
{
    size_t cap = ids->cap ? ids->cap : 64;
    if (ids->len + extra <= ids->cap)
        return;
    while (cap < ids->len + extra)
        cap *= 2;
    ids->data = br_realloc(ids->data, cap * sizeof *ids->data);
    ids->cap = cap;
}

void br_ids_add(struct br_ids *ids, int32_t id)
{
    br_ids_reserve(ids, 1);
    ids->data[ids->len++] = id;
}

void br_ids_free(struct br_ids *ids)
{
    free(ids->data);
    *ids = (struct br_ids){0};
}

int32_t br_tokenizer_vocab_size(const struct br_tokenizer *t)
{
    return t->vocab.size;
}

int32_t br_tokenizer_id(const struct br_tokenizer *t, const char *token)
{
    return br_vocab_find(&t->vocab, token, strlen(token));
}

bool br_tokenizer_is_special(const struct br_tokenizer *t, int32_t id)
{
    const struct br_piece *piece = br_vocab_piece(&t->vocab, id);
    return piece && (piece->flags & BR_PIECE_SPECIAL);
}

const char *br_tokenizer_piece(const struct br_tokenizer *t, int32_t id, size_t *len)
{
    const struct br_piece *piece = br_vocab_piece(&t->vocab, id);
    *len = piece ? piece->raw_len : 0;
    return piece ? piece->raw : NULL;
}

int br_tokenizer_decode(const struct br_tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                        struct br_buf *out)
{
    struct br_detok detok;
    br_detok_init(&detok, t, skip_special);
    for (size_t i = 0; i < n; i++)
        br_detok_push(&detok, ids[i], out);
    br_detok_flush(&detok, out);
    return 0;
}
