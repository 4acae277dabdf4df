/* br_dev with the policies of policies/ against a small worker: memory in blocks and units shared by weights and KV, a
 * small host, loads and moves that take their time, refusals, cancelled and paused sequences, lost KV, weights that go
 * on their own, models that come, go and are pinned. After every event the books hold and a twin has answered the
 * same; every step has what it needs; when nothing new comes every sequence ends.
 * test_device_pool_random [EVENTS [FIRST SEED]]: so many events a policy. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "scheduler/core/device.h"
#include "tests/cmocka.h"

enum { SLOTS = 5, SEQS = 24, BATCH = 6, ROWS = 20, CHUNK = 8, BLOCK = 8, LONGEST = 80, EVENTS_A_WORLD = 4000 };

enum where { NOWHERE, DEVICE, OUT, ON_HOST, IN };

struct job {
    bool used, gone, accepted, paused, lose; /* gone: ended while its KV moves; lose: its KV goes when the move ends */
    uint32_t slot, prompt, target, delivered, rows, step_rows;
    bool step_last;
    enum where where;
    double moved_s;
};

struct model {
    bool used, asked, all; /* a load: asked for; of everything */
    int64_t bytes, unit, kv_token, resident, load_to;
    double unit_s; /* when its next unit is in */
};

struct world {
    struct br_dev *dev, *twin;
    struct br_dev_actions did, twin_did;
    struct br_rng rng;
    double now_s, wake_s, step_end_s;
    int64_t memory, host;
    bool victims; /* the worker makes room by itself for moves in and steps */
    bool mean;    /* refuses now and then for no reason */
    bool draining;
    int32_t stepping; /* slot; -1 */
    uint32_t step_items[BR_DEV_MAX_ITEMS], n_step_items;
    struct job jobs[SEQS];
    struct model models[SLOTS];
    uint32_t still;
    uint64_t events, steps, loads, swaps, drops, besides, fails, streamed, aborted;
};

static uint64_t first_seed = 1, n_events = 100000;

static uint32_t draw(struct world *w, uint32_t n)
{
    return (uint32_t)(br_rng_next(&w->rng) * n);
}

static void same_actions(const struct br_dev_actions *a, const struct br_dev_actions *b)
{
    assert_int_equal(a->n_actions, b->n_actions);
    assert_int_equal(a->n_items, b->n_items);
    assert_memory_equal(&a->wake_s, &b->wake_s, sizeof a->wake_s);
    for (uint32_t i = 0; i < a->n_actions; i++) {
        assert_int_equal(a->actions[i].kind, b->actions[i].kind);
        assert_int_equal(a->actions[i].slot, b->actions[i].slot);
        assert_int_equal(a->actions[i].seq, b->actions[i].seq);
        assert_int_equal(a->actions[i].bytes, b->actions[i].bytes);
    }
    for (uint32_t i = 0; i < a->n_items; i++) {
        assert_int_equal(a->items[i].seq, b->items[i].seq);
        assert_int_equal(a->items[i].tokens, b->items[i].tokens);
        assert_int_equal(a->items[i].last, b->items[i].last);
    }
}

static void happen(struct world *w, struct br_dev_event event)
{
    struct br_err err = {0};
    br_dev_step(w->dev, w->now_s, &event, &w->did);
    br_dev_step(w->twin, w->now_s, &event, &w->twin_did);
    same_actions(&w->did, &w->twin_did);
    w->events++;
    if (br_dev_check(w->dev, &err))
        fail_msg("event %lu of kind %d: %s", w->events, (int)event.kind, err.msg);
}

/* ---- memory ---- */

static int64_t kv_bytes(const struct world *w, uint32_t slot, uint32_t rows)
{
    return (rows + BLOCK - 1) / BLOCK * BLOCK * w->models[slot].kv_token;
}

static int64_t device_free(const struct world *w, bool soon)
{
    int64_t left = w->memory;
    for (int i = 0; i < SLOTS; i++)
        left -= w->models[i].resident;
    for (int i = 0; i < SEQS; i++) {
        enum where at = w->jobs[i].where;
        if (at == DEVICE || at == IN || (at == OUT && !soon))
            left -= kv_bytes(w, w->jobs[i].slot, w->jobs[i].rows);
    }
    return left;
}

