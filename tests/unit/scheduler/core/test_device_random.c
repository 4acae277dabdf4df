/* The device half under random events: against no worker at all (any event in any order), and against a small worker
 * with too little memory for its work, where every sequence has to end. Two instances get the same events and have to
 * answer the same. */
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "scheduler/core/device.h"
#include "tests/cmocka.h"

enum { SLOTS = 5, SEQS = 24, BATCH = 6, ROWS = 20, CHUNK = 8 };

struct pair {
    struct br_dev *dev, *twin;
    struct br_dev_actions did, twin_did;
    struct br_rng rng;
    double now_s;
    uint32_t events;
};

static uint32_t draw(struct pair *p, uint32_t n)
{
    return (uint32_t)(br_rng_next(&p->rng) * n);
}

static void pair_create(struct pair *p, uint64_t seed, bool switch_every_step)
{
    struct br_dev_config config = {.policy = "quota-rr",
                                   .max_slots = SLOTS,
                                   .max_seqs = SEQS,
                                   .max_batch = BATCH,
                                   .max_step_tokens = ROWS,
                                   .prefill_chunk = CHUNK,
                                   .quota_max_s = 0.5,
                                   .switch_every_step = switch_every_step};
    struct br_err err;
    *p = (struct pair){.rng = {.seed = seed}};
    assert_int_equal(br_dev_create(&config, &p->dev, &err), 0);
    assert_int_equal(br_dev_create(&config, &p->twin, &err), 0);
}

static void pair_destroy(struct pair *p)
{
    br_dev_destroy(p->dev);
    br_dev_destroy(p->twin);
}

static void same_actions(const struct br_dev_actions *a, const struct br_dev_actions *b)
{
    assert_int_equal(a->n_actions, b->n_actions);
    assert_int_equal(a->n_items, b->n_items);
    assert_memory_equal(&a->wake_s, &b->wake_s, sizeof a->wake_s);
    for (uint32_t i = 0; i < a->n_actions; i++)
        assert_memory_equal(&a->actions[i], &b->actions[i], sizeof a->actions[i]);
    for (uint32_t i = 0; i < a->n_items; i++) {
        assert_int_equal(a->items[i].seq, b->items[i].seq);
        assert_int_equal(a->items[i].tokens, b->items[i].tokens);
        assert_int_equal(a->items[i].last, b->items[i].last);
    }
}

static void happen(struct pair *p, struct br_dev_event event)
{
    struct br_err err = {0};
    br_dev_step(p->dev, p->now_s, &event, &p->did);
    br_dev_step(p->twin, p->now_s, &event, &p->twin_did);
    same_actions(&p->did, &p->twin_did);
    if (br_dev_check(p->dev, &err))
        fail_msg("event %u of kind %d: %s", p->events, (int)event.kind, err.msg);
    p->events++;
}

static void slot_add(struct pair *p, uint32_t slot)
{
    happen(p, (struct br_dev_event){BR_DEV_SLOT_ADD, .slot = slot, .step_s = 0.001 + 0.05 * br_rng_next(&p->rng),
                                    .load_s = br_rng_next(&p->rng), .tbt_s = 0.02 + 0.2 * br_rng_next(&p->rng)});
}

/* ---- any event in any order ---- */

struct chaos {
    struct pair p;
    bool slots[SLOTS], seqs[SEQS];
    uint32_t slot_of[SEQS], in_slot[SLOTS];
};

static void chaos_slot(struct chaos *c, uint32_t slot)
{
    struct pair *p = &c->p;
    if (!c->slots[slot] || draw(p, 4) == 0) {
        slot_add(p, slot);
        c->slots[slot] = true;
    } else if (c->in_slot[slot] == 0 && draw(p, 3) == 0) {
        happen(p, (struct br_dev_event){BR_DEV_SLOT_REMOVE, .slot = slot});
        c->slots[slot] = false;
    } else if (draw(p, 2)) {
        happen(p, (struct br_dev_event){BR_DEV_WEIGHTS, .slot = slot, .bytes = draw(p, 3) * 50, .bytes_all = 100});
    } else {
        happen(p, (struct br_dev_event){BR_DEV_STEP_DONE, .slot = slot, .step_s = br_rng_next(&p->rng)});
    }
}

