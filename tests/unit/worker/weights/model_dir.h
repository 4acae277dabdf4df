/* Small model folders made on the fly, for tests of the weights: every value of every tensor is a function of tensor
 * name and index, so that a test can say what has to lie where. */
#ifndef BRIAREUS_TESTS_MODEL_DIR_H
#define BRIAREUS_TESTS_MODEL_DIR_H

#include "cost/shape.h"

struct test_tensor {
    char name[128], dtype[12];
    uint32_t rank;
    uint64_t shape[2];
};

struct test_model {
    char dir[64]; /* a fresh folder under /tmp */
    struct br_model_shape shape;
    struct test_tensor *tensors;
    uint32_t n;
};

/* All tensors that shape asks for, of dtype "F32", "F16" or "BF16"; vectors are F32 when mixed is set. */
void test_model_init(struct test_model *model, const struct br_model_shape *shape, const char *dtype, bool mixed);
struct test_tensor *test_model_find(struct test_model *model, const char *name);
void test_model_add(struct test_model *model, const char *name, const char *dtype, uint64_t n, uint64_t k);
void test_model_drop(struct test_model *model, const char *name);
/* config.json and model.safetensors, or shards of about n / shards tensors each and an index. */
void test_model_write(const struct test_model *model, uint32_t shards);
/* Removes the folder. */
void test_model_free(struct test_model *model);

/* Value i of a tensor: a multiple of 1/256 below 2 in absolute value, exact in F32, F16 and BF16. */
float test_value(const char *name, uint64_t i);

/* A new folder under /tmp; removes it with all it holds. */
void test_dir_make(char dir[64]);
void test_dir_remove(const char *dir);
void test_file_write(const char *dir, const char *name, const void *data, size_t len);

#endif