static int64_t host_free(const struct world *w)
{
    int64_t left = w->host;
    for (int i = 0; i < SEQS; i++)
        if (w->jobs[i].where == ON_HOST || w->jobs[i].where == IN || w->jobs[i].where == OUT)
            left -= kv_bytes(w, w->jobs[i].slot, w->jobs[i].rows);
    return left;
}

static void weights_tell(struct world *w, uint32_t slot)
{
    const struct model *m = &w->models[slot];
    happen(w, (struct br_dev_event){BR_DEV_WEIGHTS, .slot = slot, .bytes = (uint64_t)m->resident,
                                    .bytes_all = (uint64_t)m->bytes});
}

static void evict(struct world *w, uint32_t slot, int64_t bytes)
{
    struct model *m = &w->models[slot];
    assert_int_not_equal(slot, w->stepping);
    for (int64_t freed = 0; freed < bytes && m->resident > 0; freed += m->unit)
        m->resident -= m->resident % m->unit ? m->resident % m->unit : m->unit;
    weights_tell(w, slot);
}

static void tell_kv(struct world *w, uint32_t seq, enum br_dev_kv kv)
{
    happen(w, (struct br_dev_event){BR_DEV_KV, .slot = w->jobs[seq].slot, .seq = seq, .kv = kv});
}

static void unaccept(struct job *j)
{
    j->rows -= j->accepted ? j->step_rows : 0;
    j->accepted = false;
}

static void tell_reset(struct world *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    unaccept(j);
    j->where = NOWHERE;
    j->rows = 0;
    happen(w, (struct br_dev_event){BR_DEV_SEQ_RESET, .seq = seq, .tokens = j->prompt + j->delivered});
}

static void move(struct world *w, uint32_t seq, enum where where)
{
    w->jobs[seq].where = where;
    w->jobs[seq].moved_s = w->now_s + .02 * br_rng_next(&w->rng);
    w->swaps++;
    tell_kv(w, seq, BR_DEV_KV_MOVING);
}

static void push_out(struct world *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    assert_int_equal(j->where, DEVICE);
    assert_false(w->stepping >= 0 && j->accepted);
    unaccept(j);
    if (j->rows == 0 || host_free(w) < kv_bytes(w, j->slot, j->rows))
        tell_reset(w, seq);
    else
        move(w, seq, OUT);
}

/* Room now? If not, pushes out until there will be, as long as there are victims. */
static bool make_room(struct world *w, uint32_t seq, int64_t need)
{
    uint32_t slot = w->jobs[seq].slot;
    while (w->victims && device_free(w, true) < need) {
        int32_t victim = br_dev_weights_victim(w->dev, slot);
        if (victim >= 0 && w->models[victim].resident > 0 && draw(w, 2)) {
            assert_int_not_equal(victim, slot);
            evict(w, (uint32_t)victim, need - device_free(w, true));
            continue;
        }
        victim = br_dev_kv_victim(w->dev, slot, seq);
        if (victim < 0)
            return false;
        assert_int_not_equal(victim, seq);
        assert_true(w->jobs[victim].slot == slot || (int32_t)w->jobs[victim].slot != w->stepping);
        push_out(w, (uint32_t)victim);
    }
    return device_free(w, false) >= need;
}

/* ---- what the device half asks for ---- */

static void do_swap_in(struct world *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    assert_true(j->used);
    if (j->where != ON_HOST || (w->mean && draw(w, 8) == 0))
        return;
    if (make_room(w, seq, kv_bytes(w, j->slot, j->rows)))
        move(w, seq, IN);
    else if (draw(w, 2))
        tell_kv(w, seq, BR_DEV_KV_ON_HOST);
}

static void do_swap_out(struct world *w, uint32_t seq)
{
    assert_true(w->jobs[seq].used);
    if (w->jobs[seq].where != DEVICE)
        return; /* pushed out by another action meanwhile, and told */
    if (w->mean && draw(w, 8) == 0)
        tell_kv(w, seq, BR_DEV_KV_ON_DEVICE); /* not now */
    else
        push_out(w, seq);
}

static void do_drop(struct world *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    assert_true(j->used);
    w->drops++;
    if (j->where == IN || j->where == OUT)
        j->lose = true;
    else
        tell_reset(w, seq);
}