static void chaos_seq(struct chaos *c, uint32_t seq)
{
    struct pair *p = &c->p;
    uint32_t slot = draw(p, SLOTS), what = draw(p, 10);
    if (!c->seqs[seq]) {
        if (!c->slots[slot])
            return;
        happen(p, (struct br_dev_event){BR_DEV_SEQ_ADD, .slot = slot, .seq = seq, .tokens = 1 + draw(p, 30),
                                        .age_s = draw(p, 3)});
        c->seqs[seq] = true;
        c->slot_of[seq] = slot;
        c->in_slot[slot]++;
    } else if (what < 2) {
        happen(p, (struct br_dev_event){BR_DEV_SEQ_END, .seq = seq});
        c->seqs[seq] = false;
        c->in_slot[c->slot_of[seq]]--;
    } else if (what < 3) {
        happen(p, (struct br_dev_event){BR_DEV_SEQ_RESET, .seq = seq, .tokens = 1 + draw(p, 30)});
    } else if (what < 6) {
        happen(p, (struct br_dev_event){BR_DEV_SEQ_STEPPED, .seq = seq, .tokens = 1 + draw(p, 9), .emitted = 1});
    } else {
        happen(p, (struct br_dev_event){BR_DEV_KV, .seq = seq, .kv = (enum br_dev_kv)draw(p, 4)});
    }
}

static void chaos_boundary(struct chaos *c)
{
    struct pair *p = &c->p;
    int32_t step = -1, victim;
    happen(p, (struct br_dev_event){.kind = BR_DEV_BOUNDARY});
    for (uint32_t i = 0; i < p->did.n_actions; i++)
        if (p->did.actions[i].kind == BR_DO_STEP)
            step = (int32_t)p->did.actions[i].slot;
    assert_true((step >= 0) == (p->did.n_items > 0));
    for (uint32_t i = 0; i < p->did.n_items; i++)
        assert_true(c->seqs[p->did.items[i].seq] && (int32_t)c->slot_of[p->did.items[i].seq] == step);
    for (uint32_t target = 0; target < SLOTS; target++) {
        victim = br_dev_weights_victim(p->dev, target);
        assert_true(victim < 0 || ((uint32_t)victim != target && victim != step && c->slots[victim]));
        victim = br_dev_kv_victim(p->dev, target, draw(p, SEQS));
        assert_true(victim < 0 || c->seqs[victim]);
    }
    assert_true(br_dev_next_slot(p->dev) < 0 || c->in_slot[br_dev_next_slot(p->dev)] > 0);
}

static void any_event_in_any_order(void **state)
{
    static struct chaos c;
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        memset(&c, 0, sizeof c);
        pair_create(&c.p, seed, seed % 2);
        while (c.p.events < 10000) {
            uint32_t what = draw(&c.p, 10);
            c.p.now_s += draw(&c.p, 3) * 0.03;
            if (what < 2)
                chaos_slot(&c, draw(&c.p, SLOTS));
            else if (what < 7)
                chaos_seq(&c, draw(&c.p, SEQS));
            else
                chaos_boundary(&c);
        }
        pair_destroy(&c.p);
    }
}

/* ---- a small worker ---- */

enum { UNIT_TOKENS = 8, LONGEST = 80, IMPATIENCE = 3000 };

enum where { NOWHERE, DEVICE, OUT, ON_HOST, IN };

struct job {
    bool used, gone, accepted;                      /* gone: cancelled while its KV moves */
    uint32_t slot, prompt, target, delivered, rows; /* rows: tokens with KV */
    enum where where;
    double moved_s; /* when the move ends */
    uint32_t last_ran;
    uint32_t step_rows; /* of rows, those of the step being put together */
};

struct worker {
    struct pair p;
    struct job jobs[SEQS];
    bool slots[SLOTS];
    int32_t device_units, host_units;
    uint32_t arrivals, decisions, still, longest_wait;
};

