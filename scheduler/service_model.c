/* Models while they are served: what clients and the configuration have done about them, and how each is.
 *
 * An order goes to devices as ModelOrder frames under its ticket and is answered when each has said ModelDone, or is
 * gone. An unload has two rounds when the host cache is meant too: first off every device, where each process sees to
 * it that it can do without the cache; then out of the cache, once a node. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/order.h"
#include "scheduler/service_impl.h"

enum { MAX_ORDERS = 256, ORDER_LIMIT_S = 600 };

/* Orders of the configuration's, beside those of clients. */
enum order_what {
    LOAD = BR_GATEWAY_LOAD,
    UNLOAD = BR_GATEWAY_UNLOAD,
    PIN = BR_GATEWAY_PIN,
    UNPIN = BR_GATEWAY_UNPIN,
    ADD,
    REMOVE,
};

struct model_order {
    struct model_order *next;
    uint64_t ticket;
    enum order_what what;
    uint32_t model;
    bool host, settling; /* settling: waits for its sequences to end, before the first round */
    uint32_t round;      /* of an unload: 0 devices, 1 host caches */
    bool *asked;         /* [max_devices]: owes an answer */
    uint32_t n_asked;
    uint64_t device_bytes, host_bytes;
    int status; /* of the answer so far; 0: good */
    char why[256];
    int64_t until_ns;
    struct br_gateway_admin *admin; /* NULL: nobody waits */
};

/* ---- how models are ---- */

static uint32_t seqs_of(struct br_service *s, uint32_t model)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        const struct sched_seq *seq = seqtab_at(s->seqs, i);
        n += seq && seq->model == model && seq->state != SCHED_ENDING;
    }
    return n;
}

static bool is_there(const struct sched_place *p)
{
    return p->serves && p->weight_bytes > 0 && p->resident_bytes >= p->weight_bytes;
}

static bool ordered(const struct br_service *s, uint32_t model, enum order_what what)
{
    for (const struct model_order *o = s->orders; o; o = o->next)
        if (o->model == model && o->what == what)
            return true;
    return false;
}

static const char *status_of(const struct br_service *s, uint32_t model)
{
    bool serves = false, comes = ordered(s, model, LOAD) || ordered(s, model, ADD);
    if (!br_models_at(s->models, model)->tokenizer)
        return "failed";
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct sched_place *p = s->devices[i].in_fleet ? &s->devices[i].places[model] : NULL;
        if (p && is_there(p))
            return "ready";
        serves = serves || (p && p->serves);
        comes = comes || (p && p->serves && p->loading);
    }
    if (comes)
        return "loading";
    if (!serves)
        return br_models_trouble(s->models, model) ? "failed" : "unloaded";
    return s->host_out[model] ? "unloaded" : "sleeping";
}

static json_t *places_state(const struct br_service *s, uint32_t model)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct sched_device *d = &s->devices[i];
        if (d->in_fleet && d->places[model].serves)
            json_array_append_new(list, json_pack("{s:s,s:i,s:I,s:I}", "node", d->node, "device", (int)d->number,
                                                  "resident_bytes", (json_int_t)d->places[model].resident_bytes,
                                                  "weight_bytes", (json_int_t)d->places[model].weight_bytes));
    }
    return list;
}

static json_t *model_state(struct br_service *s, uint32_t model)
{
    const char *trouble = br_models_trouble(s->models, model), *status = status_of(s, model);
    json_t *state =
        json_pack("{s:s,s:s,s:b,s:b,s:b,s:i,s:o}", "id", br_models_at(s->models, model)->name, "status", status,
                  "pinned", br_models_pinned(s->models, model), "closed", s->closed[model] > 0, "leaving",
                  s->leaving[model], "unfinished", (int)seqs_of(s, model), "devices", places_state(s, model));
    if (strcmp(status, "failed") == 0 && trouble)
        json_object_set_new(state, "reason", json_string(trouble));
    return state;
}

