/* Large memory of one's own, on huge pages as far as the machine gives them. */
#ifndef BRIAREUS_BASE_PAGES_H
#define BRIAREUS_BASE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

enum { BR_PAGE = 4096, BR_HUGE_PAGE = 2 << 20 };

/* What memory lies on: reserved huge pages (vm.nr_hugepages), transparent ones as far as the kernel finds some, pages
 * of 4 KiB. */
enum br_pages { BR_PAGES_SMALL, BR_PAGES_TRANSPARENT, BR_PAGES_RESERVED };

const char *br_pages_name(enum br_pages pages);

/* Zeroed memory from a huge page's edge on: on reserved pages if there are enough of them, else advised to be on
 * transparent ones. Pages are taken when they are touched, reserved ones now. *got (may be NULL) says which. NULL:
 * errno says why. To be freed by br_pages_free with the same bytes. */
void *br_pages_alloc(uint64_t bytes, enum br_pages *got);
void br_pages_free(void *at, uint64_t bytes);

/* An address space of `bytes` that begins `offset` behind a huge page's edge, for mappings with MAP_FIXED; NULL: errno
 * says why. */
void *br_pages_space(uint64_t offset, uint64_t bytes);
/* Are transparent huge pages given to memory that asks for them? shmem: to files in memory, by the mount's default. */
bool br_pages_transparent(bool shmem);

#endif
