/* Orders about models' weights that come from outside, beside what the policy decides. They wait their time: an order
 * never disturbs a step, nor a model that has sequences. */
#include <string.h>

#include "base/log.h"
#include "worker/turn/internal.h"

static const int64_t LOAD_PATIENCE_NS = 20 * BR_NS_PER_S; /* and four times what the load takes */

uint32_t turn_slot_seqs(const struct br_turn *t, uint32_t slot)
{
    uint32_t n = 0;
    for (uint32_t i = 0; t->n_seqs && i < t->config.max_seqs; i++)
        n += t->seq_ids[i] && t->seqs[i].slot == slot;
    return n;
}

/* Of them, those that end with the running step. */
static uint32_t ending_seqs(const struct br_turn *t, uint32_t slot)
{
    uint32_t n = 0;
    for (uint32_t i = 0; t->n_seqs && i < t->config.max_seqs; i++)
        n += t->seq_ids[i] && t->seqs[i].slot == slot && t->seqs[i].cancelled;
    return n;
}

static void answer(struct br_turn *t, const struct br_turn_order *o, int rc, const struct br_err *err, uint64_t device,
                   uint64_t host)
{
    struct br_turn_done done = {.ticket = o->ticket, .device_bytes = device, .host_bytes = host, .rc = rc};
    if (rc)
        done.error = err->msg;
    if (t->cb.done)
        t->cb.done(t->cb.ctx, &done);
}

void turn_order_take(struct br_turn *t, const struct br_turn_order *o)
{
    struct br_err err;
    int64_t load_ns = o->model < t->n_models ? (int64_t)(t->models[o->model].info.load_s * 1e9) : 0;
    if (t->n_orders == TURN_MAX_ORDERS) {
        br_err_set(&err, BR_EBUSY, "%d orders about models are under way: try again later", TURN_MAX_ORDERS);
        answer(t, o, err.code, &err, 0, 0);
        return;
    }
    t->orders[t->n_orders++] = (struct turn_order){*o, br_now_ns() + LOAD_PATIENCE_NS + 4 * load_ns};
}

static int model_usable(const struct br_turn *t, uint32_t model, struct br_err *err)
{
    if (model >= t->n_models)
        return br_err_set(err, BR_ENOENT, "there is no such model on this device");
    if (!t->models[model].engine)
        return br_err_set(err, BR_ENOTSUP, "it is not served here: %s", t->models[model].info.error);
    return 0;
}

/* Beside 0 and the errors: it has to wait. */
enum { NOT_YET = 1 };

static int load_go(struct br_turn *t, const struct turn_order *o, struct br_err *err)
{
    uint32_t slot = o->is.model;
    struct br_err why;
    if (br_weight_image_failed(t->models[slot].image, &why))
        return br_err_set(err, BR_EIO, "%s", why.msg);
    if (br_residency_ready(t->residency, slot))
        return 0;
    if (!br_residency_placed(t->residency, slot)) {
        t->ordered = true;
        turn_room_load(t, slot, UINT64_MAX, true);
        t->ordered = false;
    }
    if (br_now_ns() < o->until_ns)
        return NOT_YET;
    return br_err_set(err, BR_EBUSY,
                      "there is no room for it beside the models that have requests: try again later, or pin it");
}

static bool has_loads(const struct br_turn *t, uint32_t slot)
{
    for (uint32_t i = 0; i < t->n_loads; i++)
        if (t->loads[i].slot == slot)
            return true;
    return false;
}

static int host_go(struct br_turn *t, const struct br_turn_order *o, uint64_t *bytes, struct br_err *err)
{
    const struct br_weight_image *image = t->models[o->model].image;
    if (o->host == BR_HOST_MAY_GO)
        return br_weight_image_may_go(image, err);
    return o->host == BR_HOST_GO ? br_weight_image_vacate(image, bytes, err) : 0;
}

static int unload_go(struct br_turn *t, const struct br_turn_order *o, uint64_t *device, uint64_t *host,
                     struct br_err *err)
{
    uint32_t n = turn_slot_seqs(t, o->model), ending = ending_seqs(t, o->model);
    if (n > ending)
        return br_err_set(err, BR_EBUSY, "%u of its sequences are unfinished", n - ending);
    if (t->models[o->model].terms.pinned)
        return br_err_set(err, BR_EINVAL, "it is pinned: unpin it first");
    if (ending || (t->step.on && t->step.slot == o->model) || has_loads(t, o->model))
        return NOT_YET;
    *device = br_residency_vacate(t->residency, o->model);
    t->changed |= *device > 0;
    t->models[o->model].number = ++t->n_numbers; /* its folder may have changed when it comes again */
    return host_go(t, o, host, err);
}

static int add_go(struct br_turn *t, const struct br_turn_order *o, struct br_err *err)
{
    if (o->model >= t->n_models || t->models[o->model].engine)
        return br_err_set(err, BR_EBUSY, "all %u places for models are taken: restart the worker", t->n_models);
    return t->step.on ? NOT_YET : turn_model_enter(t, o->model, o->add, err);
}

/* The host's copy goes with it unless another process of the node is at it; the last one takes it. */
static int remove_go(struct br_turn *t, const struct br_turn_order *o, uint64_t *device, uint64_t *host,
                     struct br_err *err)
{
    uint32_t n = turn_slot_seqs(t, o->model), ending = ending_seqs(t, o->model);
    struct br_err why;
    if (n > ending)
        return br_err_set(err, BR_EBUSY, "%u of its sequences are unfinished", n - ending);
    if (ending || t->step.on || has_loads(t, o->model))
        return NOT_YET;
    br_residency_unload(t->residency, o->model, device, host, &why);
    turn_model_leave(t, o->model);
    t->changed = true;
    return 0;
}

static bool order_go(struct br_turn *t, const struct turn_order *o)
{
    uint64_t device = 0, host = 0;
    struct br_err err;
    bool adds = o->is.what == BR_MODEL_ADD;
    int rc = adds ? add_go(t, &o->is, &err) : model_usable(t, o->is.model, &err);
    if (adds)
        ;
    else if (rc == 0 && o->is.what == BR_MODEL_REMOVE)
        rc = remove_go(t, &o->is, &device, &host, &err);
    else if (rc == 0 && o->is.what == BR_MODEL_LOAD)
        rc = load_go(t, o, &err);
    else if (rc == 0 && o->is.what == BR_MODEL_UNLOAD)
        rc = unload_go(t, &o->is, &device, &host, &err);
    else if (rc == 0)
        rc = br_err_set(&err, BR_ENOTSUP, "this worker does not know such an order: it is older than the scheduler");
    if (rc == NOT_YET)
        return false;
    if (device || host)
        turn_publish(t); /* whoever is told that bytes are free sees it in the statistics too */
    answer(t, &o->is, rc, &err, device, host);
    return true;
}

void turn_orders_go(struct br_turn *t)
{
    for (uint32_t i = 0; i < t->n_orders;) {
        struct turn_order o = t->orders[i];
        if (!order_go(t, &o)) {
            i++;
            continue;
        }
        t->n_orders--;
        memmove(&t->orders[i], &t->orders[i + 1], (t->n_orders - i) * sizeof t->orders[0]);
    }
}
