#include "worker/node/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "worker/weights/image.h"

int node_cache_open(struct node_cache *cache, const struct br_worker_config *config, struct br_err *err)
{
    char path[300];
    struct stat st;
    if (config->cache_dir)
        snprintf(cache->dir, sizeof cache->dir, "%s", config->cache_dir);
    else
        snprintf(cache->dir, sizeof cache->dir, "/dev/shm/briareus-%u-%s", (unsigned)getuid(), config->node);
    if (mkdir(cache->dir, 0700) && errno != EEXIST)
        return br_err_errno(err, BR_EIO, "cache folder %s", cache->dir);
    if (lstat(cache->dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != getuid())
        return br_err_set(err, BR_EIO, "cache folder %s is not a folder of this user: remove it or set another one",
                          cache->dir);
    snprintf(path, sizeof path, "%s/lock", cache->dir);
    cache->lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (cache->lock < 0)
        return br_err_errno(err, BR_EIO, "%s", path);
    if (flock(cache->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    close(cache->lock);
    return br_err_set(err, BR_EBUSY, "another worker uses the cache folder %s: give this node another name",
                      cache->dir);
}

static bool ends_with(const char *name, const char *tail)
{
    size_t n = strlen(name), t = strlen(tail);
    return n >= t && strcmp(name + n - t, tail) == 0;
}

static void cache_remove(const struct node_cache *cache)
{
    DIR *dir = opendir(cache->dir);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (ends_with(e->d_name, ".weights") || ends_with(e->d_name, ".weights.lock") || strcmp(e->d_name, "lock") == 0)
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(cache->dir); /* stays when somebody else keeps files there */
}

void node_cache_close(struct node_cache *cache, bool keep)
{
    if (!keep)
        cache_remove(cache);
    close(cache->lock);
}

/* A model's name as a plain file name, one to one. */
static void file_name(const char *model, char *out, size_t size)
{
    size_t n = 0;
    for (const char *p = model; *p && n + 4 < size; p++)
        if (*p == '/' || *p == '%' || (*p == '.' && p == model))
            n += (size_t)snprintf(out + n, size - n, "%%%02X", (unsigned char)*p);
        else
            out[n++] = *p;
    out[n] = 0;
}

static int image_build(const struct node_cache *cache, const struct br_worker_config *config, uint32_t i,
                       struct node_image *image, uint64_t *bytes, struct br_err *err)
{
    struct br_weight_image *built;
    int64_t from = br_now_ns();
    char name[200];
    int rc;
    file_name(config->models[i].name, name, sizeof name);
    rc = br_weight_image_open(config->models[i].dir, name, cache->dir, config->numeric, &built, err);
    if (rc)
        return rc;
    image->path = br_strdup(built->path);
    *bytes += br_layout_total_bytes(&built->layout);
    br_log(BR_INFO, "model_cached", "model=%s bytes=%" PRIu64 " seconds=%.3f", config->models[i].name,
           br_layout_total_bytes(&built->layout), (double)(br_now_ns() - from) / 1e9);
    br_weight_image_close(built);
    return 0;
}

uint32_t node_cache_fill(const struct node_cache *cache, const struct br_worker_config *config,
                         struct node_image *images, uint64_t *bytes)
{
    uint32_t n = 0;
    struct br_err err;
    *bytes = 0;
    for (uint32_t i = 0; i < config->n_models; i++) {
        if (image_build(cache, config, i, &images[i], bytes, &err) == 0) {
            n++;
            continue;
        }
        images[i].error = br_strdup(err.msg);
        br_log(BR_ERROR, "model_failed", "model=%s why=%s", config->models[i].name, BR_Q(err.msg));
    }
    return n;
}
