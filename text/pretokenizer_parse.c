#include <string.h>

#include "text/json_get.h"
#include "text/pretokenizer.h"

/* GPT-2's pattern, which ByteLevel uses when `use_regex` is set. */
static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static const struct {
    const char *name;
    enum br_split_behavior behavior;
} behaviors[] = {{"Isolated", BR_SPLIT_ISOLATED},
                 {"Removed", BR_SPLIT_REMOVED},
                 {"MergedWithPrevious", BR_SPLIT_MERGED_PREVIOUS},
                 {"MergedWithNext", BR_SPLIT_MERGED_NEXT},
                 {"Contiguous", BR_SPLIT_CONTIGUOUS}};

static int add_split(struct br_pretokenizer *pretok, const char *pattern, bool literal, enum br_split_behavior behavior,
                     bool invert, struct br_err *err)
{
    struct br_pretokenizer_step *step = &pretok->steps[pretok->n];
    if (pretok->n == BR_PRETOKENIZER_STEPS)
        return br_err_set(err, BR_ENOTSUP, "pre_tokenizer: more than %d steps", BR_PRETOKENIZER_STEPS);
    step->behavior = behavior;
    step->invert = invert;
    if (br_regex_compile(&step->regex, pattern, literal, err) != 0)
        return br_err_wrap(err, "pre_tokenizer Split");
    pretok->n++;
    return 0;
}

static int parse_behavior(json_t *json, enum br_split_behavior *out, struct br_err *err)
{
    const char *name = br_json_string(json, "behavior", NULL, "pre_tokenizer Split", err);
    if (!name)
        return err->code;
    for (size_t i = 0; i < sizeof behaviors / sizeof behaviors[0]; i++)
        if (strcmp(name, behaviors[i].name) == 0) {
            *out = behaviors[i].behavior;
            return 0;
        }
    return br_err_set(err, BR_ENOTSUP, "pre_tokenizer Split: behavior \"%.40s\" is not supported", name);
}

static int parse_split(struct br_pretokenizer *pretok, json_t *json, struct br_err *err)
{
    json_t *pattern = br_json_need(json, "pattern", JSON_OBJECT, "pre_tokenizer Split", err);
    enum br_split_behavior behavior = BR_SPLIT_ISOLATED;
    const char *regex, *literal;
    bool invert;
    if (!pattern || parse_behavior(json, &behavior, err) != 0 ||
        br_json_bool(json, "invert", false, &invert, "pre_tokenizer Split", err) != 0)
        return err->code;
    regex = json_string_value(json_object_get(pattern, "Regex"));
    literal = json_string_value(json_object_get(pattern, "String"));
    if (!regex && (!literal || !literal[0]))
        return br_err_set(err, BR_ENOTSUP,
                          "pre_tokenizer Split: the pattern is neither {\"Regex\": ...} nor a "
                          "non-empty {\"String\": ...}");
    return add_split(pretok, regex ? regex : literal, !regex, behavior, invert, err);
}

static int parse_bytelevel(struct br_pretokenizer *pretok, json_t *json, struct br_err *err)
{
    bool use_regex;
    int rc = br_json_bool(json, "use_regex", true, &use_regex, "pre_tokenizer ByteLevel", err);
    if (!rc)
        rc = br_json_bool(json, "add_prefix_space", true, &pretok->prefix_space, "pre_tokenizer ByteLevel", err);
    if (rc)
        return rc;
    pretok->bytelevel = true;
    if (pretok->prefix_space && pretok->n > 0)
        return br_err_set(err, BR_ENOTSUP, "pre_tokenizer ByteLevel: add_prefix_space after a Split is not supported");
    return use_regex ? add_split(pretok, gpt2_pattern, false, BR_SPLIT_ISOLATED, false, err) : 0;
}