static void job_end(struct world *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    happen(w, (struct br_dev_event){BR_DEV_SEQ_END, .seq = seq});
    if (j->where == OUT || j->where == IN)
        j->gone = true;
    else
        *j = (struct job){0};
}

static void do_load(struct world *w, uint32_t slot, int64_t bytes)
{
    struct model *m = &w->models[slot];
    int64_t to = bytes ? (m->resident + bytes + m->unit - 1) / m->unit * m->unit : m->bytes;
    assert_true(m->used);
    w->loads++;
    m->all |= bytes == 0;
    m->load_to = to < m->bytes && !m->all ? to : m->bytes;
    m->asked |= bytes > 0;
    m->unit_s = w->now_s + .01 * br_rng_next(&w->rng);
}

static void item_accept(struct world *w, const struct br_dev_item *item)
{
    struct job *j = &w->jobs[item->seq];
    if ((j->where != DEVICE && j->where != NOWHERE) || (w->mean && draw(w, 10) == 0))
        return; /* pushed out by a swap-in or by another item of this step */
    if (item->last != (j->rows + item->tokens >= j->prompt + j->delivered))
        return; /* pushed out and reset */
    int64_t more = kv_bytes(w, j->slot, j->rows + item->tokens) - kv_bytes(w, j->slot, j->rows);
    if (!make_room(w, item->seq, more) || (j->where != DEVICE && j->where != NOWHERE))
        return;
    j->where = DEVICE;
    j->rows += item->tokens;
    j->step_rows = item->tokens;
    j->step_last = item->last;
    j->accepted = true;
}

static void items_verify(const struct world *w, const struct br_dev_actions *did, uint32_t slot, bool all)
{
    uint32_t rows = 0;
    assert_true(w->models[slot].used && w->stepping < 0);
    assert_true(all || w->models[slot].resident == w->models[slot].bytes || w->mean);
    for (uint32_t i = 0; i < did->n_items; i++) {
        const struct br_dev_item *item = &did->items[i];
        const struct job *j = &w->jobs[item->seq];
        assert_true(j->used && !j->gone && !j->paused && j->slot == slot);
        assert_true(item->tokens > 0 && item->tokens <= CHUNK);
        rows += item->tokens;
    }
    assert_true(did->n_items > 0 && did->n_items <= BATCH && rows <= ROWS);
}

static void step_start(struct world *w, const struct br_dev_actions *did, uint32_t slot)
{
    w->n_step_items = 0;
    for (uint32_t i = 0; i < did->n_items; i++)
        item_accept(w, &did->items[i]);
    for (uint32_t i = 0; i < did->n_items; i++)
        if (w->jobs[did->items[i].seq].accepted)
            w->step_items[w->n_step_items++] = did->items[i].seq;
    if (w->n_step_items == 0) {
        w->aborted++;
        return;
    }
    w->steps++;
    w->stepping = (int32_t)slot;
    w->step_end_s = w->now_s + .001 + .02 * br_rng_next(&w->rng);
    if (w->models[slot].resident < w->models[slot].bytes && !w->models[slot].all)
        do_load(w, slot, 0); /* its weights went while room was made */
}

static void step_end(struct world *w)
{
    uint32_t slot = (uint32_t)w->stepping;
    for (uint32_t i = 0; i < w->n_step_items; i++) {
        struct job *j = &w->jobs[w->step_items[i]];
        if (!j->used || !j->accepted)
            continue;
        j->accepted = false;
        j->delivered += j->step_last;
        happen(w, (struct br_dev_event){BR_DEV_SEQ_STEPPED, .seq = w->step_items[i], .tokens = j->step_rows,
                                        .emitted = j->step_last});
        if (j->delivered == j->target)
            job_end(w, w->step_items[i]);
    }
    w->stepping = -1;
    happen(w, (struct br_dev_event){BR_DEV_STEP_DONE, .slot = slot, .step_s = .02 * br_rng_next(&w->rng),
                                    .waited = draw(w, 4) == 0});
}

