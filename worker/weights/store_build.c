/* Images of a store: built, taken up, filled, attached to. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "worker/weights/image_books.h"

struct target {
    const char *name;
    char path[512], lock[520];
};

static int target_init(struct target *t, const struct br_weight_store *s, const char *name, struct br_err *err)
{
    t->name = name;
    if (!*name || *name == '.' || strchr(name, '/') || strlen(name) > 200)
        return br_err_set(err, BR_EINVAL, "image name \"%.200s\" is not a plain file name of 1..200 bytes", name);
    if (snprintf(t->path, sizeof t->path, "%s/%s.weights", s->dir, name) >= (int)sizeof t->path)
        return br_err_set(err, BR_EINVAL, "%.200s: path too long", s->dir);
    snprintf(t->lock, sizeof t->lock, "%s.lock", t->path);
    return 0;
}

/* Returns a file descriptor whose close releases the lock. */
static int lock_take(const struct target *t, struct br_err *err)
{
    int fd = open(t->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), rc;
    if (fd < 0)
        return br_err_errno(err, BR_EIO, "%s", t->lock);
    do
        rc = flock(fd, LOCK_EX);
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return fd;
    br_err_errno(err, BR_EIO, "%s: lock", t->lock);
    close(fd);
    return err->code;
}

/* Are the tensors of the units that are there still the ones they were made from? */
static bool contents_equal(struct br_weight_image *image, struct br_weight_source *source)
{
    uint32_t units = image->layout.units, n = 0;
    struct br_unit_load *loads = br_calloc(units, sizeof *loads);
    struct br_err err;
    bool equal;
    for (uint32_t u = 0; u < units; u++)
        if (br_weight_image_has(image, u))
            loads[n++] = (struct br_unit_load){.task = BR_UNIT_CONTENT, .source = source, .unit = u, .fd = -1};
    equal = br_unit_loads_run(image->books->store->pool, loads, n, &err) == 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t checksum, content;
        store_count_load(image->books->store, &loads[i]);
        equal = equal && br_image_state_known(image_state(image, loads[i].unit), &checksum, &content) &&
                content == loads[i].content;
    }
    free(loads);
    return equal;
}

/* Equal content under a new stamp (a copied or touched folder): the next start need not read it. What was known of
 * units that are not there is forgotten. */
static void stamp_update(struct br_weight_image *image, uint64_t stamp)
{
    for (uint32_t u = 0; u < image->layout.units; u++)
        if (!br_weight_image_has(image, u))
            atomic_store(&image_state(image, u)->seal, 0);
    image->books->header->stamp = stamp;
}

static bool image_is_current(struct br_weight_image *image, struct br_weight_source *source)
{
    const struct br_image_header *h = image->books->header;
    if (image->layout.numeric != source->packer.layout.numeric || h->config_hash != source->config_hash ||
        br_layout_total_bytes(&image->layout) != br_layout_total_bytes(&source->packer.layout))
        return false;
    if (h->stamp == source->stamp)
        return true;
    if (!contents_equal(image, source))
        return false;
    stamp_update(image, source->stamp);
    return true;
}

/* What killed processes were at is not there; what is there counts. Whatever the limit leaves no room for goes, the
 * last units first. */
static void image_count(struct br_weight_image *image)
{
    struct br_weight_store *s = image->books->store;
    for (uint32_t u = 0; u < image->layout.units; u++) {
        struct br_image_state *state = image_state(image, u);
        atomic_store(&state->users, 0);
        atomic_store(&state->resident, 0);
        if (atomic_load(&state->state) == BR_UNIT_ABSENT)
            continue;
        if (s->budget)
            br_budget_force(s->budget, br_image_span(image->books->header, u));
        if (!br_weight_image_has(image, u))
            image_unclaim(image, u);
    }
    for (uint32_t u = image->layout.units; s->budget && u-- > 0;)
        if (br_budget_used(s->budget) > br_budget_limit(s->budget))
            br_weight_image_drop(image, u);
}

static void rebuild_tell(const char *path, const char *reason, bool warn)
{
    br_log(warn ? BR_WARN : BR_INFO, "weights_rebuild", "path=%s reason=%s", BR_Q(path), BR_Q(reason));
}

static int image_join_source(struct br_weight_store *s, struct br_weight_image *image, struct br_weight_source *source)
{
    image_join(image, s, source->dir);
    image->books->source = source;
    return 0;
}

/* Under the lock: the committed image if it is this model's, else a new one. Takes the source over if 0. */
static int image_obtain(struct br_weight_store *s, const struct target *t, struct br_weight_source *source,
                        struct br_weight_image **out, struct br_err *err)
{
    struct br_err why;
    int rc = image_map(t->path, out, &why);
    if (rc == 0) {
        image_join(*out, s, source->dir);
        image_count(*out);
        if (image_is_current(*out, source)) {
            (*out)->books->source = source;
            return image_check(*out, false, err);
        }
        rebuild_tell(t->path, "the model or numeric changed", false);
        for (uint32_t u = 0; u < (*out)->layout.units; u++)
            br_weight_image_drop(*out, u);
        br_weight_image_close(*out);
    } else if (rc != BR_ENOENT) {
        rebuild_tell(t->path, why.msg, true);
    }
    *out = NULL;
    unlink(t->path);
    rc = image_create(t->path, source, err);
    if (rc == 0)
        rc = image_map(t->path, out, err);
    return rc ? rc : image_join_source(s, *out, source);
}

