/* A model folder, a cache folder, and what every unit has to be: packed from the folder when it was made. */
#ifndef BRIAREUS_TESTS_STORE_FIXTURE_H
#define BRIAREUS_TESTS_STORE_FIXTURE_H

#include "tests/unit/worker/weights/model_dir.h"
#include "worker/weights/image_books.h"

enum { SF_UNITS = 6 };

struct store_fixture {
    struct test_model model;
    struct br_model_layout layout;
    char cache[64], weights[128]; /* the cache folder; model.safetensors */
    unsigned char *unit[SF_UNITS];
};

/* seed picks the shape's FFN width, so that models of different seeds are different. */
void sf_make(struct store_fixture *f, uint32_t seed);
void sf_free(struct store_fixture *f);

/* Supervisor's store and image, filled as far as limit_bytes goes. */
struct br_weight_store *sf_supervise(const struct store_fixture *f, uint64_t limit_bytes,
                                     struct br_weight_image **image);
/* The same, closed again: what a device finds. Returns the image's path, static. */
const char *sf_build(const struct store_fixture *f, uint64_t limit_bytes);

void sf_device_config(const struct store_fixture *f, struct br_weight_store_config *config);
struct br_weight_store *sf_device(const struct br_weight_store_config *config, const struct store_fixture *f,
                                  struct br_weight_image **image);

/* Bytes of the first n units as the cache counts them: whole pages. */
uint64_t sf_span(const struct store_fixture *f, uint32_t n);
void sf_same(const struct store_fixture *f, uint32_t unit, const void *data);
/* Acquires, waits, compares, releases. */
void sf_use(const struct store_fixture *f, struct br_weight_image *image, uint32_t unit);
void sf_flip(const char *path, uint64_t at);

#endif
