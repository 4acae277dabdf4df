#include "worker/turn/residency.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "worker/turn/extents.h"

struct resident_unit {
    uint64_t at;            /* in the arena; BR_EXTENT_NONE: not on the device */
    struct br_event *ready; /* owned: its last copy */
};

struct resident_model {
    struct br_engine_model *engine; /* NULL: no model in this slot */
    const struct br_weight_image *image;
    struct resident_unit *units; /* [n_units] */
    uint32_t n_units;
    uint64_t bytes, bytes_all;
};

struct br_residency {
    struct br_device *dev;
    br_devptr memory;
    struct br_residency_cb cb;
    struct br_stream *load;
    struct br_extents extents;
    struct resident_model *models; /* [max_slots] */
    uint32_t max_slots, max_units, n_units;
    int32_t running;
    struct br_residency_stats stats;
};

static uint64_t unit_bytes(const struct resident_model *m, uint32_t unit)
{
    return (br_layout_unit_bytes(&m->image->layout, unit) + 63) & ~63ull;
}

int br_residency_create(struct br_device *dev, br_devptr memory, uint64_t bytes, uint32_t max_slots, uint32_t max_units,
                        const struct br_residency_cb *cb, struct br_residency **out, struct br_err *err)
{
    struct br_residency *r = br_calloc(1, sizeof *r);
    int rc = dev->ops->stream_create(dev, &r->load, err);
    if (rc) {
        free(r);
        return rc;
    }
    r->dev = dev;
    r->memory = memory;
    r->cb = *cb;
    r->max_slots = max_slots;
    r->max_units = max_units;
    r->models = br_calloc(max_slots, sizeof *r->models);
    r->running = -1;
    br_extents_init(&r->extents, bytes & ~63ull, 2 * max_units + 1); /* a moving unit has two */
    *out = r;
    return 0;
}

static void model_release(struct br_residency *r, struct resident_model *m)
{
    for (uint32_t u = 0; u < m->n_units; u++)
        if (m->units[u].ready)
            r->dev->ops->event_destroy(m->units[u].ready);
    free(m->units);
    *m = (struct resident_model){0};
}

void br_residency_destroy(struct br_residency *r)
{
    if (!r)
        return;
    r->dev->ops->stream_destroy(r->load);
    for (uint32_t s = 0; s < r->max_slots; s++)
        model_release(r, &r->models[s]);
    br_extents_free(&r->extents);
    free(r->models);
    free(r);
}

static int model_check(const struct br_residency *r, const struct resident_model *m, struct br_err *err)
{
    if (m->bytes_all > r->extents.bytes)
        return br_err_set(err, BR_ENOMEM,
                          "weights need %" PRIu64 " bytes, the device has %" PRIu64 " bytes for weights: give it more "
                          "memory or less of it to KV",
                          m->bytes_all, r->extents.bytes);
    if (r->n_units + m->n_units > r->max_units)
        return br_err_set(err, BR_ENOMEM, "%u units of weights, room for %u more", m->n_units,
                          r->max_units - r->n_units);
    return 0;
}

int br_residency_add(struct br_residency *r, uint32_t slot, struct br_engine_model *model,
                     const struct br_weight_image *image, struct br_err *err)
{
    struct resident_model *m = &r->models[slot], made = {.engine = model, .image = image};
    int rc;
    assert(slot < r->max_slots && !m->engine);
    made.n_units = image->layout.units;
    for (uint32_t u = 0; u < made.n_units; u++)
        made.bytes_all += unit_bytes(&made, u);
    rc = model_check(r, &made, err);
    if (rc)
        return rc;
    made.units = br_calloc(made.n_units, sizeof *made.units);
    for (uint32_t u = 0; u < made.n_units && rc == 0; u++) {
        made.units[u].at = BR_EXTENT_NONE;
        rc = r->dev->ops->event_create(r->dev, &made.units[u].ready, err);
    }
    if (rc) {
        model_release(r, &made);
        return rc;
    }
    r->n_units += made.n_units;
    *m = made;
    return 0;
}

void br_residency_running(struct br_residency *r, int32_t slot)
{
    r->running = slot;
}

/* Where the engine reads the unit from now on, behind the copy that was enqueued last. */
static void unit_place(struct br_residency *r, struct resident_model *m, uint32_t unit, uint64_t at)
{
    m->units[unit].at = at;
    r->dev->ops->event_record(m->units[unit].ready, r->load);
    br_engine_model_place(m->engine, unit, r->memory + at, m->units[unit].ready);
}

static void unit_evict(struct br_residency *r, uint32_t slot, uint32_t unit)
{
    struct resident_model *m = &r->models[slot];
    br_engine_model_place(m->engine, unit, 0, NULL);
    br_extents_give(&r->extents, m->units[unit].at);
    m->units[unit].at = BR_EXTENT_NONE;
    m->bytes -= unit_bytes(m, unit);
    r->cb.changed(r->cb.ctx, slot, m->bytes, m->bytes_all);
}

static void unit_load(struct br_residency *r, uint32_t slot, uint32_t unit, uint64_t at)
{
    struct resident_model *m = &r->models[slot];
    uint64_t bytes = br_layout_unit_bytes(&m->image->layout, unit);
    br_extents_take(&r->extents, at, unit_bytes(m, unit), slot, unit);
    r->dev->ops->copy(r->load, BR_COPY_H2D, (void *)(uintptr_t)(r->memory + at), br_weight_image_unit(m->image, unit),
                      bytes);
    unit_place(r, m, unit, at);
    m->bytes += unit_bytes(m, unit);
    r->stats.loaded_bytes += bytes;
    r->cb.changed(r->cb.ctx, slot, m->bytes, m->bytes_all);
}

