#include "traffic/trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/options.h"
#include "traffic/trace_row.h"

static const char *const g_formats[] = {"auto", "azure", "mooncake", "aegaeon", "burstgpt", "servegen"};
enum { N_FORMATS = sizeof g_formats / sizeof g_formats[0], DEFAULT_BLOCK_TOKENS = 512 };

struct reader {
    struct br_trace_options options; /* defaults filled in */
    struct br_trace_report *report;
    struct csv csv;
    struct trace_row row;
    struct br_workload *out;
    int64_t origin_ns, last_ns;
    double end_s; /* of what has been seen, in the file's time */
    bool started;
};

int br_trace_format_parse(const char *name, enum br_trace_format *out, struct br_err *err)
{
    const char *near = br_nearest(name, g_formats, N_FORMATS);
    for (int i = 0; i < N_FORMATS; i++)
        if (strcmp(name, g_formats[i]) == 0) {
            *out = (enum br_trace_format)i;
            return 0;
        }
    return br_err_set(err, BR_EINVAL, "no trace format '%.40s'; %s%s%s", name, near ? "did you mean '" : "there are ",
                      near ? near : "auto, azure, mooncake, aegaeon, burstgpt, servegen", near ? "'?" : "");
}

const char *br_trace_format_name(enum br_trace_format format)
{
    return g_formats[format];
}

static int first_line(struct csv *csv, struct br_err *err)
{
    int rc = lines_next(&csv->lines, err);
    return rc == 0 ? br_err_set(err, BR_EINVAL, "%.100s: empty", csv->lines.file) : rc < 0 ? rc : 0;
}

/* By the first line, which is split into fields unless it is JSON. */
static int line_detect(struct csv *csv, enum br_trace_format *out, struct br_err *err)
{
    char shown[64];
    if (csv->lines.text[strspn(csv->lines.text, " \t")] == '{') {
        *out = BR_TRACE_MOONCAKE;
        return 0;
    }
    snprintf(shown, sizeof shown, "%s", csv->lines.text);
    if (csv_split(csv) && trace_csv_detect(csv, out))
        return 0;
    return lines_fail(&csv->lines, err,
                      "'%s' is not the first line of a known trace (azure, mooncake, aegaeon, burstgpt, servegen)",
                      shown);
}

static FILE *trace_open(const char *path, struct br_err *err)
{
    FILE *stream = br_open_regular(path);
    if (!stream)
        br_buf_read_error(err, errno == ENOENT ? BR_ENOENT : BR_EIO, "%.200s: cannot be read", path);
    return stream;
}

int br_trace_detect(const char *path, enum br_trace_format *out, struct br_err *err)
{
    struct csv csv = {0};
    FILE *stream = trace_open(path, err);
    int rc;
    if (!stream)
        return err->code;
    lines_init(&csv.lines, stream, path, BR_TRACE_MAX_BYTES, BR_TRACE_MAX_LINE);
    rc = first_line(&csv, err);
    if (!rc)
        rc = line_detect(&csv, out, err);
    lines_free(&csv.lines);
    fclose(stream);
    return rc;
}

static int scale_fill(const char *name, double *value, double min, double max, struct br_err *err)
{
    if (*value == 0)
        *value = 1;
    if (*value >= min && *value <= max)
        return 0;
    return br_err_set(err, BR_EINVAL, "%s of %g: must be a number from %g to %g", name, *value, min, max);
}

static int options_fill(struct br_trace_options *o, struct br_err *err)
{
    int rc = scale_fill("time scale", &o->time_scale, 1e-6, 1e6, err);
    if (!rc)
        rc = scale_fill("prompt length scale", &o->prompt_scale, 1e-3, 1e3, err);
    if (!rc)
        rc = scale_fill("output length scale", &o->output_scale, 1e-3, 1e3, err);
    if (!rc && !(o->from_s >= 0 && o->from_s <= 8e9 && o->duration_s >= 0 && o->duration_s <= 8e9))
        rc = br_err_set(err, BR_EINVAL, "from %g s for %g s: must be numbers from 0 to 8e9", o->from_s, o->duration_s);
    if (!rc && o->block_tokens > BR_WORKLOAD_MAX_TOKENS)
        rc = br_err_set(err, BR_EINVAL, "prefix blocks of %u tokens: at most %d", o->block_tokens,
                        BR_WORKLOAD_MAX_TOKENS);
    o->block_tokens = o->block_tokens ? o->block_tokens : DEFAULT_BLOCK_TOKENS;
    o->model = o->model ? o->model : "trace";
    o->max_bytes = o->max_bytes ? o->max_bytes : BR_TRACE_MAX_BYTES;
    return rc;
}

