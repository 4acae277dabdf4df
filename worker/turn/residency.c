#include "worker/turn/residency.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "worker/turn/residency_books.h"

static uint64_t unit_bytes(const struct resident_model *m, uint32_t unit)
{
    return (br_layout_unit_bytes(&m->image->layout, unit) + 63) & ~63ull;
}

int br_residency_create(struct br_device *dev, const struct br_residency_config *config,
                        const struct br_residency_cb *cb, struct br_residency **out, struct br_err *err)
{
    struct br_residency *r = br_calloc(1, sizeof *r);
    r->dev = dev;
    r->config = *config;
    r->cb = *cb;
    r->models = br_calloc(config->max_slots, sizeof *r->models);
    r->running = -1;
    br_extents_init(&r->extents, config->bytes & ~63ull, 2 * config->max_units + 1); /* a moving unit has two */
    if (dev->ops->stream_create(dev, &r->load, err) || dev->ops->event_create(dev, &r->cooled, err) ||
        unit_copies_init(&r->copies, dev, r->load, err)) {
        br_residency_destroy(r);
        return err->code;
    }
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
    unit_copies_free(&r->copies);
    if (r->load)
        r->dev->ops->stream_destroy(r->load);
    if (r->cooled)
        r->dev->ops->event_destroy(r->cooled);
    for (uint32_t s = 0; s < r->config.max_slots; s++)
        model_release(r, &r->models[s]);
    br_extents_free(&r->extents);
    free(r->models);
    free(r);
}

static int model_check(const struct br_residency *r, const struct resident_model *m, struct br_err *err)
{
    if (m->bytes_all > (r->config.bytes & ~63ull))
        return br_err_set(err, BR_ENOMEM,
                          "weights need %" PRIu64 " bytes, the device has %" PRIu64 " bytes for weights: give it more "
                          "memory",
                          m->bytes_all, (uint64_t)(r->config.bytes & ~63ull));
    if (r->n_units + m->n_units > r->config.max_units)
        return br_err_set(err, BR_ENOMEM, "%u units of weights, room for %u more", m->n_units,
                          r->config.max_units - r->n_units);
    return 0;
}

