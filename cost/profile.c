#include "cost/profile.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { MAX_COLUMNS = 64, MAX_FIELD = 64, N_NAMED = 13 };
enum { MAX_TOKENS = 1 << 22, MAX_BATCH = 1 << 16, MAX_TP = 64 };

enum target { TO_MODEL, TO_GPU, TO_TOKENS, TO_BATCH, TO_TP, TO_TIME };

struct column {
    const char *name;
    enum target target;
    int time; /* index in ms[] */
};

static const struct column g_steps[] = {
    {"model", TO_MODEL, 0},
    {"gpu", TO_GPU, 0},
    {"prompt_tokens", TO_TOKENS, 0},
    {"batch", TO_BATCH, 0},
    {"prefill_ms_median", TO_TIME, BR_PROFILE_PREFILL},
    {"decode_step_ms_median", TO_TIME, BR_PROFILE_DECODE},
};
static const struct column g_layers[] = {
    {"gpu", TO_GPU, 0},
    {"model", TO_MODEL, 0},
    {"tp", TO_TP, 0},
    {"tokens", TO_TOKENS, 0},
    {"attn_pre_proj_ms", TO_TIME, 0},
    {"attn_post_proj_ms", TO_TIME, 1},
    {"mlp_up_proj_ms", TO_TIME, 2},
    {"mlp_act_ms", TO_TIME, 3},
    {"mlp_down_proj_ms", TO_TIME, 4},
    {"input_layernorm_ms", TO_TIME, 5},
    {"post_attention_layernorm_ms", TO_TIME, 6},
    {"attn_rope_ms", TO_TIME, 7},
    {"add_ms", TO_TIME, 8},
};
_Static_assert(sizeof g_layers / sizeof g_layers[0] == N_NAMED, "");

struct reader {
    const char *file, *at, *end;
    uint32_t line;
    const struct column *columns;
    int n_columns, where[N_NAMED]; /* index of each named column in a row */
    char fields[MAX_COLUMNS][MAX_FIELD];
    int n_fields;
    char model[48], gpu[32]; /* of the row being read */
    size_t row_cap;
};

static int read_fail(const struct reader *r, const char *column, const char *value, const char *why, struct br_err *err)
{
    return br_err_set(err, BR_EINVAL, "%s: line %u: %s = '%.40s': %s", r->file, r->line, column, value, why);
}

/* Splits the next line into fields; 0 fields for an empty one. */
static int read_line(struct reader *r, struct br_err *err)
{
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at)), *next, *end = stop ? stop : r->end;
    const char *at = r->at;
    r->line++;
    r->at = stop ? stop + 1 : r->end;
    r->n_fields = 0;
    if (end > at && end[-1] == '\r')
        end--;
    for (; at < end; at = next + 1) {
        for (next = at; next < end && *next != ',';)
            next++;
        if (r->n_fields == MAX_COLUMNS || next - at >= MAX_FIELD)
            return br_err_set(err, BR_EINVAL, "%s: line %u: more than %d columns or a field of more than %d bytes",
                              r->file, r->line, MAX_COLUMNS, MAX_FIELD - 1);
        memcpy(r->fields[r->n_fields], at, (size_t)(next - at));
        r->fields[r->n_fields++][next - at] = '\0';
        if (memchr(at, '\0', (size_t)(next - at)))
            return br_err_set(err, BR_EINVAL, "%s: line %u: holds a zero byte", r->file, r->line);
    }
    return 0;
}

static int column_find(const struct reader *r, const char *name)
{
    for (int i = 0; i < r->n_fields; i++)
        if (strcmp(r->fields[i], name) == 0)
            return i;
    return -1;
}

