#include "base/options.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/buf.h"

enum { MAX_CONFIG_BYTES = 1 << 20, MAX_NAME = 64 };

/* Levenshtein distance, for names short enough to be options. */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[MAX_NAME + 1], m = (unsigned)strnlen(b, MAX_NAME);
    for (unsigned j = 0; j <= m; j++)
        row[j] = j;
    for (unsigned i = 0; a[i] && i < MAX_NAME; i++) {
        unsigned diagonal = row[0];
        row[0] = i + 1;
        for (unsigned j = 0; j < m; j++) {
            unsigned cost = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = cost;
            if (row[j] + 1 < row[j + 1])
                row[j + 1] = row[j] + 1;
            if (diagonal + 1 < row[j + 1])
                row[j + 1] = diagonal + 1;
        }
    }
    return row[m];
}

const char *br_nearest(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    unsigned best_distance = (unsigned)strlen(word) / 2 + 1;
    for (size_t i = 0; i < n; i++) {
        unsigned d = edit_distance(word, names[i]);
        if (d < best_distance) {
            best_distance = d;
            best = names[i];
        }
    }
    return best;
}

/* YAML keys may be written with underscores. */
static bool name_equal(const char *key, const char *name)
{
    for (; *key && *name; key++, name++)
        if (*key != *name && !(*key == '_' && *name == '-'))
            return false;
    return *key == *name;
}

static const struct br_option *option_find(const struct br_option *table, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (name_equal(key, table[i].name))
            return &table[i];
    return NULL;
}

static int unknown_option(const struct br_option *table, size_t n, const char *what, const char *key,
                          struct br_err *err)
{
    const char **names = br_calloc(n + 1, sizeof *names);
    const char *near;
    for (size_t i = 0; i < n; i++)
        names[i] = table[i].name;
    near = br_nearest(key, names, n);
    free(names);
    if (near)
        return br_err_set(err, BR_EINVAL, "unknown %s '%s': did you mean '%s'?", what, key, near);
    return br_err_set(err, BR_EINVAL, "unknown %s '%s': --help lists all", what, key);
}

static int parse_number(const char *text, double *value, const char **rest)
{
    char *end;
    *value = strtod(text, &end);
    *rest = end;
    return end == text || !isfinite(*value) ? -1 : 0;
}

static int parse_bytes(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    const char *rest, *unit;
    double value;
    if (parse_number(text, &value, &rest) || value < 0)
        return -1;
    if (*rest) {
        unit = strchr(units, toupper((unsigned char)*rest));
        if (!unit || (rest[1] && strcmp(rest + 1, "iB") != 0 && strcmp(rest + 1, "B") != 0))
            return -1;
        value = ldexp(value, 10 * (int)(unit - units + 1));
    }
    if (value >= 0x1p63)
        return -1;
    *out = (uint64_t)value;
    return 0;
}

static int parse_seconds(const char *text, double *out)
{
    const char *rest;
    if (parse_number(text, out, &rest))
        return -1;
    if (strcmp(rest, "ms") == 0)
        *out *= 1e-3;
    else if (*rest && strcmp(rest, "s") != 0)
        return -1;
    return 0;
}

static int parse_bool(const char *text, bool *out)
{
    static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no", "off", "0"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) == 0)
            return *out = true, 0;
        if (strcmp(text, no[i]) == 0)
            return *out = false, 0;
    }
    return -1;
}

static void list_add(struct br_option_list *list, const char *text)
{
    list->items = br_realloc(list->items, (list->n + 1) * sizeof *list->items);
    list->items[list->n++] = br_strdup(text);
}

static int in_range(const struct br_option *option, double value)
{
    if (option->min == 0 && option->max == 0)
        return 0;
    return value < option->min || value > option->max ? -1 : 0;
}

static int set_uint(const struct br_option *option, uint32_t *out, const char *text)
{
    double value;
    const char *rest;
    if (parse_number(text, &value, &rest) || *rest || value < 0 || value > UINT32_MAX || value != floor(value) ||
        in_range(option, value))
        return -1;
    *out = (uint32_t)value;
    return 0;
}

