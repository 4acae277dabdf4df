#include "worker/node/kv_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"

enum { HEAD_BYTES = 4096 };
static const char MAGIC[] = "briareus KV\n"; /* what begins otherwise is not ours to overwrite */

uint64_t node_kv_file_bytes(const struct br_worker_config *c)
{
    return c->kv_disk ? c->kv_disk_bytes / c->devices & ~(uint64_t)(HEAD_BYTES - 1) : 0;
}

uint64_t node_kv_file_offset(const struct br_worker_config *c, uint32_t device)
{
    return HEAD_BYTES + device * node_kv_file_bytes(c);
}

int node_kv_file_check(const struct br_worker_config *c, struct br_err *err)
{
    if (!c->kv_disk && !c->kv_disk_bytes)
        return 0;
    if (!c->kv_disk || !c->kv_disk_bytes)
        return br_err_set(err, BR_EINVAL, "kv-disk and kv-disk-size go together: %s is missing",
                          c->kv_disk ? "kv-disk-size" : "kv-disk");
    if (strcmp(c->device_kind, "cpu") != 0)
        return br_err_set(err, BR_EINVAL, "kv-disk: the device %s has no KV that could go to disk", c->device_kind);
    return 0;
}

static int file_check(int fd, const char *path, struct br_err *err)
{
    char head[sizeof MAGIC - 1];
    struct stat st;
    if (fstat(fd, &st))
        return br_err_errno(err, BR_EIO, "kv-disk: %s", path);
    if (!S_ISREG(st.st_mode) || (st.st_size > 0 && (pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head ||
                                                    memcmp(head, MAGIC, sizeof head) != 0)))
        return br_err_set(err, BR_EINVAL, "kv-disk: %s is there and is no file of ours: name another path", path);
    if (flock(fd, LOCK_EX | LOCK_NB))
        return br_err_set(err, BR_EBUSY, "kv-disk: another worker uses %s: name another path", path);
    return 0;
}

static int room_check(int fd, const struct br_worker_config *c, struct br_err *err)
{
    struct statvfs fs;
    uint64_t free;
    if (fstatvfs(fd, &fs))
        return br_err_errno(err, BR_EIO, "kv-disk: %s", c->kv_disk);
    free = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (free < c->kv_disk_bytes)
        return br_err_set(err, BR_ENOMEM, "kv-disk-size: %.1fG, the file system of %s has %.1fG free: make it smaller",
                          (double)c->kv_disk_bytes / 0x1p30, c->kv_disk, (double)free / 0x1p30);
    return 0;
}

int node_kv_file_open(struct node_kv_file *file, const struct br_worker_config *c, struct br_err *err)
{
    int rc;
    *file = (struct node_kv_file){.fd = -1, .path = c->kv_disk};
    if (!c->kv_disk)
        return 0;
    file->fd = open(c->kv_disk, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (file->fd < 0)
        return br_err_errno(err, BR_EIO, "kv-disk: %s", c->kv_disk);
    rc = file_check(file->fd, c->kv_disk, err);
    if (rc == 0 && (ftruncate(file->fd, 0) || pwrite(file->fd, MAGIC, sizeof MAGIC - 1, 0) < 0))
        rc = br_err_errno(err, BR_EIO, "kv-disk: writing to %s", c->kv_disk);
    if (rc == 0)
        rc = room_check(file->fd, c, err);
    if (rc) {
        close(file->fd);
        file->fd = -1;
    }
    return rc;
}

void node_kv_file_close(struct node_kv_file *file)
{
    if (file->fd < 0)
        return;
    if (unlink(file->path))
        br_log(BR_WARN, "kv_disk_left", "path=%s why=%s", BR_Q(file->path), BR_Q(strerror(errno)));
    close(file->fd);
    file->fd = -1;
}
