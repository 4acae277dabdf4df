/* The parts of `briareus model synth`. */
#ifndef BRIAREUS_CLI_MODEL_SYNTH_H
#define BRIAREUS_CLI_MODEL_SYNTH_H

#include "cost/shape.h"
#include "text/byte_tokenizer.h"

/* 256 byte tokens, then <|endoftext|>, <|im_start|>, <|im_end|>. */
enum { BR_SYNTH_BOS = BR_BYTE_ENDOFTEXT, BR_SYNTH_EOS = BR_BYTE_IM_END, BR_SYNTH_MIN_VOCAB = BR_BYTE_VOCAB };

/* Writes tokenizer.json and tokenizer_config.json (ChatML). */
int br_synth_tokenizer(const char *dir, struct br_err *err);
/* A whole text file at once. */
int br_synth_text(const char *dir, const char *name, const char *text, size_t len, struct br_err *err);

#endif