static void json_say(json_t *json, struct br_buf *out)
{
    char *text = json_dumps(json, JSON_COMPACT);
    br_buf_puts(out, text ? text : "{}");
    free(text);
    json_decref(json);
}

void service_models_state(void *ctx, struct br_buf *out)
{
    struct br_service *s = ctx;
    json_t *list = json_array();
    for (uint32_t i = 0; i < br_models_count(s->models); i++)
        if (br_models_present(s->models, i))
            json_array_append_new(list, model_state(s, i));
    json_say(json_pack("{s:s,s:o}", "object", "list", "data", list), out);
}

/* ---- the end of an order ---- */

static void order_unlink(struct br_service *s, struct model_order *o)
{
    struct model_order **at = &s->orders;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    s->n_orders--;
    if (o->what == UNLOAD && o->settling)
        s->closed[o->model]--;
}

static void order_say(struct br_service *s, struct model_order *o)
{
    struct br_buf out = {0};
    json_t *json = model_state(s, o->model);
    json_object_set_new(json, "freed_device_bytes", json_integer((json_int_t)o->device_bytes));
    json_object_set_new(json, "freed_host_bytes", json_integer((json_int_t)o->host_bytes));
    json_say(json, &out);
    br_gateway_ordered(o->admin, out.data);
    br_buf_free(&out);
}

/* It is off the list first: its answer says how the model is without it. */
static void order_end(struct br_service *s, struct model_order *o)
{
    static const char *const names[] = {"load", "unload", "pin", "unpin", "add", "remove"};
    const char *model = br_models_at(s->models, o->model)->name;
    char why[256 + BR_MAX_MODEL_NAME + 16];
    order_unlink(s, o);
    br_log(o->status ? BR_WARN : BR_INFO, "model_ordered",
           "what=%s model=%s status=%d device_bytes=%" PRIu64 " host_bytes=%" PRIu64 " why=%s", names[o->what], model,
           o->status ? o->status : 200, o->device_bytes, o->host_bytes, BR_Q(o->why));
    snprintf(why, sizeof why, "'%s': %s", model, o->why);
    if (o->admin && o->status)
        br_gateway_order_refused(o->admin, o->status, o->status == 409 || o->status == 503 ? 1 : 0, why);
    else if (o->admin)
        order_say(s, o);
    free(o->asked);
    free(o);
}

static void order_fail(struct model_order *o, int status, const char *why)
{
    if (o->status)
        return;
    o->status = status;
    snprintf(o->why, sizeof o->why, "%s", why);
}

/* ---- rounds ---- */

static void source_of(const struct br_service *s, uint32_t model, uint32_t sizes[10], Briareus__ModelSource *out)
{
    const struct br_model_entry *e = br_models_outline(s->models, model);
    struct br_model_entry of_dir;
    struct br_err err;
    briareus__model_source__init(out);
    if (!e) {
        out->dir = (char *)br_models_dir(s->models, model);
        if (br_model_entry_of_dir(br_models_at(s->models, model)->name, out->dir, &of_dir, &err))
            return;
        free(of_dir.tokenizer); /* a device that has the folder has its tokenizer too */
        of_dir.tokenizer = NULL;
        e = &of_dir;
    }
    const struct br_model_size *z = &e->footprint.size;
    uint32_t flags = (uint32_t)z->tied | (uint32_t)z->qkv_bias << 1 | (uint32_t)z->qk_norm << 2;
    const uint32_t all[10] = {z->layers,   z->hidden, z->ffn,     z->heads,          z->kv_heads,
                              z->head_dim, z->vocab,  z->experts, z->experts_active, flags};
    memcpy(sizes, all, sizeof all);
    out->size = sizes;
    out->n_size = 10;
    out->weights = e->footprint.weights;
    out->kv = e->footprint.kv;
    out->context = e->context;
    if (e->tokenizer)
        out->tokenizer = e->tokenizer;
}