static void obey(struct world *w)
{
    struct br_dev_actions did = w->did;
    bool all = false, stepped = false;
    w->wake_s = did.wake_s;
    for (uint32_t i = 0; i < did.n_actions; i++)
        if (did.actions[i].kind == BR_DO_LOAD && did.actions[i].bytes == 0)
            all = true;
    for (uint32_t i = 0; i < did.n_actions; i++)
        if (did.actions[i].kind == BR_DO_STEP)
            items_verify(w, &did, did.actions[i].slot, all);
    w->streamed += all;
    for (uint32_t i = 0; i < did.n_actions; i++) {
        const struct br_dev_action *a = &did.actions[i];
        if (a->kind == BR_DO_STEP)
            step_start(w, &did, a->slot);
        else if (a->kind == BR_DO_LOAD)
            do_load(w, a->slot, (int64_t)a->bytes);
        else if (a->kind == BR_DO_EVICT)
            evict(w, a->slot, (int64_t)a->bytes);
        else if (a->kind == BR_DO_DROP)
            do_drop(w, a->seq);
        else if (a->kind == BR_DO_SWAP_IN)
            do_swap_in(w, a->seq);
        else if (a->kind == BR_DO_SWAP_OUT)
            do_swap_out(w, a->seq);
        else if (a->kind == BR_DO_FAIL)
            w->fails++, job_end(w, a->seq);
        stepped |= a->kind == BR_DO_STEP;
    }
    assert_true(stepped == (did.n_items > 0));
}

static void decide(struct world *w)
{
    bool beside = w->stepping >= 0;
    w->besides += beside;
    happen(w, (struct br_dev_event){.kind = beside ? BR_DEV_BESIDE : BR_DEV_BOUNDARY});
    if (beside)
        assert_int_equal(w->did.n_items, 0);
    obey(w);
}

/* ---- time ---- */

static void move_end(struct world *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    if (j->gone) {
        *j = (struct job){0};
        return;
    }
    j->where = j->where == OUT ? ON_HOST : DEVICE;
    if (j->lose) {
        j->lose = false;
        tell_reset(w, seq);
        return;
    }
    tell_kv(w, seq, j->where == ON_HOST ? BR_DEV_KV_ON_HOST : BR_DEV_KV_ON_DEVICE);
}

static bool outs_pending(const struct world *w)
{
    for (int i = 0; i < SEQS; i++)
        if (w->jobs[i].where == OUT)
            return true;
    return false;
}

/* For a step that runs on it already the worker takes room by itself. */
static bool load_room(struct world *w, uint32_t slot, int64_t need)
{
    while (w->stepping == (int32_t)slot && device_free(w, true) < need) {
        int32_t victim = br_dev_weights_victim(w->dev, slot);
        if (victim >= 0) {
            evict(w, (uint32_t)victim, need - device_free(w, true));
            continue;
        }
        victim = br_dev_kv_victim(w->dev, slot, UINT32_MAX);
        if (victim < 0 || w->jobs[victim].slot == slot)
            break;
        push_out(w, (uint32_t)victim);
    }
    return device_free(w, false) >= need;
}

/* The next unit of a load is due: it comes, waits for a move out, or the load is over. */
static void load_go_on(struct world *w, uint32_t slot)
{
    struct model *m = &w->models[slot];
    int64_t unit = m->bytes - m->resident < m->unit ? m->bytes - m->resident : m->unit;
    m->unit_s = w->now_s + .005 + .005 * br_rng_next(&w->rng);
    if (m->resident < m->load_to && load_room(w, slot, unit)) {
        m->resident += unit;
        weights_tell(w, slot);
        return;
    }
    if (m->resident < m->load_to && (outs_pending(w) || w->stepping == (int32_t)slot))
        return;
    m->all = false;
    if (m->asked)
        happen(w, (struct br_dev_event){BR_DEV_LOADED, .slot = slot});
    m->asked = false;
}

static bool loading(const struct model *m)
{
    return m->asked || m->all;
}

static bool step_waits(const struct world *w)
{
    return w->stepping >= 0 && w->models[w->stepping].resident < w->models[w->stepping].bytes;
}

static double next_s(const struct world *w)
{
    double next = w->wake_s >= 0 ? w->wake_s : 1e30;
    for (int i = 0; i < SEQS; i++)
        if ((w->jobs[i].where == OUT || w->jobs[i].where == IN) && w->jobs[i].moved_s < next)
            next = w->jobs[i].moved_s;
    for (int i = 0; i < SLOTS; i++)
        if (loading(&w->models[i]) && w->models[i].unit_s < next)
            next = w->models[i].unit_s;
    if (w->stepping >= 0 && !step_waits(w) && w->step_end_s < next)
        next = w->step_end_s;
    return next;
}

