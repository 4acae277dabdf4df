/* What is seen of a call from its arrival to its end: times and tokens for metrics, what its key is charged, and the
 * line that is logged of it. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_WATCH_H
#define BRIAREUS_SCHEDULER_GATEWAY_WATCH_H

#include "scheduler/gateway/auth.h"
#include "scheduler/gateway/metrics.h"
#include "scheduler/gateway/traceparent.h"

struct br_gateway_call;
struct br_choice;

struct br_watch {
    struct br_model_metrics *model; /* NULL: not known (yet) */
    struct br_client *client;       /* counted there as open; NULL: no keys are asked for */
    struct br_traceparent trace;    /* when traced */
    char tracestate[128];           /* the caller's, passed on in spans; "": none, or too long */
    bool traced;
    int64_t began_ns, began_wall_ns;
    int64_t first_ns, last_ns;          /* tokens; 0: none yet */
    int64_t paused_ns, paused_since_ns; /* its client does not read; since: 0: it does */
    double queue_s;                     /* until its first step, as the device said; < 0: not known */
    uint64_t tokens, charged;           /* charged: prompt tokens that the key has paid for */
    bool accepted, cut;                 /* cut: the client left, or the gateway stopped */
    int status;                         /* of the answer; 0: none */
    enum br_end end;                    /* the worst of its choices */
};

/* The functions that return int: 0, or -1 and call->problem. */
int br_watch_begin(struct br_gateway_call *call);
/* Its model is known: may this key use it? */
int br_watch_model(struct br_gateway_call *call);
/* Its prompts are token ids: the key pays for them, and the specs' weight and salt are what the key's are. */
int br_watch_bound(struct br_gateway_call *call);
void br_watch_accepted(struct br_gateway_call *call);
void br_watch_pace(struct br_gateway_call *call, bool slow);
/* n tokens of a choice leave now, its last ones with an end. To be called before the choice counts them. */
void br_watch_tokens(struct br_gateway_call *call, struct br_choice *choice, uint32_t n, enum br_end end);
/* What a client sent or got, to the log: only with log_content. */
void br_watch_content(const struct br_gateway_call *call, const char *what, const char *text, size_t len);
/* The call is about to be freed. */
void br_watch_end(struct br_gateway_call *call);
/* Header lines of the answer: X-Request-Id and what the key's limits leave. */
void br_watch_headers(struct br_gateway_call *call, struct br_buf *out);

#endif
