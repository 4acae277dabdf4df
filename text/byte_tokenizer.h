/* A tokenizer without a file: one token a byte (its id is the byte), and ChatML's three special tokens behind them. For
 * models that have a shape and no folder. */
#ifndef BRIAREUS_TEXT_BYTE_TOKENIZER_H
#define BRIAREUS_TEXT_BYTE_TOKENIZER_H

#include "text/tokenizer.h"

enum { BR_BYTE_ENDOFTEXT = 256, BR_BYTE_IM_START = 257, BR_BYTE_IM_END = 258, BR_BYTE_VOCAB = 259 };

/* Appends it as a tokenizer.json. */
void br_byte_tokenizer_json(struct br_buf *out);
/* Loaded; the caller's to free. */
int br_byte_tokenizer_create(struct br_tokenizer **out, struct br_err *err);

#endif
