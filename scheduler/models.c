#include "scheduler/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cost/shape.h"
#include "scheduler/generation.h"
#include "scheduler/model_terms.h"
#include "text/byte_tokenizer.h"

struct model {
    struct br_gateway_model view;
    char name[BR_MAX_MODEL_NAME];
    struct br_tokenizer *tokenizer; /* owned */
    bool present, pinned;
    char *dir;                      /* owned; NULL: outline */
    struct br_model_entry *outline; /* owned; NULL: dir */
    char folder_trouble[512], device_trouble[512];
};

struct br_models {
    struct model *list;
    uint32_t n, cap;
};

int br_model_arg_split(const char *arg, char *name, const char **dir, struct br_err *err)
{
    const char *equals = strchr(arg, '='), *begin = arg;
    size_t len;
    *dir = equals ? equals + 1 : arg;
    if (equals) {
        len = (size_t)(equals - arg);
    } else { /* the folder's last part */
        len = strlen(arg);
        while (len > 0 && arg[len - 1] == '/')
            len--;
        begin = arg + len;
        while (begin > arg && begin[-1] != '/')
            begin--;
        len = (size_t)(arg + len - begin);
    }
    if (len == 0 || len >= BR_MAX_MODEL_NAME || !**dir)
        return br_err_set(err, BR_EINVAL, "model: '%s' is not NAME=DIR with a name of 1 to %d bytes", arg,
                          BR_MAX_MODEL_NAME - 1);
    memcpy(name, begin, len);
    name[len] = 0;
    return 0;
}

static int load_chat(struct model *m, const char *dir, const char *override, struct br_err *err)
{
    char path[4096];
    struct br_buf jinja = {0};
    int rc;
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    rc = br_chat_template_from_config(path, &jinja, err);
    if (rc && rc != BR_ENOENT) {
        br_buf_free(&jinja);
        return rc;
    }
    if (rc == BR_ENOENT && !override) { /* a base model: completions only */
        br_buf_free(&jinja);
        return 0;
    }
    rc = br_chat_detect(rc ? NULL : jinja.data, override, &m->view.chat, err);
    m->view.has_chat = rc == 0;
    br_buf_free(&jinja);
    return rc;
}

static int load_folder(struct model *m, const char *dir, const struct br_models_config *c, struct br_err *err)
{
    struct br_model_shape shape;
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    if (br_model_shape_load(dir, &shape, err) || br_tokenizer_load(path, &m->tokenizer, err) ||
        load_chat(m, dir, c->chat_template, err) ||
        (!c->plain_sampling && br_generation_load(dir, &m->view.defaults, err)))
        return err->code;
    m->view.tokenizer = m->tokenizer;
    m->view.max_context = shape.max_positions;
    if (c->max_model_len && c->max_model_len < m->view.max_context)
        m->view.max_context = c->max_model_len;
    m->view.vocab = shape.vocab;
    return 0;
}

/* Terms of a model that is not there are a name misspelt. */
static int terms_named(const struct br_models *models, const struct br_option_list *terms, struct br_err *err)
{
    for (uint32_t i = 0; terms && i < terms->n; i++) {
        const char *item = terms->items[i], *equals = strchr(item, '=');
        char name[BR_MAX_MODEL_NAME];
        snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - item) : 64, item);
        if (!equals || br_models_index(models, name) < 0)
            return br_err_set(err, BR_EINVAL, "model-terms: '%.64s' is not NAME=KEY=VALUE,... of a model that is given",
                              item);
    }
    return 0;
}

/* Takes the entry whose name is filled in. terms: what is known of it, else 0. */
static int list_model(struct br_models *models, struct model *m, struct br_model_terms terms,
                      const struct br_models_config *c, struct br_err *err)
{
    terms.ttft_s = terms.ttft_s > 0 ? terms.ttft_s : c->ttft_s;
    terms.tbt_s = terms.tbt_s > 0 ? terms.tbt_s : c->tbt_s;
    terms.weight = terms.weight > 0 ? terms.weight : 1;

    if (br_models_index(models, m->name) >= 0)
        return br_err_set(err, BR_EINVAL, "model: '%s' is named twice", m->name);
    if (br_model_terms_apply(c->terms, m->name, &terms, err))
        return err->code;
    models->n++;
    m->present = true;
    m->view.name = m->name;
    m->view.created_s = br_wall_ns() / BR_NS_PER_S;
    m->view.ttft_s = terms.ttft_s;
    m->view.tbt_s = terms.tbt_s;
    m->view.weight = terms.weight;
    m->pinned = terms.pinned;
    return 0;
}

