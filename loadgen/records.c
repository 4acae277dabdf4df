/* Request by request: JSON lines, and a timeline. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "loadgen/result.h"
#include "report/trace.h"

static json_t *record_json(const struct load_outcome_of_run *run, size_t i, const struct load_request_sum *s)
{
    const struct load_record *r = &run->journal->records[i];
    json_t *out = json_pack("{s:I,s:s,s:s,s:i,s:f,s:I,s:I,s:I,s:I,s:I}", "request", (json_int_t)i, "model",
                            run->offer->workload.names[r->model], "outcome", load_outcome_name(r->outcome), "status",
                            (int)r->status, "scheduled_s", r->scheduled_s, "prompt_tokens",
                            (json_int_t)(r->prompt_seen ? r->prompt_seen : r->prompt), "max_tokens",
                            (json_int_t)r->output, "tokens", (json_int_t)r->tokens, "on_time", (json_int_t)s->on_time,
                            "owed", (json_int_t)load_request_owed(r));
    if (r->sent_s >= 0)
        json_object_set_new(out, "sent_s", json_real(r->sent_s));
    if (s->tokens) {
        json_object_set_new(out, "first_token_s", json_real(s->first_s));
        json_object_set_new(out, "last_token_s", json_real(s->last_s));
    }
    if (r->end_s >= 0)
        json_object_set_new(out, "end_s", json_real(r->end_s));
    if (r->traits & LOAD_SLOW)
        json_object_set_new(out, "slow_reader", json_true());
    return out;
}

/* One list of times a request, in one pass over the tokens. */
static json_t **token_times(const struct load_journal *j)
{
    json_t **times = br_calloc(j->n + 1, sizeof(json_t *));
    for (size_t i = 0; i < j->n; i++)
        times[i] = json_array();
    for (size_t i = 0; i < j->n_pieces; i++) {
        const struct load_piece *p = load_journal_piece(j, i);
        for (uint32_t k = 0; k < p->tokens; k++)
            json_array_append_new(times[p->request], json_real(p->at_s));
    }
    return times;
}

static struct load_request_sum *sums_of(const struct load_outcome_of_run *run)
{
    const struct load_slo slo = {run->config->ttft_s, run->config->tbt_s};
    struct load_request_sum *sums = br_malloc((run->journal->n + 1) * sizeof *sums);
    load_request_sums(run->journal, &slo, sums);
    return sums;
}

int load_records_write(const char *path, const struct load_outcome_of_run *run, bool detailed, struct br_err *err)
{
    struct load_request_sum *sums;
    json_t **times = NULL;
    FILE *f = fopen(path, "w");
    int bad = 0;
    if (!f)
        return br_err_errno(err, BR_EIO, "cannot write %s", path);
    sums = sums_of(run);
    if (detailed)
        times = token_times(run->journal);
    for (size_t i = 0; i < run->journal->n; i++) {
        json_t *line = record_json(run, i, &sums[i]);
        if (times)
            json_object_set_new(line, "token_times_s", times[i]);
        bad |= json_dumpf(line, f, JSON_COMPACT | JSON_REAL_PRECISION(9)) || putc('\n', f) == EOF;
        json_decref(line);
    }
    free(times);
    free(sums);
    return fclose(f) || bad ? br_err_errno(err, BR_EIO, "cannot write %s", path) : 0;
}

static void request_row(struct br_trace *trace, const struct load_outcome_of_run *run, size_t i,
                        const struct load_request_sum *s)
{
    const struct load_record *r = &run->journal->records[i];
    const struct br_trace_arg args[] = {{"tokens", NULL, r->tokens},
                                        {"on time", NULL, s->on_time},
                                        {"prompt", NULL, r->prompt},
                                        {"outcome", load_outcome_name(r->outcome), 0}};
    double end = r->end_s >= r->sent_s ? r->end_s : r->sent_s, first = s->tokens ? s->first_s : end;
    uint32_t row = (uint32_t)i;
    char name[32];
    if (r->sent_s < 0)
        return;
    snprintf(name, sizeof name, "request %zu", i);
    br_trace_row(trace, r->model, row, name);
    if (r->sent_s > r->scheduled_s)
        br_trace_slice(trace, r->model, row, "dispatch delay", "generator", r->scheduled_s, r->sent_s - r->scheduled_s,
                       NULL, 0);
    br_trace_slice(trace, r->model, row, "waiting", "request", r->sent_s, first - r->sent_s, args, 4);
    if (s->tokens)
        br_trace_slice(trace, r->model, row, "tokens", "request", first, end - first, args, 4);
}

/* Gaps longer than the SLO's, which a viewer looks for. */
static void stalls(struct br_trace *trace, const struct load_outcome_of_run *run)
{
    const struct load_journal *j = run->journal;
    double *last = br_malloc((j->n + 1) * sizeof *last);
    for (size_t i = 0; i < j->n; i++)
        last[i] = -1;
    for (size_t i = 0; i < j->n_pieces; i++) {
        const struct load_piece *p = load_journal_piece(j, i);
        if (last[p->request] >= 0 && p->at_s - last[p->request] > run->config->tbt_s)
            br_trace_slice(trace, j->records[p->request].model, p->request, "gap", "request", last[p->request],
                           p->at_s - last[p->request], NULL, 0);
        last[p->request] = p->at_s;
    }
    free(last);
}

int load_timeline_write(const char *path, const struct load_outcome_of_run *run, struct br_err *err)
{
    struct load_request_sum *sums;
    struct br_trace *trace;
    if (br_trace_open(path, &trace, err))
        return err->code;
    sums = sums_of(run);
    for (uint32_t i = 0; i < run->offer->workload.n_models; i++)
        br_trace_group(trace, i, run->offer->workload.names[i]);
    for (size_t i = 0; i < run->journal->n; i++)
        request_row(trace, run, i, &sums[i]);
    stalls(trace, run);
    free(sums);
    return br_trace_close(trace, err);
}
