/* Models as people write them in one line: "Qwen2.5-72B count=4 weights=int4 rate=.1". Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_MODEL_WORDS_H
#define BRIAREUS_CLI_PLAN_MODEL_WORDS_H

#include "base/options.h"
#include "sim/plan/ask.h"

/* What a line may leave out. */
struct plan_defaults {
    const char *weights, *kv; /* formats */
    double ttft_s, tbt_s, rate, cv;
};

/* Room for a line's models is made in *models (grown, the caller's); *n grows. The first word is a name of the
 * catalogue or a folder with a config.json; the others are KEY=VALUE: count, weights, kv, rate, cv (burstiness:
 * standard deviation over mean of the gaps), ttft, tbt, tp, dedicated-tp, gpu, prompt and output (tokens: one number,
 * or MEDIAN:SIGMA[:MIN:MAX] of a log-normal law), name. Errors name the word and, where one is near, what may be meant.
 */
int plan_model_words(const char *line, const struct plan_defaults *defaults, struct plan_model **models, uint32_t *n,
                     struct br_err *err);

/* A catalogue name or a folder. */
int plan_model_base(const char *base, struct br_model_size *out, struct br_err *err);
/* "540:.78", "540:.78:16:4096" or "512". */
int plan_length_parse(const char *text, uint32_t most, struct br_length *out, struct br_err *err);

#endif
