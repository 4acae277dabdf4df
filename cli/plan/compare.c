/* `briareus plan compare A.json B.json`: the same policy and GPU kind in two plans, side by side. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/plan/commands.h"

enum { MAX_BYTES = 64 << 20 };

static const char *const g_keys[] = {"gpus",       "models_90",  "models_99",  "rate_90",   "rate_99",
                                     "attainment", "ttft_p50_s", "ttft_p99_s", "tbt_p99_s", "cost_per_hour"};

static json_t *load(const char *path, struct br_err *err)
{
    struct br_buf text = {0};
    json_error_t where;
    if (br_buf_read_file(&text, path, MAX_BYTES) < 0) {
        br_buf_read_error(err, BR_ENOENT, "%s", path);
        br_buf_free(&text);
        return NULL;
    }
    json_t *root = json_loadb(text.data ? text.data : "", text.len, 0, &where);
    br_buf_free(&text);
    if (!root)
        br_err_set(err, BR_EINVAL, "%s:%d: %s", path, where.line, where.text);
    else if (!json_is_array(json_object_get(root, "results"))) {
        br_err_set(err, BR_EINVAL, "%s: no \"results\": it is no plan (briareus plan --json)", path);
        json_decref(root);
        root = NULL;
    }
    return root;
}

static const char *text_of(const json_t *result, const char *key)
{
    const char *text = json_string_value(json_object_get(result, key));
    return text ? text : "";
}

static json_t *same_of(json_t *plan, const json_t *result)
{
    size_t i;
    json_t *other;
    json_array_foreach(json_object_get(plan, "results"), i,
                       other) if (strcmp(text_of(other, "policy"), text_of(result, "policy")) == 0 &&
                                  strcmp(text_of(other, "gpu"), text_of(result, "gpu")) == 0) return other;
    return NULL;
}

static void compare_key(const json_t *a, const json_t *b, const char *key)
{
    const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    if (!json_is_number(x) && !json_is_number(y))
        return;
    printf("| %-13s | %-8s | %-13s |", text_of(a, "policy"), text_of(a, "gpu"), key);
    if (json_is_number(x))
        printf(" %10.4g |", json_number_value(x));
    else
        printf(" %10s |", "-");
    if (json_is_number(y))
        printf(" %10.4g |", json_number_value(y));
    else
        printf(" %10s |", "-");
    if (json_is_number(x) && json_is_number(y) && json_number_value(x) != 0)
        printf(" %+7.1f |\n", 100 * (json_number_value(y) / json_number_value(x) - 1));
    else
        printf(" %7s |\n", "-");
}

static void compare(json_t *a, json_t *b, const char *names[2])
{
    size_t i;
    json_t *result;
    printf("A: %s\nB: %s\n\n| policy        | GPU      | figure        | A | B | change, %% "
           "|\n|---|---|---|--:|--:|--:|\n",
           names[0], names[1]);
    json_array_foreach(json_object_get(a, "results"), i, result)
    {
        json_t *other = same_of(b, result);
        for (size_t k = 0; other && k < sizeof g_keys / sizeof *g_keys; k++)
            compare_key(result, other, g_keys[k]);
        if (!other)
            printf("| %-13s | %-8s | only in A |  |  |  |\n", text_of(result, "policy"), text_of(result, "gpu"));
    }
    json_array_foreach(json_object_get(b, "results"), i, result)
    {
        if (!same_of(a, result))
            printf("| %-13s | %-8s | only in B |  |  |  |\n", text_of(result, "policy"), text_of(result, "gpu"));
    }
    if (!json_equal(json_object_get(a, "workload"), json_object_get(b, "workload")))
        printf("\nThe workloads differ.\n");
    if (!json_equal(json_object_get(a, "targets"), json_object_get(b, "targets")))
        printf("\nThe targets differ.\n");
}

int br_plan_compare(int argc, char **argv)
{
    struct br_err err = {0};
    if (argc != 3 || argv[1][0] == '-') {
        FILE *out = argc == 2 && strcmp(argv[1], "--help") == 0 ? stdout : stderr;
        fprintf(out, "Usage: briareus plan compare A.json B.json\nTwo results of briareus plan --json side by side.\n");
        return out == stdout ? 0 : 2;
    }
    json_t *a = load(argv[1], &err), *b = a ? load(argv[2], &err) : NULL;
    if (b)
        compare(a, b, (const char *[2]){argv[1], argv[2]});
    else
        fprintf(stderr, "briareus plan compare: %s\n", err.msg);
    json_decref(a);
    json_decref(b);
    return b ? 0 : 2;
}