static int set_number(const struct br_option *option, double *out, const char *text)
{
    double value;
    const char *rest;
    if (parse_number(text, &value, &rest) || *rest || in_range(option, value))
        return -1;
    *out = value;
    return 0;
}

static int set_value(const struct br_option *option, void *at, const char *text)
{
    switch (option->kind) {
    case BR_OPT_BOOL:
        return parse_bool(text, at);
    case BR_OPT_UINT:
        return set_uint(option, at, text);
    case BR_OPT_BYTES:
        return parse_bytes(text, at) || in_range(option, (double)*(uint64_t *)at) ? -1 : 0;
    case BR_OPT_SECONDS:
        return parse_seconds(text, at) || in_range(option, *(double *)at) ? -1 : 0;
    case BR_OPT_NUMBER:
        return set_number(option, at, text);
    case BR_OPT_STRING:
        free(*(char **)at);
        *(char **)at = br_strdup(text);
        return 0;
    case BR_OPT_LIST:
        list_add(at, text);
        return 0;
    }
    return -1;
}

/* The largest unit that leaves a whole number, as parse_bytes reads it. */
static void print_bytes(double bytes, char *buf, size_t size)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    int unit = 0;
    while (unit < 4 && bytes >= 1024 && fmod(bytes, 1024) == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(buf, size, "%.0f%s", bytes, units[unit]);
}

static const char *kind_hint(const struct br_option *option, char *buf, size_t size)
{
    static const char *const hints[] = {
        "true or false", "a whole number", "bytes, as in 4096, 64K, 1.5G", "a time, as in 10s, 100ms", "a number",
        "a text",        "a text"};
    char min[32], max[32];
    if (option->min == 0 && option->max == 0)
        return hints[option->kind];
    if (option->kind == BR_OPT_BYTES) {
        print_bytes(option->min, min, sizeof min);
        print_bytes(option->max, max, sizeof max);
        snprintf(buf, size, "%s from %s to %s", hints[option->kind], min, max);
        return buf;
    }
    snprintf(buf, size, "%s from %g to %g", hints[option->kind], option->min, option->max);
    return buf;
}

static int option_assign(const struct br_option *option, void *target, const char *value, struct br_err *err)
{
    char hint[128];
    if (set_value(option, (char *)target + option->offset, value) == 0)
        return 0;
    return br_err_set(err, BR_EINVAL, "%s: '%s' is not %s", option->name, value, kind_hint(option, hint, sizeof hint));
}

int br_options_set(const struct br_option *table, size_t n, void *target, const char *name, const char *value,
                   struct br_err *err)
{
    const struct br_option *option = option_find(table, n, name);
    if (!option)
        return unknown_option(table, n, "option", name, err);
    return option_assign(option, target, value, err);
}

void br_options_free(const struct br_option *table, size_t n, void *target)
{
    for (size_t i = 0; i < n; i++) {
        void *at = (char *)target + table[i].offset;
        if (table[i].kind == BR_OPT_STRING) {
            free(*(char **)at);
            *(char **)at = NULL;
        } else if (table[i].kind == BR_OPT_LIST) {
            struct br_option_list *list = at;
            for (uint32_t k = 0; k < list->n; k++)
                free(list->items[k]);
            free(list->items);
            *list = (struct br_option_list){0};
        }
    }
}

/* ---- YAML ---- */

static const char *scalar(yaml_node_t *node)
{
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static int yaml_list(yaml_document_t *doc, yaml_node_t *node, const struct br_option *option, void *target,
                     struct br_err *err)
{
    if (node->type == YAML_SEQUENCE_NODE) {
        for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
            const char *text = scalar(yaml_document_get_node(doc, *i));
            if (!text)
                return br_err_set(err, BR_EINVAL, "%s: every item must be a plain value", option->name);
            option_assign(option, target, text, err);
        }
        return 0;
    }
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        const char *key = scalar(yaml_document_get_node(doc, p->key));
        const char *value = scalar(yaml_document_get_node(doc, p->value));
        struct br_buf text = {0};
        if (!key || !value)
            return br_err_set(err, BR_EINVAL, "%s: every entry must be NAME: VALUE", option->name);
        br_buf_printf(&text, "%s=%s", key, value);
        option_assign(option, target, text.data, err);
        br_buf_free(&text);
    }
    return 0;
}

