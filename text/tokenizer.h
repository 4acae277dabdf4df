/* The tokenizer of a model, from its tokenizer.json: byte-level BPE (Qwen, Llama 3, GPT-2 ...) and SentencePiece-style
 * BPE (Llama 2, Mistral, Gemma ...). Immutable after loading: any number of threads may use one at once. */
#ifndef BRIAREUS_TEXT_TOKENIZER_H
#define BRIAREUS_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct br_tokenizer;

/* A growable list of token ids; zero-initialise, free with br_ids_free. */
struct br_ids {
    int32_t *data; /* owned; NULL until first use */
    size_t len, cap;
};
void br_ids_add(struct br_ids *ids, int32_t id);
void br_ids_reserve(struct br_ids *ids, size_t extra);
void br_ids_free(struct br_ids *ids);

enum {
    BR_TOKENIZER_MAX_BYTES = 64 << 20, /* of a tokenizer.json */
    BR_ENCODE_MAX_BYTES = 64 << 20,    /* of a text */
};

/* Loads the file tokenizer.json at path; *out is the caller's to free. Errors: BR_ENOENT, BR_EIO, BR_EINVAL (not JSON,
 * wrong types, a regular expression that does not compile), BR_ECORRUPT (contradicts itself: a merge of an unknown
 * token, an id given twice ...), BR_ENOTSUP (names the part that is not supported). */
int br_tokenizer_load(const char *path, struct br_tokenizer **out, struct br_err *err);
/* The same from memory. */
int br_tokenizer_parse(const char *json, size_t len, struct br_tokenizer **out, struct br_err *err);
void br_tokenizer_free(struct br_tokenizer *tokenizer);

enum br_encode_flags {
    BR_ENCODE_ADD_SPECIAL = 1,   /* BOS and so on, as the file's post_processor says */
    BR_ENCODE_PARSE_SPECIAL = 2, /* special tokens in the text become their ids; other added tokens always do */
};

/* Appends the ids of a text; ill-formed UTF-8 is read as U+FFFD. On error out has its old length again. BR_EINVAL: the
 * text is too long, or the file's regular expression backtracks without bound on it. */
int br_tokenizer_encode(const struct br_tokenizer *tokenizer, const char *text, size_t len, unsigned flags,
                        struct br_ids *out, struct br_err *err);

/* The same, with special tokens not recognised where they touch one of the n ordered byte ranges `plain`: for text of
 * users inside a prompt. The text must be well-formed if n > 0. */
struct br_span;
int br_tokenizer_encode_mixed(const struct br_tokenizer *tokenizer, const char *text, size_t len, unsigned flags,
                              const struct br_span *plain, size_t n, struct br_ids *out, struct br_err *err);

/* Highest id + 1. A model's logits may have more rows; ids without a token decode to nothing. */
int32_t br_tokenizer_vocab_size(const struct br_tokenizer *tokenizer);
/* The id of a token as the file writes it ("<|im_end|>", "Ġthe"); -1 when there is none. */
int32_t br_tokenizer_id(const struct br_tokenizer *tokenizer, const char *token);
bool br_tokenizer_is_special(const struct br_tokenizer *tokenizer, int32_t id);
/* The bytes that a token stands for (NUL-terminated, borrowed; not always well-formed UTF-8 on its own); special tokens
 * give their literal text. NULL and length 0 for an id without a token. */
const char *br_tokenizer_piece(const struct br_tokenizer *tokenizer, int32_t id, size_t *len);

/* Appends the text of ids, always well-formed; skip_special leaves special tokens out. Always 0. Ill-formed bytes
 * become U+FFFD: in byte-level vocabularies one for each maximal ill-formed part, with byte_fallback one for each byte.
 */
int br_tokenizer_decode(const struct br_tokenizer *tokenizer, const int32_t *ids, size_t n, bool skip_special,
                        struct br_buf *out);

#endif
