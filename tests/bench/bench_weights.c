/* Weights from disk to the host cache beside plain reads of the same files, a restart after SIGKILL beside the rate of
 * checksums, and streaming through the ring. Rounds alternate, so that both kinds see the same machine; medians of
 * rates and of each round's ratio. Exits 1 when a bar is missed. bench_weights --model DIR [--cache DIR] [--rounds N]
 * [--threads N] */
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "worker/weights/fast_hash.h"
#include "worker/weights/lease.h"
#include "worker/weights/memory.h"

enum { MAX_ROUNDS = 99, MAX_THREADS = 64, MAX_FILES = 64, PIECE = 4 << 20 };

static const double DISK_BAR = .90, RESTART_BAR = 1.2;

struct bench {
    const char *model;
    char cache[300], path[400];
    uint32_t rounds, threads;
    char *files[MAX_FILES];
    uint64_t sizes[MAX_FILES], file_bytes;
    uint32_t n_files;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_weights: %s\n", what);
    exit(2);
}

static double now(void)
{
    return br_now_s();
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, uint32_t n)
{
    double sorted[MAX_ROUNDS];
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Of each round's. */
static double median_ratio(const double *a, const double *b, uint32_t n)
{
    double ratio[MAX_ROUNDS];
    for (uint32_t i = 0; i < n; i++)
        ratio[i] = a[i] / b[i];
    return median(ratio, n);
}

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* ---- plain reads and plain checksums, shared out to threads piece by piece ---- */

struct sharing {
    struct bench *bench;
    const unsigned char *data; /* to sum up; NULL: the files are read */
    uint64_t bytes;
    _Atomic uint64_t next, sum;
};

static void piece_read(struct sharing *s, uint64_t at, unsigned char *buffer, int *fds)
{
    for (uint32_t f = 0; f < s->bench->n_files; f++) {
        uint64_t pieces = (s->bench->sizes[f] + PIECE - 1) / PIECE;
        if (at < pieces) {
            if (pread(fds[f], buffer, PIECE, (off_t)(at * PIECE)) <= 0)
                die("reading failed");
            return;
        }
        at -= pieces;
    }
}

static void *share_main(void *arg)
{
    struct sharing *s = arg;
    unsigned char *buffer = aligned_alloc(4096, PIECE);
    int fds[MAX_FILES];
    uint64_t pieces = (s->bytes + PIECE - 1) / PIECE, at;
    memset(buffer, 0, PIECE);
    for (uint32_t f = 0; f < s->bench->n_files && !s->data; f++)
        if ((fds[f] = open(s->bench->files[f], O_RDONLY | O_DIRECT)) < 0 &&
            (fds[f] = open(s->bench->files[f], O_RDONLY)) < 0)
            die("a model file cannot be opened");
    while ((at = atomic_fetch_add(&s->next, 1)) < pieces) {
        if (!s->data)
            piece_read(s, at, buffer, fds);
        else
            s->sum += XXH3_64bits(s->data + at * PIECE, s->bytes - at * PIECE < PIECE ? s->bytes - at * PIECE : PIECE);
    }
    for (uint32_t f = 0; f < s->bench->n_files && !s->data; f++)
        close(fds[f]);
    free(buffer);
    return NULL;
}

static double share(struct bench *b, const unsigned char *data, uint64_t bytes)
{
    struct sharing s = {.bench = b, .data = data, .bytes = bytes};
    pthread_t threads[MAX_THREADS];
    double from = now();
    for (uint32_t i = 0; i < b->threads; i++)
        if (pthread_create(&threads[i], NULL, share_main, &s))
            die("no thread");
    for (uint32_t i = 0; i < b->threads; i++)
        pthread_join(threads[i], NULL);
    return now() - from;
}

/* ---- the cache ---- */

static struct br_weight_store *store_open(const struct bench *b, int32_t device, uint64_t limit)
{
    struct br_weight_store_config c;
    struct br_weight_store *store;
    struct br_err err;
    br_weight_store_config_init(&c);
    c.dir = b->cache;
    c.device = device;
    c.threads = b->threads;
    c.limit_bytes = limit;
    if (br_weight_store_open(&c, &store, &err))
        die(err.msg);
    return store;
}

/* Seconds until every unit is there and right. */
static double build(const struct bench *b, uint64_t limit, struct br_weight_stats *stats, uint64_t *huge)
{
    struct br_weight_image *image;
    struct br_err err;
    double from = now(), seconds;
    struct br_weight_store *store = store_open(b, -1, limit);
    if (br_weight_store_build(store, b->model, "bench", BR_NUMERIC_AUTO, &image, &err))
        die(err.msg);
    seconds = now() - from;
    br_weight_store_stats(store, stats);
    *huge = br_weight_image_huge_bytes(image);
    br_weight_image_close(image);
    br_weight_store_close(store);
    return seconds;
}

static bool bench_disk(struct bench *b)
{
    double plain[MAX_ROUNDS], ours[MAX_ROUNDS], plain_cpu = 0, cpu = 0, ratio, from;
    struct br_weight_stats stats;
    uint64_t huge = 0;
    for (uint32_t i = 0; i < b->rounds; i++) {
        from = cpu_s();
        plain[i] = share(b, NULL, b->file_bytes);
        plain_cpu += cpu_s() - from;
        unlink(b->path);
        from = cpu_s();
        ours[i] = build(b, 0, &stats, &huge);
        cpu += cpu_s() - from;
    }
    ratio = median_ratio(plain, ours, b->rounds);
    printf(
        "disk to host      %.3f GB/s; plain reads of the same files by %u threads %.3f GB/s; ratio %.3f (bar %.2f)\n",
        (double)b->file_bytes / median(ours, b->rounds) / 1e9, b->threads,
        (double)b->file_bytes / median(plain, b->rounds) / 1e9, ratio, DISK_BAR);
    printf("processor time    %.2f ns a byte, to read alone %.2f: one core packs and sums up %.2f GB/s\n",
           1e9 * cpu / ((double)b->file_bytes * b->rounds), 1e9 * plain_cpu / ((double)b->file_bytes * b->rounds),
           (double)b->file_bytes * b->rounds / (cpu - plain_cpu) / 1e9);
    printf("huge pages        %.0f of %.0f MB of the image\n", (double)huge / 1e6, (double)stats.filled_bytes / 1e6);
    return ratio >= DISK_BAR;
}

/* A worker that has built its cache and is killed. */
static void build_and_die(const struct bench *b)
{
    struct br_weight_stats stats;
    uint64_t huge;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        build(b, 0, &stats, &huge);
        kill(getpid(), SIGKILL);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
        die("the worker to be killed did not come so far");
}

static bool bench_restart(struct bench *b)
{
    double restart[MAX_ROUNDS], sums[MAX_ROUNDS], disk[MAX_ROUNDS], rate, seconds, ratio;
    struct br_weight_stats stats;
    struct br_weight_image *image;
    struct br_err err;
    uint64_t huge, bytes = 0;
    for (uint32_t i = 0; i < b->rounds; i++) {
        double from = now();
        unlink(b->path);
        build_and_die(b);
        disk[i] = now() - from;
        restart[i] = build(b, 0, &stats, &huge);
        bytes = stats.checked_bytes;
        if (stats.disk_bytes)
            die("the restart read from disk");
        if (br_weight_image_attach(b->path, &image, &err))
            die(err.msg);
        sums[i] = share(b, image->map, image->map_bytes);
        sums[i] *= (double)bytes / (double)image->map_bytes;
        br_weight_image_close(image);
    }
    rate = (double)bytes / median(sums, b->rounds);
    seconds = median(restart, b->rounds);
    ratio = median_ratio(restart, sums, b->rounds);
    printf("restart           %.1f ms for %.0f MB; at the checksum rate of %.2f GB/s %.1f ms; ratio %.3f (bar %.2f); "
           "from disk %.1f ms\n",
           1e3 * seconds, (double)bytes / 1e6, rate / 1e9, 1e3 * (double)bytes / rate, ratio, RESTART_BAR,
           1e3 * median(disk, b->rounds));
    return ratio <= RESTART_BAR;
}

struct stream {
    struct br_lease *leases[1024];
    uint32_t n;
    const struct br_model_layout *layout;
    unsigned char *to;
};

static void *stream_main(void *arg)
{
    struct stream *s = arg;
    for (uint32_t u = 0; u < s->n; u++) {
        if (br_lease_wait(s->leases[u]))
            die("a unit could not be read");
        memcpy(s->to, br_lease_data(s->leases[u]), br_layout_unit_bytes(s->layout, u));
        br_lease_release(s->leases[u]);
    }
    return NULL;
}

/* A model with next to nothing of it in the cache. */
static void bench_stream(struct bench *b)
{
    double plain[MAX_ROUNDS], ours[MAX_ROUNDS];
    struct br_weight_stats stats;
    struct br_weight_store *store;
    struct br_weight_image *image;
    struct br_err err;
    struct stream s = {0};
    pthread_t thread;
    uint64_t huge, bytes;
    unlink(b->path);
    build(b, 4096, &stats, &huge);
    store = store_open(b, 0, 0);
    if (br_weight_store_attach(store, b->path, b->model, &image, &err) || br_weight_store_ready(store, &err))
        die(err.msg);
    s.layout = &image->layout;
    s.n = image->layout.units < 1024 ? image->layout.units : 1024;
    s.to = br_pages_alloc(image->map_bytes, NULL);
    for (uint32_t i = 0; i < b->rounds; i++) {
        plain[i] = share(b, NULL, b->file_bytes);
        ours[i] = now();
        for (uint32_t u = 0; u < s.n; u++)
            s.leases[u] = br_lease_acquire(image, u);
        if (pthread_create(&thread, NULL, stream_main, &s))
            die("no thread");
        pthread_join(thread, NULL);
        ours[i] = now() - ours[i];
    }
    bytes = br_layout_total_bytes(&image->layout);
    br_weight_store_stats(store, &stats);
    printf("streaming         %.3f GB/s through a ring of three units; ratio to plain reads %.3f\n",
           (double)bytes / median(ours, b->rounds) / 1e9, median_ratio(plain, ours, b->rounds));
    br_pages_free(s.to, image->map_bytes);
    br_weight_image_close(image);
    br_weight_store_close(store);
}

/* Copying a cached image out, before and after it lies on huge pages. */
static void bench_huge(struct bench *b)
{
    double small[MAX_ROUNDS], large[MAX_ROUNDS], from, seconds;
    struct br_weight_stats stats;
    uint64_t huge, bytes, got = 0;
    unlink(b->path);
    build(b, 0, &stats, &huge);
    int fd = open(b->path, O_RDWR);
    struct stat sb;
    if (fd < 0 || fstat(fd, &sb))
        die("the image cannot be opened");
    bytes = (uint64_t)sb.st_size;
    unsigned char *at = br_memory_map(fd, 0, bytes, true), *to = br_pages_alloc(bytes, NULL);
    if (!at || !to)
        die("no memory");
    memset(to, 1, bytes);
    memcpy(to, at, bytes);
    for (uint32_t i = 0; i < b->rounds; i++) {
        from = now();
        memcpy(to, at, bytes);
        small[i] = now() - from;
    }
    from = now();
    got = br_memory_collapse(at, bytes);
    seconds = now() - from;
    for (uint32_t i = 0; i < b->rounds; i++) {
        from = now();
        memcpy(to, at, bytes);
        large[i] = now() - from;
    }
    printf(
        "collapse          %.0f of %.0f MB to huge pages at %.2f GB/s; copied out by one thread at %.2f GB/s before, "
        "%.2f after\n",
        (double)got / 1e6, (double)bytes / 1e6, (double)bytes / seconds / 1e9,
        (double)bytes / median(small, b->rounds) / 1e9, (double)bytes / median(large, b->rounds) / 1e9);
    br_pages_free(to, bytes);
    br_memory_unmap(at, bytes);
    close(fd);
}

static void files_find(struct bench *b)
{
    DIR *dir = opendir(b->model);
    struct stat sb;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", b->model, e->d_name);
        if (!strstr(e->d_name, ".safetensors") || strstr(e->d_name, ".json") || b->n_files == MAX_FILES ||
            stat(path, &sb) < 0)
            continue;
        b->files[b->n_files] = br_strdup(path);
        b->sizes[b->n_files++] = (uint64_t)sb.st_size;
        b->file_bytes += (uint64_t)sb.st_size;
    }
    if (dir)
        closedir(dir);
    if (!b->n_files)
        die("no safetensors in the model folder");
}