static void model_unusable(struct model *m, const char *dir, const struct br_err *err)
{
    snprintf(m->folder_trouble, sizeof m->folder_trouble, "%s", err->msg);
    br_log(BR_ERROR, "model_unusable", "model=%s dir=%s why=%s", m->name, dir, BR_Q(err->msg));
}

static int add_model(struct br_models *models, const char *arg, const struct br_models_config *c, struct br_err *err)
{
    struct model *m = &models->list[models->n];
    const char *dir;
    if (br_model_arg_split(arg, m->name, &dir, err) || list_model(models, m, (struct br_model_terms){0}, c, err))
        return err->code;
    m->dir = br_strdup(dir);
    if (load_folder(m, dir, c, err))
        model_unusable(m, dir, err);
    return 0;
}

/* The chat format of a model without a folder of its own. */
static int outline_chat(struct model *m, const struct br_models_config *c, struct br_err *err)
{
    m->view.has_chat = true;
    return br_chat_detect(NULL, c->chat_template ? c->chat_template : "chatml", &m->view.chat, err);
}

static int add_outline(struct br_models *models, const struct br_model_entry *entry, const struct br_models_config *c,
                       struct br_err *err)
{
    struct model *m = &models->list[models->n];
    int rc;
    snprintf(m->name, sizeof m->name, "%s", entry->name);
    if (list_model(
            models, m,
            (struct br_model_terms){
                .ttft_s = entry->ttft_s, .tbt_s = entry->tbt_s, .weight = entry->weight, .pinned = entry->pinned},
            c, err))
        return err->code;
    m->outline = br_malloc(sizeof *m->outline);
    *m->outline = *entry;
    m->outline->tokenizer = entry->tokenizer ? br_strdup(entry->tokenizer) : NULL;
    m->view.max_context = entry->context;
    if (c->max_model_len && c->max_model_len < m->view.max_context)
        m->view.max_context = c->max_model_len;
    rc = entry->tokenizer ? br_tokenizer_load(entry->tokenizer, &m->tokenizer, err)
                          : br_byte_tokenizer_create(&m->tokenizer, err);
    if (rc || outline_chat(m, c, err)) {
        model_unusable(m, "-", err);
        return 0;
    }
    m->view.tokenizer = m->tokenizer;
    m->view.vocab = (uint32_t)br_tokenizer_vocab_size(m->tokenizer);
    return 0;
}

int br_models_create(const struct br_models_config *config, struct br_models **out, struct br_err *err)
{
    struct br_models *models;
    uint32_t n = config->models->n, outlines = config->outlines ? config->outlines->n : 0;
    int rc = 0;
    if (n + outlines == 0)
        return br_err_set(err, BR_EINVAL, "no model given: --model NAME=DIR, once for each");
    models = br_calloc(1, sizeof *models);
    models->cap = n + outlines + BR_MODELS_SPARE;
    models->list = br_calloc(models->cap, sizeof *models->list);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = add_model(models, config->models->items[i], config, err);
    for (uint32_t i = 0; rc == 0 && i < outlines; i++)
        rc = add_outline(models, &config->outlines->entries[i], config, err);
    if (rc == 0)
        rc = terms_named(models, config->terms, err);
    if (rc) {
        br_models_destroy(models);
        return rc;
    }
    *out = models;
    return 0;
}

void br_models_destroy(struct br_models *models)
{
    if (!models)
        return;
    for (uint32_t i = 0; i < models->n; i++)
        br_models_release(models, i);
    free(models->list);
    free(models);
}

uint32_t br_models_count(const struct br_models *models)
{
    return models->n;
}

int br_models_index(const struct br_models *models, const char *name)
{
    for (uint32_t i = 0; i < models->n; i++)
        if (models->list[i].present && strcmp(models->list[i].name, name) == 0)
            return (int)i;
    return -1;
}

const struct br_gateway_model *br_models_at(const struct br_models *models, uint32_t index)
{
    return &models->list[index].view;
}

bool br_models_pinned(const struct br_models *models, uint32_t index)
{
    return models->list[index].pinned;
}

