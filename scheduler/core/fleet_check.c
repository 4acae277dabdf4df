#include "scheduler/core/fleet_books.h"

/* While the pool has more to say, sequences may be elsewhere there than the caller was told. */
static const char *seq_broken(const struct br_fleet *fleet, uint32_t seq)
{
    const struct fleet_seq *q = &fleet->seqs[seq];
    bool known = fleet->pool->seqs[seq].state != BR_PL_FREE;
    if (q->known != known)
        return "a sequence is known to one of fleet and pool alone";
    if (!q->known && q->device >= 0)
        return "an unknown sequence has a device";
    if (q->known && !fleet->did->more && q->device != br_pl_device_of(fleet->pool, seq))
        return "a sequence is not where the caller was told";
    if (q->known && q->model != fleet->pool->seqs[seq].model)
        return "a sequence is of another model than it was";
    if (q->device >= 0 && !fleet->did->more && !fleet->pool->devices[q->device].up)
        return "a device that is down has sequences";
    return NULL;
}

int br_fleet_check(const struct br_fleet *fleet, struct br_err *err)
{
    uint32_t known = 0, waiting = 0;
    const char *broken = NULL;
    for (uint32_t i = 0; i < fleet->config.max_seqs && !broken; i++) {
        known += fleet->seqs[i].known;
        waiting += fleet->seqs[i].known && fleet->seqs[i].device < 0;
        broken = seq_broken(fleet, i);
    }
    if (!broken && (known != fleet->n_unfinished || waiting != fleet->n_waiting))
        broken = "counts of sequences are wrong";
    if (broken)
        return br_err_set(err, BR_ECORRUPT, "fleet: %s", broken);
    return br_pl_check(fleet->pool, err);
}