static void options_parse(struct bench *b, int argc, char **argv)
{
    static const struct option known[] = {
        {"model", 1, 0, 'm'}, {"cache", 1, 0, 'c'}, {"rounds", 1, 0, 'r'}, {"threads", 1, 0, 't'}, {0, 0, 0, 0}};
    const char *cache = "/dev/shm/briareus-bench-weights";
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;)
        if (c == 'm')
            b->model = optarg;
        else if (c == 'c')
            cache = optarg;
        else if (c == 'r')
            b->rounds = (uint32_t)atoi(optarg);
        else if (c == 't')
            b->threads = (uint32_t)atoi(optarg);
        else
            exit(2);
    if (!b->model || !b->rounds || b->rounds > MAX_ROUNDS || !b->threads || b->threads > MAX_THREADS)
        die("usage: bench_weights --model DIR [--cache DIR] [--rounds 1..99] [--threads 1..64]");
    snprintf(b->cache, sizeof b->cache, "%s", cache);
    snprintf(b->path, sizeof b->path, "%s/bench.weights", b->cache);
}

int main(int argc, char **argv)
{
    struct bench b = {.rounds = 7, .threads = 4};
    char command[400];
    bool disk, restart;
    br_log_init("bench", BR_ERROR);
    options_parse(&b, argc, argv);
    files_find(&b);
    disk = bench_disk(&b);
    restart = bench_restart(&b);
    bench_stream(&b);
    bench_huge(&b);
    snprintf(command, sizeof command, "rm -rf '%s'", b.cache);
    if (system(command))
        die("the cache folder stays behind");
    return disk && restart ? 0 : 1;
}
