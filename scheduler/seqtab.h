/* The scheduler's table of unfinished sequences: found by id, numbered densely for core/fleet. */
#ifndef BRIAREUS_SCHEDULER_SEQTAB_H
#define BRIAREUS_SCHEDULER_SEQTAB_H

#include "proto/seq.h"

struct br_gateway_call;

/* A sequence is in exactly one state. ACCEPTING -> WAITING -> (LEASING ->) RUNNING -> ENDING -> gone;
 * RECOVERED -> RUNNING (adopted) or WAITING; RUNNING -> WAITING when its device is lost. */
enum sched_state {
    SCHED_FREE,
    SCHED_ACCEPTING, /* being stored; the client has heard nothing */
    SCHED_RECOVERED, /* found in Redis at start; a device may still be running it */
    SCHED_WAITING,   /* in core/fleet, without a device */
    SCHED_LEASING,   /* has a device; a new fence is being taken */
    SCHED_RUNNING,   /* assigned */
    SCHED_ENDING,    /* over; its last append is under way */
};

struct sched_seq {
    enum sched_state state;
    uint32_t index;
    uint32_t model; /* index in the catalogue */
    struct br_seq_spec spec;
    uint64_t fence;
    bool unsure;                  /* a lease was not answered: the fence may be another one by now */
    bool fresh;                   /* the fence from acceptance has not been given to a device yet */
    int32_t device;               /* index, or -1 */
    struct br_gateway_call *call; /* NULL: nobody waits for its tokens */
    bool cancel_wanted;           /* the client left while it was being accepted */
    struct br_token *tokens;      /* owned: [n_tokens] received */
    uint32_t n_tokens, cap_tokens;
    uint32_t n_stored, n_delivered;
    uint32_t n_cached; /* tokens of its prompt whose KV was known where it began */
    enum br_end end;
    bool end_stored;
    char error[256];
    uint32_t appends, leases;           /* under way */
    bool hopeless;                      /* to be given up; error says why */
    bool again;                         /* Redis was away: the tick repeats what is missing */
    uint32_t tries;                     /* assignments since the last new token */
    uint32_t blame;                     /* deaths of its device since its last token */
    bool given;                         /* its device has been sent it */
    bool progress;                      /* has made a token since it was assigned last */
    bool held;                          /* waits for another one's trial on its device */
    uint32_t kv_from;                   /* device that was told to hand its KV over, index + 1; 0: none */
    bool paused;                        /* its client does not read */
    int64_t paused_since_ns, paused_ns; /* while paused; in all before */
    int64_t arrived_ns;                 /* monotonic */
};

struct seqtab;

struct seqtab *seqtab_create(uint32_t max);
void seqtab_destroy(struct seqtab *tab);
/* NULL when full. Takes over *spec. */
struct sched_seq *seqtab_add(struct seqtab *tab, struct br_seq_spec *spec);
void seqtab_remove(struct seqtab *tab, struct sched_seq *seq);
struct sched_seq *seqtab_find(struct seqtab *tab, uint64_t id);
struct sched_seq *seqtab_at(struct seqtab *tab, uint32_t index); /* NULL when free */
uint32_t seqtab_count(const struct seqtab *tab);
uint32_t seqtab_max(const struct seqtab *tab);
/* Appends tokens [first, first+n) behind those there, skipping known ones; the number of new ones, or -1 on a gap. */
int64_t seqtab_take_tokens(struct sched_seq *seq, uint32_t first, const struct br_token *tokens, uint32_t n);

#endif
