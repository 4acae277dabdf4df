/* The units of an image: which are there, taken in, checked, taken out. */
#include "worker/weights/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "worker/weights/image_books.h"
#include "worker/weights/memory.h"

struct br_image_state *image_state(const struct br_weight_image *image, uint32_t unit)
{
    return br_image_state(image->books->header, unit);
}

static uint32_t own_claim(const struct br_weight_image *image)
{
    const struct br_weight_store *s = image->books->store;
    return BR_UNIT_FILLING + (uint32_t)(s->config.device + 1);
}

static uint64_t own_bit(const struct br_weight_image *image)
{
    int32_t device = image->books->store->config.device;
    return device < 0 ? 0 : 1ull << device;
}

int image_source(const struct br_weight_image *image, struct br_weight_source **out, struct br_err *err)
{
    struct br_image_books *b = image->books;
    int rc = 0;
    pthread_mutex_lock(&b->lock);
    if (!b->source && !b->dir)
        rc = br_err_set(err, BR_ENOENT, "%s: its model folder is not known", image->path);
    else if (!b->source)
        rc = br_weight_source_open(b->dir, image->layout.numeric, &b->source, err);
    if (!rc && (b->source->packer.layout.numeric != image->layout.numeric ||
                b->source->config_hash != b->header->config_hash ||
                br_layout_total_bytes(&b->source->packer.layout) != br_layout_total_bytes(&image->layout))) {
        rc = br_err_set(err, BR_ESTALE, "%s has another model now: restart the worker to serve it", b->dir);
        br_weight_source_close(b->source);
        b->source = NULL;
    }
    *out = b->source;
    pthread_mutex_unlock(&b->lock);
    return rc;
}

void image_fail(const struct br_weight_image *image, const struct br_err *err)
{
    struct br_image_books *b = image->books;
    pthread_mutex_lock(&b->lock);
    if (!b->failed) {
        b->failed = true;
        b->failure = *err;
    }
    pthread_mutex_unlock(&b->lock);
    br_log(BR_ERROR, "weights_failed", "path=%s why=%s", BR_Q(image->path), BR_Q(err->msg));
}

bool br_weight_image_failed(const struct br_weight_image *image, struct br_err *err)
{
    if (!image->books)
        return false;
    pthread_mutex_lock(&image->books->lock);
    bool failed = image->books->failed;
    *err = image->books->failure;
    pthread_mutex_unlock(&image->books->lock);
    return failed;
}

static void unit_punch(const struct br_weight_image *image, uint32_t unit)
{
    if (fallocate(image->books->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)image->unit_offset[unit],
                  (off_t)br_image_span(image->books->header, unit)) < 0)
        br_log(BR_WARN, "weights_not_freed", "path=%s unit=%u why=%s", BR_Q(image->path), unit, strerror(errno));
}

int image_claim(const struct br_weight_image *image, uint32_t unit)
{
    struct br_image_state *s = image_state(image, unit);
    uint32_t absent = BR_UNIT_ABSENT;
    if (!atomic_compare_exchange_strong(&s->state, &absent, own_claim(image)))
        return BR_EBUSY;
    if (store_take(image->books->store, br_image_span(image->books->header, unit)))
        return 0;
    atomic_store(&s->state, BR_UNIT_ABSENT);
    return BR_ENOMEM;
}

void image_unclaim(const struct br_weight_image *image, uint32_t unit)
{
    unit_punch(image, unit);
    store_give(image->books->store, br_image_span(image->books->header, unit));
    atomic_store(&image_state(image, unit)->state, BR_UNIT_ABSENT);
}

void image_commit(const struct br_weight_image *image, uint32_t unit)
{
    struct br_weight_store *store = image->books->store;
    atomic_store(&image_state(image, unit)->verified_ns, br_now_ns());
    atomic_store(&image_state(image, unit)->state, BR_UNIT_PRESENT);
    store_count(store, &store->stats.filled, 1);
    store_count(store, &store->stats.filled_bytes, br_layout_unit_bytes(&image->layout, unit));
    store_pin(store, image, unit);
}

int image_accept(const struct br_weight_image *image, const struct br_unit_load *load, struct br_err *err)
{
    struct br_image_state *s = image_state(image, load->unit);
    uint64_t checksum, content;
    bool known = br_image_state_known(s, &checksum, &content);
    int rc;
    if (load->rc) {
        *err = load->err;
        return load->rc;
    }
    if (known && checksum == load->checksum)
        return 0;
    rc = br_weight_source_check(load->source, err);
    if (rc)
        return rc;
    if (known)
        return br_err_set(err, BR_ECORRUPT,
                          "%s: unit %u packs to checksum %016" PRIx64 ", it was %016" PRIx64
                          ": the files are not what they were when the worker started; restart it to take them up",
                          load->source->dir, load->unit, load->checksum, checksum);
    br_image_state_note(s, load->checksum, load->content);
    return 0;
}

