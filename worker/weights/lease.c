/* Leases: a unit in the cache, or on its way through the ring. */
#include "worker/weights/lease.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "worker/weights/image_books.h"
#include "worker/weights/memory.h"

enum { SLOT_NONE = -1 };

struct br_lease {
    const struct br_weight_image *image;
    uint32_t unit;
    const void *data;
    bool cached;            /* counted in books->uses */
    int32_t slot;           /* of the ring */
    unsigned char *nothing; /* owned: what stands in for bytes that cannot be had */
    unsigned char *scratch; /* owned: what a damaged unit is read to */
    struct br_unit_load load;
    uint32_t refs; /* under the store's lock, as are all below: the caller's, and the pool's */
    bool ended;
    int rc;
    struct br_lease *next; /* waiting for the slot */
};

static struct br_weight_store *store_of(const struct br_lease *l)
{
    return l->image->books->store;
}

/* ---- the ring ---- */

static void ring_next(struct br_weight_store *s, int32_t slot);

static void lease_unref(struct br_lease *l)
{
    struct br_weight_store *s = store_of(l);
    bool last;
    pthread_mutex_lock(&s->lock);
    last = --l->refs == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    if (l->slot != SLOT_NONE)
        ring_next(s, l->slot);
    br_memory_unmap(l->nothing, br_layout_unit_bytes(&l->image->layout, l->unit));
    free(l->scratch);
    free(l);
}