int br_residency_add(struct br_residency *r, uint32_t slot, struct br_engine_model *model,
                     const struct br_weight_image *image, struct br_err *err)
{
    struct resident_model *m = &r->models[slot], made = {.engine = model, .image = image};
    int rc;
    assert(slot < r->config.max_slots && !m->engine);
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

void br_residency_remove(struct br_residency *r, uint32_t slot)
{
    assert(r->models[slot].bytes == 0 && r->running != (int32_t)slot);
    r->n_units -= r->models[slot].n_units;
    model_release(r, &r->models[slot]);
}

void br_residency_running(struct br_residency *r, int32_t slot)
{
    r->running = slot;
}

uint64_t br_residency_told(const struct br_residency *r, uint32_t slot)
{
    return r->config.tell_at_once ? r->models[slot].bytes : r->models[slot].bytes_arrived;
}

static void tell(struct br_residency *r, uint32_t slot)
{
    r->cb.changed(r->cb.ctx, slot, br_residency_told(r, slot), r->models[slot].bytes_all);
}

void residency_place(struct br_residency *r, struct resident_model *m, uint32_t unit, uint64_t at)
{
    m->units[unit].at = at;
    r->dev->ops->event_record(m->units[unit].ready, r->load);
    br_engine_model_place(m->engine, unit, r->config.memory + at, m->units[unit].ready);
}

void residency_cool(struct br_residency *r, uint64_t end)
{
    if (r->cooling_end < end)
        r->cooling_end = end;
    r->dev->ops->event_record(r->cooled, r->load);
}

static void unit_evict(struct br_residency *r, struct resident_model *m, uint32_t u)
{
    struct resident_unit *unit = &m->units[u];
    uint64_t bytes = unit_bytes(m, u);
    br_engine_model_place(m->engine, u, 0, NULL);
    br_weight_image_resident(m->image, u, false);
    br_extents_give(&r->extents, unit->at);
    if (!r->dev->ops->event_done(unit->ready))
        residency_cool(r, unit->at + bytes);
    if (unit->arrived)
        m->bytes_arrived -= bytes;
    else
        m->flying--;
    m->bytes -= bytes;
    unit->at = BR_EXTENT_NONE;
    unit->arrived = false;
    r->stats.evicted_bytes += bytes;
}

static void unit_load(struct br_residency *r, uint32_t slot, uint32_t unit, uint64_t at)
{
    struct resident_model *m = &r->models[slot];
    uint64_t bytes = br_layout_unit_bytes(&m->image->layout, unit);
    br_extents_take(&r->extents, at, unit_bytes(m, unit), slot, unit);
    unit_copies_poll(&r->copies);
    unit_copy(&r->copies, m->image, unit, (void *)(uintptr_t)(r->config.memory + at));
    br_weight_image_resident(m->image, unit, true);
    residency_place(r, m, unit, at);
    m->flying++;
    m->bytes += unit_bytes(m, unit);
    r->stats.loaded_bytes += bytes;
}

static int32_t tail(const struct resident_model *m)
{
    for (uint32_t u = m->n_units; u-- > 0;)
        if (m->units[u].at != BR_EXTENT_NONE)
            return (int32_t)u;
    return -1;
}

uint64_t br_residency_evict(struct br_residency *r, uint32_t slot, uint64_t bytes)
{
    struct resident_model *m = &r->models[slot];
    uint64_t before = m->bytes;
    int32_t unit;
    assert((int32_t)slot != r->running);
    while (before - m->bytes < bytes && (unit = tail(m)) >= 0)
        unit_evict(r, m, (uint32_t)unit);
    if (m->bytes < before)
        tell(r, slot);
    return before - m->bytes;
}

/* A free extent for target's next unit; BR_EXTENT_NONE: there is none, and no victims are left. */
static uint64_t make_room(struct br_residency *r, uint32_t target, uint64_t bytes, bool victims)
{
    for (;;) {
        uint64_t at = br_extents_fit(&r->extents, bytes, 0, 0);
        int32_t victim;
        if (at == BR_EXTENT_NONE)
            at = residency_gather(r, bytes);
        if (at != BR_EXTENT_NONE || !victims)
            return at;
        victim = r->cb.victim(r->cb.ctx, target);
        if (victim < 0 || victim == r->running || victim == (int32_t)target ||
            !br_residency_evict(r, (uint32_t)victim, 1))
            return BR_EXTENT_NONE;
    }
}

uint64_t br_residency_load(struct br_residency *r, uint32_t slot, uint64_t bytes, bool victims)
{
    struct resident_model *m = &r->models[slot];
    uint64_t before = m->bytes;
    assert(m->engine);
    for (uint32_t u = 0; u < m->n_units && m->bytes - before < bytes; u++) {
        uint64_t at;
        if (m->units[u].at != BR_EXTENT_NONE)
            continue;
        at = make_room(r, slot, unit_bytes(m, u), victims);
        if (at == BR_EXTENT_NONE)
            break;
        unit_load(r, slot, u, at);
        if (r->config.tell_at_once)
            tell(r, slot);
    }
    if (m->bytes > before && r->cb.arrived && r->dev->ops->stream_notify)
        r->dev->ops->stream_notify(r->load, r->cb.arrived, r->cb.ctx);
    return m->bytes - before;
}

static bool model_poll(struct br_residency *r, struct resident_model *m)
{
    uint32_t before = m->flying;
    for (uint32_t u = 0; u < m->n_units && m->flying; u++) {
        struct resident_unit *unit = &m->units[u];
        if (unit->at == BR_EXTENT_NONE || unit->arrived || !r->dev->ops->event_done(unit->ready))
            continue;
        unit->arrived = true;
        m->flying--;
        m->bytes_arrived += unit_bytes(m, u);
    }
    return m->flying < before;
}

bool br_residency_poll(struct br_residency *r)
{
    unit_copies_poll(&r->copies);
    bool any = false;
    for (uint32_t s = 0; s < r->config.max_slots; s++) {
        if (!r->models[s].flying || !model_poll(r, &r->models[s]))
            continue;
        any = true;
        if (!r->config.tell_at_once)
            tell(r, s);
    }
    return any;
}

struct br_event *br_residency_cooling(struct br_residency *r, uint64_t at)
{
    if (r->cooling_end && r->dev->ops->event_done(r->cooled))
        r->cooling_end = 0;
    return r->cooling_end > at ? r->cooled : NULL;
}

bool br_residency_placed(const struct br_residency *r, uint32_t slot)
{
    return r->models[slot].bytes == r->models[slot].bytes_all;
}

bool br_residency_ready(const struct br_residency *r, uint32_t slot)
{
    return br_residency_placed(r, slot) && br_residency_reached(r, slot, r->models[slot].n_units);
}

uint32_t br_residency_mark(const struct br_residency *r, uint32_t slot)
{
    return (uint32_t)(tail(&r->models[slot]) + 1);
}

bool br_residency_reached(const struct br_residency *r, uint32_t slot, uint32_t mark)
{
    const struct resident_model *m = &r->models[slot];
    for (uint32_t u = 0; u < m->n_units && u < mark; u++)
        if (m->units[u].at != BR_EXTENT_NONE && !r->dev->ops->event_done(m->units[u].ready))
            return false;
    return true;
}

bool br_residency_loading(const struct br_residency *r, uint32_t slot)
{
    return r->models[slot].flying > 0;
}

uint64_t br_residency_vacate(struct br_residency *r, uint32_t slot)
{
    uint64_t bytes = br_residency_evict(r, slot, UINT64_MAX);
    r->dev->ops->event_sync(r->cooled); /* no copy reads or writes them any more */
    unit_copies_sync(&r->copies);
    return bytes;
}

int br_residency_unload(struct br_residency *r, uint32_t slot, uint64_t *device_bytes, uint64_t *host_bytes,
                        struct br_err *err)
{
    struct resident_model *m = &r->models[slot];
    *device_bytes = *host_bytes = 0;
    if (r->running == (int32_t)slot)
        return br_err_set(err, BR_EBUSY, "a step runs on these weights");
    *device_bytes = br_residency_vacate(r, slot);
    return m->image->books ? br_weight_image_unload((struct br_weight_image *)m->image, host_bytes, err) : 0; // NOLINT
}

void br_residency_sync(struct br_residency *r)
{
    for (uint32_t s = 0; s < r->config.max_slots; s++)
        for (uint32_t u = 0; u < r->models[s].n_units; u++)
            r->dev->ops->event_sync(r->models[s].units[u].ready);
}

uint64_t br_residency_bytes(const struct br_residency *r, uint32_t slot)
{
    return r->models[slot].bytes;
}

uint64_t br_residency_used(const struct br_residency *r)
{
    return r->extents.used;
}

uint64_t br_residency_missing(const struct br_residency *r, uint32_t slot)
{
    return r->models[slot].bytes_all - r->models[slot].bytes;
}

uint64_t br_residency_next_bytes(const struct br_residency *r, uint32_t slot)
{
    const struct resident_model *m = &r->models[slot];
    for (uint32_t u = 0; u < m->n_units; u++)
        if (m->units[u].at == BR_EXTENT_NONE)
            return unit_bytes(m, u);
    return 0;
}

uint64_t br_residency_whole_bytes(const struct br_residency *r, uint32_t slot, uint64_t bytes)
{
    const struct resident_model *m = &r->models[slot];
    uint64_t whole = 0;
    for (uint32_t u = 0; u < m->n_units; u++) {
        if (m->units[u].at != BR_EXTENT_NONE)
            continue;
        if (whole && whole + unit_bytes(m, u) > bytes)
            break;
        whole += unit_bytes(m, u);
    }
    return whole;
}

void br_residency_stats(const struct br_residency *r, struct br_residency_stats *out)
{
    *out = r->stats;
}
