/* What a tokenizer is made of; for text/ only. */
#ifndef BRIAREUS_TEXT_TOKENIZER_IMPL_H
#define BRIAREUS_TEXT_TOKENIZER_IMPL_H

#include "text/added.h"
#include "text/merges.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

enum { BR_POST_IDS = 8 };

/* Ids that the post_processor puts around a text. */
struct br_post {
    int32_t before[BR_POST_IDS], after[BR_POST_IDS];
    size_t n_before, n_after;
};

/* The file's `decoder`, reduced to what differs between the supported ones. */
struct br_decoder {
    enum br_piece_coding coding;
    uint32_t strip_start;    /* so many leading spaces of the whole text go */
    bool first_piece_spaces; /* the leading spaces of the first token go (Metaspace) */
};

struct br_tokenizer {
    struct br_vocab vocab;
    struct br_merges merges;
    struct br_normalizer normalizer;
    struct br_pretokenizer pretokenizer;
    struct br_added_set added_raw;        /* matched in the text as it comes */
    struct br_added_set added_normalized; /* matched after normalisation */
    struct br_post post;
    struct br_decoder decoder;
    int32_t byte_ids[256]; /* bytelevel: of each byte's character; else of <0x..>; -1: not in the vocabulary */
    int32_t unk;           /* -1: none */
    bool fuse_unk, byte_fallback, ignore_merges;
    bool words_apart; /* no merge joins a U+2581 to what stands before it: text can be merged word by word */
    size_t max_text;  /* bytes of the longest token */
};

/* Fill *decoder, *post from the file's parts. */
int br_decoder_parse(struct br_decoder *decoder, json_t *json, struct br_err *err);
int br_post_parse(struct br_post *post, json_t *json, const struct br_vocab *vocab, struct br_err *err);

#endif
