/* A whole worker in processes of its own, against a scheduler's end of the link that the test holds. */
#ifndef BRIAREUS_TESTS_NODE_RIG_H
#define BRIAREUS_TESTS_NODE_RIG_H

#include "proto/transfers.h"
#include "scheduler/link/link.h"
#include "tests/unit/worker/turn/fixture.h"
#include "worker/node/worker.h"

enum { RIG_DEVICES = 2, RIG_SEQS = 16 };

struct rig_device {
    struct br_link_peer *peer; /* NULL: away */
    uint32_t registers, reports;
    struct br_transfers transfers; /* of the last report */
    char error[512];               /* of the first model it does not serve */
};

struct rig {
    uv_loop_t loop;
    uv_timer_t timeout;
    struct br_link_server *server;
    struct rig_device devices[RIG_DEVICES];
    char address[128], cache[128], dir[64];
    pid_t worker;
    struct fx_result results[RIG_SEQS]; /* by index; seq 0: unused */
    uint64_t fences[RIG_SEQS];          /* tokens under any other are not taken */
};

/* Fills what the rig decides: node, scheduler, cache_dir. */
void rig_config(struct rig *r, struct br_worker_config *config);
/* Forks a worker and waits for its devices. No thread may run in this process. */
void rig_open(struct rig *r, const struct br_worker_config *config);
void rig_close(struct rig *r);

void rig_turn(struct rig *r); /* the loop, until something has happened */
#define RIG_UNTIL(r, condition)                                                                                        \
    while (!(condition))                                                                                               \
    rig_turn(r)

/* Under the fence of results[i], behind the tokens there; kv_from as in Assign. */
void rig_assign(struct rig *r, uint32_t i, const struct br_seq_spec *spec, uint32_t device, uint32_t kv_from);
void rig_frame(struct rig *r, uint32_t device, const Briareus__Frame *frame);
void rig_reported(struct rig *r, uint32_t device); /* until a report of later than now */

#endif