/* Another device of its node has the model: its image is in the host cache, and in use. */
static bool shares(const struct br_service *s, uint32_t device, uint32_t model)
{
    const struct sched_device *d = &s->devices[device];
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (i != device && s->devices[i].node_index == d->node_index && s->devices[i].peer &&
            s->devices[i].places[model].serves)
            return true;
    return false;
}

static void ask(struct br_service *s, struct model_order *o, uint32_t device, enum br_model_order_what what,
                enum br_model_host host)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__ModelOrder order = BRIAREUS__MODEL_ORDER__INIT;
    Briareus__ModelSource source;
    uint32_t sizes[10];
    if (what == BR_MODEL_ADD) {
        source_of(s, o->model, sizes, &source);
        source.shared = shares(s, device, o->model);
        order.source = &source;
    }
    order.ticket = o->ticket;
    order.model = (char *)br_models_at(s->models, o->model)->name;
    order.what = what;
    order.host = host;
    frame.body_case = BRIAREUS__FRAME__BODY_ORDER;
    frame.order = &order;
    if (br_link_send(s->devices[device].peer, &frame))
        return;
    o->asked[device] = true;
    o->n_asked++;
}

static bool takes_orders(const struct sched_device *d, uint32_t model)
{
    return d->in_fleet && d->peer && d->places[model].serves;
}

/* Bytes of other models that are there, or that orders have asked for there. */
static uint64_t taken(const struct br_service *s, uint32_t device, uint32_t but)
{
    const struct sched_device *d = &s->devices[device];
    uint64_t bytes = 0;
    for (uint32_t m = 0; m < br_models_count(s->models); m++)
        bytes += m == but ? 0 : d->places[m].resident_bytes;
    for (const struct model_order *o = s->orders; o; o = o->next) {
        const struct sched_place *p = &d->places[o->model];
        if (o->what == LOAD && o->asked[device] && o->model != but && p->weight_bytes > p->resident_bytes)
            bytes += p->weight_bytes - p->resident_bytes;
    }
    return bytes;
}

/* Where the model is, or else the least busy device that serves it, those with room for it first. */
static int32_t load_device(struct br_service *s, uint32_t model)
{
    int32_t best = -1;
    double best_cost = 0;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        struct sched_device *d = &s->devices[i];
        double cost;
        if (!takes_orders(d, model))
            continue;
        cost = br_fleet_utilisation(s->fleet, i) + (is_there(&d->places[model]) ? -1e6 : 0) +
               (taken(s, i, model) + d->places[model].weight_bytes > d->memory_bytes ? 1 : 0);
        if (best < 0 || cost < best_cost)
            best = (int32_t)i, best_cost = cost;
    }
    return best;
}

static void load_begin(struct br_service *s, struct model_order *o)
{
    int32_t device = load_device(s, o->model);
    if (device < 0)
        order_fail(o, 503,
                   br_models_trouble(s->models, o->model) ? br_models_trouble(s->models, o->model)
                                                          : "no device that serves it is connected");
    else
        ask(s, o, (uint32_t)device, BR_MODEL_LOAD, BR_HOST_KEEP);
}

static void unload_round(struct br_service *s, struct model_order *o)
{
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct sched_device *d = &s->devices[i];
        bool first = true;
        if (!takes_orders(d, o->model))
            continue;
        for (uint32_t k = 0; k < i; k++)
            first = first && !(s->devices[k].node_index == d->node_index && takes_orders(&s->devices[k], o->model));
        if (o->round == 0)
            ask(s, o, i, BR_MODEL_UNLOAD, o->host ? BR_HOST_MAY_GO : BR_HOST_KEEP);
        else if (first)
            ask(s, o, i, BR_MODEL_UNLOAD, BR_HOST_GO);
    }
}

/* Of those that are connected and have no such model: the first of each node, then the others, which share its image.
 */