static uint32_t wanting(const struct world *w)
{
    uint32_t n = 0;
    for (int i = 0; i < SEQS; i++)
        n += w->jobs[i].used && !w->jobs[i].gone && !w->jobs[i].paused;
    return n;
}

static void pass_time(struct world *w)
{
    double next = next_s(w);
    if (next >= 1e30)
        assert_int_equal(wanting(w), 0); /* somebody waits, and nothing will wake the worker */
    w->still = next > w->now_s ? 0 : w->still + 1;
    assert_true(w->still < 200); /* time goes on: no busy loop */
    if (next < 1e30 && next > w->now_s)
        w->now_s = next;
    for (uint32_t i = 0; i < SEQS; i++)
        if ((w->jobs[i].where == OUT || w->jobs[i].where == IN) && w->jobs[i].moved_s <= w->now_s)
            move_end(w, i);
    for (uint32_t i = 0; i < SLOTS; i++)
        if (loading(&w->models[i]) && w->models[i].unit_s <= w->now_s)
            load_go_on(w, i);
    if (w->stepping >= 0 && !step_waits(w) && w->step_end_s <= w->now_s)
        step_end(w);
}

/* ---- what comes from outside ---- */

static void slot_tell(struct world *w, uint32_t slot)
{
    struct model *m = &w->models[slot];
    struct br_dev_event e = {BR_DEV_SLOT_ADD, .slot = slot, .ttft_s = .2 + br_rng_next(&w->rng), .tbt_s = .05};
    e.bytes_all = (uint64_t)m->bytes;
    e.kv_token_bytes = (uint64_t)m->kv_token;
    e.rate = br_rng_next(&w->rng);
    e.pinned = !w->draining && draw(w, 8) == 0;
    e.shape = (struct br_step_shape){.fixed_s = .002, .read_s = .005, .row_s = 1e-4, .kv_byte_s = 1e-9};
    happen(w, e);
}

static void model_come(struct world *w, uint32_t slot)
{
    struct model *m = &w->models[slot];
    *m = (struct model){.used = true, .unit = 3000 + draw(w, 4000), .kv_token = 10 + draw(w, 30)};
    m->bytes = 20000 + draw(w, 40000);
    slot_tell(w, slot);
    weights_tell(w, slot);
}

static void model_leave(struct world *w, uint32_t slot)
{
    for (int i = 0; i < SEQS; i++)
        if (w->jobs[i].used && w->jobs[i].slot == slot)
            return;
    if (w->stepping == (int32_t)slot)
        return;
    happen(w, (struct br_dev_event){BR_DEV_SLOT_REMOVE, .slot = slot});
    w->models[slot] = (struct model){0};
}

static void arrive(struct world *w)
{
    uint32_t seq = draw(w, SEQS), slot = draw(w, SLOTS);
    struct job *j = &w->jobs[seq];
    if (j->used)
        return;
    if (!w->models[slot].used)
        model_come(w, slot);
    *j = (struct job){.used = true, .slot = slot};
    j->prompt = 1 + draw(w, LONGEST / 2);
    j->target = 1 + draw(w, LONGEST - j->prompt);
    if (draw(w, 8) == 0)
        j->delivered = draw(w, j->target);
    happen(w, (struct br_dev_event){BR_DEV_SEQ_ADD, .slot = slot, .seq = seq, .tokens = j->prompt + j->delivered,
                                    .delivered = j->delivered, .ttft_s = draw(w, 2) ? .1 : 0, .weight = draw(w, 3),
                                    .age_s = draw(w, 3) * .1});
}

static void pause(struct world *w, uint32_t seq, bool paused)
{
    struct job *j = &w->jobs[seq];
    if (!j->used || j->gone || j->paused == paused)
        return;
    j->paused = paused;
    happen(w, (struct br_dev_event){paused ? BR_DEV_SEQ_PAUSE : BR_DEV_SEQ_RESUME, .seq = seq});
}

static void trouble_of_seq(struct world *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    uint32_t what = draw(w, 4);
    if (!j->used || j->gone)
        return;
    if (what == 0)
        job_end(w, seq);
    else if (what == 1 && (j->where == DEVICE || j->where == ON_HOST) && !j->accepted)
        tell_reset(w, seq);
    else if (what >= 2)
        pause(w, seq, !j->paused);
}