static uint32_t units(uint32_t tokens)
{
    return (tokens + UNIT_TOKENS - 1) / UNIT_TOKENS;
}

static int32_t device_free(const struct worker *w, bool soon)
{
    int32_t free = w->device_units;
    for (int i = 0; i < SEQS; i++) {
        enum where at = w->jobs[i].where;
        if (at == DEVICE || at == IN || (at == OUT && !soon))
            free -= (int32_t)units(w->jobs[i].rows);
    }
    return free;
}

static int32_t host_free(const struct worker *w)
{
    int32_t free = w->host_units;
    for (int i = 0; i < SEQS; i++)
        if (w->jobs[i].where == ON_HOST || w->jobs[i].where == IN || w->jobs[i].where == OUT)
            free -= (int32_t)units(w->jobs[i].rows);
    return free;
}

static void tell_kv(struct worker *w, uint32_t seq, enum br_dev_kv kv)
{
    happen(&w->p, (struct br_dev_event){BR_DEV_KV, .seq = seq, .kv = kv});
}

static void tell_reset(struct worker *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    j->where = NOWHERE;
    j->rows = 0;
    happen(&w->p, (struct br_dev_event){BR_DEV_SEQ_RESET, .seq = seq, .tokens = j->prompt + j->delivered});
}

static void move(struct worker *w, uint32_t seq, enum where where)
{
    w->jobs[seq].where = where;
    w->jobs[seq].moved_s = w->p.now_s + 0.02 * br_rng_next(&w->p.rng);
    tell_kv(w, seq, BR_DEV_KV_MOVING);
}

static void push_out(struct worker *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    assert_int_equal(j->where, DEVICE);
    j->rows -= j->accepted ? j->step_rows : 0;
    j->accepted = false;
    if (host_free(w) < (int32_t)units(w->jobs[seq].rows))
        tell_reset(w, seq);
    else
        move(w, seq, OUT);
}

/* Room now? If not, pushes out until there will be, as long as there are victims. */
static bool make_room(struct worker *w, uint32_t seq, int32_t need)
{
    while (device_free(w, true) < need) {
        int32_t victim = br_dev_kv_victim(w->p.dev, w->jobs[seq].slot, seq);
        if (victim < 0)
            return false;
        assert_int_not_equal(victim, seq);
        push_out(w, (uint32_t)victim);
    }
    return device_free(w, false) >= need;
}

static void do_swap_in(struct worker *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    if (j->where != ON_HOST)
        return;
    if (make_room(w, seq, (int32_t)units(j->rows)))
        move(w, seq, IN);
    else if (draw(&w->p, 2))
        tell_kv(w, seq, BR_DEV_KV_ON_HOST);
}

/* Into free room only, and now and then not even there. */
static void do_swap_in_ahead(struct worker *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    if (j->where == ON_HOST && device_free(w, false) >= (int32_t)units(j->rows) && draw(&w->p, 4))
        move(w, seq, IN);
}

static void job_end(struct worker *w, uint32_t seq)
{
    struct job *j = &w->jobs[seq];
    happen(&w->p, (struct br_dev_event){BR_DEV_SEQ_END, .seq = seq});
    if (j->where == OUT || j->where == IN)
        j->gone = true;
    else
        *j = (struct job){0};
}

static void item_accept(struct worker *w, const struct br_dev_item *item)
{
    struct job *j = &w->jobs[item->seq];
    if (j->where != DEVICE && j->where != NOWHERE)
        return; /* pushed out by a swap-in or by another item of this step */
    if (item->last != (j->rows + item->tokens >= j->prompt + j->delivered))
        return; /* pushed out and reset */
    if (make_room(w, item->seq, (int32_t)(units(j->rows + item->tokens) - units(j->rows)))) {
        j->where = DEVICE;
        j->rows += item->tokens;
        j->step_rows = item->tokens;
        j->accepted = true;
    }
}

