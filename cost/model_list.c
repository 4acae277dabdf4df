#include "cost/model_list.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/buf.h"
#include "base/options.h"
#include "cost/config_field.h"

/* One entry as it stands in the file. */
struct draft {
    char *name, *catalogue, *config, *weights, *kv, *tokenizer;
    uint32_t count, context;
    double ttft_s, tbt_s, weight;
    bool pinned;
};

static const struct br_option g_keys[] = {
    {"name", BR_OPT_STRING, offsetof(struct draft, name), NULL, 0, 0, ""},
    {"catalogue", BR_OPT_STRING, offsetof(struct draft, catalogue), NULL, 0, 0, ""},
    {"config", BR_OPT_STRING, offsetof(struct draft, config), NULL, 0, 0, ""},
    {"weights", BR_OPT_STRING, offsetof(struct draft, weights), NULL, 0, 0, ""},
    {"kv", BR_OPT_STRING, offsetof(struct draft, kv), NULL, 0, 0, ""},
    {"tokenizer", BR_OPT_STRING, offsetof(struct draft, tokenizer), NULL, 0, 0, ""},
    {"count", BR_OPT_UINT, offsetof(struct draft, count), NULL, 1, BR_MODEL_LIST_MAX_COUNT, ""},
    {"context", BR_OPT_UINT, offsetof(struct draft, context), NULL, 16, 1 << 20, ""},
    {"ttft", BR_OPT_SECONDS, offsetof(struct draft, ttft_s), NULL, 0.001, 86400, ""},
    {"tbt", BR_OPT_SECONDS, offsetof(struct draft, tbt_s), NULL, 0.0001, 3600, ""},
    {"weight", BR_OPT_NUMBER, offsetof(struct draft, weight), NULL, 0.001, 1000, ""},
    {"pinned", BR_OPT_BOOL, offsetof(struct draft, pinned), NULL, 0, 0, ""},
};
enum { N_KEYS = sizeof g_keys / sizeof g_keys[0] };

struct reader {
    const char *file;
    yaml_document_t doc;
    struct br_model_list *list;
};

/* ---- one model ---- */

/* A path of the file, seen from the file's folder, and with `leaf` where it is a folder ("" for none). */
static int path_of(const struct reader *r, const char *path, const char *leaf, char out[PATH_MAX], struct br_err *err)
{
    const char *slash = strrchr(r->file, '/');
    size_t n = strlen(path);
    bool is_file = n > 5 && strcmp(path + n - 5, ".json") == 0;
    int folder = path[0] == '/' || !slash ? 0 : (int)(slash + 1 - r->file);
    if (snprintf(out, PATH_MAX, "%.*s%s%s%s", folder, r->file, path, is_file ? "" : "/", is_file ? "" : leaf) >=
        PATH_MAX)
        return br_err_set(err, BR_EINVAL, "%.80s...: the path is too long", path);
    return 0;
}

/* Sizes and positions of a config.json; a mixture, which the engine's shape does not know, keeps the default. */
static int config_load(const char *path, const char *name, struct br_model_size *size, uint32_t *context,
                       struct br_err *err)
{
    struct br_buf text = {0};
    struct br_model_shape shape;
    struct br_err ignored;
    int rc;
    if (br_buf_read_file(&text, path, BR_CONFIG_MAX_BYTES))
        rc = br_buf_read_error(err, errno == ENOENT ? BR_ENOENT : BR_EIO, "%s", path);
    else
        rc = br_model_size_parse(text.data ? text.data : "", text.len, path, name, size, err);
    if (rc == 0 && br_model_shape_parse(text.data, text.len, NULL, 0, &shape, &ignored) == 0)
        *context = shape.max_positions;
    br_buf_free(&text);
    return rc;
}

static int draft_size(const struct reader *r, const struct draft *d, struct br_model_size *size, uint32_t *context,
                      struct br_err *err)
{
    char path[PATH_MAX];
    *context = BR_MODEL_LIST_CONTEXT;
    if (!d->catalogue == !d->config)
        return br_err_set(err, BR_EINVAL,
                          "model '%.64s' needs one of catalogue (a known model's name) and config (a "
                          "config.json)",
                          d->name);
    if (d->catalogue)
        return br_catalogue_find(d->catalogue, size, err);
    if (path_of(r, d->config, "config.json", path, err))
        return err->code;
    return config_load(path, d->name, size, context, err);
}