/* The pool's part of a lease is over. */
static void lease_leave(struct br_lease *l)
{
    struct br_weight_store *s = store_of(l);
    lease_unref(l);
    pthread_mutex_lock(&s->lock);
    if (--s->running == 0)
        pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void lease_end(struct br_lease *l, int rc, const struct br_err *err)
{
    struct br_weight_store *s = store_of(l);
    if (rc)
        image_fail(l->image, err);
    pthread_mutex_lock(&s->lock);
    l->ended = true;
    l->rc = rc;
    s->stats.failures += rc != 0;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void load_begin(struct br_lease *l, bool first)
{
    br_unit_load_start(store_of(l)->pool, &l->load, first);
}

/* The slot's next lease has it now. */
static void ring_next(struct br_weight_store *s, int32_t slot)
{
    struct ring_slot *r = &s->slots[slot];
    struct br_lease *l;
    pthread_mutex_lock(&s->lock);
    l = r->first;
    if (l)
        r->first = l->next;
    else
        r->busy = false;
    pthread_mutex_unlock(&s->lock);
    if (l)
        load_begin(l, false);
}

static void ring_enter(struct br_lease *l)
{
    struct br_weight_store *s = store_of(l);
    struct ring_slot *r;
    bool now;
    pthread_mutex_lock(&s->lock);
    l->slot = (int32_t)(s->next_slot++ % s->n_slots);
    r = &s->slots[l->slot];
    l->data = l->load.out = r->data;
    now = !r->busy;
    r->busy = true;
    if (!now && r->first)
        r->last->next = l;
    else if (!now)
        r->first = l;
    if (!now)
        r->last = l;
    pthread_mutex_unlock(&s->lock);
    if (now)
        load_begin(l, false);
}

/* ---- on threads of the pool ---- */

static bool folder_has(const struct br_weight_store *s, uint64_t bytes)
{
    struct statvfs vfs;
    return statvfs(s->dir, &vfs) == 0 && (uint64_t)vfs.f_bavail * vfs.f_frsize > bytes + BR_HUGE_PAGE;
}

/* What came through the ring stays in the cache if there is room for it. */
static void unit_keep(const struct br_lease *l)
{
    const struct br_weight_image *image = l->image;
    struct br_err err;
    if (!folder_has(store_of(l), l->load.bytes) || image_claim(image, l->unit))
        return;
    if (br_file_write(image->books->fd, image->unit_offset[l->unit], l->data, l->load.bytes, &err) == 0)
        image_commit(image, l->unit);
    else
        image_unclaim(image, l->unit);
}

static void unit_repair(struct br_lease *l)
{
    struct br_weight_store *s = store_of(l);
    struct br_err err;
    int rc = br_file_write(l->image->books->fd, l->image->unit_offset[l->unit], l->scratch, l->load.bytes, &err);
    if (rc) {
        br_err_wrap(&err, "%s: unit %u", l->image->path, l->unit);
        lease_end(l, rc, &err);
        return;
    }
    image_verified(l->image, l->unit, l->load.checksum);
    store_count(s, &s->stats.repaired, 1);
    br_log(BR_WARN, "weights_repaired", "path=%s unit=%u", BR_Q(l->image->path), l->unit);
    lease_end(l, 0, NULL);
}

static void read_done(struct br_lease *l)
{
    struct br_err err;
    int rc = image_accept(l->image, &l->load, &err);
    if (rc) {
        lease_end(l, rc, &err);
    } else if (l->slot == SLOT_NONE) {
        unit_repair(l);
    } else {
        lease_end(l, 0, NULL);
        unit_keep(l);
    }
    lease_leave(l);
}

/* The checksum was wrong: the unit is read again, beside its place, until it is known to be right. */
static void repair_begin(struct br_lease *l)
{
    struct br_err err;
    br_log(BR_WARN, "weights_damaged", "path=%s unit=%u checksum=%016" PRIx64, BR_Q(l->image->path), l->unit,
           l->load.checksum);
    l->load.task = BR_UNIT_READ;
    l->load.fd = -1;
    if (image_source(l->image, &l->load.source, &err)) {
        br_err_wrap(&err, "unit %u is damaged in the cache and cannot be read again", l->unit);
        lease_end(l, err.code, &err);
        lease_leave(l);
        return;
    }
    l->scratch = aligned_alloc(BR_PAGE, (l->load.bytes + BR_PAGE - 1) / BR_PAGE * BR_PAGE);
    if (!l->scratch)
        abort();
    l->load.out = l->scratch;
    load_begin(l, true);
}

static void on_load(struct br_unit_load *load)
{
    struct br_lease *l = load->ctx;
    store_count_load(store_of(l), load);
    if (load->task == BR_UNIT_READ) {
        read_done(l);
    } else if (image_verified(l->image, l->unit, load->checksum)) {
        lease_end(l, 0, NULL);
        lease_leave(l);
    } else {
        repair_begin(l);
    }
}

/* ---- acquiring ---- */

static void pool_holds(struct br_lease *l)
{
    struct br_weight_store *s = store_of(l);
    pthread_mutex_lock(&s->lock);
    l->refs++;
    s->running++;
    pthread_mutex_unlock(&s->lock);
}

/* Verified so recently that it is taken as it is? */
static bool is_fresh(const struct br_lease *l)
{
    int64_t age = br_now_ns() - atomic_load(&image_state(l->image, l->unit)->verified_ns);
    return age >= 0 && (double)age / 1e9 <= store_of(l)->config.recheck_s;
}

static void cached_begin(struct br_lease *l)
{
    struct br_weight_store *s = store_of(l);
    l->data = br_weight_image_unit(l->image, l->unit);
    store_count(s, &s->stats.hits, 1);
    store_count(s, &s->stats.hit_bytes, l->load.bytes);
    if (is_fresh(l)) {
        l->ended = true;
        return;
    }
    l->load.task = BR_UNIT_CHECK;
    l->load.out = (unsigned char *)l->data; // NOLINT: only read
    pool_holds(l);
    load_begin(l, true);
}

/* Zeros that take no memory: whoever copies them finds out by br_lease_wait. */
static void nothing_begin(struct br_lease *l, const struct br_err *err)
{
    l->nothing = mmap(NULL, l->load.bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (l->nothing == MAP_FAILED)
        abort();
    l->data = l->nothing;
    lease_end(l, err->code, err);
}

static void missing_begin(struct br_lease *l)
{
    struct br_weight_store *s = store_of(l);
    struct br_err err;
    store_count(s, &s->stats.misses, 1);
    store_count(s, &s->stats.missed_bytes, l->load.bytes);
    if (l->load.bytes > s->slot_bytes) {
        br_err_set(&err, BR_ENOMEM,
                   "unit %u of %s is not in the host cache, and its %" PRIu64
                   " bytes do not fit into the staging ring's slots of %" PRIu64 " bytes: raise host-staging",
                   l->unit, l->image->path, l->load.bytes, s->slot_bytes);
        nothing_begin(l, &err);
    } else if (image_source(l->image, &l->load.source, &err)) {
        nothing_begin(l, &err);
    } else {
        l->load.task = BR_UNIT_READ;
        l->load.fd = -1;
        pool_holds(l);
        ring_enter(l);
    }
}

struct br_lease *br_lease_acquire(const struct br_weight_image *image, uint32_t unit)
{
    struct br_lease *l = br_calloc(1, sizeof *l);
    l->image = image;
    l->unit = unit;
    l->slot = SLOT_NONE;
    l->refs = 1;
    l->load.unit = unit;
    l->load.bytes = br_layout_unit_bytes(&image->layout, unit);
    l->load.done = on_load;
    l->load.ctx = l;
    l->cached = image_use_begin(image, unit);
    if (l->cached)
        cached_begin(l);
    else
        missing_begin(l);
    return l;
}

const void *br_lease_data(const struct br_lease *l)
{
    return l->data;
}

bool br_lease_pending(const struct br_lease *l)
{
    struct br_weight_store *s = store_of(l);
    pthread_mutex_lock(&s->lock);
    bool pending = !l->ended || l->rc;
    pthread_mutex_unlock(&s->lock);
    return pending;
}

int br_lease_wait(struct br_lease *l)
{
    struct br_weight_store *s = store_of(l);
    int64_t from = br_now_ns();
    int rc;
    pthread_mutex_lock(&s->lock);
    while (!l->ended)
        pthread_cond_wait(&s->changed, &s->lock);
    rc = l->rc;
    s->stats.wait_s += (double)(br_now_ns() - from) / 1e9;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void br_lease_release(struct br_lease *l)
{
    if (l->cached)
        image_use_end(l->image, l->unit);
    lease_unref(l);
}

/* ---- the ring's memory ---- */

static uint64_t largest_unit(const struct br_weight_image *image)
{
    uint64_t largest = 0;
    for (uint32_t u = 0; u < image->layout.units; u++)
        if (br_layout_unit_bytes(&image->layout, u) > largest)
            largest = br_layout_unit_bytes(&image->layout, u);
    return (largest + BR_PAGE - 1) / BR_PAGE * BR_PAGE;
}

/* May a unit of it have to come through the ring? */
static bool may_stream(const struct br_weight_image *image)
{
    return image->books->store->config.drop || br_weight_image_cached(image) < br_layout_total_bytes(&image->layout);
}

static void ring_refuse(const struct br_weight_image *image, uint64_t staging)
{
    struct br_err err;
    br_err_set(&err, BR_ENOMEM,
               "the host cache does not hold all of %s, and %" PRIu64
               " bytes of staging do not hold two of its largest units of %" PRIu64
               " bytes: raise host-cache, or host-staging to %" PRIu64,
               image->path, staging, largest_unit(image), 2 * largest_unit(image));
    image_fail(image, &err);
}

static int ring_make(struct br_weight_store *s, uint64_t slot, struct br_err *err)
{
    uint64_t staging = s->config.staging_bytes, slots = staging ? staging / slot : RING_SLOTS;
    s->n_slots = slots > RING_MAX_SLOTS ? RING_MAX_SLOTS : (uint32_t)slots;
    s->ring_bytes = s->n_slots * slot;
    s->ring = br_pages_alloc(s->ring_bytes, NULL);
    if (!s->ring) {
        s->n_slots = 0;
        return br_err_errno(err, BR_ENOMEM, "host-staging: %d slots of %" PRIu64 " bytes", RING_SLOTS, slot);
    }
    s->slot_bytes = slot;
    for (uint32_t i = 0; i < s->n_slots; i++)
        s->slots[i].data = s->ring + i * slot;
    br_log(BR_INFO, "staging_ring", "slots=%u slot_bytes=%" PRIu64, s->n_slots, slot);
    return 0;
}

/* The others may be asked for next, and the ring is made once. */
static uint64_t slot_for_all(const struct br_weight_store *s, uint64_t slot)
{
    uint64_t staging = s->config.staging_bytes;
    for (const struct br_weight_image *i = s->images; i; i = i->books->next)
        if (largest_unit(i) > slot && (!staging || 2 * largest_unit(i) <= staging))
            slot = largest_unit(i);
    return slot;
}

/* Without a ring no lease can be waiting for a slot of it: so it may be made at any time, once. */
int store_ring_for(struct br_weight_store *s, const struct br_weight_image *image, struct br_err *err)
{
    uint64_t slot = largest_unit(image), staging = s->config.staging_bytes;
    if (slot <= s->slot_bytes)
        return 0;
    if (s->n_slots || (staging && 2 * slot > staging))
        return br_err_set(err, BR_ENOMEM,
                          "%s: its largest unit of %" PRIu64
                          " bytes does not fit into the staging ring's slots (%" PRIu64
                          " bytes), so it could not be read again: raise host-staging to %" PRIu64,
                          image->path, slot, s->n_slots ? s->slot_bytes : staging / 2, RING_SLOTS * slot);
    return ring_make(s, slot_for_all(s, slot), err);
}

int br_weight_store_ready(struct br_weight_store *s, struct br_err *err)
{
    uint64_t staging = s->config.staging_bytes, slot = 0;
    for (struct br_weight_image *i = s->images; i; i = i->books->next) {
        if (may_stream(i) && staging && 2 * largest_unit(i) > staging)
            ring_refuse(i, staging);
        else if (may_stream(i) && largest_unit(i) > slot)
            slot = largest_unit(i);
    }
    return slot ? ring_make(s, slot, err) : 0;
}
