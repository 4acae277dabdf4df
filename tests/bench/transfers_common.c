#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "tests/bench/transfers.h"

enum { MOST_THREADS = 64 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct part {
    char *dst;
    const char *src;
    size_t bytes;
};

static void *part_copy(void *arg)
{
    const struct part *p = arg;
    memcpy(p->dst, p->src, p->bytes);
    return NULL;
}

double plain_copy_s(void *dst, const void *src, uint64_t bytes, uint32_t threads)
{
    struct part parts[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    uint32_t n = threads < MOST_THREADS ? threads : MOST_THREADS;
    double start = br_now_s();
    for (uint32_t i = 0; i < n; i++) {
        uint64_t from = bytes * i / n, to = bytes * (i + 1) / n;
        parts[i] = (struct part){(char *)dst + from, (const char *)src + from, to - from};
        if (pthread_create(&ids[i], NULL, part_copy, &parts[i]))
            exit(1);
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(ids[i], NULL);
    return br_now_s() - start;
}

void *memory_touched(uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("bench_transfers: memory");
        exit(1);
    }
    madvise(at, bytes, MADV_HUGEPAGE);
    memset(at, 1, bytes);
    return at;
}

int bar(const char *what, double value, double limit, bool at_least)
{
    bool met = at_least ? value >= limit : value <= limit;
    printf("%-58s %7.3f  bar %s %.2f  %s\n", what, value, at_least ? ">=" : "<=", limit, met ? "met" : "MISSED");
    fflush(stdout);
    return !met;
}
