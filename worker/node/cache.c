#include "worker/node/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "worker/node/limits.h"
#include "worker/node/reclaim.h"
#include "worker/node/said.h"
#include "worker/weights/store.h"

static const char g_root[] = "/dev/shm";

/* What may be there for a moment: a lock that another worker only tries, a folder that one is just removing. */
enum { LOCK_TRIES = 50, LOCK_WAIT_MS = 10 };

static int folder_make(const char *dir, struct br_err *err)
{
    struct stat st;
    if (mkdir(dir, 0700) && errno != EEXIST)
        return br_err_errno(err, BR_EIO, "cache folder %s", dir);
    if (lstat(dir, &st) == 0 ? S_ISDIR(st.st_mode) && st.st_uid == getuid() : errno == ENOENT)
        return 0;
    return br_err_set(err, BR_EIO, "cache folder %s is not a folder of this user: remove it or set another one", dir);
}

/* BR_EBUSY: not now. A lock whose file was removed while we waited for it locks nothing. */
static int lock_try(const char *path, int *lock, struct br_err *err)
{
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return br_err_errno(err, errno == ENOENT ? BR_EBUSY : BR_EIO, "%s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && node_cache_same_file(fd, AT_FDCWD, path)) {
        *lock = fd;
        return 0;
    }
    close(fd);
    return br_err_set(err, BR_EBUSY, "%s is locked", path);
}

static int cache_lock(struct node_cache *cache, struct br_err *err)
{
    const struct timespec wait = {.tv_nsec = LOCK_WAIT_MS * BR_NS_PER_MS};
    char path[300];
    int rc = BR_EBUSY;
    snprintf(path, sizeof path, "%s/lock", cache->dir);
    for (int i = 0; i < LOCK_TRIES && rc == BR_EBUSY; i++) {
        if (i)
            nanosleep(&wait, NULL);
        rc = folder_make(cache->dir, err);
        if (rc == 0)
            rc = lock_try(path, &cache->lock, err);
    }
    if (rc != BR_EBUSY)
        return rc;
    return br_err_set(err, BR_EBUSY, "another worker uses the cache folder %s: give this node another name",
                      cache->dir);
}

/* For whoever finds the folder when we are gone. */
static int keep_mark(const struct node_cache *cache, bool keep, struct br_err *err)
{
    char path[300];
    int fd;
    snprintf(path, sizeof path, "%s/" NODE_CACHE_KEEP, cache->dir);
    if (!keep)
        return unlink(path) == 0 || errno == ENOENT ? 0 : br_err_errno(err, BR_EIO, "%s", path);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return br_err_errno(err, BR_EIO, "%s", path);
    close(fd);
    return 0;
}

int node_cache_open(struct node_cache *cache, const struct br_worker_config *config, struct br_err *err)
{
    int rc;
    if (config->cache_dir)
        snprintf(cache->dir, sizeof cache->dir, "%s", config->cache_dir);
    else
        snprintf(cache->dir, sizeof cache->dir, "%s/briareus-%u-%s", g_root, (unsigned)getuid(), config->node);
    rc = cache_lock(cache, err);
    if (rc)
        return rc;
    rc = keep_mark(cache, config->keep_cache, err);
    if (rc)
        close(cache->lock);
    else if (!config->cache_dir)
        node_cache_reclaim(g_root, cache->dir + sizeof g_root);
    return rc;
}

void node_cache_close(struct node_cache *cache, bool keep)
{
    int dir = keep ? -1 : open(cache->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0) {
        node_cache_remove(dir, AT_FDCWD, cache->dir);
        close(dir);
    }
    close(cache->lock);
}

void node_cache_file_name(const char *model, char *out, size_t size)
{
    size_t n = 0;
    for (const char *p = model; *p && n + 4 < size; p++)
        if (*p == '/' || *p == '%' || (*p == '.' && p == model))
            n += (size_t)snprintf(out + n, size - n, "%%%02X", (unsigned char)*p);
        else
            out[n++] = *p;
    out[n] = 0;
}