static int parse_prepend_scheme(struct br_pretokenizer *pretok, json_t *json, struct br_err *err)
{
    const char *scheme = json_string_value(json_object_get(json, "prepend_scheme"));
    bool add_prefix;
    int rc = br_json_bool(json, "add_prefix_space", true, &add_prefix, "pre_tokenizer Metaspace", err);
    if (rc)
        return rc;
    if (!scheme)
        scheme = add_prefix ? "always" : "never";
    if (strcmp(scheme, "always") != 0 && strcmp(scheme, "first") != 0 && strcmp(scheme, "never") != 0)
        return br_err_set(err, BR_EINVAL,
                          "pre_tokenizer Metaspace: prepend_scheme \"%.40s\" is not one of always, "
                          "first, never",
                          scheme);
    pretok->prepend = scheme[0] == 'a' ? BR_PREPEND_ALWAYS : scheme[0] == 'f' ? BR_PREPEND_FIRST : BR_PREPEND_NEVER;
    return 0;
}

static int parse_metaspace(struct br_pretokenizer *pretok, json_t *json, struct br_err *err)
{
    const char *replacement = br_json_string(json, "replacement", NULL, "pre_tokenizer Metaspace", err);
    bool split;
    int rc;
    if (!replacement)
        return err->code;
    if (strcmp(replacement, "\xE2\x96\x81") != 0)
        return br_err_set(err, BR_ENOTSUP, "pre_tokenizer Metaspace: replacement \"%.40s\" is not U+2581", replacement);
    if (pretok->n > 0 || pretok->metaspace)
        return br_err_set(err, BR_ENOTSUP, "pre_tokenizer Metaspace: only supported as the first step");
    pretok->metaspace = true;
    if ((rc = parse_prepend_scheme(pretok, json, err)) != 0 ||
        (rc = br_json_bool(json, "split", true, &split, "pre_tokenizer Metaspace", err)) != 0)
        return rc;
    return split ? add_split(pretok, replacement, true, BR_SPLIT_MERGED_NEXT, false, err) : 0;
}

static int parse_digits(struct br_pretokenizer *pretok, json_t *json, struct br_err *err)
{
    bool individual;
    int rc = br_json_bool(json, "individual_digits", false, &individual, "pre_tokenizer Digits", err);
    return rc ? rc : add_split(pretok, individual ? "\\p{N}" : "\\p{N}+", false, BR_SPLIT_ISOLATED, false, err);
}

static int parse_any(struct br_pretokenizer *pretok, json_t *json, int depth, struct br_err *err)
{
    static const struct {
        const char *type;
        int (*parse)(struct br_pretokenizer *, json_t *, struct br_err *);
    } kinds[] = {{"Split", parse_split},
                 {"ByteLevel", parse_bytelevel},
                 {"Metaspace", parse_metaspace},
                 {"Digits", parse_digits}};
    const char *type = br_json_string(json, "type", NULL, "pre_tokenizer", err);
    json_t *list, *entry;
    size_t i;
    if (!type)
        return err->code;
    if (pretok->bytelevel)
        return br_err_set(err, BR_ENOTSUP, "pre_tokenizer: \"%.40s\" after ByteLevel is not supported", type);
    for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return kinds[i].parse(pretok, json, err);
    if (strcmp(type, "Sequence") != 0 || depth > 4)
        return br_err_set(err, BR_ENOTSUP,
                          "pre_tokenizer: type \"%.40s\" is not supported%s (Split, ByteLevel, "
                          "Metaspace, Digits, Sequence are)",
                          type, depth > 4 ? " this deeply" : "");
    if (!(list = br_json_need(json, "pretokenizers", JSON_ARRAY, "pre_tokenizer Sequence", err)))
        return err->code;
    json_array_foreach(list, i, entry)
    {
        if (parse_any(pretok, entry, depth + 1, err) != 0)
            return err->code;
    }
    return 0;
}

int br_pretokenizer_parse(struct br_pretokenizer *pretok, json_t *json, struct br_err *err)
{
    *pretok = (struct br_pretokenizer){0};
    if (!json || json_is_null(json))
        return 0;
    if (parse_any(pretok, json, 0, err) == 0)
        return 0;
    br_pretokenizer_free(pretok);
    return err->code;
}

void br_pretokenizer_free(struct br_pretokenizer *pretok)
{
    for (size_t i = 0; i < pretok->n; i++)
        br_regex_free(&pretok->steps[i].regex);
    pretok->n = 0;
}
