/* The spans of a call: the request as a whole, its queue, prefill and decode, and what devices did for it. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_SPANS_H
#define BRIAREUS_SCHEDULER_GATEWAY_SPANS_H

#include "scheduler/gateway/gateway.h"

/* Everything of the call itself, when it ends. */
void br_spans_of_call(const struct br_gateway_call *call, int64_t now_ns);
void br_spans_of_moment(const struct br_gateway_call *call, uint32_t choice, const struct br_gateway_moment *moment);

#endif