static void trouble(struct world *w)
{
    uint32_t slot = draw(w, SLOTS), what = draw(w, 8);
    if (what > 2)
        trouble_of_seq(w, draw(w, SEQS));
    else if (!w->models[slot].used)
        return;
    else if (what == 0)
        model_leave(w, slot);
    else if (what == 1)
        slot_tell(w, slot);
    else if (w->stepping != (int32_t)slot)
        evict(w, slot, w->models[slot].unit);
}

static void turn(struct world *w)
{
    decide(w);
    pass_time(w);
}

static void world_create(struct world *w, const char *policy, uint64_t seed)
{
    struct br_err err;
    memset(w, 0, sizeof *w);
    w->rng.seed = seed;
    w->stepping = -1;
    w->wake_s = -1;
    w->memory = 75000 + draw(w, 60000);
    w->host = draw(w, 3) ? 200000 : 5000;
    w->victims = draw(w, 2);
    w->mean = draw(w, 3) == 0;
    struct br_dev_config config = {.policy = policy,
                                   .memory_bytes = w->memory,
                                   .link_bytes_per_s = 1e6,
                                   .chunk_bytes = draw(w, 2) ? 0 : 2000 + draw(w, 20000),
                                   .max_slots = SLOTS,
                                   .max_seqs = SEQS,
                                   .max_batch = BATCH,
                                   .max_step_tokens = ROWS,
                                   .prefill_chunk = CHUNK,
                                   .quota_max_s = .5,
                                   .switch_every_step = draw(w, 4) == 0};
    assert_int_equal(br_dev_create(&config, &w->dev, &err), 0);
    assert_int_equal(br_dev_create(&config, &w->twin, &err), 0);
}

static uint32_t unfinished(const struct world *w)
{
    uint32_t n = 0;
    for (int i = 0; i < SEQS; i++)
        n += w->jobs[i].used;
    return n;
}

static void drain(struct world *w)
{
    w->draining = true;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (w->models[i].used)
            slot_tell(w, i);
    for (uint32_t i = 0; i < SEQS; i++)
        pause(w, i, false);
    for (int i = 0; i < 100000 && unfinished(w); i++)
        turn(w);
    if (unfinished(w))
        fail_msg("world %lu: %u sequences do not end", w->rng.seed, unfinished(w));
}

static void run_policy(const char *policy)
{
    static struct world w;
    uint64_t events = 0, steps = 0, loads = 0, swaps = 0, drops = 0, besides = 0, fails = 0, streamed = 0, aborted = 0;
    for (uint64_t seed = first_seed; events < n_events; seed++) {
        world_create(&w, policy, seed);
        uint32_t crowd = 1 + draw(&w, 6);
        while (w.events < EVENTS_A_WORLD) {
            if (draw(&w, 10) < crowd)
                arrive(&w);
            if (draw(&w, 30) == 0)
                trouble(&w);
            turn(&w);
        }
        drain(&w);
        events += w.events, steps += w.steps, loads += w.loads, swaps += w.swaps, drops += w.drops;
        besides += w.besides, fails += w.fails, streamed += w.streamed, aborted += w.aborted;
        br_dev_destroy(w.dev);
        br_dev_destroy(w.twin);
    }
    printf(
        "%s: %lu events, %lu steps (%lu streamed, %lu found no room), %lu loads, %lu moves, %lu drops, %lu decisions "
        "beside, %lu failed\n",
        policy, events, steps, streamed, aborted, loads, swaps, drops, besides, fails);
    assert_true(steps > n_events / 50 && loads > n_events / 500 && besides > n_events / 200);
}

static void slack_holds(void **state)
{
    (void)state;
    run_policy("slack");
}

static void request_holds(void **state)
{
    (void)state;
    run_policy("request");
}

static void multiplex_holds(void **state)
{
    (void)state;
    run_policy("multiplex");
}

static void aegaeon_holds(void **state)
{
    (void)state;
    run_policy("aegaeon");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slack_holds),
        cmocka_unit_test(request_holds),
        cmocka_unit_test(multiplex_holds),
        cmocka_unit_test(aegaeon_holds),
    };
    if (argc > 1)
        n_events = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
