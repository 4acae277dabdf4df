#include "worker/weights/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/buf.h"
#include "worker/weights/panel.h"

enum { ALIGN = 4096 }; /* of O_DIRECT: enough for every disk in use */

struct br_source_file {
    int fd, direct_fd;    /* direct_fd -1: refused */
    _Atomic bool refused; /* direct reads, after all: read by fd from now on */
};

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

static uint64_t source_stamp(const struct br_weight_source *src)
{
    uint64_t stamp = src->config_hash;
    for (size_t i = 0; i < src->st->n_files; i++) {
        uint64_t parts[] = {stamp, src->st->files[i].stamp};
        stamp = XXH3_64bits(parts, sizeof parts);
    }
    return stamp;
}

static int file_open(const struct br_weight_source *src, size_t i, struct br_err *err)
{
    struct br_source_file *file = &src->files[i];
    char path[4096];
    struct stat sb;
    snprintf(path, sizeof path, "%s/%s", src->dir, src->st->files[i].name);
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0)
        return br_err_errno(err, BR_EIO, "%s", path);
    if (fstat(file->fd, &sb) < 0 || br_safetensors_stamp(&sb) != src->st->files[i].stamp)
        return br_err_set(err, BR_ESTALE, "%s changed while it was opened: start again when nothing writes to it",
                          path);
    file->direct_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
    if (file->direct_fd >= 0 &&
        (fstat(file->direct_fd, &sb) < 0 || br_safetensors_stamp(&sb) != src->st->files[i].stamp))
        return br_err_set(err, BR_ESTALE, "%s changed while it was opened: start again when nothing writes to it",
                          path);
    file->refused = file->direct_fd < 0;
    return 0;
}

static int files_open(struct br_weight_source *src, struct br_err *err)
{
    int rc = 0;
    src->files = br_calloc(src->st->n_files, sizeof *src->files);
    for (size_t i = 0; i < src->st->n_files; i++)
        src->files[i].fd = src->files[i].direct_fd = -1;
    for (size_t i = 0; i < src->st->n_files && !rc; i++)
        rc = file_open(src, i, err);
    return rc;
}

int br_weight_source_open(const char *dir, enum br_numeric numeric, struct br_weight_source **out, struct br_err *err)
{
    struct br_weight_source *src = br_calloc(1, sizeof *src);
    int rc = br_model_shape_load(dir, &src->shape, err);
    src->dir = br_strdup(dir);
    if (rc == 0)
        rc = br_safetensors_open(dir, &src->st, err);
    if (rc == 0)
        rc = br_packer_init(&src->packer, src->st, &src->shape, numeric, err);
    if (rc == 0)
        rc = files_open(src, err);
    if (rc) {
        br_weight_source_close(src);
        return rc;
    }
    src->config_hash = config_hash(dir);
    src->stamp = source_stamp(src);
    *out = src;
    return 0;
}

void br_weight_source_close(struct br_weight_source *src)
{
    if (!src)
        return;
    for (size_t i = 0; src->files && i < src->st->n_files; i++) {
        if (src->files[i].fd >= 0)
            close(src->files[i].fd);
        if (src->files[i].direct_fd >= 0)
            close(src->files[i].direct_fd);
    }
    free(src->files);
    br_packer_free(&src->packer);
    br_safetensors_close(src->st);
    free(src->dir);
    free(src);
}

static int stale(const struct br_weight_source *src, size_t i, struct br_err *err)
{
    return br_err_set(
        err, BR_ESTALE,
        "%s/%s was written to while it was served: put the old file back or restart the worker; new files "
        "belong into a new folder or are put in place by rename",
        src->dir, src->st->files[i].name);
}

int br_weight_source_check(const struct br_weight_source *src, struct br_err *err)
{
    struct stat sb;
    for (size_t i = 0; i < src->st->n_files; i++)
        if (fstat(src->files[i].fd, &sb) < 0 || br_safetensors_stamp(&sb) != src->st->files[i].stamp)
            return stale(src, i, err);
    return 0;
}

bool br_weight_source_direct(const struct br_weight_source *src)
{
    bool direct = true;
    for (size_t i = 0; i < src->st->n_files; i++)
        direct = direct && !src->files[i].refused;
    return direct;
}

static size_t file_of(const struct br_weight_source *src, const struct br_tensor *t)
{
    size_t i = 0;
    while (src->st->files[i].name != t->file)
        i++;
    return i;
}

void br_read_buffer_grow(struct br_read_buffer *b, uint64_t bytes)
{
    if (bytes <= b->bytes)
        return;
    free(b->data);
    b->bytes = (bytes + (1 << 20) - 1) & ~((1ull << 20) - 1);
    b->data = aligned_alloc(ALIGN, b->bytes);
    if (!b->data)
        abort();
}

void br_read_buffer_free(struct br_read_buffer *b)
{
    free(b->data);
    *b = (struct br_read_buffer){0};
}

/* [from, to) of the file, aligned; `need` bytes of it must be there: the file may end before `to`. */
static int file_read(struct br_weight_source *src, size_t i, uint64_t from, uint64_t to, uint64_t need,
                     unsigned char *out, struct br_err *err)
{
    struct br_source_file *file = &src->files[i];
    uint64_t got = 0;
    while (got < need) {
        int fd = file->refused ? file->fd : file->direct_fd;
        ssize_t n = pread(fd, out + got, to - from - got, (off_t)(from + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && !file->refused) { /* EINVAL from file systems that take O_DIRECT but do not do it */
            file->refused = true;
            continue;
        }
        if (n < 0)
            return br_err_errno(err, BR_EIO, "%s/%s: reading %" PRIu64 " bytes at %" PRIu64, src->dir,
                                src->st->files[i].name, need, from);
        if (n == 0)
            return stale(src, i, err);
        got += (uint64_t)n;
        if (got % ALIGN && got < need)
            file->refused = true; /* cannot go on from here */
    }
    src->read_bytes += need;
    return 0;
}

int br_weight_source_read(struct br_weight_source *src, const struct br_pack_range *ranges, uint32_t n,
                          struct br_read_buffer *buffer, const unsigned char **at, struct br_err *err)
{
    uint64_t total = 0, used = 0;
    for (uint32_t i = 0; i < n; i++)
        total += ranges[i].bytes + 2 * ALIGN;
    br_read_buffer_grow(buffer, total);
    for (uint32_t i = 0; i < n; i++) {
        size_t file = file_of(src, ranges[i].tensor);
        if (!br_safetensors_in_file(&src->st->files[file], ranges[i].tensor)) {
            at[i] = ranges[i].tensor->data + ranges[i].at;
            continue;
        }
        uint64_t begin = (uint64_t)(ranges[i].tensor->data - src->st->files[file].map) + ranges[i].at;
        uint64_t from = begin & ~(ALIGN - 1ull), to = (begin + ranges[i].bytes + ALIGN - 1) & ~(ALIGN - 1ull);
        at[i] = buffer->data + used + (begin - from);
        if (ranges[i].bytes == 0)
            continue;
        int rc = file_read(src, file, from, to, begin - from + ranges[i].bytes, buffer->data + used, err);
        if (rc)
            return rc;
        used += to - from;
    }
    return 0;
}
