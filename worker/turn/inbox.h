/* The turn's bounded command queue: many senders, one receiver. */
#ifndef BRIAREUS_WORKER_TURN_INBOX_H
#define BRIAREUS_WORKER_TURN_INBOX_H

#include <pthread.h>

#include "proto/seq.h"
#include "worker/turn/turn.h"

enum inbox_kind {
    INBOX_ADD,
    INBOX_CANCEL,
    INBOX_FORGET,
    INBOX_HAND_OVER,
    INBOX_ADOPT,
    INBOX_PAUSE,
    INBOX_RESUME,
    INBOX_TERMS,
    INBOX_ORDER,
    INBOX_DRAIN,
    INBOX_STOP,
};

struct inbox_command {
    enum inbox_kind kind;
    uint64_t seq, fence;
    struct br_seq_spec *spec; /* add: owned by whoever holds the command */
    int32_t *ids;             /* add: owned, [n_ids] output tokens so far */
    uint32_t n_ids;
    int64_t arrival_ns; /* add: on the monotonic clock */
    uint32_t from;      /* add: the device of this node that has its KV + 1; 0: none */
    uint32_t model;     /* terms */
    struct br_turn_terms terms;
    struct br_turn_order order;
};

enum { INBOX_CAP = 1024 };

struct inbox {
    pthread_mutex_t mutex;
    pthread_cond_t filled, emptied;
    bool poked;
    uint32_t head, n;
    struct inbox_command ring[INBOX_CAP];
};

void inbox_init(struct inbox *inbox);
void inbox_free(struct inbox *inbox); /* and the commands left in it */
void inbox_command_free(struct inbox_command *command);

void inbox_put(struct inbox *inbox, const struct inbox_command *command); /* blocks while full */
bool inbox_take(struct inbox *inbox, struct inbox_command *out);          /* false: empty */
/* Ends the present wait, or the next one if there is none. */
void inbox_poke(struct inbox *inbox);
/* Waits until a command is there or it is poked, at most timeout_ns (< 0: for ever). */
void inbox_wait(struct inbox *inbox, int64_t timeout_ns);

#endif
