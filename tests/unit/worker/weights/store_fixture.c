#include "tests/unit/worker/weights/store_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cmocka.h"

static const struct br_model_shape g_shape = {.arch = BR_ARCH_QWEN2,
                                              .hidden = 64,
                                              .ffn = 96,
                                              .layers = SF_UNITS - 2,
                                              .heads = 2,
                                              .kv_heads = 1,
                                              .head_dim = 32,
                                              .vocab = 700,
                                              .max_positions = 64,
                                              .qkv_bias = true};

static void reference_pack(struct store_fixture *f)
{
    struct br_weight_source *source;
    struct br_err err;
    if (br_weight_source_open(f->model.dir, BR_NUMERIC_AUTO, &source, &err))
        fail_msg("%s", err.msg);
    f->layout = source->packer.layout;
    assert_int_equal(f->layout.units, SF_UNITS);
    for (uint32_t u = 0; u < SF_UNITS; u++) {
        f->unit[u] = aligned_alloc(64, br_layout_unit_bytes(&f->layout, u));
        br_pack_unit(&source->packer, u, f->unit[u]);
    }
    br_weight_source_close(source);
}

void sf_make(struct store_fixture *f, uint32_t seed)
{
    struct br_model_shape shape = g_shape;
    shape.ffn += 32 * seed;
    test_model_init(&f->model, &shape, "BF16", false);
    test_model_write(&f->model, 1);
    snprintf(f->cache, sizeof f->cache, "/dev/shm/briareus-test-XXXXXX"); /* where caches lie */
    assert_non_null(mkdtemp(f->cache));
    snprintf(f->weights, sizeof f->weights, "%s/model.safetensors", f->model.dir);
    reference_pack(f);
}

void sf_free(struct store_fixture *f)
{
    for (uint32_t u = 0; u < SF_UNITS; u++)
        free(f->unit[u]);
    test_model_free(&f->model);
    test_dir_remove(f->cache);
}

struct br_weight_store *sf_supervise(const struct store_fixture *f, uint64_t limit_bytes,
                                     struct br_weight_image **image)
{
    struct br_weight_store_config config;
    struct br_weight_store *store;
    struct br_err err;
    br_weight_store_config_init(&config);
    config.dir = f->cache;
    config.limit_bytes = limit_bytes;
    if (br_weight_store_open(&config, &store, &err) ||
        br_weight_store_build(store, f->model.dir, "m", BR_NUMERIC_AUTO, image, &err))
        fail_msg("%s", err.msg);
    return store;
}

const char *sf_build(const struct store_fixture *f, uint64_t limit_bytes)
{
    static char path[512];
    struct br_weight_image *image;
    struct br_weight_store *store = sf_supervise(f, limit_bytes, &image);
    snprintf(path, sizeof path, "%s", image->path);
    br_weight_image_close(image);
    br_weight_store_close(store);
    return path;
}

void sf_device_config(const struct store_fixture *f, struct br_weight_store_config *config)
{
    br_weight_store_config_init(config);
    config->dir = f->cache;
    config->device = 3;
}

struct br_weight_store *sf_device(const struct br_weight_store_config *config, const struct store_fixture *f,
                                  struct br_weight_image **image)
{
    struct br_weight_store *store;
    struct br_err err;
    char path[200];
    snprintf(path, sizeof path, "%s/m.weights", f->cache);
    if (br_weight_store_open(config, &store, &err) || br_weight_store_attach(store, path, f->model.dir, image, &err) ||
        br_weight_store_ready(store, &err))
        fail_msg("%s", err.msg);
    return store;
}

uint64_t sf_span(const struct store_fixture *f, uint32_t n)
{
    uint64_t bytes = 0;
    for (uint32_t u = 0; u < n; u++)
        bytes += (br_layout_unit_bytes(&f->layout, u) + 4095) / 4096 * 4096;
    return bytes;
}

void sf_same(const struct store_fixture *f, uint32_t unit, const void *data)
{
    assert_memory_equal(data, f->unit[unit], br_layout_unit_bytes(&f->layout, unit));
}

void sf_use(const struct store_fixture *f, struct br_weight_image *image, uint32_t unit)
{
    struct br_lease *lease = br_lease_acquire(image, unit);
    assert_int_equal(br_lease_wait(lease), 0);
    sf_same(f, unit, br_lease_data(lease));
    br_lease_release(lease);
}

void sf_flip(const char *path, uint64_t at)
{
    unsigned char byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}