static int yaml_entry(const struct br_option *table, size_t n, void *target, yaml_document_t *doc,
                      yaml_node_t *key_node, yaml_node_t *value_node, struct br_err *err)
{
    const char *key = scalar(key_node), *value = scalar(value_node);
    const struct br_option *option;
    if (!key)
        return br_err_set(err, BR_EINVAL, "keys must be plain words");
    option = option_find(table, n, key);
    if (!option)
        return unknown_option(table, n, "key", key, err);
    if (option->kind == BR_OPT_LIST && !value)
        return yaml_list(doc, value_node, option, target, err);
    if (!value)
        return br_err_set(err, BR_EINVAL, "%s: a plain value is needed", key);
    return option_assign(option, target, value, err);
}

static int yaml_mapping(const struct br_option *table, size_t n, void *target, yaml_document_t *doc, const char *where,
                        struct br_err *err)
{
    yaml_node_t *root = yaml_document_get_root_node(doc);
    if (!root || (root->type == YAML_SCALAR_NODE && root->data.scalar.length == 0))
        return 0; /* an empty file sets nothing */
    if (root->type != YAML_MAPPING_NODE)
        return br_err_set(err, BR_EINVAL, "%s: a mapping of option names to values is needed", where);
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++) {
        yaml_node_t *key = yaml_document_get_node(doc, p->key), *value = yaml_document_get_node(doc, p->value);
        for (yaml_node_pair_t *q = root->data.mapping.pairs.start; q < p; q++) {
            yaml_node_t *earlier = yaml_document_get_node(doc, q->key);
            if (scalar(key) && scalar(earlier) && name_equal(scalar(key), scalar(earlier)))
                return br_err_set(err, BR_EINVAL, "%s:%zu: '%s' is there twice (first in line %zu)", where,
                                  key->start_mark.line + 1, scalar(key), earlier->start_mark.line + 1);
        }
        if (yaml_entry(table, n, target, doc, key, value, err))
            return br_err_wrap(err, "%s:%zu", where, key->start_mark.line + 1);
    }
    return 0;
}

int br_options_yaml(const struct br_option *table, size_t n, void *target, const char *yaml, size_t len,
                    const char *where, struct br_err *err)
{
    yaml_parser_t parser;
    yaml_document_t doc;
    int rc;
    if (!yaml_parser_initialize(&parser))
        return br_err_set(err, BR_ENOMEM, "%s: no memory to parse", where);
    yaml_parser_set_input_string(&parser, (const unsigned char *)yaml, len);
    if (!yaml_parser_load(&parser, &doc)) {
        rc = br_err_set(err, BR_EINVAL, "%s:%zu: %s", where, parser.problem_mark.line + 1,
                        parser.problem ? parser.problem : "not YAML");
        yaml_parser_delete(&parser);
        return rc;
    }
    rc = yaml_mapping(table, n, target, &doc, where, err);
    yaml_document_delete(&doc);
    yaml_parser_delete(&parser);
    return rc;
}

/* ---- flags, environment ---- */

static void print_help(const struct br_option *table, size_t n, const char *program, const char *purpose)
{
    printf("Usage: %s [OPTION...]\n%s\n\n      --config FILE          YAML file with any of the options below\n",
           program, purpose);
    for (size_t i = 0; i < n; i++) {
        const char *help = table[i].help, *colon = table[i].kind == BR_OPT_BOOL ? NULL : strstr(help, ": ");
        char left[64];
        if (colon)
            snprintf(left, sizeof left, "--%s %.*s", table[i].name, (int)(colon - help), help);
        else
            snprintf(left, sizeof left, "--%s", table[i].name);
        printf("      %-28s %s", left, colon ? colon + 2 : help);
        if (table[i].fallback)
            printf(" [%s]", table[i].fallback);
        printf("\n");
    }
    printf("\nEach option can also be set by the environment (BRIAREUS_, upper case, _ for -). A flag goes before the\n"
           "environment, that before the file.\n");
}

