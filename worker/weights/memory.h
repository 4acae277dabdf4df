/* Host memory that weights lie in: files mapped so that huge pages fit, filled without SIGBUS, pinned, placed. */
#ifndef BRIAREUS_WORKER_WEIGHTS_MEMORY_H
#define BRIAREUS_WORKER_WEIGHTS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pages.h"

/* Maps [at, at + bytes) of a file (at: a multiple of BR_PAGE), shared, so that huge pages of the file can be huge pages
 * of the mapping, and asks for them. NULL: errno says why. */
unsigned char *br_memory_map(int fd, uint64_t at, uint64_t bytes, bool writable);
void br_memory_unmap(const void *at, uint64_t bytes);

/* Writes all of it. BR_ENOMEM: the file system has no room. So a file is filled without a fault for each page, without
 * zeroing it first, and without SIGBUS where there is no room for it. */
int br_file_write(int fd, uint64_t offset, const void *data, uint64_t bytes, struct br_err *err);

/* Takes every page of a writable mapping now. BR_ENOMEM: the file system or the machine has no room; without this the
 * first write would end the process (SIGBUS). fd, offset: where at lies in the file. */
int br_memory_populate(int fd, uint64_t offset, void *at, uint64_t bytes, struct br_err *err);

/* Has what is in the range moved to huge pages (MADV_COLLAPSE, Linux 6.1), also where the system gives none by itself;
 * whoever reads it meanwhile goes on. Returns how many bytes lie on huge pages now. */
uint64_t br_memory_collapse(unsigned char *at, uint64_t bytes);

/* Keeps the pages in memory. BR_ENOMEM when the limit of locked memory is too low: the message has limit and need. */
int br_memory_pin(const void *at, uint64_t bytes, struct br_err *err);

/* How many bytes of the mapping at `at` are huge pages (/proc/self/smaps). */
uint64_t br_memory_huge_bytes(const void *at);

/* Spreads pages not taken yet over the memory of every NUMA node; nothing to do where there is one. Returns how many
 * nodes the machine has. */
uint32_t br_memory_spread(void *at, uint64_t bytes);

#endif
