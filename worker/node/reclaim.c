#include "worker/node/reclaim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "worker/weights/budget.h"

static bool ends_with(const char *name, const char *tail)
{
    size_t n = strlen(name), t = strlen(tail);
    return n >= t && strcmp(name + n - t, tail) == 0;
}

bool node_cache_same_file(int fd, int dirfd, const char *name)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && fstatat(dirfd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

static bool is_image(const char *name)
{
    return ends_with(name, ".weights") || ends_with(name, ".weights.lock") || ends_with(name, ".weights.tmp");
}

static bool is_shared(const char *name)
{
    return strcmp(name, BR_BUDGET_FILE) == 0;
}

static bool is_own(const char *name)
{
    return is_image(name) || is_shared(name) || strcmp(name, "lock") == 0 || strcmp(name, ".") == 0 ||
           strcmp(name, "..") == 0;
}

/* A second descriptor: reading moves its position. */
static DIR *folder_list(int dirfd)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    return dir;
}

static bool only_own_files(int dirfd)
{
    DIR *dir = folder_list(dirfd);
    bool only = dir != NULL;
    for (struct dirent *e; only && (e = readdir(dir));)
        only = is_own(e->d_name);
    if (dir)
        closedir(dir);
    return only;
}

bool node_cache_remove(int dirfd, int parentfd, const char *path)
{
    DIR *dir = folder_list(dirfd);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (is_image(e->d_name) || is_shared(e->d_name))
            unlinkat(dirfd, e->d_name, 0);
    if (dir)
        closedir(dir);
    unlinkat(dirfd, "lock", 0); /* last: who can take another one finds no image that is about to go */
    return unlinkat(parentfd, path, AT_REMOVEDIR) == 0;
}

void node_cache_tidy(const char *path, bool (*keep)(const void *ctx, const char *file), const void *ctx)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (is_image(e->d_name) && !keep(ctx, e->d_name) && unlinkat(dirfd(dir), e->d_name, 0) == 0)
            br_log(BR_INFO, "cache_entry_removed", "file=%s", BR_Q(e->d_name));
    if (dir)
        closedir(dir);
}

/* The folder, when it is one of this user's that nobody else can write to. */
static int folder_open(int rootfd, const char *name)
{
    int fd = openat(rootfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && st.st_uid == getuid() && (st.st_mode & 07777) == 0700)
        return fd;
    close(fd);
    return -1;
}

/* The lock of a folder that no worker uses; held as long as the descriptor is open. */
static int lock_take(int dirfd)
{
    int fd = openat(dirfd, "lock", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == getuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        node_cache_same_file(fd, dirfd, "lock"))
        return fd;
    close(fd);
    return -1;
}

/* Freeing much memory takes long, and a worker of that name may start meanwhile: out of its way first, under a name
 * that the next call reclaims should this one not come to its end. One
 * that cannot go because of other files stays where it is looked for. */
static void folder_reclaim(int rootfd, int dirfd, const char *name)
{
    char aside[NAME_MAX + 16];
    bool moved = only_own_files(dirfd);
    snprintf(aside, sizeof aside, "%s.reclaimed", name);
    moved = moved && renameat(rootfd, name, rootfd, aside) == 0;
    if (node_cache_remove(dirfd, rootfd, moved ? aside : name))
        br_log(BR_INFO, "cache_reclaimed", "folder=%s", BR_Q(name));
    else
        br_log(BR_WARN, "cache_reclaim_failed", "folder=%s reason=%s", BR_Q(moved ? aside : name),
               BR_Q(strerror(errno)));
}

static void folder_try(int rootfd, const char *name)
{
    int dirfd = folder_open(rootfd, name), lock = dirfd < 0 ? -1 : lock_take(dirfd);
    if (lock >= 0 && faccessat(dirfd, NODE_CACHE_KEEP, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT &&
        node_cache_same_file(dirfd, rootfd, name))
        folder_reclaim(rootfd, dirfd, name);
    if (lock >= 0)
        close(lock);
    if (dirfd >= 0)
        close(dirfd);
}

void node_cache_reclaim(const char *root, const char *own)
{
    char prefix[40];
    DIR *dir = opendir(root);
    int n = snprintf(prefix, sizeof prefix, "briareus-%u-", (unsigned)getuid());
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, prefix, (size_t)n) == 0 && strcmp(e->d_name, own) != 0)
            folder_try(dirfd(dir), e->d_name);
    if (dir)
        closedir(dir);
}