static int draft_entry(const struct reader *r, const struct draft *d, struct br_model_entry *out, struct br_err *err)
{
    enum br_weight_format weights = BR_WEIGHTS_BF16;
    enum br_kv_format kv = BR_KV_BF16;
    struct br_model_size size;
    char path[PATH_MAX];
    *out = (struct br_model_entry){.ttft_s = d->ttft_s, .tbt_s = d->tbt_s, .weight = d->weight, .pinned = d->pinned};
    if (draft_size(r, d, &size, &out->context, err) ||
        (d->weights && br_weight_format_parse(d->weights, &weights, err)) ||
        (d->kv && br_kv_format_parse(d->kv, &kv, err)))
        return err->code;
    br_footprint_init(&out->footprint, &size, weights, kv);
    if (d->context)
        out->context = d->context;
    if (!d->tokenizer)
        return 0;
    if (path_of(r, d->tokenizer, "tokenizer.json", path, err))
        return err->code;
    out->tokenizer = br_strdup(path);
    return 0;
}

static bool name_known(const struct br_model_list *list, const char *name)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(list->entries[i].name, name) == 0)
            return true;
    return false;
}

static int list_add(struct br_model_list *list, const struct draft *d, const struct br_model_entry *entry, uint32_t i,
                    struct br_err *err)
{
    struct br_model_entry made = *entry;
    int n = d->count ? snprintf(made.name, sizeof made.name, "%s-%u", d->name, i)
                     : snprintf(made.name, sizeof made.name, "%s", d->name);
    if (n == 0 || n >= (int)sizeof made.name)
        return br_err_set(err, BR_EINVAL, "name: '%.64s' is not a name of 1 to %d bytes", d->name,
                          BR_MODEL_LIST_NAME - 6);
    if (name_known(list, made.name))
        return br_err_set(err, BR_EINVAL, "two models are called '%.64s'", made.name);
    if (list->n == BR_MODEL_LIST_MAX)
        return br_err_set(err, BR_EINVAL, "more than %d models", BR_MODEL_LIST_MAX);
    made.tokenizer = entry->tokenizer ? br_strdup(entry->tokenizer) : NULL;
    list->entries[list->n++] = made;
    return 0;
}

static int name_check(const char *name, struct br_err *err)
{
    if (!name || !*name)
        return br_err_set(err, BR_EINVAL, "a model without a name");
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 127)
            return br_err_set(err, BR_EINVAL, "name: '%.64s' has a blank or a control character", name);
    return 0;
}

static int draft_expand(struct reader *r, const struct draft *d, struct br_err *err)
{
    uint32_t count = d->count ? d->count : 1;
    struct br_model_entry entry;
    int rc;
    rc = name_check(d->name, err);
    if (rc)
        return rc;
    rc = draft_entry(r, d, &entry, err);
    if (rc)
        return rc;
    r->list->entries = br_realloc(r->list->entries, (r->list->n + count) * sizeof *r->list->entries);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = list_add(r->list, d, &entry, i, err);
    free(entry.tokenizer);
    return rc;
}

/* ---- YAML ---- */

