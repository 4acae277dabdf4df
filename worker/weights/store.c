#include "worker/weights/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "worker/weights/image_books.h"
#include "worker/weights/memory.h"

static const double RECHECK_S = 60;

void br_weight_store_config_init(struct br_weight_store_config *c)
{
    *c = (struct br_weight_store_config){.device = -1, .recheck_s = RECHECK_S};
}

static int store_create(const struct br_weight_store_config *config, bool shared, struct br_weight_store **out,
                        struct br_err *err)
{
    struct br_weight_store *s = br_calloc(1, sizeof *s);
    int rc = 0;
    s->config = *config;
    s->config.dir = s->dir;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (snprintf(s->dir, sizeof s->dir, "%s", config->dir) >= (int)sizeof s->dir)
        rc = br_err_set(err, BR_EINVAL, "%.200s: path too long", config->dir);
    else if (config->device < 0 && mkdir(s->dir, 0700) < 0 && errno != EEXIST)
        rc = br_err_errno(err, BR_EIO, "%s: cannot make the cache folder", s->dir);
    if (rc == 0 && shared)
        rc = br_budget_open(s->dir, config->device < 0, config->limit_bytes, &s->budget, err);
    if (rc == 0)
        rc = br_load_pool_create(config->threads, &s->pool, err);
    if (rc) {
        br_weight_store_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

int br_weight_store_open(const struct br_weight_store_config *config, struct br_weight_store **out, struct br_err *err)
{
    if (config->device > 63)
        return br_err_set(err, BR_EINVAL, "device %d: at most 64 share a host cache", config->device);
    return store_create(config, true, out, err);
}

void br_weight_store_close(struct br_weight_store *s)
{
    if (!s)
        return;
    br_load_pool_destroy(s->pool);
    br_pages_free(s->ring, s->ring_bytes);
    br_budget_close(s->budget);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- books ---- */

void br_weight_store_stats(const struct br_weight_store *store, struct br_weight_stats *out)
{
    struct br_weight_store *s = (struct br_weight_store *)store; // NOLINT: only its lock changes
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    pthread_mutex_unlock(&s->lock);
}

uint64_t br_weight_store_used(const struct br_weight_store *s, uint64_t *limit)
{
    *limit = s->budget ? br_budget_limit(s->budget) : UINT64_MAX;
    return s->budget ? br_budget_used(s->budget) : 0;
}

void store_count(struct br_weight_store *s, uint64_t *count, uint64_t by)
{
    pthread_mutex_lock(&s->lock);
    *count += by;
    pthread_mutex_unlock(&s->lock);
}

void store_count_load(struct br_weight_store *s, const struct br_unit_load *l)
{
    int64_t now = br_now_ns(), from = l->read_ns ? l->read_ns : l->started_ns;
    pthread_mutex_lock(&s->lock);
    if (l->read_ns) {
        s->stats.disk_s += (double)(l->read_ns - l->started_ns) / 1e9;
        for (uint32_t p = 0; p < l->n_parts; p++)
            for (uint32_t i = 0; i < l->parts[p].n_tensors; i++)
                s->stats.disk_bytes += l->parts[p].tensor[i]->bytes;
    }
    if (l->task == BR_UNIT_CHECK) {
        s->stats.checked_bytes += l->bytes;
        s->stats.check_s += (double)(now - from) / 1e9;
    }
    pthread_mutex_unlock(&s->lock);
}

static bool resident_drop(struct br_weight_store *s)
{
    for (struct br_weight_image *image = s->images; image; image = image->books->next)
        for (uint32_t u = image->layout.units; u-- > 0;)
            if (atomic_load(&image_state(image, u)->resident) && br_weight_image_drop(image, u))
                return true;
    return false;
}

bool store_take(struct br_weight_store *s, uint64_t bytes)
{
    if (!s->budget)
        return true;
    while (!br_budget_take(s->budget, bytes))
        if (!s->config.drop || !resident_drop(s))
            return false;
    return true;
}

void store_give(struct br_weight_store *s, uint64_t bytes)
{
    if (s->budget)
        br_budget_give(s->budget, bytes);
}

void store_pin(struct br_weight_store *s, const struct br_weight_image *image, uint32_t unit)
{
    struct br_err err;
    bool told;
    if (!s->config.pin ||
        br_memory_pin(image->map + image->unit_offset[unit], br_layout_unit_bytes(&image->layout, unit), &err) == 0)
        return;
    pthread_mutex_lock(&s->lock);
    told = s->unpinned_told;
    s->unpinned_told = true;
    pthread_mutex_unlock(&s->lock);
    if (!told)
        br_log(BR_WARN, "weights_not_pinned", "why=%s", BR_Q(err.msg));
}

/* ---- one image alone ---- */

static int store_alone(const char *dir, struct br_weight_store **out, struct br_err *err)
{
    struct br_weight_store_config config;
    br_weight_store_config_init(&config);
    config.dir = dir;
    config.recheck_s = 1e9;
    return store_create(&config, false, out, err);
}

int br_weight_image_open(const char *dir, const char *name, const char *cache_dir, enum br_numeric numeric,
                         struct br_weight_image **out, struct br_err *err)
{
    struct br_weight_store *store;
    int rc = store_alone(cache_dir, &store, err);
    if (rc)
        return rc;
    rc = br_weight_store_build(store, dir, name, numeric, out, err);
    if (rc)
        br_weight_store_close(store);
    else
        (*out)->books->own_store = true;
    return rc;
}

int br_weight_image_attach(const char *path, struct br_weight_image **out, struct br_err *err)
{
    struct br_weight_store *store;
    struct br_weight_image *image;
    int rc = store_alone("/", &store, err);
    if (rc)
        return rc;
    rc = image_map(path, &image, err);
    if (rc) {
        br_weight_store_close(store);
        return rc;
    }
    image_join(image, store, NULL);
    image->books->own_store = true;
    rc = image_check(image, true, err);
    for (uint32_t u = 0; u < image->layout.units && !rc; u++)
        if (!br_weight_image_has(image, u))
            rc = br_err_set(err, BR_ECORRUPT, "%s: unit %u is not in it", path, u);
    if (rc)
        br_weight_image_close(image);
    else
        *out = image;
    return rc;
}
