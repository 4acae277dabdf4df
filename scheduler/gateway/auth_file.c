/* The file of keys. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "scheduler/gateway/auth.h"

/* One key as it stands in the file. */
struct draft {
    char *name, *hash, *tenant;
    double requests, tokens, weight;
    uint32_t concurrency;
    struct br_option_list models;
    bool admin;
};

static const struct br_option g_keys[] = {
    {"name", BR_OPT_STRING, offsetof(struct draft, name), NULL, 0, 0, ""},
    {"hash", BR_OPT_STRING, offsetof(struct draft, hash), NULL, 0, 0, ""},
    {"tenant", BR_OPT_STRING, offsetof(struct draft, tenant), NULL, 0, 0, ""},
    {"requests", BR_OPT_NUMBER, offsetof(struct draft, requests), NULL, 0.001, 1e9, ""},
    {"tokens", BR_OPT_NUMBER, offsetof(struct draft, tokens), NULL, 1, 1e12, ""},
    {"concurrency", BR_OPT_UINT, offsetof(struct draft, concurrency), NULL, 1, 1000000, ""},
    {"models", BR_OPT_LIST, offsetof(struct draft, models), NULL, 0, 0, ""},
    {"weight", BR_OPT_NUMBER, offsetof(struct draft, weight), NULL, 0.001, 1000, ""},
    {"admin", BR_OPT_BOOL, offsetof(struct draft, admin), NULL, 0, 0, ""},
};
enum { N_KEYS = sizeof g_keys / sizeof g_keys[0] };

struct reader {
    const char *where;
    yaml_document_t doc;
    struct br_key_list list;
};

/* ---- one key ---- */

static int name_check(const char *what, const char *name, struct br_err *err)
{
    if (!name || !*name || strlen(name) >= BR_KEY_NAME)
        return br_err_set(err, BR_EINVAL, "%s: a name of 1 to %d bytes is needed", what, BR_KEY_NAME - 1);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 127 || *p == '"' || *p == '\\')
            return br_err_set(err, BR_EINVAL, "%s: '%.64s' has a blank, a quote or a character that is not ASCII", what,
                              name);
    return 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The text itself is not repeated in errors: somebody may have put the key there. */
static int hash_parse(const char *text, unsigned char out[BR_KEY_HASH], struct br_err *err)
{
    if (!text || strlen(text) != 2 * BR_KEY_HASH)
        return br_err_set(err, BR_EINVAL, "hash: 64 hexadecimal digits are needed, as `briareus key new` prints them");
    for (int i = 0; i < BR_KEY_HASH; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return br_err_set(err, BR_EINVAL, "hash: digit %d is not hexadecimal", 2 * i + (high < 0 ? 1 : 2));
        out[i] = (unsigned char)(high << 4 | low);
    }
    return 0;
}

static int key_known(const struct br_key_list *list, const struct br_key *key, struct br_err *err)
{
    for (uint32_t i = 0; i < list->n; i++) {
        if (strcmp(list->keys[i].name, key->name) == 0)
            return br_err_set(err, BR_EINVAL, "two keys are called '%s'", key->name);
        if (memcmp(list->keys[i].hash, key->hash, BR_KEY_HASH) == 0)
            return br_err_set(err, BR_EINVAL, "'%s' has the hash of '%s'", key->name, list->keys[i].name);
    }
    return 0;
}

/* Takes the draft's models. */
static int draft_key(const struct reader *r, struct draft *d, struct br_key *out, struct br_err *err)
{
    *out = (struct br_key){.requests_per_min = d->requests,
                           .tokens_per_min = d->tokens,
                           .concurrency = d->concurrency,
                           .weight = d->weight > 0 ? d->weight : 1,
                           .admin = d->admin};
    if (name_check("name", d->name, err) || (d->tenant && name_check("tenant", d->tenant, err)) ||
        hash_parse(d->hash, out->hash, err))
        return err->code;
    snprintf(out->name, sizeof out->name, "%s", d->name);
    snprintf(out->tenant, sizeof out->tenant, "%s", d->tenant ? d->tenant : d->name);
    if (key_known(&r->list, out, err))
        return err->code;
    if (r->list.n == BR_KEYS_MAX)
        return br_err_set(err, BR_EINVAL, "more than %d keys", BR_KEYS_MAX);
    out->models = d->models;
    d->models = (struct br_option_list){0};
    return 0;
}

/* ---- YAML ---- */

