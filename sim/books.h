/* The memory of virtual devices as the worker keeps it: the books of kvcache/, one region a device, with weights from
 * one end and KV slabs from the other. Slabs are chosen as worker/turn chooses them. Weights are taken to lie in one
 * piece, as the worker moves them together; KV is moved together here when it is in the way, in no time: a device moves
 * bytes within itself far faster than they come in. */
#ifndef BRIAREUS_SIM_BOOKS_H
#define BRIAREUS_SIM_BOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "scheduler/core/policies/pool.h"

struct sim_books;

/* Devices and models of the pool; sequences are numbered below max_seqs and have at most max_tokens. */
int sim_books_create(const struct br_pl_config *pool, uint32_t max_tokens, struct sim_books **out, struct br_err *err);
void sim_books_destroy(struct sim_books *books);

/* What a policy may plan with: of each KV shape one slab may be filled in part. */
int64_t sim_books_planned(const struct sim_books *books, uint32_t device);
/* KV of a token as it fills slabs, what is left over behind a slab's last block included. */
int64_t sim_books_token_bytes(const struct sim_books *books, uint32_t model);

/* Room for `bytes` more of weights; gives what there is of it. KV is moved out of the way, none leaves. */
int64_t sim_books_load(struct sim_books *books, uint32_t device, int64_t bytes);
void sim_books_evict(struct sim_books *books, uint32_t device, int64_t bytes);

/* Blocks for so many tokens of the sequence on this device; false: no room, and it has what it had. */
bool sim_books_extend(struct sim_books *books, uint32_t device, uint32_t model, uint32_t seq, uint32_t tokens);
/* The weights that have to go so that the sequence has room; 0 if that does not help. */
int64_t sim_books_lacking(const struct sim_books *books, uint32_t device, uint32_t model, uint32_t seq,
                          uint32_t tokens);
/* Its blocks, if it has any, are free. */
void sim_books_drop(struct sim_books *books, uint32_t seq);
/* -1: it has no blocks. */
int32_t sim_books_device(const struct sim_books *books, uint32_t seq);
/* Bytes between weights and KV, and holes in KV's slabs: what is taken by nobody. */
int64_t sim_books_free(const struct sim_books *books, uint32_t device);

/* 0, or BR_ECORRUPT: weights and KV apart on every device, every sequence with the KV that the pool has on its device
 * has blocks for it there, others have none; and the inside of kvcache's books of device `deep` (-1: of none).
 */
int sim_books_check(const struct sim_books *books, const struct br_pool *pool, int32_t deep, struct br_err *err);

#endif