static void item_ran(struct worker *w, const struct br_dev_item *item)
{
    struct job *j = &w->jobs[item->seq];
    if (!j->accepted)
        return;
    j->accepted = false;
    if (w->decisions - j->last_ran > w->longest_wait)
        w->longest_wait = w->decisions - j->last_ran;
    j->last_ran = w->decisions;
    assert_int_equal(item->last, j->rows >= j->prompt + j->delivered);
    j->delivered += item->last;
    happen(&w->p,
           (struct br_dev_event){BR_DEV_SEQ_STEPPED, .seq = item->seq, .tokens = item->tokens, .emitted = item->last});
    if (j->delivered == j->target)
        job_end(w, item->seq);
}

static void items_verify(const struct worker *w, const struct br_dev_actions *did, uint32_t slot)
{
    uint32_t rows = 0;
    bool prompts = false;
    for (uint32_t i = 0; i < did->n_items; i++) {
        const struct br_dev_item *item = &did->items[i];
        const struct job *j = &w->jobs[item->seq];
        bool decode = j->rows && j->rows + 1 == j->prompt + j->delivered;
        assert_true(j->used && !j->gone && j->slot == slot && (j->where == DEVICE || j->where == NOWHERE));
        assert_true(item->tokens > 0 && item->tokens <= CHUNK);
        assert_true(item->tokens + j->rows <= j->prompt + j->delivered);
        if (!decode)
            prompts = true;
        assert_false(prompts && decode && j->prompt + j->delivered > j->rows + 1);
        rows += item->tokens;
    }
    assert_true(did->n_items > 0 && did->n_items <= BATCH && rows <= ROWS);
}

static bool do_step(struct worker *w, const struct br_dev_actions *did, uint32_t slot)
{
    bool any = false;
    for (uint32_t i = 0; i < did->n_items; i++)
        item_accept(w, &did->items[i]);
    for (uint32_t i = 0; i < did->n_items; i++)
        any |= w->jobs[did->items[i].seq].accepted;
    if (!any)
        return false;
    w->p.now_s += 0.001 + 0.02 * br_rng_next(&w->p.rng);
    for (uint32_t i = 0; i < did->n_items; i++)
        item_ran(w, &did->items[i]);
    happen(&w->p, (struct br_dev_event){BR_DEV_STEP_DONE, .slot = slot, .step_s = 0.02 * br_rng_next(&w->p.rng)});
    return true;
}

static void do_load(struct worker *w, uint32_t slot)
{
    int32_t victim = draw(&w->p, 2) ? br_dev_weights_victim(w->p.dev, slot) : -1;
    if (victim >= 0)
        happen(&w->p, (struct br_dev_event){BR_DEV_WEIGHTS, .slot = (uint32_t)victim, .bytes_all = 100});
    happen(&w->p, (struct br_dev_event){BR_DEV_WEIGHTS, .slot = slot, .bytes = 100, .bytes_all = 100});
}

/* One decision, carried out; returns whether a step ran. */
static bool decide(struct worker *w, double *wake_s)
{
    struct br_dev_actions did;
    bool ran = false;
    happen(&w->p, (struct br_dev_event){.kind = BR_DEV_BOUNDARY});
    did = w->p.did;
    *wake_s = did.wake_s;
    w->decisions++;
    for (uint32_t i = 0; i < did.n_actions; i++)
        if (did.actions[i].kind == BR_DO_STEP)
            items_verify(w, &did, did.actions[i].slot);
    for (uint32_t i = 0; i < did.n_actions; i++) {
        const struct br_dev_action *a = &did.actions[i];
        if (a->kind == BR_DO_STEP)
            ran = do_step(w, &did, a->slot);
        else if (a->kind == BR_DO_LOAD)
            do_load(w, a->slot);
        else if (a->kind == BR_DO_SWAP_IN)
            do_swap_in(w, a->seq);
        else if (a->kind == BR_DO_SWAP_IN_AHEAD)
            do_swap_in_ahead(w, a->seq);
        else
            push_out(w, a->seq);
    }
    return ran;
}