static void add_round(struct br_service *s, struct model_order *o)
{
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct sched_device *d = &s->devices[i];
        bool first = true;
        if (!d->in_fleet || !d->peer || d->places[o->model].serves)
            continue;
        for (uint32_t k = 0; k < i; k++)
            first = first && !(s->devices[k].node_index == d->node_index && o->asked[k]);
        if (first || o->round == 1)
            ask(s, o, i, BR_MODEL_ADD, BR_HOST_KEEP);
    }
}

static void remove_round(struct br_service *s, struct model_order *o)
{
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].in_fleet && s->devices[i].peer)
            ask(s, o, i, BR_MODEL_REMOVE, BR_HOST_GO);
}

/* It is gone everywhere. */
static void removed(struct br_service *s, uint32_t model)
{
    service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_MODEL_GONE, .model = model});
    for (uint32_t i = 0; i < s->n_devices; i++)
        s->devices[i].places[model] = (struct sched_place){0};
    s->leaving[model] = s->host_out[model] = s->came[model] = false;
    s->rates[model] = 0;
    br_models_remove(s->models, model);
}

/* A round is over. */
static void order_go_on(struct br_service *s, struct model_order *o)
{
    if (o->what == UNLOAD && o->host && o->status == 0 && o->round == 0) {
        o->round = 1;
        unload_round(s, o);
    }
    if (o->what == ADD && o->round == 0) {
        o->round = 1;
        add_round(s, o);
    }
    if (o->n_asked)
        return;
    if (o->what == REMOVE && o->status != 409)
        removed(s, o->model);
    if (o->what == UNLOAD && o->round == 1 && o->status == 0)
        s->host_out[o->model] = true;
    order_end(s, o);
}

static void order_answered(struct br_service *s, struct model_order *o, uint32_t device)
{
    if (!o->asked[device])
        return;
    o->asked[device] = false;
    if (--o->n_asked == 0)
        order_go_on(s, o);
}

void service_order_done(struct br_service *s, struct sched_device *d, const Briareus__ModelDone *done)
{
    uint32_t device = (uint32_t)(d - s->devices);
    struct model_order *o = s->orders;
    while (o && o->ticket != done->ticket)
        o = o->next;
    if (!o || !o->asked[device])
        return;
    if (o->what == ADD && done->error[0]) /* the others may have it */
        br_models_set_trouble(s->models, o->model, done->error);
    else if (o->what == ADD && done->info)
        service_model_info(s, d, done->info);
    if (o->what == REMOVE && done->error[0] && !done->busy)
        ; /* it was not there */
    else if (done->error[0])
        order_fail(o, done->busy || strstr(done->error, "pinned") ? 409 : 500, done->error);
    else if (o->what == UNLOAD)
        d->places[o->model].resident_bytes = 0;
    else if (o->what == LOAD)
        d->places[o->model].resident_bytes = d->places[o->model].weight_bytes;
    o->device_bytes += done->device_bytes;
    o->host_bytes += done->host_bytes;
    order_answered(s, o, device);
}

/* What it held is free when its process is gone; a load that was under way there is not done. */
void service_orders_device_down(struct br_service *s, const struct sched_device *d)
{
    for (struct model_order *o = s->orders, *next; o; o = next) {
        next = o->next;
        if (o->asked[d - s->devices])
            order_fail(o, 503, "the connection to a device broke meanwhile; ask again");
        order_answered(s, o, (uint32_t)(d - s->devices));
    }
}

/* ---- what the configuration wants ---- */

static struct model_order *own_order(struct br_service *s, enum order_what what, uint32_t model)
{
    struct model_order *o = br_calloc(1, sizeof *o);
    *o = (struct model_order){.next = s->orders,
                              .ticket = ++s->last_ticket,
                              .what = what,
                              .model = model,
                              .asked = br_calloc(s->config.max_devices, sizeof *o->asked),
                              .until_ns = br_now_ns() + ORDER_LIMIT_S * BR_NS_PER_S};
    s->orders = o;
    s->n_orders++;
    return o;
}

