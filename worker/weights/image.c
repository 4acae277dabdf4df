#include "worker/weights/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "worker/weights/image_file.h"
#include "worker/weights/pack.h"

/* The model folder, opened and checked. */
struct source {
    struct br_model_shape shape;
    struct br_safetensors *st;
    struct br_packer packer;
    uint64_t config_hash, stamp;
};

/* Where the image goes. */
struct target {
    const char *name, *cache_dir;
    char path[512], tmp[520], lock[520];
};

enum { PROGRESS_MIN_BYTES = 1 << 30 };

static uint64_t config_hash(const char *dir)
{
    static const char *const names[] = {"config.json", "generation_config.json"};
    uint64_t hashes[2] = {0};
    for (int i = 0; i < 2; i++) {
        struct br_buf text = {0};
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (br_buf_read_file(&text, path, 1 << 20) == 0 && text.len)
            hashes[i] = XXH3_64bits(text.data, text.len);
        br_buf_free(&text);
    }
    return XXH3_64bits(hashes, sizeof hashes);
}

static uint64_t source_stamp(const struct source *src)
{
    uint64_t stamp = src->config_hash;
    for (size_t i = 0; i < src->st->n_files; i++) {
        uint64_t parts[] = {stamp, src->st->files[i].stamp};
        stamp = XXH3_64bits(parts, sizeof parts);
    }
    return stamp;
}

static int source_open(struct source *src, const char *dir, enum br_numeric numeric, struct br_err *err)
{
    int rc = br_model_shape_load(dir, &src->shape, err);
    if (rc)
        return rc;
    rc = br_safetensors_open(dir, &src->st, err);
    if (rc)
        return rc;
    rc = br_packer_init(&src->packer, src->st, &src->shape, numeric, err);
    if (rc) {
        br_safetensors_close(src->st);
        return rc;
    }
    src->config_hash = config_hash(dir);
    src->stamp = source_stamp(src);
    return 0;
}

static void source_close(struct source *src)
{
    br_packer_free(&src->packer);
    br_safetensors_close(src->st);
}

static XXH3_state_t *key_begin(const struct source *src)
{
    uint32_t format[] = {src->packer.layout.numeric, BR_LAYOUT_VERSION};
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        abort();
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, format, sizeof format);
    XXH3_64bits_update(state, &src->config_hash, sizeof src->config_hash);
    return state;
}

static uint64_t key_end(XXH3_state_t *state)
{
    uint64_t key = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return key;
}

static uint64_t source_key(const struct source *src)
{
    XXH3_state_t *state = key_begin(src);
    for (uint32_t unit = 0; unit < src->packer.layout.units; unit++)
        br_packer_hash_unit(&src->packer, unit, state);
    return key_end(state);
}