static bool inside(const struct br_trace_options *o, double at_s)
{
    return at_s >= o->from_s && (o->duration_s <= 0 || at_s < o->from_s + o->duration_s);
}

/* Errors of the workload about what the row says get its place. */
static int model_index(struct reader *r, uint32_t *model, struct br_err *err)
{
    struct br_err why;
    int rc = br_workload_model(r->out, r->row.model ? r->row.model : r->options.model, model, &why);
    if (rc == BR_EINVAL)
        return lines_fail(&r->csv.lines, err, "%.300s", why.msg);
    if (rc)
        *err = why;
    return rc;
}

/* Scaling, and zero for the first request, come once all are there: until then a time may be negative. */
static int row_append(struct reader *r, double at_s, struct br_err *err)
{
    struct br_request request = {.n_blocks = r->row.n_blocks};
    int rc = model_index(r, &request.model, err);
    if (rc)
        return rc;
    request.prompt = (uint32_t)r->row.prompt;
    request.output = (uint32_t)r->row.output;
    rc = br_workload_add(r->out, &request, r->row.blocks, err);
    if (!rc)
        r->out->requests[r->out->n - 1].at_s = at_s;
    return rc;
}

static int order_check(struct reader *r, struct br_err *err)
{
    const struct trace_row *row = &r->row;
    if (!r->started)
        r->origin_ns = r->report->format == BR_TRACE_AZURE ? row->at_ns : 0;
    else if (row->at_ns < r->last_ns) {
        r->report->back++;
        if (!r->options.sort) {
            lines_fail(&r->csv.lines, err, "arrives %.9g s before the line above: order the file, or ask to sort it",
                       1e-9 * (double)(r->last_ns - row->at_ns));
            return err->code = BR_ECORRUPT; /* not malformed by itself: never skipped */
        }
    }
    r->started = true;
    r->last_ns = row->at_ns;
    return 0;
}

static int row_take(struct reader *r, struct br_err *err)
{
    int rc = order_check(r, err);
    double at_s = (double)(r->row.at_ns - r->origin_ns) / 1e9;
    if (rc)
        return rc;
    r->end_s = fmax(r->end_s, at_s);
    if (!r->row.prompt || !r->row.output)
        r->report->empty++;
    else if (!r->options.sort && !inside(&r->options, at_s))
        r->report->outside++;
    else
        return row_append(r, at_s, err);
    return 0;
}

static int json_next(struct lines *lines, bool again, struct br_err *err)
{
    int rc = again ? 1 : lines_next(lines, err);
    while (rc == 1 && lines->len == 0)
        rc = lines_next(lines, err);
    return rc;
}

/* 1: r->row is filled; `again`: the line in hand is the first row. */
static int row_next(struct reader *r, bool again, struct br_err *err)
{
    bool json = r->report->format == BR_TRACE_MOONCAKE;
    int rc = json ? json_next(&r->csv.lines, again, err) : csv_next(&r->csv, err);
    if (rc != 1)
        return rc;
    rc = json ? trace_json_row(&r->csv.lines, r->options.block_tokens, &r->row, err)
              : trace_csv_row(&r->csv, r->report->format, &r->row, err);
    return rc ? rc : 1;
}

static int rows_read(struct reader *r, struct br_err *err)
{
    bool again = r->report->format == BR_TRACE_MOONCAKE;
    for (;; again = false) {
        int rc = row_next(r, again, err);
        if (rc == 0)
            return 0;
        if (rc == 1)
            rc = row_take(r, err);
        if (rc == BR_EINVAL && r->options.skip_bad) {
            if (r->report->skipped++ == 0)
                r->report->first = *err;
        } else if (rc) {
            return rc;
        }
    }
}