bool image_verified(const struct br_weight_image *image, uint32_t unit, uint64_t checksum)
{
    uint64_t expected, content;
    if (!br_image_state_known(image_state(image, unit), &expected, &content) || expected != checksum)
        return false;
    atomic_store(&image_state(image, unit)->verified_ns, br_now_ns());
    return true;
}

bool br_weight_image_has(const struct br_weight_image *image, uint32_t unit)
{
    return atomic_load(&image_state(image, unit)->state) == BR_UNIT_PRESENT;
}

uint64_t br_weight_image_cached(const struct br_weight_image *image)
{
    uint64_t bytes = 0;
    for (uint32_t u = 0; u < image->layout.units; u++)
        bytes += br_weight_image_has(image, u) ? br_layout_unit_bytes(&image->layout, u) : 0;
    return bytes;
}

uint64_t br_weight_image_huge_bytes(const struct br_weight_image *image)
{
    return br_memory_huge_bytes(image->map);
}

uint64_t br_weight_image_key(const struct br_weight_image *image)
{
    const struct br_image_header *h = image->books->header;
    uint64_t key[] = {h->config_hash, h->numeric, h->layout_version, (uint64_t)h->tp_rank << 32 | h->tp_size};
    uint64_t sum = XXH3_64bits(key, sizeof key), checksum;
    for (uint32_t u = 0; u < h->units; u++) {
        uint64_t part[] = {sum, 0};
        if (br_image_state_known(image_state(image, u), &checksum, &part[1]))
            sum = XXH3_64bits(part, sizeof part);
    }
    return sum;
}

void br_weight_image_resident(const struct br_weight_image *image, uint32_t unit, bool resident)
{
    struct br_image_state *s = image->books ? image_state(image, unit) : NULL;
    if (!s)
        return;
    if (resident)
        atomic_fetch_or(&s->resident, own_bit(image));
    else
        atomic_fetch_and(&s->resident, ~own_bit(image));
}

/* First nobody can begin to use it, then nobody does: whoever begins says so first and looks whether it is there next.
 */
uint64_t br_weight_image_drop(const struct br_weight_image *image, uint32_t unit)
{
    struct br_image_state *s = image_state(image, unit);
    struct br_weight_store *store = image->books->store;
    uint64_t bytes = br_image_span(image->books->header, unit);
    uint32_t present = BR_UNIT_PRESENT;
    bool used;
    if (!atomic_compare_exchange_strong(&s->state, &present, own_claim(image)))
        return 0;
    pthread_mutex_lock(&image->books->lock);
    used = image->books->uses[unit] > 0;
    pthread_mutex_unlock(&image->books->lock);
    if (used || atomic_load(&s->users)) {
        atomic_store(&s->state, BR_UNIT_PRESENT);
        return 0;
    }
    image_unclaim(image, unit);
    store_count(store, &store->stats.dropped_bytes, bytes);
    return bytes;
}

static uint64_t file_blocks(int fd)
{
    struct stat sb;
    return fstat(fd, &sb) == 0 ? 512ull * (uint64_t)sb.st_blocks : 0;
}

static bool unit_in_use(const struct br_weight_image *image, uint32_t unit)
{
    uint32_t state = atomic_load(&image_state(image, unit)->state);
    return atomic_load(&image_state(image, unit)->users) || image->books->uses[unit] ||
           (state != BR_UNIT_PRESENT && state != BR_UNIT_ABSENT);
}

int br_weight_image_unload(struct br_weight_image *image, uint64_t *freed, struct br_err *err)
{
    uint64_t before = file_blocks(image->books->fd);
    *freed = 0;
    for (uint32_t u = 0; u < image->layout.units; u++)
        if (unit_in_use(image, u))
            return br_err_set(err, BR_EBUSY, "%s: unit %u is being copied", image->path, u);
    for (uint32_t u = 0; u < image->layout.units; u++)
        if (br_weight_image_has(image, u) && !br_weight_image_drop(image, u))
            return br_err_set(err, BR_EBUSY, "%s: unit %u is being copied", image->path, u);
    unlink(image->path);
    *freed = before - file_blocks(image->books->fd);
    br_log(BR_INFO, "weights_unloaded", "path=%s bytes=%" PRIu64, BR_Q(image->path), *freed);
    return 0;
}

/* ---- all units of an image at once ---- */

