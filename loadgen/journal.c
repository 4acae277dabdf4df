#include "loadgen/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

const char *load_outcome_name(enum load_outcome outcome)
{
    static const char *const names[LOAD_OUTCOMES] = {
        "not_sent",   "completed", "cancelled",  "interrupted",  "connect",     "closed_early",
        "timeout",    "deadline",  "drain",      "refused_429",  "refused_503", "http_4xx",
        "http_other", "bad_http",  "bad_stream", "stream_error", "local"};
    return names[outcome];
}

void load_journal_init(struct load_journal *journal, size_t n_requests)
{
    memset(journal, 0, sizeof *journal);
    journal->n = n_requests;
    journal->records = br_calloc(n_requests + 1, sizeof *journal->records);
    journal->chunks = br_calloc(LOAD_MAX_PIECES / LOAD_PIECES_CHUNK, sizeof *journal->chunks);
}

void load_journal_free(struct load_journal *journal)
{
    for (size_t i = 0; i * LOAD_PIECES_CHUNK < journal->n_pieces; i++)
        free(journal->chunks[i]);
    free(journal->chunks);
    free(journal->records);
    memset(journal, 0, sizeof *journal);
}

void load_journal_tokens(struct load_journal *journal, uint32_t request, uint32_t tokens, double at_s)
{
    size_t i = journal->n_pieces;
    journal->records[request].tokens += tokens;
    if (i >= LOAD_MAX_PIECES) {
        journal->n_lost++;
        return;
    }
    if (i % LOAD_PIECES_CHUNK == 0)
        journal->chunks[i / LOAD_PIECES_CHUNK] = br_malloc(LOAD_PIECES_CHUNK * sizeof **journal->chunks);
    journal->chunks[i / LOAD_PIECES_CHUNK][i % LOAD_PIECES_CHUNK] = (struct load_piece){at_s, request, tokens};
    journal->n_pieces++;
}

void load_journal_end(struct load_journal *journal, uint32_t request, enum load_outcome outcome, double at_s,
                      const char *why)
{
    struct load_record *record = &journal->records[request];
    record->outcome = (uint8_t)outcome;
    record->end_s = at_s;
    if (load_outcome_failed(outcome) && why && !journal->why[outcome][0])
        snprintf(journal->why[outcome], sizeof journal->why[outcome], "%s", why);
}
