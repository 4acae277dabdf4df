/* Host caches that nobody will come back for. A worker that is killed leaves its folder of weight images in memory. */
#ifndef BRIAREUS_WORKER_NODE_RECLAIM_H
#define BRIAREUS_WORKER_NODE_RECLAIM_H

#include <stdbool.h>

/* In the folder of a cache that stays although no worker holds its lock (--keep-cache). */
#define NODE_CACHE_KEEP "keep"

/* Is the file open as fd still the one called name in the folder dirfd? Not when it was removed, or another is there.
 */
bool node_cache_same_file(int fd, int dirfd, const char *name);

/* Removes a cache's own files and then the folder, which stays when it holds others. dirfd: the folder itself; path:
 * its name seen from parentfd (AT_FDCWD: from here). The caller holds its lock. True: the folder is gone. */
bool node_cache_remove(int dirfd, int parentfd, const char *path);

/* Removes the images of an own folder, with their locks, that `keep` says no to. */
void node_cache_tidy(const char *dir, bool (*keep)(const void *ctx, const char *file), const void *ctx);

/* Removes the folders root/briareus-<uid>-* of this user (mode 0700, no links) whose lock is free and that have no
 * NODE_CACHE_KEEP; own (a name below root) is left alone. A line each is logged. */
void node_cache_reclaim(const char *root, const char *own);

#endif