static const char *scalar(const yaml_node_t *node)
{
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static int draft_read(struct reader *r, const yaml_node_t *node, struct draft *d, struct br_err *err)
{
    yaml_node_pair_t *first = node->data.mapping.pairs.start;
    for (yaml_node_pair_t *p = first; p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *key = yaml_document_get_node(&r->doc, p->key), *value = yaml_document_get_node(&r->doc, p->value);
        size_t line = key->start_mark.line + 1;
        if (!scalar(key) || !scalar(value))
            return br_err_set(err, BR_EINVAL, "%s:%zu: KEY: VALUE is needed, both plain", r->file, line);
        for (yaml_node_pair_t *q = first; q < p; q++)
            if (strcmp(scalar(yaml_document_get_node(&r->doc, q->key)), scalar(key)) == 0)
                return br_err_set(err, BR_EINVAL, "%s:%zu: '%.40s' is there twice", r->file, line, scalar(key));
        if (br_options_set(g_keys, N_KEYS, d, scalar(key), scalar(value), err))
            return br_err_wrap(err, "%s:%zu", r->file, line);
    }
    return 0;
}

static int model_read(struct reader *r, const yaml_node_t *node, struct br_err *err)
{
    struct draft d = {0};
    int rc;
    if (node->type != YAML_MAPPING_NODE)
        return br_err_set(err, BR_EINVAL, "%s:%zu: a model is a mapping: name, catalogue or config, ...", r->file,
                          node->start_mark.line + 1);
    rc = draft_read(r, node, &d, err);
    if (rc == 0 && (rc = draft_expand(r, &d, err)))
        br_err_wrap(err, "%s:%zu", r->file, node->start_mark.line + 1);
    br_options_free(g_keys, N_KEYS, &d);
    return rc;
}

/* The sequence of models: the root, or what stands under `models`, the only key. */
static int models_node(struct reader *r, const yaml_node_t **out, struct br_err *err)
{
    const yaml_node_t *root = yaml_document_get_root_node(&r->doc);
    if (root && root->type == YAML_MAPPING_NODE) {
        for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++) {
            const yaml_node_t *key = yaml_document_get_node(&r->doc, p->key);
            if (!scalar(key) || strcmp(scalar(key), "models") != 0 || p > root->data.mapping.pairs.start)
                return br_err_set(err, BR_EINVAL, "%s:%zu: '%.40s': the only key is models, once", r->file,
                                  key->start_mark.line + 1, scalar(key) ? scalar(key) : "?");
        }
        if (root->data.mapping.pairs.top > root->data.mapping.pairs.start)
            root = yaml_document_get_node(&r->doc, root->data.mapping.pairs.start->value);
    }
    if (!root || root->type != YAML_SEQUENCE_NODE || root->data.sequence.items.start == root->data.sequence.items.top)
        return br_err_set(err, BR_EINVAL, "%s: a list of models is needed: '- name: ...'", r->file);
    *out = root;
    return 0;
}

static int models_read(struct reader *r, struct br_err *err)
{
    const yaml_node_t *list = NULL;
    int rc = models_node(r, &list, err);
    if (rc)
        return rc;
    for (yaml_node_item_t *i = list->data.sequence.items.start; rc == 0 && i < list->data.sequence.items.top; i++)
        rc = model_read(r, yaml_document_get_node(&r->doc, *i), err);
    return rc;
}

int br_model_list_parse(const char *text, size_t len, const char *file, struct br_model_list *out, struct br_err *err)
{
    struct br_model_list list = {0};
    struct reader r = {.file = file, .list = &list};
    yaml_parser_t parser;
    int rc;
    if (!yaml_parser_initialize(&parser))
        return br_err_set(err, BR_ENOMEM, "%s: no memory to parse", file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    if (yaml_parser_load(&parser, &r.doc)) {
        rc = models_read(&r, err);
        yaml_document_delete(&r.doc);
    } else
        rc = br_err_set(err, BR_EINVAL, "%s:%zu: %s", file, parser.problem_mark.line + 1,
                        parser.problem ? parser.problem : "not YAML");
    yaml_parser_delete(&parser);
    if (rc)
        br_model_list_free(&list);
    *out = list;
    return rc;
}

int br_model_list_read(const char *path, struct br_model_list *out, struct br_err *err)
{
    struct br_buf text = {0};
    int rc;
    *out = (struct br_model_list){0};
    if (br_buf_read_file(&text, path, BR_MODEL_LIST_MAX_BYTES))
        rc = br_buf_read_error(err, errno == ENOENT ? BR_ENOENT : BR_EIO, "models file %s", path);
    else
        rc = br_model_list_parse(text.data ? text.data : "", text.len, path, out, err);
    br_buf_free(&text);
    return rc;
}

void br_model_list_free(struct br_model_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        free(list->entries[i].tokenizer);
    free(list->entries);
    *list = (struct br_model_list){0};
}

int br_model_entry_of_dir(const char *name, const char *dir, struct br_model_entry *out, struct br_err *err)
{
    struct br_model_size size;
    char path[PATH_MAX];
    *out = (struct br_model_entry){.context = BR_MODEL_LIST_CONTEXT};
    if (strlen(name) >= sizeof out->name || strlen(dir) + sizeof "/tokenizer.json" > sizeof path)
        return br_err_set(err, BR_EINVAL, "model %.64s: its name or the path of its folder is too long", name);
    strcpy(out->name, name);
    snprintf(path, sizeof path, "%s/config.json", dir);
    if (config_load(path, name, &size, &out->context, err))
        return err->code;
    br_footprint_init(&out->footprint, &size, BR_WEIGHTS_BF16, BR_KV_BF16);
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    out->tokenizer = br_strdup(path);
    return 0;
}
