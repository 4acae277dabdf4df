/* KV between host and disk: what the host pool has no room for goes to disk, the last to have come first (its slot has
 * just run; paused ones before all others), and comes back through the host. KV that the disk does not take stays where
 * it is; KV that comes back damaged is computed again. */
#include <inttypes.h>

#include "base/log.h"
#include "worker/turn/internal.h"

static const int64_t TRY_AGAIN_NS = 10 * BR_NS_PER_S; /* after a write that failed */

int turn_disk_open(struct br_turn *t, uint64_t least_block, struct br_err *err)
{
    struct kv_disk_config c = {.path = t->config.kv_disk_path,
                               .offset = t->config.kv_disk_offset,
                               .bytes = t->config.kv_disk_bytes,
                               .least_block = least_block,
                               .host = t->host_kv,
                               .done = turn_wake,
                               .ctx = t};
    if (!c.bytes)
        return 0;
    if (!t->host_kv || t->dev->ops->timed)
        return br_err_set(err, BR_EINVAL, "KV goes to disk through host memory, and this device has none for KV");
    return kv_disk_open(&c, &t->disk, err);
}

static void move_start(struct br_turn *t, uint32_t index, const struct br_kv_swap *swap, bool write)
{
    struct turn_disk_move *m = &t->disk_moves[0];
    while (m->on)
        m++;
    *m = (struct turn_disk_move){.on = true, .ticket = swap->ticket, .seq = t->seqs[index].id, .index = index};
    m->room = write ? turn_kv_bytes(t, index) : 0;
    m->job = (struct kv_disk_job){.write = write,
                                  .copies = swap->copies,
                                  .n = swap->n_copies,
                                  .block_bytes = t->models[t->seqs[index].slot].info.kv_block_bytes};
    t->n_disk_moves++;
    t->n_disk_writes += write;
    for (uint32_t i = 0; i < swap->n_copies; i++)
        *(write ? &t->stats.kv_disk_out_bytes : &t->stats.kv_disk_in_bytes) += swap->copies[i].bytes;
    kv_disk_start(t->disk, &m->job);
    turn_kv_where(t, index);
}

/* The sequence on the host that is most likely needed last; -1: none. */
static int32_t victim(const struct br_turn *t)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < t->config.max_seqs; i++) {
        const struct turn_seq *s = &t->seqs[i], *b = best < 0 ? NULL : &t->seqs[best];
        if (!t->seq_ids[i] || s->wants_in || br_kv_where(t->kv, s->kv) != BR_KV_HOST)
            continue;
        if (!b || s->paused > b->paused || (s->paused == b->paused && s->out_stamp > b->out_stamp))
            best = (int32_t)i;
    }
    return best;
}

static bool to_disk(struct br_turn *t, uint32_t index)
{
    struct br_kv_swap swap;
    struct br_err err;
    if (t->n_disk_moves == TURN_MAX_DISK_MOVES || br_now_ns() < t->disk_retry_ns ||
        br_kv_to_disk(t->kv, t->seqs[index].kv, &swap, &err))
        return false;
    move_start(t, index, &swap, true);
    return true;
}

bool turn_disk_room(struct br_turn *t, uint64_t bytes)
{
    uint64_t coming = 0;
    int32_t index;
    for (uint32_t i = 0; i < TURN_MAX_DISK_MOVES; i++)
        coming += t->disk_moves[i].on ? t->disk_moves[i].room : 0;
    while (t->disk && coming < bytes && (index = victim(t)) >= 0 && to_disk(t, (uint32_t)index))
        coming += turn_kv_bytes(t, (uint32_t)index);
    return t->n_disk_writes > 0;
}

void turn_disk_ahead(struct br_turn *t)
{
    struct br_kv_stats kv;
    uint64_t used;
    if (!t->disk)
        return;
    br_kv_stats(t->kv, &kv);
    used = kv.host_bytes_owned + kv.host_bytes_in_flight;
    if (used > t->config.host_kv_bytes / 8 * 7)
        turn_disk_room(t, used - t->config.host_kv_bytes / 8 * 7);
}

enum kv_room turn_disk_fetch(struct br_turn *t, uint32_t index, bool victims)
{
    struct br_kv_swap swap;
    struct br_err err;
    if (t->n_disk_moves == TURN_MAX_DISK_MOVES)
        return KV_ROOM_COMING;
    if (br_kv_from_disk(t->kv, t->seqs[index].kv, &swap, &err) == 0) {
        move_start(t, index, &swap, false);
        return KV_ROOM_COMING;
    }
    if (victims && turn_disk_room(t, turn_kv_bytes(t, index)))
        return KV_ROOM_COMING;
    return t->n_swaps || t->n_disk_moves ? KV_ROOM_COMING : KV_ROOM_REFUSED;
}

static void said(struct br_turn *t, const struct turn_disk_move *m)
{
    struct br_kv_stats kv;
    br_kv_stats(t->kv, &kv);
    br_log(BR_ERROR, m->job.write ? "kv_disk_write_failed" : "kv_disk_read_failed",
           "seq=%" PRIu64 " why=%s used_bytes=%" PRIu64 " limit_bytes=%" PRIu64 " then=%s setting=kv-disk-size", m->seq,
           BR_Q(m->job.err.msg), kv.disk_bytes_owned + kv.disk_bytes_cached, t->config.kv_disk_bytes,
           m->job.write ? BR_Q("stays in host memory; none is written for 10 s") : BR_Q("is computed again"));
}

/* Its blocks on disk are worth nothing any more, to whomever. */
static void lost(struct br_turn *t, const struct turn_disk_move *m)
{
    t->stats.kv_disk_damaged += m->job.rc == BR_ECORRUPT;
    if (t->seqs[m->index].id == m->seq)
        turn_kv_lost(t, m->index);
}

static void move_finish(struct br_turn *t, struct turn_disk_move *m)
{
    bool here = t->seqs[m->index].id == m->seq;
    m->on = false;
    t->n_disk_moves--;
    t->n_disk_writes -= m->job.write;
    t->changed = true;
    if (m->job.rc == 0) {
        br_kv_swap_done(t->kv, m->ticket);
    } else {
        br_kv_swap_failed(t->kv, m->ticket);
        t->stats.kv_disk_failures++;
        said(t, m);
        if (m->job.write)
            t->disk_retry_ns = br_now_ns() + TRY_AGAIN_NS;
    }
    if (here && m->job.rc && !m->job.write)
        lost(t, m);
    else if (here && !t->seqs[m->index].wants_in) /* it goes on to the device */
        turn_kv_where(t, m->index);
}

void turn_disk_poll(struct br_turn *t)
{
    for (uint32_t i = 0; t->n_disk_moves && i < TURN_MAX_DISK_MOVES; i++)
        if (t->disk_moves[i].on && kv_disk_done(&t->disk_moves[i].job))
            move_finish(t, &t->disk_moves[i]);
}