static int read_header(struct reader *r, struct br_profile *out, struct br_err *err)
{
    int rc = read_line(r, err);
    if (rc)
        return rc;
    out->kind =
        column_find(r, "tp") >= 0 || column_find(r, "mlp_up_proj_ms") >= 0 ? BR_PROFILE_LAYERS : BR_PROFILE_STEPS;
    r->columns = out->kind == BR_PROFILE_STEPS ? g_steps : g_layers;
    r->n_columns = (int)(out->kind == BR_PROFILE_STEPS ? sizeof g_steps / sizeof *g_steps : N_NAMED);
    for (int i = 0; i < r->n_columns; i++) {
        r->where[i] = column_find(r, r->columns[i].name);
        if (r->where[i] < 0)
            return br_err_set(err, BR_EINVAL, "%s: line 1: no column '%s', which a file of %s needs", r->file,
                              r->columns[i].name, out->kind == BR_PROFILE_STEPS ? "steps" : "layer operators");
    }
    return 0;
}

static int read_count(const struct reader *r, const char *column, const char *text, uint32_t max, uint32_t *out,
                      struct br_err *err)
{
    char *end, why[48];
    unsigned long value = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    if (value < 1 || value > max || *end) {
        snprintf(why, sizeof why, "must be a whole number in 1..%u", max);
        return read_fail(r, column, text, why, err);
    }
    *out = (uint32_t)value;
    return 0;
}

static int read_time(const struct reader *r, const char *column, const char *text, double *out, struct br_err *err)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || strpbrk(text, "xXnN \t") || !(value > 0 && value <= 1e7))
        return read_fail(r, column, text, "must be a time in ms, above 0 and at most 1e7", err);
    *out = value;
    return 0;
}

static int read_name(const struct reader *r, const char *column, const char *text, char *out, size_t size,
                     struct br_err *err)
{
    if (!*text || strlen(text) >= size)
        return read_fail(r, column, text, "must be a name of at least one and not too many characters", err);
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~')
            return read_fail(r, column, "...", "must be plain printable characters without spaces", err);
    snprintf(out, size, "%s", text);
    return 0;
}

static int read_field(struct reader *r, const struct column *c, const char *text, struct br_profile_row *row,
                      struct br_err *err)
{
    switch (c->target) {
    case TO_MODEL:
        return read_name(r, c->name, text, r->model, sizeof r->model, err);
    case TO_GPU:
        return read_name(r, c->name, text, r->gpu, sizeof r->gpu, err);
    case TO_TOKENS:
        return read_count(r, c->name, text, MAX_TOKENS, &row->tokens, err);
    case TO_BATCH:
        return read_count(r, c->name, text, MAX_BATCH, &row->batch, err);
    case TO_TP:
        return read_count(r, c->name, text, MAX_TP, &row->tp, err);
    case TO_TIME:
        break;
    }
    return read_time(r, c->name, text, &row->ms[c->time], err);
}

/* The pair of the row just read: the last one, or a new one that has not been seen before. */
static int pair_of_row(struct reader *r, struct br_profile *out, struct br_err *err)
{
    struct br_profile_pair *pair;
    for (size_t i = out->n_pairs; i-- > 0;) {
        pair = &out->pairs[i];
        if (strcmp(pair->model, r->model) != 0 || strcmp(pair->gpu, r->gpu) != 0)
            continue;
        if (i == out->n_pairs - 1)
            return 0;
        return br_err_set(err, BR_EINVAL, "%s: line %u: rows of %s on %s are not together: they began in line %u",
                          r->file, r->line, r->model, r->gpu, out->rows[pair->first].line);
    }
    if (out->n_pairs == BR_PROFILE_MAX_PAIRS)
        return br_err_set(err, BR_EINVAL, "%s: line %u: more than %d pairs of model and GPU", r->file, r->line,
                          BR_PROFILE_MAX_PAIRS);
    pair = &out->pairs[out->n_pairs++];
    *pair = (struct br_profile_pair){.first = out->n_rows};
    snprintf(pair->model, sizeof pair->model, "%s", r->model);
    snprintf(pair->gpu, sizeof pair->gpu, "%s", r->gpu);
    return 0;
}

