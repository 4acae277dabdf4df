/* What happened in a run, written down as it happens and judged afterwards: one record a request, one entry a piece of
 * answer. Times are seconds since the run's start. */
#ifndef BRIAREUS_LOADGEN_JOURNAL_H
#define BRIAREUS_LOADGEN_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum load_outcome {
    LOAD_PENDING, /* never sent (the run was broken off before) */
    LOAD_OK,
    LOAD_CANCELLED,   /* by the generator, as its share of cancellations asks */
    LOAD_INTERRUPTED, /* the run was broken off while it was open */
    /* from here on: failures; their missing tokens count as late */
    LOAD_CONNECT,      /* no connection: refused, unreachable */
    LOAD_CLOSED,       /* the connection or the stream ended before the answer did */
    LOAD_TIMEOUT,      /* --request-timeout */
    LOAD_DEADLINE,     /* given up at the request's own deadline */
    LOAD_DRAIN,        /* still open when the drain was over */
    LOAD_HTTP_429,     /* refused: too many requests */
    LOAD_HTTP_503,     /* refused: overloaded or loading */
    LOAD_HTTP_4XX,     /* another status 400 .. 499 */
    LOAD_HTTP_OTHER,   /* another status that is not 200 */
    LOAD_BAD_HTTP,     /* what came is not HTTP, or too large */
    LOAD_BAD_STREAM,   /* a 200 answer that is no stream of JSON events (or no JSON) */
    LOAD_STREAM_ERROR, /* the stream carried an error */
    LOAD_LOCAL,        /* the generator itself ran out of something (open files) */
    LOAD_OUTCOMES
};

/* "completed", "cancelled", "refused_429" ... as in result files. */
const char *load_outcome_name(enum load_outcome outcome);
static inline bool load_outcome_failed(enum load_outcome outcome)
{
    return outcome >= LOAD_CONNECT;
}

enum load_trait { LOAD_CANCELS = 1, LOAD_SLOW = 2, LOAD_HAS_DEADLINE = 4, LOAD_HAS_PRIORITY = 8 };

struct load_record {
    double scheduled_s, sent_s, end_s; /* sent_s < 0: not sent */
    uint32_t model, number;            /* as in the workload */
    uint32_t prompt, output;           /* tokens asked for */
    uint32_t prompt_seen, tokens;      /* as the server counted the prompt (0: it did not say); tokens received */
    uint16_t status;                   /* HTTP; 0: none came */
    uint8_t outcome, traits;
};

/* `tokens` tokens came together. */
struct load_piece {
    double at_s;
    uint32_t request, tokens;
};

enum { LOAD_MAX_PIECES = 1 << 26, LOAD_PIECES_CHUNK = 1 << 16 };

struct load_journal {
    struct load_record *records; /* owned; [n], by scheduled_s */
    size_t n;
    struct load_piece **chunks;   /* owned; pieces in order of time, LOAD_PIECES_CHUNK each */
    size_t n_pieces, n_lost;      /* lost: beyond LOAD_MAX_PIECES; token times end there */
    char why[LOAD_OUTCOMES][160]; /* the first message of each kind of failure */
    double sending_s, wall_s;     /* how long requests were sent; until the last answer */
    double busy_s;                /* time in which the generator itself had no pause (whole 100 ms without 2 % idle) */
    uint64_t connections, stale;  /* opened; of those kept open, how many the server had closed when they were used */
    bool interrupted;
    double hopeless; /* > 0: the run was broken off, since its attainment could not become more than this any more */
};

void load_journal_init(struct load_journal *journal, size_t n_requests);
void load_journal_free(struct load_journal *journal);
void load_journal_tokens(struct load_journal *journal, uint32_t request, uint32_t tokens, double at_s);
void load_journal_end(struct load_journal *journal, uint32_t request, enum load_outcome outcome, double at_s,
                      const char *why);
static inline const struct load_piece *load_journal_piece(const struct load_journal *journal, size_t i)
{
    return &journal->chunks[i / LOAD_PIECES_CHUNK][i % LOAD_PIECES_CHUNK];
}

#endif