static const char *scalar(const yaml_node_t *node)
{
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static int draft_set(struct reader *r, struct draft *d, const char *key, const yaml_node_t *value, struct br_err *err)
{
    if (scalar(value))
        return br_options_set(g_keys, N_KEYS, d, key, scalar(value), err);
    if (value->type != YAML_SEQUENCE_NODE || strcmp(key, "models") != 0)
        return br_err_set(err, BR_EINVAL, "%.40s: a plain value is needed", key);
    for (yaml_node_item_t *i = value->data.sequence.items.start; i < value->data.sequence.items.top; i++) {
        const char *text = scalar(yaml_document_get_node(&r->doc, *i));
        if (!text)
            return br_err_set(err, BR_EINVAL, "models: a list of names is needed");
        if (br_options_set(g_keys, N_KEYS, d, key, text, err))
            return err->code;
    }
    return d->models.n ? 0 : br_err_set(err, BR_EINVAL, "models: an empty list allows none; leave it out to allow all");
}

static int draft_read(struct reader *r, const yaml_node_t *node, struct draft *d, struct br_err *err)
{
    yaml_node_pair_t *first = node->data.mapping.pairs.start;
    for (yaml_node_pair_t *p = first; p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *key = yaml_document_get_node(&r->doc, p->key), *value = yaml_document_get_node(&r->doc, p->value);
        size_t line = key->start_mark.line + 1;
        if (!scalar(key))
            return br_err_set(err, BR_EINVAL, "%s:%zu: KEY: VALUE is needed", r->where, line);
        for (yaml_node_pair_t *q = first; q < p; q++)
            if (strcmp(scalar(yaml_document_get_node(&r->doc, q->key)), scalar(key)) == 0)
                return br_err_set(err, BR_EINVAL, "%s:%zu: '%.40s' is there twice", r->where, line, scalar(key));
        if (draft_set(r, d, scalar(key), value, err))
            return br_err_wrap(err, "%s:%zu", r->where, line);
    }
    return 0;
}

static int key_read(struct reader *r, const yaml_node_t *node, struct br_err *err)
{
    struct draft d = {0};
    struct br_key key;
    int rc;
    if (node->type != YAML_MAPPING_NODE)
        return br_err_set(err, BR_EINVAL, "%s:%zu: a key is a mapping: name, hash, ...", r->where,
                          node->start_mark.line + 1);
    rc = draft_read(r, node, &d, err);
    if (rc == 0 && draft_key(r, &d, &key, err))
        rc = br_err_wrap(err, "%s:%zu", r->where, node->start_mark.line + 1);
    br_options_free(g_keys, N_KEYS, &d);
    if (rc)
        return rc;
    r->list.keys = br_realloc(r->list.keys, (r->list.n + 1) * sizeof key);
    r->list.keys[r->list.n++] = key;
    return 0;
}

static int root_read(struct reader *r, struct br_err *err)
{
    yaml_node_t *root = yaml_document_get_root_node(&r->doc), *list = NULL;
    yaml_node_pair_t *only = root && root->type == YAML_MAPPING_NODE ? root->data.mapping.pairs.start : NULL;
    if (only && only + 1 == root->data.mapping.pairs.top) {
        const char *word = scalar(yaml_document_get_node(&r->doc, only->key));
        list = word && strcmp(word, "keys") == 0 ? yaml_document_get_node(&r->doc, only->value) : NULL;
    }
    if (!list || list->type != YAML_SEQUENCE_NODE || list->data.sequence.items.start == list->data.sequence.items.top)
        return br_err_set(err, BR_EINVAL, "%s: 'keys:' with a list of at least one key is needed, and nothing else",
                          r->where);
    for (yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++)
        if (key_read(r, yaml_document_get_node(&r->doc, *i), err))
            return err->code;
    return 0;
}

int br_keys_parse(const char *yaml, size_t len, const char *where, struct br_key_list *out, struct br_err *err)
{
    struct reader r = {.where = where};
    yaml_parser_t parser;
    int rc;
    if (len > BR_KEYS_MAX_BYTES)
        return br_err_set(err, BR_EINVAL, "%s: larger than %d bytes", where, BR_KEYS_MAX_BYTES);
    if (!yaml_parser_initialize(&parser))
        return br_err_set(err, BR_ENOMEM, "%s: no memory to parse", where);
    yaml_parser_set_input_string(&parser, (const unsigned char *)yaml, len);
    if (!yaml_parser_load(&parser, &r.doc)) {
        rc = br_err_set(err, BR_EINVAL, "%s:%zu: %s", where, parser.problem_mark.line + 1,
                        parser.problem ? parser.problem : "not YAML");
        yaml_parser_delete(&parser);
        return rc;
    }
    rc = root_read(&r, err);
    yaml_document_delete(&r.doc);
    yaml_parser_delete(&parser);
    if (rc)
        br_keys_free(&r.list);
    else
        *out = r.list;
    return rc;
}

int br_keys_read(const char *path, struct br_key_list *out, struct br_err *err)
{
    struct br_buf text = {0};
    int rc;
    if (br_buf_read_file(&text, path, BR_KEYS_MAX_BYTES))
        rc = br_buf_read_error(err, BR_EIO, "%s", path);
    else
        rc = br_keys_parse(text.data ? text.data : "", text.len, path, out, err);
    br_buf_free(&text);
    return rc;
}

static void models_free(struct br_option_list *models)
{
    for (uint32_t i = 0; i < models->n; i++)
        free(models->items[i]);
    free(models->items);
}

void br_keys_free(struct br_key_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        models_free(&list->keys[i].models);
    free(list->keys);
    *list = (struct br_key_list){0};
}
