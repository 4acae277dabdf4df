/* W3C Trace Context, level 1: whose trace a request belongs to. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_TRACEPARENT_H
#define BRIAREUS_SCHEDULER_GATEWAY_TRACEPARENT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/seq.h"

struct br_traceparent {
    uint8_t trace[16], span[8]; /* span: of this process' part, under which others hang theirs */
    uint8_t parent[8];          /* the caller's span */
    bool has_parent, sampled;
};

/* From a `traceparent` header; "" or one that breaks the rules begins a new trace, which is sampled. */
void br_traceparent_begin(struct br_traceparent *trace, const char *traceparent);
/* A span id that was not there before. */
void br_traceparent_span(uint8_t span[8]);
/* What is passed on: traceparent with our span as the parent. */
void br_traceparent_pass(const struct br_traceparent *trace, char out[BR_MAX_TRACEPARENT]);

#endif
