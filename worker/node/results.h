/* Every output token of the sequences that run here, and of the last ones that ended: what the scheduler has not stored
 * yet is sent again after the connection broke. Written by the turn thread, read by the loop. */
#ifndef BRIAREUS_WORKER_NODE_RESULTS_H
#define BRIAREUS_WORKER_NODE_RESULTS_H

#include "proto/seq.h"
#include "worker/turn/turn.h"

enum { RESULTS_CHUNK = 4096 }; /* tokens in one frame at most */

struct results;

struct result_chunk {
    uint64_t seq, fence;
    uint32_t first, n, cached;
    const struct br_token *tokens;
    enum br_end end;
    const char *error;
    double queued_s; /* with the first tokens from here, else 0 */
};

/* Ended sequences are kept until max_ended newer ones have ended: the scheduler has a lost one computed again. */
void results_create(uint32_t max_ended, struct results **out);
void results_free(struct results *results);

enum result_open {
    RESULT_NEW,    /* a record was made: start it */
    RESULT_KNOWN,  /* it runs here under a record that took the fence; tokens from n on are sent again */
    RESULT_ENDED,  /* it has ended here; tokens from n on and the end are sent again */
    RESULT_BEHIND, /* it is here, but begins behind token n: the record was made anew, start it again */
};
/* The scheduler wants this sequence under this fence and has its first n output tokens. */
enum result_open results_open(struct results *results, uint64_t seq, uint64_t fence, uint32_t n);
/* Its record goes, unless it is under a newer fence: nothing of it is sent any more. False: there was none. */
bool results_forget(struct results *results, uint64_t seq, uint64_t fence);
/* Output of the turn; what belongs to no record is ignored. */
void results_push(struct results *results, const struct br_turn_output *output);

/* After Register and Welcome: welcome, adopt each, then retire, which forgets every record that was not adopted and
 * gives their sequences (*n, malloc'ed). adopt: false: there is no such record. */
void results_welcome(struct results *results);
bool results_adopt(struct results *results, uint64_t seq, uint64_t fence, uint32_t acknowledged);
uint64_t *results_retire(struct results *results, uint32_t *n);

/* Calls each for every record, with the number of output tokens that there are in all (those that came with the
 * sequence included). */
void results_each(struct results *results, void (*each)(void *ctx, uint64_t seq, uint64_t fence, uint32_t tokens),
                  void *ctx);
/* Hands out what was not sent yet, in chunks; stops when send fails. True when nothing is left. */
bool results_send(struct results *results, int (*send)(void *ctx, const struct result_chunk *chunk), void *ctx);

#endif