static void env_name(char *out, size_t size, const char *name)
{
    size_t n = (size_t)snprintf(out, size, "BRIAREUS_");
    for (; *name && n + 1 < size; name++)
        out[n++] = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
    out[n] = 0;
}

static int read_environment(const struct br_option *table, size_t n, void *target, struct br_err *err)
{
    for (size_t i = 0; i < n; i++) {
        char name[MAX_NAME + 16];
        const char *value;
        env_name(name, sizeof name, table[i].name);
        value = getenv(name);
        if (value && option_assign(&table[i], target, value, err))
            return br_err_wrap(err, "environment %s", name);
    }
    return 0;
}

/* Finds the option that argv[*i] names; *value is its argument (and *i moves over it). */
static int next_flag(const struct br_option *table, size_t n, int argc, char **argv, int *i, char name[MAX_NAME],
                     const char **value, struct br_err *err)
{
    const char *word = argv[*i], *equals;
    const struct br_option *option;
    if (strncmp(word, "--", 2) != 0 || !word[2])
        return br_err_set(err, BR_EINVAL, "'%s' is not an option (they begin with --; --help lists them)", word);
    equals = strchr(word, '=');
    snprintf(name, MAX_NAME, "%.*s", equals ? (int)(equals - word - 2) : (int)strlen(word) - 2, word + 2);
    if (strcmp(name, "config") == 0) {
        option = NULL;
    } else if (!(option = option_find(table, n, name))) {
        return unknown_option(table, n, "option", name, err);
    }
    if (equals)
        *value = equals + 1;
    else if (option && option->kind == BR_OPT_BOOL)
        *value = "true";
    else if (*i + 1 < argc)
        *value = argv[++*i];
    else
        return br_err_set(err, BR_EINVAL, "--%s needs a value", name);
    return 0;
}

static int read_flags(const struct br_option *table, size_t n, void *target, int argc, char **argv,
                      const char **config_file, struct br_err *err)
{
    for (int i = 1; i < argc; i++) {
        char name[MAX_NAME];
        const char *value = NULL;
        if (next_flag(table, n, argc, argv, &i, name, &value, err))
            return err->code;
        if (strcmp(name, "config") == 0)
            *config_file = value;
        else if (target && br_options_set(table, n, target, name, value, err))
            return err->code;
    }
    return 0;
}

static int read_config_file(const struct br_option *table, size_t n, void *target, const char *path, struct br_err *err)
{
    struct br_buf text = {0};
    int rc;
    if (br_buf_read_file(&text, path, MAX_CONFIG_BYTES))
        rc = br_buf_read_error(err, BR_ENOENT, "config file %s", path);
    else
        rc = br_options_yaml(table, n, target, text.data ? text.data : "", text.len, path, err);
    br_buf_free(&text);
    return rc;
}

/* A list that a later source names replaces the earlier source's list as a whole. */
static void clear_lists_named(const struct br_option *table, size_t n, void *target, int argc, char **argv)
{
    for (size_t k = 0; k < n; k++) {
        char flag[MAX_NAME + 4];
        size_t len = (size_t)snprintf(flag, sizeof flag, "--%s", table[k].name);
        if (table[k].kind != BR_OPT_LIST)
            continue;
        for (int i = 1; i < argc; i++)
            if (strncmp(argv[i], flag, len) == 0 && (argv[i][len] == 0 || argv[i][len] == '=')) {
                br_options_free(&table[k], 1, target);
                break;
            }
    }
}

int br_options_read(const struct br_option *table, size_t n, void *target, const char *program, const char *purpose,
                    int argc, char **argv, struct br_err *err)
{
    const char *file = getenv("BRIAREUS_CONFIG");
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0)
            return print_help(table, n, program, purpose), 1;
    for (size_t i = 0; i < n; i++)
        if (table[i].fallback && option_assign(&table[i], target, table[i].fallback, err))
            return br_err_wrap(err, "default");
    if (read_flags(table, n, NULL, argc, argv, &file, err))
        return err->code;
    if (file && read_config_file(table, n, target, file, err))
        return err->code;
    if (read_environment(table, n, target, err))
        return err->code;
    clear_lists_named(table, n, target, argc, argv);
    return read_flags(table, n, target, argc, argv, &file, err);
}