static void add_begin(struct br_service *s, uint32_t model)
{
    struct model_order *o = own_order(s, ADD, model);
    add_round(s, o);
    if (o->n_asked == 0)
        order_go_on(s, o);
}

static void models_change(struct br_service *s, const struct br_models_change *change)
{
    for (uint32_t i = 0; i < change->n_added; i++) {
        br_log(BR_INFO, "model_comes", "model=%s", br_models_at(s->models, change->added[i])->name);
        s->came[change->added[i]] = true;
        service_model_tell(s, change->added[i]);
        add_begin(s, change->added[i]);
    }
    for (uint32_t i = 0; i < change->n_kept; i++) {
        uint32_t model = change->kept[i];
        if (ordered(s, model, REMOVE))
            br_log(BR_WARN, "model_going", "model=%s why=%s", br_models_at(s->models, model)->name,
                   BR_Q("it is being removed: reload again when it is gone"));
        else
            s->leaving[model] = false;
        service_model_tell(s, model);
        service_send_terms(s, model);
    }
    for (uint32_t i = 0; i < change->n_removed; i++) {
        br_log(BR_INFO, "model_goes", "model=%s unfinished=%u", br_models_at(s->models, change->removed[i])->name,
               seqs_of(s, change->removed[i]));
        s->leaving[change->removed[i]] = true;
    }
}

static bool has(const Briareus__Register *hello, const char *name)
{
    for (size_t i = 0; i < hello->n_models; i++)
        if (strcmp(hello->models[i]->name, name) == 0)
            return true;
    return false;
}

/* Only one order at a time asks it: what it says later of a model that others add as well is the same. */
void service_orders_device_up(struct br_service *s, struct sched_device *d, const Briareus__Register *hello)
{
    for (uint32_t i = 0; i < br_models_count(s->models); i++)
        if (s->came[i] && br_models_present(s->models, i) && !s->leaving[i] && !ordered(s, i, ADD) &&
            !has(hello, br_models_at(s->models, i)->name)) {
            struct model_order *o = own_order(s, ADD, i);
            o->round = 1;
            ask(s, o, (uint32_t)(d - s->devices), BR_MODEL_ADD, BR_HOST_KEEP);
            if (o->n_asked == 0)
                order_go_on(s, o);
        }
}

static bool whole_seqs(struct br_service *s, uint32_t model)
{
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        const struct sched_seq *seq = seqtab_at(s->seqs, i);
        if (seq && seq->model == model)
            return true;
    }
    return false;
}

/* Those that are no longer wanted go when their sequences have ended; what is left of them when nobody reads it. */
static void tick_leaving(struct br_service *s)
{
    for (uint32_t i = 0; s->reloaded && i < br_models_count(s->models); i++) {
        if (s->leaving[i] && !ordered(s, i, REMOVE) && !ordered(s, i, ADD) && !whole_seqs(s, i)) {
            struct model_order *o = own_order(s, REMOVE, i);
            remove_round(s, o);
            if (o->n_asked == 0)
                order_go_on(s, o);
        }
        if (!br_models_present(s->models, i) && !br_models_released(s->models, i) &&
            !(s->config.uses && s->config.uses(s->config.uses_ctx, br_models_at(s->models, i))))
            br_models_release(s->models, i);
    }
}

int br_service_reload(struct br_service *s, const struct br_models_config *config, struct br_err *err)
{
    struct br_models_change change;
    int rc = br_models_reload(s->models, config, &change, err);
    if (rc)
        return rc;
    s->reloaded = true;
    models_change(s, &change);
    br_log(BR_INFO, "models_reloaded", "added=%u removed=%u kept=%u", change.n_added, change.n_removed, change.n_kept);
    br_models_change_free(&change);
    return 0;
}

/* ---- orders ---- */

