/* XXH3 with the widest vectors that the machine has, where the library can choose them at run time; the same values. */
#ifndef BRIAREUS_WORKER_WEIGHTS_FAST_HASH_H
#define BRIAREUS_WORKER_WEIGHTS_FAST_HASH_H

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#endif