static void moves_done(struct worker *w)
{
    for (uint32_t i = 0; i < SEQS; i++) {
        struct job *j = &w->jobs[i];
        if ((j->where != OUT && j->where != IN) || j->moved_s > w->p.now_s)
            continue;
        if (j->gone) {
            *j = (struct job){0};
            continue;
        }
        j->where = j->where == OUT ? ON_HOST : DEVICE;
        tell_kv(w, i, j->where == ON_HOST ? BR_DEV_KV_ON_HOST : BR_DEV_KV_ON_DEVICE);
    }
}

static void arrive(struct worker *w)
{
    uint32_t seq = draw(&w->p, SEQS), slot = draw(&w->p, SLOTS);
    struct job *j = &w->jobs[seq];
    if (j->used)
        return;
    if (!w->slots[slot])
        slot_add(&w->p, slot);
    w->slots[slot] = true;
    *j = (struct job){.used = true, .slot = slot, .last_ran = w->decisions};
    j->prompt = 1 + draw(&w->p, LONGEST / 2);
    j->target = 1 + draw(&w->p, LONGEST - j->prompt);
    happen(&w->p, (struct br_dev_event){BR_DEV_SEQ_ADD, .slot = slot, .seq = seq, .tokens = j->prompt});
    w->arrivals++;
}

/* Cancellations and lost KV. */
static void trouble(struct worker *w)
{
    uint32_t seq = draw(&w->p, SEQS);
    struct job *j = &w->jobs[seq];
    if (!j->used || j->gone)
        return;
    if (draw(&w->p, 2))
        job_end(w, seq);
    else if (j->where == DEVICE || j->where == ON_HOST)
        tell_reset(w, seq);
}

static uint32_t unfinished(const struct worker *w)
{
    uint32_t n = 0;
    for (int i = 0; i < SEQS; i++)
        n += w->jobs[i].used;
    return n;
}

/* Nothing runs: on to the end of a move or the wake time; one of them has to be there. */
static void wait_for_event(struct worker *w, double wake_s)
{
    double next_s = wake_s >= 0 ? wake_s : 1e30;
    for (int i = 0; i < SEQS; i++)
        if ((w->jobs[i].where == OUT || w->jobs[i].where == IN) && w->jobs[i].moved_s < next_s)
            next_s = w->jobs[i].moved_s;
    assert_true(next_s < 1e30);
    w->still = next_s > w->p.now_s ? 0 : w->still + 1;
    assert_true(w->still < 50); /* time goes on: no busy loop */
    if (next_s > w->p.now_s)
        w->p.now_s = next_s;
}

static void worker_turn(struct worker *w)
{
    double wake_s;
    bool ran;
    for (uint32_t i = 0; i < SEQS; i++)
        if (w->jobs[i].used && !w->jobs[i].gone)
            assert_true(w->decisions - w->jobs[i].last_ran < IMPATIENCE); /* nobody starves */
    ran = decide(w, &wake_s);
    if (!ran && unfinished(w))
        wait_for_event(w, wake_s);
    moves_done(w);
}

static void too_little_memory(void **state)
{
    static struct worker w;
    uint32_t events = 0, arrivals = 0, wait = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        memset(&w, 0, sizeof w);
        pair_create(&w.p, seed, seed % 4 == 0);
        w.device_units = seed % 3 ? 14 : 40; /* one sequence takes up to 10 */
        w.host_units = seed % 2 ? 12 : 240;
        while (w.p.events < 10000) {
            if (draw(&w.p, 10) < seed % 6 + 1)
                arrive(&w);
            if (draw(&w.p, 50) == 0)
                trouble(&w);
            if (unfinished(&w))
                worker_turn(&w);
        }
        for (int i = 0; i < 20000 && unfinished(&w); i++)
            worker_turn(&w);
        assert_int_equal(unfinished(&w), 0);
        events += w.p.events;
        arrivals += w.arrivals;
        wait = w.longest_wait > wait ? w.longest_wait : wait;
        pair_destroy(&w.p);
    }
    print_message("%u events, %u sequences, longest wait %u decisions\n", events, arrivals, wait);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_event_in_any_order), cmocka_unit_test(too_little_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