static struct br_unit_load *loads_of(const struct br_weight_image *image, enum br_unit_task task,
                                     struct br_weight_source *source, bool present, uint32_t *n)
{
    struct br_unit_load *loads = br_calloc(image->layout.units, sizeof *loads);
    *n = 0;
    for (uint32_t u = 0; u < image->layout.units; u++) {
        uint32_t state = atomic_load(&image_state(image, u)->state);
        if (state != (present ? BR_UNIT_PRESENT : own_claim(image)))
            continue;
        loads[(*n)++] = (struct br_unit_load){.task = task,
                                              .source = source,
                                              .unit = u,
                                              .out = (unsigned char *)image->map + image->unit_offset[u], // NOLINT
                                              .bytes = br_layout_unit_bytes(&image->layout, u),
                                              .fd = image->books->fd,
                                              .offset = image->unit_offset[u]};
    }
    return loads;
}

int image_check(struct br_weight_image *image, bool strict, struct br_err *err)
{
    uint32_t n, rc = 0;
    struct br_unit_load *loads = loads_of(image, BR_UNIT_CHECK, NULL, true, &n);
    struct br_err none;
    br_unit_loads_run(image->books->store->pool, loads, n, &none);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t expected = atomic_load(&image_state(image, loads[i].unit)->checksum);
        store_count_load(image->books->store, &loads[i]);
        if (image_verified(image, loads[i].unit, loads[i].checksum))
            continue;
        rc = (uint32_t)br_err_set(err, BR_ECORRUPT, "%s: unit %u: checksum %016" PRIx64 ", its record says %016" PRIx64,
                                  image->path, loads[i].unit, loads[i].checksum, expected);
        if (strict)
            break;
        br_log(BR_WARN, "weights_damaged", "why=%s", BR_Q(err->msg));
        br_weight_image_drop(image, loads[i].unit);
    }
    free(loads);
    return strict ? (int)rc : 0;
}

static int compare_bytes(const void *a, const void *b)
{
    uint64_t x = ((const struct br_unit_load *)a)->bytes, y = ((const struct br_unit_load *)b)->bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int loads_take(struct br_weight_image *image, struct br_unit_load *loads, uint32_t n, struct br_err *err)
{
    struct br_err why;
    int rc = 0;
    for (uint32_t i = 0; i < n; i++) {
        store_count_load(image->books->store, &loads[i]);
        if (image_accept(image, &loads[i], &why) == 0) {
            image_commit(image, loads[i].unit);
            continue;
        }
        image_unclaim(image, loads[i].unit);
        if (rc == 0 || rc == BR_ENOMEM)
            *err = why, rc = why.code;
    }
    return rc;
}

/* The largest units first, so that threads end together. */
int image_fill(struct br_weight_image *image, struct br_err *err)
{
    struct br_weight_source *source;
    struct br_unit_load *loads;
    struct br_err none;
    uint32_t n, busy = 0;
    int rc = image_source(image, &source, err);
    if (rc)
        return rc;
    for (uint32_t u = 0; u < image->layout.units && busy != (uint32_t)BR_ENOMEM; u++)
        busy = (uint32_t)image_claim(image, u);
    loads = loads_of(image, BR_UNIT_READ, source, false, &n);
    qsort(loads, n, sizeof *loads, compare_bytes);
    br_unit_loads_run(image->books->store->pool, loads, n, &none);
    rc = loads_take(image, loads, n, err);
    free(loads);
    return rc;
}

static uint64_t device_bit(const struct br_weight_image *image)
{
    int32_t device = image->books->store->config.device;
    return device < 0 ? 0 : 1ull << device;
}

/* Says that it is used before it looks: br_weight_image_drop. */
bool image_use_begin(const struct br_weight_image *image, uint32_t unit)
{
    struct br_image_books *b = image->books;
    struct br_image_state *s = image_state(image, unit);
    bool cached;
    pthread_mutex_lock(&b->lock);
    b->uses[unit]++;
    atomic_fetch_or(&s->users, device_bit(image));
    cached = br_weight_image_has(image, unit);
    if (!cached && --b->uses[unit] == 0)
        atomic_fetch_and(&s->users, ~device_bit(image));
    pthread_mutex_unlock(&b->lock);
    return cached;
}

void image_use_end(const struct br_weight_image *image, uint32_t unit)
{
    struct br_image_books *b = image->books;
    pthread_mutex_lock(&b->lock);
    if (--b->uses[unit] == 0)
        atomic_fetch_and(&image_state(image, unit)->users, ~device_bit(image));
    pthread_mutex_unlock(&b->lock);
}