static int target_init(struct target *t, const char *name, const char *cache_dir, struct br_err *err)
{
    t->name = name;
    t->cache_dir = cache_dir;
    if (!*name || *name == '.' || strchr(name, '/') || strlen(name) > 200)
        return br_err_set(err, BR_EINVAL, "image name \"%.200s\" is not a plain file name of 1..200 bytes", name);
    if (snprintf(t->path, sizeof t->path, "%s/%s.weights", cache_dir, name) >= (int)sizeof t->path)
        return br_err_set(err, BR_EINVAL, "%.200s: path too long", cache_dir);
    snprintf(t->tmp, sizeof t->tmp, "%s.tmp", t->path);
    snprintf(t->lock, sizeof t->lock, "%s.lock", t->path);
    if (mkdir(cache_dir, 0700) < 0 && errno != EEXIST)
        return br_err_errno(err, BR_EIO, "%s: cannot make the cache folder", cache_dir);
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

/* All blocks now: a full tmpfs would otherwise answer a later write with SIGBUS. */
static int file_reserve(const struct target *t, int fd, uint64_t bytes, struct br_err *err)
{
    struct statvfs vfs = {0};
    int rc;
    do
        rc = posix_fallocate(fd, 0, (off_t)bytes);
    while (rc == EINTR);
    if (rc == 0)
        return 0;
    errno = rc;
    if (rc != ENOSPC && rc != EFBIG && rc != ENOMEM)
        return br_err_errno(err, BR_EIO, "%s: reserving %" PRIu64 " bytes", t->tmp, bytes);
    if (ftruncate(fd, 0) == 0 && fstatvfs(fd, &vfs) < 0)
        vfs = (struct statvfs){0};
    return br_err_set(err, BR_ENOMEM,
                      "%s: the image of %s needs %" PRIu64 " bytes, %s has %" PRIu64
                      " bytes free; free some or enlarge it",
                      t->tmp, t->name, bytes, t->cache_dir, (uint64_t)vfs.f_bavail * vfs.f_frsize);
}

static int file_create(const struct target *t, uint64_t bytes, struct br_image_header **out, struct br_err *err)
{
    void *map = MAP_FAILED;
    int fd, rc;
    unlink(t->tmp); /* of a builder that died: we hold the lock */
    fd = open(t->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return br_err_errno(err, BR_EIO, "%s", t->tmp);
    rc = file_reserve(t, fd, bytes, err);
    if (!rc && (map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
        rc = br_err_errno(err, BR_ENOMEM, "%s: mapping %" PRIu64 " bytes", t->tmp, bytes);
    close(fd);
    if (rc)
        unlink(t->tmp);
    *out = map;
    return rc;
}

static void progress_log(const struct target *t, uint64_t done, uint64_t total, int *tenths)
{
    int now = (int)(done * 10 / total);
    if (total < PROGRESS_MIN_BYTES || now == *tenths)
        return;
    *tenths = now;
    br_log(BR_INFO, "weights_packing", "name=%s percent=%d bytes=%" PRIu64 " of=%" PRIu64, BR_Q(t->name), now * 10,
           done, total);
}

/* Hashes each unit's tensors right before packing them, so that they come from disk once. */
static void file_pack(const struct source *src, const struct target *t, struct br_image_header *h)
{
    XXH3_state_t *key = key_begin(src);
    int tenths = 0;
    br_image_header_fill(h, &src->packer.layout);
    for (uint32_t i = 0; i < h->units; i++) {
        unsigned char *unit = (unsigned char *)h + h->unit[i].offset;
        br_packer_hash_unit(&src->packer, i, key);
        br_pack_unit(&src->packer, i, unit);
        h->unit[i].checksum = XXH3_64bits(unit, h->unit[i].bytes);
        progress_log(t, h->unit[i].offset + h->unit[i].bytes, h->file_bytes, &tenths);
    }
    h->key = key_end(key);
    h->stamp = src->stamp;
    h->checksum = br_image_header_checksum(h);
    __atomic_store_n(&h->commit, BR_IMAGE_COMMIT, __ATOMIC_RELEASE);
}

static int image_build(const struct source *src, const struct target *t, struct br_err *err)
{
    uint64_t bytes = br_image_header_bytes(src->packer.layout.units) + br_layout_total_bytes(&src->packer.layout);
    int64_t start = br_now_ns();
    struct br_image_header *h = NULL;
    int rc = file_create(t, bytes, &h, err);
    if (rc)
        return rc;
    file_pack(src, t, h);
    munmap(h, bytes);
    if (rename(t->tmp, t->path) < 0) {
        br_err_errno(err, BR_EIO, "%s: rename", t->tmp);
        unlink(t->tmp);
        return err->code;
    }
    br_log(BR_INFO, "weights_packed", "name=%s numeric=%s bytes=%" PRIu64 " ms=%" PRId64, BR_Q(t->name),
           src->packer.layout.numeric == BR_NUMERIC_BF16 ? "bf16" : "f32", bytes,
           (int64_t)((br_now_ns() - start) / BR_NS_PER_MS));
    return 0;
}

/* Equal content under a new stamp (a copied or touched folder): spares the next open the reading. */
static void stamp_update(const struct br_weight_image *image, uint64_t stamp)
{
    int fd = open(image->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (pwrite(fd, &stamp, sizeof stamp, offsetof(struct br_image_header, stamp)) != sizeof stamp)
        br_log(BR_WARN, "weights_stamp_failed", "path=%s", BR_Q(image->path));
    close(fd);
}

static bool image_is_current(const struct br_weight_image *image, const struct source *src)
{
    const struct br_image_header *h = (const struct br_image_header *)(const void *)image->map;
    if (image->layout.numeric != src->packer.layout.numeric)
        return false;
    if (h->stamp == src->stamp)
        return true;
    if (image->key != source_key(src))
        return false;
    stamp_update(image, src->stamp);
    return true;
}

/* Under the lock: the committed image if it is this model's, else a new one. */
static int image_obtain(const struct source *src, const struct target *t, struct br_weight_image **out,
                        struct br_err *err)
{
    struct br_err why;
    int rc = br_image_map(t->path, true, out, &why);
    if (rc == 0 && image_is_current(*out, src))
        return 0;
    if (rc == 0) {
        br_log(BR_INFO, "weights_rebuild", "path=%s reason=%s", BR_Q(t->path), BR_Q("the model or numeric changed"));
        br_weight_image_close(*out);
    } else if (rc != BR_ENOENT) {
        br_log(BR_WARN, "weights_rebuild", "path=%s reason=%s", BR_Q(t->path), BR_Q(why.msg));
    }
    *out = NULL;
    rc = image_build(src, t, err);
    return rc ? rc : br_image_map(t->path, false, out, err);
}

int br_weight_image_open(const char *dir, const char *name, const char *cache_dir, enum br_numeric numeric,
                         struct br_weight_image **out, struct br_err *err)
{
    struct source src;
    struct target target;
    int lock, rc = target_init(&target, name, cache_dir, err);
    if (rc)
        return rc;
    rc = source_open(&src, dir, numeric, err);
    if (rc)
        return rc;
    lock = lock_take(&target, err);
    rc = lock < 0 ? lock : image_obtain(&src, &target, out, err);
    if (lock >= 0)
        close(lock);
    source_close(&src);
    return rc;
}