static int image_build(const struct br_worker_config *config, uint32_t i, struct br_weight_store *store,
                       struct node_image *image, uint64_t *bytes, struct br_err *err)
{
    struct br_weight_image *built;
    int64_t from = br_now_ns();
    char name[200];
    int rc;
    node_cache_file_name(config->models[i].name, name, sizeof name);
    rc = br_weight_store_build(store, config->models[i].dir, name, config->numeric, &built, err);
    if (rc)
        return rc;
    image->path = br_strdup(built->path);
    *bytes += br_layout_total_bytes(&built->layout);
    br_log(BR_INFO, "model_cached", "model=%s bytes=%" PRIu64 " seconds=%.3f", config->models[i].name,
           br_layout_total_bytes(&built->layout), (double)(br_now_ns() - from) / 1e9);
    br_weight_image_close(built);
    return 0;
}

static bool is_configured(const void *ctx, const char *file)
{
    const struct br_worker_config *config = ctx;
    char name[200];
    bool found = false;
    for (uint32_t i = 0; i < config->n_models && !found; i++) {
        node_cache_file_name(config->models[i].name, name, sizeof name);
        found = strncmp(file, name, strlen(name)) == 0 && strncmp(file + strlen(name), ".weights", 8) == 0;
    }
    return found;
}

static int store_open(const struct node_cache *cache, const struct br_worker_config *config,
                      struct br_weight_store **store, struct br_err *err)
{
    struct br_weight_store_config c;
    uint64_t half = node_memory_bytes() / 2;
    struct statvfs vfs;
    if (statvfs(cache->dir, &vfs))
        return br_err_errno(err, BR_EIO, "%s", cache->dir);
    uint64_t holds = (uint64_t)vfs.f_blocks * vfs.f_frsize;
    if (config->host_cache_bytes > holds)
        return br_err_set(
            err, BR_EINVAL,
            "host-cache: %" PRIu64 " bytes are more than the %" PRIu64
            " bytes that the file system of %s has: lower it, enlarge that (mount -o remount,size=...), or "
            "set another cache-dir",
            config->host_cache_bytes, holds, cache->dir);
    br_weight_store_config_init(&c);
    c.dir = cache->dir;
    c.limit_bytes = config->host_cache_bytes ? config->host_cache_bytes : half < holds ? half : holds;
    return br_weight_store_open(&c, store, err);
}

static void stats_tell(const struct br_weight_store *store, int64_t from_ns)
{
    struct br_weight_stats s;
    uint64_t limit, used = br_weight_store_used(store, &limit);
    double seconds = (double)(br_now_ns() - from_ns) / 1e9;
    br_weight_store_stats(store, &s);
    br_log(BR_INFO, "cache_ready",
           "bytes=%" PRIu64 " limit=%" PRIu64 " read=%" PRIu64 " filled=%" PRIu64 " verified=%" PRIu64
           " damaged=%" PRIu64 " seconds=%.3f",
           used, limit, s.disk_bytes, s.filled_bytes, s.checked_bytes, s.dropped_bytes, seconds);
}

int node_cache_fill(const struct node_cache *cache, const struct br_worker_config *config, struct node_image *images,
                    uint64_t *bytes, uint32_t *n, struct br_transfers *spent, struct br_err *err)
{
    int64_t from = br_now_ns();
    struct br_weight_store *store;
    struct br_err why;
    int rc = store_open(cache, config, &store, err);
    *bytes = *n = 0;
    if (rc)
        return rc;
    node_cache_tidy(cache->dir, is_configured, config);
    for (uint32_t i = 0; i < config->n_models; i++) {
        if (image_build(config, i, store, &images[i], bytes, &why) == 0) {
            (*n)++;
            continue;
        }
        images[i].error = br_strdup(why.msg);
        br_log(BR_ERROR, "model_failed", "model=%s why=%s", config->models[i].name, BR_Q(why.msg));
    }
    stats_tell(store, from);
    said_store_transfers(store, spent);
    br_weight_store_close(store);
    return 0;
}
