/* The models that the scheduler speaks for: tokenizer, chat format and limits of each, from its folder. Weights are the
 * workers' business. A model whose folder cannot be read stays in the catalogue with its trouble, so that clients hear
 * why; the others go on serving. */
#ifndef BRIAREUS_SCHEDULER_MODELS_H
#define BRIAREUS_SCHEDULER_MODELS_H

#include "base/options.h"
#include "cost/model_list.h"
#include "scheduler/gateway/gateway.h"

struct br_models;

struct br_models_config {
    const struct br_option_list *models;  /* NAME=DIR each */
    const struct br_model_list *outlines; /* models without a folder, beside those; NULL: none */
    const char *chat_template;            /* by name, for models whose own is not known; NULL: none */
    uint32_t max_model_len;               /* 0: each model's own */
    double ttft_s, tbt_s;                 /* of models whose terms do not say */
    const struct br_option_list *terms;   /* NAME=KEY=VALUE,... (model_terms.h); may be NULL */
    bool plain_sampling;                  /* generation_config.json is not asked for sampling parameters */
};

enum { BR_MODELS_SPARE = 64 }; /* that may come later */

/* Errors: a malformed NAME=DIR, a name twice, no models; terms that are malformed or of no model. */
int br_models_create(const struct br_models_config *config, struct br_models **out, struct br_err *err);
void br_models_destroy(struct br_models *models);
uint32_t br_models_count(const struct br_models *models); /* indices ever used; some may be free */
uint32_t br_models_capacity(const struct br_models *models);
bool br_models_present(const struct br_models *models, uint32_t index);
const char *br_models_dir(const struct br_models *models, uint32_t index); /* NULL: it has an outline */
const struct br_model_entry *br_models_outline(const struct br_models *models, uint32_t index); /* NULL: a folder */

/* What another configuration changes. Models that are in both take its terms; one whose folder is another one there
 * stays as it is, with a warning, as does one for which all places are taken. */
struct br_models_change {
    uint32_t *added, *removed, *kept; /* indices; owned: br_models_change_free. Removed ones are still there */
    uint32_t n_added, n_removed, n_kept;
};
/* On error, as of br_models_create, nothing is changed. */
int br_models_reload(struct br_models *models, const struct br_models_config *config, struct br_models_change *out,
                     struct br_err *err);
void br_models_change_free(struct br_models_change *change);
/* Its name is unknown from now on; its index is used again after br_models_release, when nobody reads its view. */
void br_models_remove(struct br_models *models, uint32_t index);
bool br_models_released(const struct br_models *models, uint32_t index);
void br_models_release(struct br_models *models, uint32_t index);
int br_models_index(const struct br_models *models, const char *name); /* -1: unknown */
const struct br_gateway_model *br_models_at(const struct br_models *models, uint32_t index);
bool br_models_pinned(const struct br_models *models, uint32_t index); /* its weights are to stay on devices */
void br_models_set_pinned(struct br_models *models, uint32_t index, bool pinned);
/* Why it cannot be served; NULL: nothing known against it. */
const char *br_models_trouble(const struct br_models *models, uint32_t index);
/* What a device said; trouble of the folder itself stays. */
void br_models_set_trouble(struct br_models *models, uint32_t index, const char *why);

/* Splits NAME=DIR (or DIR alone: its last part is the name). name: at least BR_MAX_MODEL_NAME bytes. */
int br_model_arg_split(const char *arg, char *name, const char **dir, struct br_err *err);

#endif