static void filled_tell(const struct br_weight_store *s, const struct target *t, const struct br_weight_image *image,
                        const struct br_weight_stats *before, int64_t start_ns)
{
    struct br_weight_stats now;
    br_weight_store_stats(s, &now);
    br_log(BR_INFO, "weights_packed",
           "name=%s numeric=%s bytes=%" PRIu64 " of=%" PRIu64 " read=%" PRIu64 " checked=%" PRIu64 " huge=%" PRIu64
           " ms=%" PRId64,
           BR_Q(t->name), image->layout.numeric == BR_NUMERIC_BF16 ? "bf16" : "f32", br_weight_image_cached(image),
           br_layout_total_bytes(&image->layout), now.disk_bytes - before->disk_bytes,
           now.checked_bytes - before->checked_bytes, br_weight_image_huge_bytes(image),
           (int64_t)((br_now_ns() - start_ns) / BR_NS_PER_MS));
}

static uint64_t folder_free(const char *dir)
{
    struct statvfs vfs;
    return statvfs(dir, &vfs) == 0 ? (uint64_t)vfs.f_bavail * vfs.f_frsize : 0;
}

/* With a budget, what finds no room is not an error: it streams. */
static int filled_check(const struct br_weight_store *s, const struct target *t, struct br_weight_image *image, int rc,
                        uint64_t free_before, struct br_err *err)
{
    uint64_t need = br_layout_total_bytes(&image->layout), have = br_weight_image_cached(image);
    uint64_t limit = s->budget ? br_budget_limit(s->budget) : UINT64_MAX;
    if (rc == 0 && have == need)
        return 0;
    if (rc && (rc != BR_ENOMEM || !s->budget)) {
        unlink(t->path);
        return rc == BR_ENOMEM ? br_err_set(err, BR_ENOMEM,
                                            "%s: the image of %s needs %" PRIu64 " bytes, %s has %" PRIu64
                                            " bytes free; free some or enlarge it",
                                            t->path, t->name, need, s->dir, free_before)
                               : rc;
    }
    if (rc == BR_ENOMEM)
        br_log(BR_WARN, "cache_full",
               "model=%s bytes=%" PRIu64 " cached=%" PRIu64 " folder=%s folder_free=%" PRIu64
               " effect=\"the rest is read from disk whenever it is used: enlarge the folder's file system\"",
               BR_Q(t->name), need, have, BR_Q(s->dir), folder_free(s->dir));
    else
        br_log(BR_WARN, "cache_full",
               "model=%s bytes=%" PRIu64 " cached=%" PRIu64 " limit=%" PRIu64
               " effect=\"the rest is read from disk whenever it is used: raise host-cache\"",
               BR_Q(t->name), need, have, limit);
    return 0;
}

static int image_obtain_filled(struct br_weight_store *s, const struct target *t, struct br_weight_source *source,
                               struct br_weight_image **out, struct br_err *err)
{
    uint64_t free_before = folder_free(s->dir);
    int64_t start_ns = br_now_ns();
    uint64_t need = br_layout_total_bytes(&source->packer.layout);
    struct br_weight_stats before;
    int rc;
    br_weight_store_stats(s, &before);
    rc = image_obtain(s, t, source, out, err);
    if (rc) {
        br_weight_source_close(source);
        return rc != BR_ENOMEM ? rc
                               : br_err_set(err, rc,
                                            "%s: the image of %s needs %" PRIu64 " bytes, %s has %" PRIu64
                                            " bytes free; free some or enlarge it",
                                            t->path, t->name, need, s->dir, free_before);
    }
    rc = filled_check(s, t, *out, image_fill(*out, err), free_before, err);
    if (rc == 0)
        filled_tell(s, t, *out, &before, start_ns);
    else
        br_weight_image_close(*out);
    return rc;
}

int br_weight_store_build(struct br_weight_store *s, const char *dir, const char *name, enum br_numeric numeric,
                          struct br_weight_image **out, struct br_err *err)
{
    struct br_weight_source *source;
    struct target target;
    int lock, rc = target_init(&target, s, name, err);
    *out = NULL;
    if (rc)
        return rc;
    rc = br_weight_source_open(dir, numeric, &source, err);
    if (rc)
        return rc;
    lock = lock_take(&target, err);
    if (lock < 0) {
        br_weight_source_close(source);
        return lock;
    }
    rc = image_obtain_filled(s, &target, source, out, err);
    close(lock);
    return rc;
}

/* What this device's process was at when it last died. */
static void device_forget(struct br_weight_image *image)
{
    int32_t device = image->books->store->config.device;
    uint64_t others = ~(1ull << device);
    for (uint32_t u = 0; u < image->layout.units; u++) {
        struct br_image_state *s = image_state(image, u);
        atomic_fetch_and(&s->users, others);
        atomic_fetch_and(&s->resident, others);
        if (atomic_load(&s->state) == BR_UNIT_FILLING + (uint32_t)(device + 1))
            image_unclaim(image, u);
    }
}

int br_weight_store_attach(struct br_weight_store *s, const char *path, const char *dir, struct br_weight_image **out,
                           struct br_err *err)
{
    struct br_weight_image *image;
    struct br_weight_source *source;
    int rc = image_map(path, &image, err);
    if (rc)
        return rc;
    image_join(image, s, dir);
    if (s->config.device >= 0)
        device_forget(image);
    /* Open from now on, so that a folder that is replaced by another does not matter. */
    rc = br_weight_image_cached(image) < br_layout_total_bytes(&image->layout) || s->config.drop
             ? image_source(image, &source, err)
             : 0;
    if (rc) {
        br_weight_image_close(image);
        return rc;
    }
    for (uint32_t u = 0; s->config.pin && u < image->layout.units; u++)
        if (br_weight_image_has(image, u))
            store_pin(s, image, u);
    *out = image;
    return 0;
}
