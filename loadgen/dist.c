#include "loadgen/dist.h"

#include <math.h>
#include <stdlib.h>

#include "base/buf.h"

void load_dist_add(struct load_dist *dist, double value)
{
    if (dist->n == dist->room) {
        dist->room = dist->room ? dist->room * 2 : 64;
        dist->v = br_realloc(dist->v, dist->room * sizeof *dist->v);
    }
    dist->v[dist->n++] = (float)value;
    dist->sorted = false;
}

void load_dist_free(struct load_dist *dist)
{
    free(dist->v);
    *dist = (struct load_dist){0};
}

double load_dist_mean(const struct load_dist *dist)
{
    double sum = 0;
    for (size_t i = 0; i < dist->n; i++)
        sum += (double)dist->v[i];
    return dist->n ? sum / (double)dist->n : 0;
}

double load_dist_std(const struct load_dist *dist)
{
    double mean = load_dist_mean(dist), sum = 0;
    for (size_t i = 0; i < dist->n; i++)
        sum += ((double)dist->v[i] - mean) * ((double)dist->v[i] - mean);
    return dist->n ? sqrt(sum / (double)dist->n) : 0;
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

double load_dist_quantile(struct load_dist *dist, double p)
{
    double at = p * (double)(dist->n - 1), low;
    size_t i;
    if (!dist->n)
        return 0;
    if (!dist->sorted)
        qsort(dist->v, dist->n, sizeof *dist->v, ascending);
    dist->sorted = true;
    low = floor(at);
    i = (size_t)low;
    if (i + 1 >= dist->n)
        return (double)dist->v[dist->n - 1];
    return (double)dist->v[i] + (at - low) * ((double)dist->v[i + 1] - (double)dist->v[i]);
}
