#include "worker/weights/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/buf.h"
#include "worker/weights/gguf.h"

static const char g_single[] = "model.safetensors", g_index[] = "model.safetensors.index.json";

uint64_t br_safetensors_stamp(const struct stat *sb)
{
    uint64_t parts[] = {sb->st_dev, sb->st_ino, (uint64_t)sb->st_size, (uint64_t)sb->st_mtim.tv_sec,
                        (uint64_t)sb->st_mtim.tv_nsec};
    return XXH3_64bits(parts, sizeof parts);
}

static int file_map(const char *dir, struct br_safetensors_file *file, struct br_err *err)
{
    char path[4096];
    struct stat sb;
    void *map = MAP_FAILED;
    int fd, rc = 0;
    if (snprintf(path, sizeof path, "%s/%s", dir, file->name) >= (int)sizeof path)
        return br_err_set(err, BR_EINVAL, "%s: path too long", file->name);
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO would hang it */
    if (fd < 0 && errno == ENXIO)                       /* a socket */
        return br_err_set(err, BR_EINVAL, "%s: not a regular file", file->name);
    if (fd < 0)
        return br_err_errno(err, errno == ENOENT || errno == ENOTDIR ? BR_ENOENT : BR_EIO, "%s", file->name);
    if (fstat(fd, &sb) < 0)
        rc = br_err_errno(err, BR_EIO, "%s: stat", file->name);
    else if (!S_ISREG(sb.st_mode))
        rc = br_err_set(err, BR_EINVAL, "%s: not a regular file", file->name);
    else if (sb.st_size < 8)
        rc = br_err_set(err, BR_ECORRUPT, "%s: %" PRId64 " bytes, not a safetensors file", file->name,
                        (int64_t)sb.st_size);
    else if ((map = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED)
        rc = br_err_errno(err, BR_ENOMEM, "%s: mapping %" PRId64 " bytes", file->name, (int64_t)sb.st_size);
    close(fd);
    if (rc)
        return rc;
    file->map = map;
    file->bytes = (uint64_t)sb.st_size;
    file->stamp = br_safetensors_stamp(&sb);
    return 0;
}

static int compare_name(const void *a, const void *b)
{
    return strcmp(((const struct br_tensor *)a)->name, ((const struct br_tensor *)b)->name);
}

const struct br_tensor *br_safetensors_find(const struct br_safetensors *st, const char *name)
{
    struct br_tensor key = {.name = (char *)name};
    return st->table.n ? bsearch(&key, st->table.tensors, st->table.n, sizeof key, compare_name) : NULL;
}

/* Moves the tensors of one file behind those of the others. */
static void table_append(struct br_tensor_table *all, struct br_tensor_table *part)
{
    all->tensors = br_realloc(all->tensors, (all->n + part->n + 1) * sizeof *all->tensors);
    if (part->n)
        memcpy(all->tensors + all->n, part->tensors, part->n * sizeof *all->tensors);
    all->n += part->n;
    free(part->tensors);
}

static int read_files(struct br_safetensors *st, struct br_err *err)
{
    int rc;
    for (size_t i = 0; i < st->n_files; i++) {
        struct br_tensor_table part;
        struct br_safetensors_file *file = &st->files[i];
        if ((rc = file_map(st->dir, file, err)) ||
            (rc = br_safetensors_parse(file->map, file->bytes, file->name, &part, err)))
            return rc;
        table_append(&st->table, &part);
        if (st->table.n > BR_SAFETENSORS_MAX_TENSORS)
            return br_err_set(err, BR_ECORRUPT, "%zu tensors, at most %d are supported", st->table.n,
                              BR_SAFETENSORS_MAX_TENSORS);
    }
    if (st->n_files > 1)
        qsort(st->table.tensors, st->table.n, sizeof *st->table.tensors, compare_name);
    for (size_t i = 1; i < st->table.n; i++)
        if (strcmp(st->table.tensors[i - 1].name, st->table.tensors[i].name) == 0)
            return br_err_set(err, BR_ECORRUPT, "tensor %.200s is in both %.100s and %.100s", st->table.tensors[i].name,
                              st->table.tensors[i - 1].file, st->table.tensors[i].file);
    return 0;
}

static int compare_file(const void *a, const void *b)
{
    return strcmp(((const struct br_safetensors_file *)a)->name, ((const struct br_safetensors_file *)b)->name);
}

static const struct br_safetensors_file *file_find(const struct br_safetensors *st, const char *name)
{
    struct br_safetensors_file key = {.name = (char *)name};
    return bsearch(&key, st->files, st->n_files, sizeof key, compare_file);
}

/* A shard is a plain file of the same folder. */
static bool plain_name(const char *name)
{
    return name && *name && *name != '.' && strlen(name) < 256 && !strchr(name, '/') && !strchr(name, '\\');
}

static int index_shards(struct br_safetensors *st, const json_t *map, struct br_err *err)
{
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)map, tensor, value)
    {
        const char *shard = json_string_value(value);
        if (!plain_name(shard))
            return br_err_set(err, BR_ECORRUPT, "%s: tensor %.200s: shard \"%.100s\" is not a plain file name", g_index,
                              tensor, shard ? shard : "(not a string)");
        if (st->n_files && file_find(st, shard))
            continue;
        if (st->n_files == BR_SAFETENSORS_MAX_SHARDS)
            return br_err_set(err, BR_ECORRUPT, "%s: more than %d shards", g_index, BR_SAFETENSORS_MAX_SHARDS);
        st->files = br_realloc(st->files, (st->n_files + 1) * sizeof *st->files);
        st->files[st->n_files++] = (struct br_safetensors_file){.name = br_strdup(shard)};
        qsort(st->files, st->n_files, sizeof *st->files, compare_file);
    }
    if (!st->n_files)
        return br_err_set(err, BR_ECORRUPT, "%s: weight_map is empty", g_index);
    return 0;
}

