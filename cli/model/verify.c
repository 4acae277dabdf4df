#include "cli/model/verify.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/model/commands.h"
#include "text/tokenizer.h"
#include "worker/weights/pack.h"

enum { GOLDEN_MAX_BYTES = 256 << 20 };

struct options {
    const char *dir, *golden;
    enum br_numeric numeric;
};

static const struct argp_option g_options[] = {
    {"golden", 'g', "FILE", 0, "compare with a golden file: greedy ids and logits, or tokenizer cases", 0},
    {"dtype", 'd', "TYPE", 0, "auto, bfloat16 or float32 (default): how the golden logits are computed", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'g':
        return o->golden = arg, 0;
    case 'd':
        return o->numeric = br_model_parse_numeric(arg, state), 0;
    case ARGP_KEY_ARG:
        if (o->dir)
            argp_error(state, "one folder at a time");
        return o->dir = arg, 0;
    case ARGP_KEY_END:
        if (!o->dir)
            argp_error(state, "a model folder is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int report(const char *what, int rc, const struct br_err *err)
{
    if (rc)
        printf("FAIL %s: %s\n", what, err->msg);
    return rc ? 1 : 0;
}

static int verify_weights(const char *dir)
{
    struct br_model_shape shape;
    struct br_safetensors *st;
    struct br_packer packer;
    struct br_err err;
    int rc = br_model_shape_load(dir, &shape, &err);
    if (rc)
        return report("config", rc, &err);
    printf("ok   config: %" PRIu64 " parameters\n", br_model_params(&shape));
    if ((rc = br_safetensors_open(dir, &st, &err)))
        return report("files", rc, &err);
    printf("ok   files: %zu, %zu tensors\n", st->n_files, st->table.n);
    rc = br_packer_init(&packer, st, &shape, BR_NUMERIC_AUTO, &err);
    if (rc) {
        report("tensors", rc, &err);
    } else {
        printf("ok   tensors: all there, shapes as config.json says\n");
        rc = report("values", br_packer_check_finite(&packer, &err), &err);
        if (!rc)
            printf("ok   values: all finite\n");
        br_packer_free(&packer);
    }
    br_safetensors_close(st);
    return rc ? 1 : 0;
}

static int verify_tokenizer_file(const char *dir)
{
    struct br_tokenizer *tokenizer;
    struct br_err err;
    char path[4096];
    int rc;
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    rc = br_tokenizer_load(path, &tokenizer, &err);
    if (rc)
        return report("tokenizer", rc, &err);
    printf("ok   tokenizer: %d ids\n", br_tokenizer_vocab_size(tokenizer));
    br_tokenizer_free(tokenizer);
    return 0;
}

bool br_verify_ids(const json_t *object, const char *key, int32_t **ids, uint32_t *n)
{
    const json_t *list = json_object_get(object, key), *value;
    size_t i;
    if (!json_is_array(list) || json_array_size(list) > UINT32_MAX)
        return false;
    *n = (uint32_t)json_array_size(list);
    *ids = br_calloc(*n + 1, sizeof **ids);
    json_array_foreach(list, i, value)(*ids)[i] = json_is_integer(value) ? (int32_t)json_integer_value(value) : -1;
    return true;
}

static json_t *golden_read(const char *path)
{
    struct br_buf text = {0};
    struct br_err err;
    json_error_t at;
    json_t *root = NULL;
    if (br_buf_read_file(&text, path, GOLDEN_MAX_BYTES)) {
        br_buf_read_error(&err, BR_EIO, "cannot open %s", path);
        printf("FAIL golden: %s\n", err.msg);
    } else if (!(root = json_loadb(text.data ? text.data : "", text.len, JSON_REJECT_DUPLICATES, &at))) {
        printf("FAIL golden: %s: line %d: %s\n", path, at.line, at.text);
    }
    br_buf_free(&text);
    return root;
}

static int verify_golden(const struct options *o)
{
    json_t *root = golden_read(o->golden);
    const json_t *first = json_array_get(json_object_get(root, "cases"), 0);
    int wrong = 1;
    if (!root)
        return 1;
    if (json_object_get(first, "prompt_ids"))
        wrong = br_verify_logits(o->dir, root, o->numeric);
    else if (json_object_get(first, "text"))
        wrong = br_verify_tokenizer(o->dir, root);
    else
        printf("FAIL golden: %s: no \"cases\" with \"prompt_ids\" or \"text\"\n", o->golden);
    json_decref(root);
    return wrong;
}

/* Nothing of a model but its tokenizer; even a link that leads nowhere is meant to be a model's. */
static bool tokenizer_only(const char *dir)
{
    DIR *d = br_model_has_file(dir, "tokenizer.json") ? opendir(dir) : NULL;
    bool only = d != NULL;
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, "config.json") == 0 || strstr(e->d_name, ".safetensors"))
            only = false;
    if (d)
        closedir(d);
    return only;
}

int br_model_verify(int argc, char **argv)
{
    static const struct argp argp = {.options = g_options,
                                     .parser = parse_option,
                                     .args_doc = "DIR",
                                     .doc = "Checks a model folder (or one with a tokenizer.json only): files, shapes, "
                                            "finite values, and with --golden its answers. Exit status 1: something "
                                            "is wrong."};
    struct options o = {.numeric = BR_NUMERIC_F32};
    int wrong = 0, rc = br_model_parse(&argp, argc, argv, &o);
    if (rc)
        return rc;
    if (!tokenizer_only(o.dir))
        wrong += verify_weights(o.dir);
    if (br_model_has_file(o.dir, "tokenizer.json"))
        wrong += verify_tokenizer_file(o.dir);
    if (o.golden && !wrong)
        wrong += verify_golden(&o);
    return wrong ? 1 : 0;
}
