/* Copies between host and device memory: at the rate of a capped link, or else by all copy threads together, as a plain
 * copy of the machine would go. */
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "worker/device/cpu/cpu.h"

static const uint64_t PIECE_BYTES = 256 << 10; /* of one thread at a time */

/* The pieces of several copies, one after another. */
struct job {
    const struct cpu_copy *copies[CPU_COPIES_MAX];
    uint64_t end[CPU_COPIES_MAX]; /* bytes of the copies up to this one */
    uint32_t n;
};

/* What is copied is read much later or by others: stores past the caches save reading what they overwrite. libc does
 * that only for copies that are longer than a piece. */
#if defined(__SSE2__)
enum { PAGE = 4096, PAGES = 4 };

static void line_copy(char *dst, const char *src)
{
    const __m128i *from = (const __m128i *)(const void *)src;
    __m128i *to = (__m128i *)(void *)dst;
    __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
}

/* Several pages at a time, so that memory has several rows to fetch from. */
static uint64_t pages_copy(char *dst, const char *src, uint64_t bytes)
{
    uint64_t at = 0;
    for (; at + PAGES * PAGE <= bytes; at += PAGES * PAGE)
        for (uint64_t line = at; line < at + PAGE; line += 64)
            for (uint64_t page = 0; page < PAGES * PAGE; page += PAGE)
                line_copy(dst + line + page, src + line + page);
    return at;
}

static void copy_past_caches(char *dst, const char *src, uint64_t bytes)
{
    uint64_t lead = -(uintptr_t)dst % 64 < bytes ? -(uintptr_t)dst % 64 : bytes, at = lead;
    memcpy(dst, src, lead);
    at += pages_copy(dst + at, src + at, bytes - at);
    for (; at + 64 <= bytes; at += 64)
        line_copy(dst + at, src + at);
    memcpy(dst + at, src + at, bytes - at);
    _mm_sfence(); /* before anyone is told that the copy is done */
}
#else
static void copy_past_caches(char *dst, const char *src, uint64_t bytes)
{
    memcpy(dst, src, bytes);
}
#endif

static void piece_run(const void *arg, uint32_t task, void *scratch)
{
    const struct job *job = arg;
    uint64_t from = task * PIECE_BYTES, to = from + PIECE_BYTES, begin = 0;
    (void)scratch;
    for (uint32_t i = 0; i < job->n && begin < to; begin = job->end[i++]) {
        uint64_t first = from > begin ? from : begin, last = to < job->end[i] ? to : job->end[i];
        if (first < last)
            copy_past_caches((char *)job->copies[i]->dst + (first - begin),
                             (const char *)job->copies[i]->src + (first - begin), last - first);
    }
}

static struct cpu_link *link_of(struct cpu_device *dev, const struct cpu_copy *copy)
{
    return copy->kind == BR_COPY_D2D ? NULL : &dev->link[copy->kind == BR_COPY_D2H];
}

static bool apart(const struct cpu_copy *a, const struct cpu_copy *b)
{
    const char *x = a->dst, *y = b->dst;
    return x + a->bytes <= y || y + b->bytes <= x;
}

bool cpu_copies_together(struct cpu_device *dev, const struct cpu_copy *const *copies, uint32_t n)
{
    const struct cpu_copy *last = copies[n - 1];
    if (last->kind == BR_COPY_D2D || link_of(dev, last)->bytes_per_ns > 0 || last->kind != copies[0]->kind)
        return false;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (!apart(copies[i], last))
            return false;
    return true;
}

static void copies_share(struct cpu_device *dev, const struct cpu_copy *const *copies, uint32_t n)
{
    struct job job = {.n = n};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        job.copies[i] = copies[i];
        job.end[i] = bytes += copies[i]->bytes;
    }
    cpu_pool_run(dev->copy_pool, piece_run, &job, (uint32_t)((bytes + PIECE_BYTES - 1) / PIECE_BYTES));
}

void cpu_copies_run(struct cpu_device *dev, const struct cpu_copy *const *copies, uint32_t n)
{
    const struct cpu_copy *first = copies[0];
    struct cpu_link *link = link_of(dev, first);
    if (!link)
        memmove(first->dst, first->src, first->bytes); /* compaction moves may overlap */
    else if (link->bytes_per_ns > 0)
        cpu_link_copy(link, first->dst, first->src, first->bytes);
    else
        copies_share(dev, copies, n);
}

void cpu_copy_run(struct cpu_device *dev, const void *args)
{
    const struct cpu_copy *copy = args;
    cpu_copies_run(dev, &copy, 1);
}

void cpu_copy(struct br_stream *stream, enum br_copy kind, void *dst, const void *src, uint64_t bytes)
{
    struct cpu_copy copy = {kind, dst, src, bytes};
    cpu_stream_enqueue(stream, cpu_copy_run, &copy, sizeof copy);
}