static int index_check(const struct br_safetensors *st, const json_t *map, struct br_err *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)map, name, value)
    {
        const struct br_tensor *t = br_safetensors_find(st, name);
        if (!t || strcmp(t->file, json_string_value(value)) != 0)
            return br_err_set(err, BR_ECORRUPT, "%s: tensor %.200s is not in its shard %.100s", g_index, name,
                              json_string_value(value));
    }
    return 0;
}

static json_t *index_read(const char *dir, struct br_err *err)
{
    char path[4096];
    struct br_buf text = {0};
    json_error_t at;
    json_t *root = NULL;
    snprintf(path, sizeof path, "%s/%s", dir, g_index);
    if (br_buf_read_file(&text, path, BR_SAFETENSORS_MAX_HEADER) < 0)
        br_buf_read_error(err, errno == ENOENT ? BR_ENOENT : errno == EFBIG ? BR_ECORRUPT : BR_EIO, "%s", g_index);
    else if (!(root = json_loadb(text.data ? text.data : "", text.len, JSON_REJECT_DUPLICATES, &at)))
        br_err_set(err, BR_ECORRUPT, "%s: line %d: %s", g_index, at.line, at.text);
    br_buf_free(&text);
    return root;
}

static int open_sharded(struct br_safetensors *st, struct br_err *err)
{
    json_t *root = index_read(st->dir, err), *map;
    int rc;
    if (!root)
        return err->code == BR_ENOENT ? br_err_set(err, BR_ENOENT, "neither %s nor %s is there", g_single, g_index)
                                      : err->code;
    map = json_object_get(root, "weight_map");
    if (!json_is_object(map))
        rc = br_err_set(err, BR_ECORRUPT, "%s: weight_map is missing or not an object", g_index);
    else if ((rc = index_shards(st, map, err)) == 0 && (rc = read_files(st, err)) == 0)
        rc = index_check(st, map, err);
    json_decref(root);
    return rc;
}

static int open_single(struct br_safetensors *st, struct br_err *err)
{
    st->files = br_calloc(1, sizeof *st->files);
    st->files[0].name = br_strdup(g_single);
    st->n_files = 1;
    return read_files(st, err);
}

/* The folder's only *.gguf; false: there is none, or several. */
static bool find_gguf(const char *dir, char *name, size_t size)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;
    while (d && (e = readdir(d))) {
        size_t len = strlen(e->d_name);
        if (len > 5 && strcmp(e->d_name + len - 5, ".gguf") == 0 && snprintf(name, size, "%s", e->d_name) < (int)size)
            n++;
    }
    if (d)
        closedir(d);
    return n == 1;
}

static int open_gguf(struct br_safetensors *st, const char *name, struct br_err *err)
{
    struct br_gguf_info info;
    int rc;
    st->files = br_calloc(1, sizeof *st->files);
    st->files[0].name = br_strdup(name);
    st->n_files = 1;
    if ((rc = file_map(st->dir, &st->files[0], err)) ||
        (rc = br_gguf_parse(st->files[0].map, st->files[0].bytes, st->files[0].name, &st->table, &info, err)))
        return rc;
    return br_gguf_adapt(&st->table, &info, &st->copies, err);
}

/* One that cannot be reached (a loop of links, no permission) is there: opening it says why. */
static bool is_there(const char *path)
{
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

int br_safetensors_open(const char *dir, struct br_safetensors **out, struct br_err *err)
{
    struct br_safetensors *st = br_calloc(1, sizeof *st);
    char path[4096], index[4096], gguf[256];
    int rc;
    st->dir = br_strdup(dir);
    if (snprintf(path, sizeof path, "%s/%s", dir, g_single) >= (int)sizeof path - 32) {
        rc = br_err_set(err, BR_EINVAL, "path too long");
    } else {
        snprintf(index, sizeof index, "%s/%s", dir, g_index);
        rc = is_there(path)                                          ? open_single(st, err)
             : !is_there(index) && find_gguf(dir, gguf, sizeof gguf) ? open_gguf(st, gguf, err)
                                                                     : open_sharded(st, err);
    }
    if (rc) {
        br_safetensors_close(st);
        return br_err_wrap(err, "%s", dir);
    }
    *out = st;
    return 0;
}

void br_safetensors_close(struct br_safetensors *st)
{
    if (!st)
        return;
    br_tensor_table_free(&st->table);
    for (size_t i = 0; i < st->n_files; i++) {
        if (st->files[i].map)
            munmap((void *)st->files[i].map, st->files[i].bytes);
        free(st->files[i].name);
    }
    free(st->files);
    free(st->copies);
    free(st->dir);
    free(st);
}