static int order_check(const struct reader *r, const struct br_profile *p, const struct br_profile_row *row,
                       struct br_err *err)
{
    const struct br_profile_row *last;
    bool ordered;
    if (p->pairs[p->n_pairs - 1].n == 0)
        return 0;
    last = row - 1;
    ordered = p->kind == BR_PROFILE_LAYERS
                  ? last->tp <= row->tp
                  : last->tokens < row->tokens || (last->tokens == row->tokens && last->batch < row->batch);
    if (ordered)
        return 0;
    return br_err_set(err, BR_EINVAL, "%s: line %u: out of order: the rows of %s on %s have to ascend by %s", r->file,
                      r->line, r->model, r->gpu, p->kind == BR_PROFILE_LAYERS ? "tp" : "prompt_tokens and batch");
}

static int read_row(struct reader *r, struct br_profile *out, struct br_err *err)
{
    struct br_profile_row *row;
    int rc;
    if (out->n_rows == r->row_cap) {
        r->row_cap = r->row_cap ? 2 * r->row_cap : 256;
        out->rows = br_realloc(out->rows, r->row_cap * sizeof *out->rows);
    }
    row = &out->rows[out->n_rows];
    *row = (struct br_profile_row){.line = r->line, .batch = 1, .tp = 1};
    for (int i = 0; i < r->n_columns; i++) {
        if (r->where[i] >= r->n_fields)
            return br_err_set(err, BR_EINVAL, "%s: line %u: %d columns, too few for '%s'", r->file, r->line,
                              r->n_fields, r->columns[i].name);
        rc = read_field(r, &r->columns[i], r->fields[r->where[i]], row, err);
        if (rc)
            return rc;
    }
    rc = pair_of_row(r, out, err);
    if (rc || (rc = order_check(r, out, row, err)))
        return rc;
    out->pairs[out->n_pairs - 1].n++;
    out->n_rows++;
    return 0;
}

static int read_rows(struct reader *r, struct br_profile *out, struct br_err *err)
{
    while (r->at < r->end) {
        int rc = read_line(r, err);
        if (!rc && r->n_fields && out->n_rows == BR_PROFILE_MAX_ROWS)
            rc = br_err_set(err, BR_EINVAL, "%s: more than %d rows", r->file, BR_PROFILE_MAX_ROWS);
        if (!rc && r->n_fields)
            rc = read_row(r, out, err);
        if (rc)
            return rc;
    }
    return out->n_rows ? 0 : br_err_set(err, BR_EINVAL, "%s: no rows below the header", r->file);
}

int br_profile_parse(const char *text, size_t len, const char *file, struct br_profile *out, struct br_err *err)
{
    struct reader *r;
    int rc;
    *out = (struct br_profile){0};
    if (len > BR_PROFILE_MAX_BYTES)
        return br_err_set(err, BR_EINVAL, "%s: %zu bytes, more than the limit of %d", file, len, BR_PROFILE_MAX_BYTES);
    if (!len)
        return br_err_set(err, BR_EINVAL, "%s: empty", file);
    r = br_calloc(1, sizeof *r);
    r->file = file;
    r->at = text;
    r->end = text + len;
    out->pairs = br_calloc(BR_PROFILE_MAX_PAIRS, sizeof *out->pairs);
    rc = read_header(r, out, err);
    if (!rc)
        rc = read_rows(r, out, err);
    if (rc)
        br_profile_free(out);
    free(r);
    return rc;
}

int br_profile_load(const char *path, struct br_profile *out, struct br_err *err)
{
    struct br_buf text = {0};
    int rc;
    *out = (struct br_profile){0};
    if (br_buf_read_file(&text, path, BR_PROFILE_MAX_BYTES))
        rc = br_err_errno(err, errno == ENOENT ? BR_ENOENT : BR_EIO, "%s: cannot be read", path);
    else
        rc = br_profile_parse(text.data ? text.data : "", text.len, path, out, err);
    br_buf_free(&text);
    return rc;
}

void br_profile_free(struct br_profile *profile)
{
    free(profile->rows);
    free(profile->pairs);
    *profile = (struct br_profile){0};
}
