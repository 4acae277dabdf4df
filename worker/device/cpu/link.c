#include "worker/device/cpu/link.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "worker/device/cpu/cpu.h"

enum { CHUNK_BYTES = 256 << 10 };
/* A copy under way that was kept from the processor makes up for this much: a link would not have waited for it. */
static const double CATCH_UP_NS = 1e8;
static const double SHORTEST_NAP_NS = 5e4; /* shorter ones cost more than they pace */

void cpu_link_init(struct cpu_link *link, uint64_t bytes_per_s)
{
    pthread_mutex_init(&link->lock, NULL);
    link->bytes_per_ns = (double)bytes_per_s / 1e9;
    link->free_at_ns = 0;
}

void cpu_link_destroy(struct cpu_link *link)
{
    pthread_mutex_destroy(&link->lock);
}

/* Returns when a chunk that is put on the link now will have passed. */
static double link_reserve(struct cpu_link *link, uint64_t bytes, bool first)
{
    pthread_mutex_lock(&link->lock);
    double now = (double)br_now_ns(), earliest = first ? now : now - CATCH_UP_NS;
    if (link->free_at_ns < earliest)
        link->free_at_ns = earliest;
    link->free_at_ns += (double)bytes / link->bytes_per_ns;
    double passed = link->free_at_ns;
    pthread_mutex_unlock(&link->lock);
    return passed;
}

static void sleep_until(double when_ns)
{
    struct timespec at = {.tv_sec = (time_t)(when_ns / 1e9)};
    at.tv_nsec = (long)(when_ns - (double)at.tv_sec * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        ;
}

void cpu_link_copy(struct cpu_link *link, char *dst, const char *src, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        uint64_t chunk = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        double passed = link_reserve(link, chunk, at == 0);
        memcpy(dst + at, src + at, chunk);
        at += chunk;
        if (passed - (double)br_now_ns() > SHORTEST_NAP_NS || at == bytes)
            sleep_until(passed);
    }
}
