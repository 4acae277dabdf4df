/* The input is a digit (bits: skip bad lines, sort, cut and scale) and then a trace. What is taken is in order, within
 * the limits, and counted. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "traffic/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(const struct br_workload *w, size_t i)
{
    const struct br_request *r = &w->requests[i];
    if (!(r->at_s >= 0 && r->at_s <= w->duration_s && r->at_s < INFINITY) || r->model >= w->n_models)
        abort();
    if (!r->prompt || r->prompt > BR_WORKLOAD_MAX_TOKENS || !r->output || r->output > BR_WORKLOAD_MAX_TOKENS)
        abort();
    if (r->n_blocks > w->n_blocks || r->first_block > w->n_blocks - r->n_blocks || (r->n_blocks && !w->block_tokens))
        abort();
    if (i && r->at_s < w->requests[i - 1].at_s)
        abort();
}

static void check_workload(const struct br_workload *w, const struct br_trace_report *report)
{
    struct br_workload_sums sums;
    if (!w->n || report->requests != w->n || report->lines < w->n + report->skipped + report->empty)
        abort();
    for (size_t i = 0; i < w->n; i++)
        check_request(w, i);
    br_workload_sum(w, &sums);
    if (sums.block_hits > sums.blocks || sums.prompt < w->n)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_trace_options options = {0};
    struct br_trace_report report;
    struct br_workload w;
    struct br_err err = {0};
    FILE *stream;
    if (size < 2)
        return 0;
    options.skip_bad = data[0] & 1;
    options.sort = data[0] & 2;
    if (data[0] & 4)
        options = (struct br_trace_options){.skip_bad = data[0] & 1,
                                            .sort = data[0] & 2,
                                            .from_s = 1,
                                            .duration_s = 1000,
                                            .time_scale = .5,
                                            .prompt_scale = .25,
                                            .output_scale = 3};
    stream = fmemopen((void *)(uintptr_t)(data + 1), size - 1, "r");
    if (br_trace_read(stream, "input", &options, &w, &report, &err) == 0)
        check_workload(&w, &report);
    else if (!err.msg[0] || w.requests || w.names)
        abort();
    br_workload_free(&w);
    fclose(stream);
    return 0;
}