static struct br_extent extent_at(const struct br_residency *r, uint64_t at)
{
    uint32_t i = 0;
    while (r->extents.list[i].at != at)
        i++;
    return r->extents.list[i];
}

/* Moves an extent out of the window, within the device; false: no gap takes it. */
static bool extent_move(struct br_residency *r, const struct br_extent *e, uint64_t window, uint64_t window_bytes)
{
    uint64_t to = br_extents_fit(&r->extents, e->bytes, window, window_bytes);
    if (to == BR_EXTENT_NONE)
        return false;
    br_extents_take(&r->extents, to, e->bytes, e->slot, e->unit);
    r->dev->ops->copy(r->load, BR_COPY_D2D, (void *)(uintptr_t)(r->memory + to),
                      (const void *)(uintptr_t)(r->memory + e->at), e->bytes);
    unit_place(r, &r->models[e->slot], e->unit, to);
    r->stats.moved_bytes += e->bytes;
    return true;
}

/* Clears the cheapest window by moving what lies in it: enough bytes are free, but not in one piece. What finds no
 * other place is evicted, but nothing of target. Extents stay taken until all moves are decided, so that no move writes
 * where another still reads; the copies run in that order on one stream. */
static uint64_t window_clear(struct br_residency *r, uint64_t bytes, uint32_t target)
{
    uint32_t fixed = r->running < 0 ? UINT32_MAX : (uint32_t)r->running, n = 0, first = 0;
    uint64_t at = br_extents_window(&r->extents, bytes, fixed, &first, &n), old[64];
    if (at == BR_EXTENT_NONE || n > 64)
        return BR_EXTENT_NONE;
    for (uint32_t k = 0; k < n; k++)
        old[k] = r->extents.list[first + k].at;
    for (uint32_t k = 0; k < n; k++) {
        struct br_extent e = extent_at(r, old[k]);
        if (extent_move(r, &e, at, bytes))
            continue;
        if (e.slot == target) { /* those moved so far stay where they are now */
            at = BR_EXTENT_NONE;
            n = k;
        } else {
            unit_evict(r, e.slot, e.unit);
            old[k] = BR_EXTENT_NONE;
        }
    }
    for (uint32_t k = 0; k < n; k++)
        if (old[k] != BR_EXTENT_NONE)
            br_extents_give(&r->extents, old[k]);
    r->stats.compactions++;
    return at;
}

static bool evict_tail(struct br_residency *r, uint32_t slot)
{
    struct resident_model *m = &r->models[slot];
    for (uint32_t u = m->n_units; u-- > 0;) {
        if (m->units[u].at == BR_EXTENT_NONE)
            continue;
        unit_evict(r, slot, u);
        return true;
    }
    return false;
}

/* A free extent for target's next unit, at other slots' cost; BR_EXTENT_NONE: no victims are left. */
static uint64_t make_room(struct br_residency *r, uint32_t target, uint64_t bytes)
{
    for (;;) {
        uint64_t at = br_extents_fit(&r->extents, bytes, 0, 0);
        int32_t victim;
        if (at == BR_EXTENT_NONE && r->extents.bytes - r->extents.used >= bytes)
            at = window_clear(r, bytes, target);
        if (at != BR_EXTENT_NONE)
            return at;
        victim = r->cb.victim(r->cb.ctx, target);
        if (victim < 0 || victim == r->running || victim == (int32_t)target || !evict_tail(r, (uint32_t)victim))
            return BR_EXTENT_NONE;
    }
}

static bool load_missing(struct br_residency *r, uint32_t slot)
{
    struct resident_model *m = &r->models[slot];
    assert(m->engine);
    for (uint32_t u = 0; u < m->n_units; u++) {
        uint64_t at;
        if (m->units[u].at != BR_EXTENT_NONE)
            continue;
        at = make_room(r, slot, unit_bytes(m, u));
        if (at == BR_EXTENT_NONE)
            return false;
        unit_load(r, slot, u, at);
    }
    return true;
}

bool br_residency_prefetch(struct br_residency *r, uint32_t slot)
{
    return load_missing(r, slot);
}

void br_residency_evict(struct br_residency *r, uint32_t slot)
{
    assert((int32_t)slot != r->running);
    while (evict_tail(r, slot))
        ;
}

void br_residency_require(struct br_residency *r, uint32_t slot)
{
    int32_t running = r->running;
    uint64_t at = 0;
    r->running = -1;
    if (!load_missing(r, slot)) {
        /* Gaps that no move can close: an empty arena holds any model that was admitted. */
        for (uint32_t s = 0; s < r->max_slots; s++)
            br_residency_evict(r, s);
        for (uint32_t u = 0; u < r->models[slot].n_units; u++) {
            unit_load(r, slot, u, at);
            at += unit_bytes(&r->models[slot], u);
        }
        r->stats.from_scratch++;
    }
    r->running = running;
}

bool br_residency_ready(const struct br_residency *r, uint32_t slot)
{
    const struct resident_model *m = &r->models[slot];
    for (uint32_t u = 0; u < m->n_units; u++)
        if (m->units[u].at == BR_EXTENT_NONE || !r->dev->ops->event_done(m->units[u].ready))
            return false;
    return true;
}

void br_residency_sync(struct br_residency *r)
{
    for (uint32_t s = 0; s < r->max_slots; s++)
        for (uint32_t u = 0; u < r->models[s].n_units; u++)
            r->dev->ops->event_sync(r->models[s].units[u].ready);
}

uint64_t br_residency_bytes(const struct br_residency *r, uint32_t slot)
{
    return r->models[slot].bytes;
}

void br_residency_stats(const struct br_residency *r, struct br_residency_stats *out)
{
    *out = r->stats;
}
