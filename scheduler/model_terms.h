/* What a model is served for: its SLO, its weight beside other models, whether it stays loaded. From the configuration:
 *     NAME=KEY=VALUE,KEY=VALUE,...      keys: ttft, tbt (times), weight (a number), pinned (alone, or =true, =false)
 * In YAML a mapping, one line a model:   newton: ttft=5s, tbt=50ms, weight=2, pinned */
#ifndef BRIAREUS_SCHEDULER_MODEL_TERMS_H
#define BRIAREUS_SCHEDULER_MODEL_TERMS_H

#include "base/options.h"

enum { BR_MODEL_TERMS_MAX = 512 }; /* bytes of one text */

struct br_model_terms {
    double ttft_s, tbt_s;
    double weight; /* .001 to 1000 */
    bool pinned;
};

/* Changes *terms as `text` (what is behind NAME=) says; untouched on error: BR_EINVAL, with the model, the key and the
 * nearest known one. */
int br_model_terms_parse(const char *name, const char *text, struct br_model_terms *terms, struct br_err *err);
/* All entries of the list that name this model, in order. */
int br_model_terms_apply(const struct br_option_list *list, const char *name, struct br_model_terms *terms,
                         struct br_err *err);

#endif