static uint32_t scaled(uint32_t tokens, double scale)
{
    return (uint32_t)fmin(fmax(floor(tokens * scale + .5), 1), BR_WORKLOAD_MAX_TOKENS);
}

/* Sorting first: only then is it known which request is the first one. */
static void requests_finish(struct reader *r)
{
    const struct br_trace_options *o = &r->options;
    struct br_workload *w = r->out;
    double zero_s;
    size_t kept = 0;
    br_workload_sort(w);
    zero_s = w->n && w->requests[0].at_s < 0 ? w->requests[0].at_s : 0;
    for (size_t i = 0; i < w->n; i++) {
        struct br_request *request = &w->requests[i];
        request->at_s -= zero_s;
        if (!inside(o, request->at_s)) {
            r->report->outside++;
            continue;
        }
        request->at_s = (request->at_s - o->from_s) * o->time_scale;
        request->prompt = scaled(request->prompt, o->prompt_scale);
        request->output = scaled(request->output, o->output_scale);
        w->requests[kept++] = *request;
    }
    w->n = kept;
    br_workload_sort(w); /* numbers anew */
    w->block_tokens = w->n_blocks ? scaled(o->block_tokens, o->prompt_scale) : 0;
    w->duration_s = r->end_s - zero_s - o->from_s;
    if (o->duration_s > 0)
        w->duration_s = fmin(w->duration_s, o->duration_s);
    w->duration_s *= o->time_scale;
}

static int trace_begin(struct reader *r, struct br_err *err)
{
    enum br_trace_format format = r->options.format;
    int rc = first_line(&r->csv, err);
    if (!rc && format == BR_TRACE_AUTO)
        rc = line_detect(&r->csv, &format, err);
    else if (!rc && format != BR_TRACE_MOONCAKE && !csv_split(&r->csv))
        rc = lines_fail(&r->csv.lines, err, "more than %d columns", CSV_MAX_COLUMNS);
    if (rc)
        return rc;
    r->report->format = format;
    if (format == BR_TRACE_SERVEGEN)
        return br_err_set(err, BR_EINVAL, "%.100s: rates by window, not requests: use it as a market",
                          r->csv.lines.file);
    return format == BR_TRACE_MOONCAKE ? 0 : trace_csv_header(&r->csv, format, err);
}

static int trace_run(struct reader *r, struct br_err *err)
{
    int rc = trace_begin(r, err);
    if (!rc)
        rc = rows_read(r, err);
    r->report->lines = r->csv.lines.number;
    if (rc)
        return rc;
    requests_finish(r);
    r->report->requests = r->out->n;
    if (r->out->n)
        return 0;
    return br_err_set(err, BR_EINVAL,
                      "%.100s: no requests: %llu lines, of which %llu malformed, %llu without prompt or output, "
                      "%llu outside the time asked for",
                      r->csv.lines.file, (unsigned long long)r->report->lines, (unsigned long long)r->report->skipped,
                      (unsigned long long)r->report->empty, (unsigned long long)r->report->outside);
}

int br_trace_read(FILE *stream, const char *file, const struct br_trace_options *options, struct br_workload *out,
                  struct br_trace_report *report, struct br_err *err)
{
    struct br_trace_report unwanted;
    struct reader r = {.options = *options, .report = report ? report : &unwanted, .out = out};
    int rc;
    *out = (struct br_workload){0};
    *r.report = (struct br_trace_report){0};
    rc = options_fill(&r.options, err);
    if (rc)
        return rc;
    lines_init(&r.csv.lines, stream, file, r.options.max_bytes, BR_TRACE_MAX_LINE);
    r.row.blocks = br_malloc(BR_TRACE_MAX_BLOCKS * sizeof *r.row.blocks);
    rc = trace_run(&r, err);
    if (rc)
        br_workload_free(out);
    free(r.row.blocks);
    lines_free(&r.csv.lines);
    return rc;
}

int br_trace_load(const char *path, const struct br_trace_options *options, struct br_workload *out,
                  struct br_trace_report *report, struct br_err *err)
{
    FILE *stream = trace_open(path, err);
    int rc;
    *out = (struct br_workload){0};
    if (report)
        *report = (struct br_trace_report){0};
    if (!stream)
        return err->code;
    rc = br_trace_read(stream, path, options, out, report, err);
    fclose(stream);
    return rc;
}
