/* Between the parts of the emulator. */
#ifndef BRIAREUS_TESTS_CUDAEMU_GRID_H
#define BRIAREUS_TESTS_CUDAEMU_GRID_H

#include "tests/cudaemu/cudaemu.h"

struct cudaemu_grid {
    dim3 grid, block;
    size_t dyn_shared;
    uint64_t seed;
    const std::function<void()> *body;
};

/* Runs every block of the grid on the calling thread. */
void cudaemu_grid_run(const struct cudaemu_grid *grid);
/* Says what is wrong with a kernel or a call, and where, and aborts. */
[[noreturn]] void cudaemu_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* splitmix64 */
static inline uint64_t cudaemu_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#endif