static bool refuse_unknown(struct br_service *s, struct br_gateway_admin *admin, const char *name)
{
    uint32_t n = 0;
    int index = br_models_index(s->models, name);
    const char **names, *near;
    char why[2 * BR_MAX_MODEL_NAME + 64];
    if (index >= 0 && !s->leaving[index])
        return false;
    names = br_calloc(br_models_count(s->models) + 1, sizeof *names);
    for (uint32_t i = 0; i < br_models_count(s->models); i++)
        if (br_models_present(s->models, i) && !s->leaving[i])
            names[n++] = br_models_at(s->models, i)->name;
    near = br_nearest(name, names, n);
    snprintf(why, sizeof why, "The model '%s' does not exist%s%s%s", name, near ? ": did you mean '" : ".",
             near ? near : "", near ? "'?" : "");
    free(names);
    br_gateway_order_refused(admin, 404, 0, why);
    return true;
}

static void pin_set(struct br_service *s, uint32_t model, bool pinned)
{
    br_models_set_pinned(s->models, model, pinned);
    service_model_tell(s, model);
    service_send_terms(s, model);
}

static void order_begin(struct br_service *s, struct model_order *o, bool wait)
{
    uint32_t n = seqs_of(s, o->model);
    char why[128];
    if (o->what == PIN || o->what == UNPIN)
        pin_set(s, o->model, o->what == PIN);
    else if (o->what == LOAD)
        load_begin(s, o);
    else if (br_models_pinned(s->models, o->model))
        order_fail(o, 409, "it is pinned: unpin it first");
    else if (n && !wait) {
        snprintf(why, sizeof why, "%u of its sequences are unfinished; with \"wait\": true it waits for them", n);
        order_fail(o, 409, why);
    } else if (n) {
        o->settling = true;
        s->closed[o->model]++;
        return;
    } else
        unload_round(s, o);
    if (o->n_asked == 0)
        order_go_on(s, o);
}

void service_order(void *ctx, struct br_gateway_admin *admin, const struct br_gateway_order *order)
{
    struct br_service *s = ctx;
    struct model_order *o;
    if (refuse_unknown(s, admin, order->model))
        return;
    if (s->n_orders == MAX_ORDERS) {
        br_gateway_order_refused(admin, 503, 1, "256 orders about models are under way: try again later");
        return;
    }
    o = br_calloc(1, sizeof *o);
    *o = (struct model_order){.next = s->orders,
                              .ticket = ++s->last_ticket,
                              .what = (enum order_what)order->what,
                              .model = (uint32_t)br_models_index(s->models, order->model),
                              .host = order->host,
                              .asked = br_calloc(s->config.max_devices, sizeof *o->asked),
                              .until_ns = br_now_ns() + ORDER_LIMIT_S * BR_NS_PER_S,
                              .admin = admin};
    s->orders = o;
    s->n_orders++;
    if (o->what == LOAD && !order->wait) { /* how it is now; the load goes on */
        order_say(s, o);
        o->admin = NULL;
    }
    order_begin(s, o, order->wait);
}

void service_order_forget(void *ctx, struct br_gateway_admin *admin)
{
    struct br_service *s = ctx;
    for (struct model_order *o = s->orders; o; o = o->next)
        if (o->admin == admin)
            o->admin = NULL;
}

static void settled_begin(struct br_service *s, struct model_order *o)
{
    if (seqs_of(s, o->model))
        return;
    o->settling = false;
    s->closed[o->model]--;
    unload_round(s, o);
    if (o->n_asked == 0)
        order_go_on(s, o);
}

void service_tick_orders(struct br_service *s)
{
    int64_t now_ns = br_now_ns();
    tick_leaving(s);
    for (struct model_order *o = s->orders, *next; o; o = next) {
        next = o->next;
        if (now_ns >= o->until_ns) {
            order_fail(o, 503, "a device did not answer within ten minutes");
            order_end(s, o);
        } else if (o->settling)
            settled_begin(s, o);
    }
}

void service_orders_free(struct br_service *s)
{
    while (s->orders) {
        struct model_order *o = s->orders;
        s->orders = o->next;
        free(o->asked);
        free(o);
    }
}
