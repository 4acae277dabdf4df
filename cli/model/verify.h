/* The parts of `briareus model verify`. Each prints what it found and returns how much was wrong. */
#ifndef BRIAREUS_CLI_MODEL_VERIFY_H
#define BRIAREUS_CLI_MODEL_VERIFY_H

#include <jansson.h>

#include "cost/shape.h"

/* Golden logits: {"cases": [{"prompt_ids", "greedy_ids", "min_top1_top2_gap", "logits": [{"step", "top": [[id, logit],
 * ...], "mean", "l2"}]}]}. The recorded ids are fed; the engine's choice must be the recorded one wherever the recorded
 * gap is 1e-3 or more (below it, a choice whose logit is within 1e-3 is a tie), logits within 2e-3. */
int br_verify_logits(const char *dir, const json_t *golden, enum br_numeric numeric);

/* Golden token ids: {"cases": [{"text", "ids", "decoded"}]}, special tokens of the text recognised, none added. */
int br_verify_tokenizer(const char *dir, const json_t *golden);

/* An array of integers of an object as int32_t (malloc'ed); false when it is not there or not one. */
bool br_verify_ids(const json_t *object, const char *key, int32_t **ids, uint32_t *n);

#endif