void br_models_set_pinned(struct br_models *models, uint32_t index, bool pinned)
{
    models->list[index].pinned = pinned;
}

const char *br_models_trouble(const struct br_models *models, uint32_t index)
{
    const struct model *m = &models->list[index];
    if (m->folder_trouble[0])
        return m->folder_trouble;
    return m->device_trouble[0] ? m->device_trouble : NULL;
}

void br_models_set_trouble(struct br_models *models, uint32_t index, const char *why)
{
    struct model *m = &models->list[index];
    snprintf(m->device_trouble, sizeof m->device_trouble, "%s", why ? why : "");
}

/* ---- another configuration ---- */

uint32_t br_models_capacity(const struct br_models *models)
{
    return models->cap;
}

bool br_models_present(const struct br_models *models, uint32_t index)
{
    return models->list[index].present;
}

const char *br_models_dir(const struct br_models *models, uint32_t index)
{
    return models->list[index].dir;
}

const struct br_model_entry *br_models_outline(const struct br_models *models, uint32_t index)
{
    return models->list[index].outline;
}

void br_models_remove(struct br_models *models, uint32_t index)
{
    models->list[index].present = false;
}

bool br_models_released(const struct br_models *models, uint32_t index)
{
    return !models->list[index].view.name;
}

void br_models_release(struct br_models *models, uint32_t index)
{
    struct model *m = &models->list[index];
    br_tokenizer_free(m->tokenizer);
    free(m->dir);
    if (m->outline)
        free(m->outline->tokenizer);
    free(m->outline);
    *m = (struct model){0};
}

static struct model *free_entry(struct br_models *models)
{
    for (uint32_t i = 0; i < models->n; i++)
        if (br_models_released(models, i))
            return &models->list[i];
    return models->n < models->cap ? &models->list[models->n++] : NULL;
}

/* Moves the entry; the other catalogue forgets it. */
static void adopt(struct br_models *models, struct model *from, struct br_models_change *out)
{
    struct model *to = free_entry(models);
    if (!to) {
        br_log(BR_ERROR, "model_not_added", "model=%s why=%s", from->name,
               BR_Q("all places for models are taken: restart the scheduler"));
        return;
    }
    *to = *from;
    to->view.name = to->name;
    *from = (struct model){0};
    out->added[out->n_added++] = (uint32_t)(to - models->list);
}

static bool same_source(const struct model *a, const struct model *b)
{
    if (!a->dir != !b->dir)
        return false;
    return a->dir ? strcmp(a->dir, b->dir) == 0
                  : memcmp(&a->outline->footprint, &b->outline->footprint, sizeof a->outline->footprint) == 0;
}

static void keep(struct model *m, const struct model *fresh)
{
    if (!same_source(m, fresh))
        br_log(BR_WARN, "model_source_kept", "model=%s why=%s", m->name,
               BR_Q("it comes from elsewhere now: remove it first, or give it another name"));
    m->view.ttft_s = fresh->view.ttft_s;
    m->view.tbt_s = fresh->view.tbt_s;
    m->view.weight = fresh->view.weight;
    m->pinned = fresh->pinned;
}

static void change_open(const struct br_models *models, struct br_models_change *out)
{
    *out = (struct br_models_change){.added = br_calloc(models->cap, sizeof *out->added),
                                     .removed = br_calloc(models->cap, sizeof *out->removed),
                                     .kept = br_calloc(models->cap, sizeof *out->kept)};
}

void br_models_change_free(struct br_models_change *change)
{
    free(change->added);
    free(change->removed);
    free(change->kept);
}

int br_models_reload(struct br_models *models, const struct br_models_config *config, struct br_models_change *out,
                     struct br_err *err)
{
    struct br_models *fresh;
    int rc = br_models_create(config, &fresh, err);
    if (rc)
        return rc;
    change_open(models, out);
    for (uint32_t i = 0; i < models->n; i++)
        if (models->list[i].present && br_models_index(fresh, models->list[i].name) < 0)
            out->removed[out->n_removed++] = i;
    for (uint32_t i = 0; i < fresh->n; i++) {
        int index = br_models_index(models, fresh->list[i].name);
        if (index < 0) {
            adopt(models, &fresh->list[i], out);
            continue;
        }
        keep(&models->list[index], &fresh->list[i]);
        out->kept[out->n_kept++] = (uint32_t)index;
    }
    br_models_destroy(fresh);
    return 0;
}
