/* Tensors of a Hugging Face folder: model.safetensors, or shards named by model.safetensors.index.json. Files are
 * mapped read-only; nothing is copied.
 *
 * Format (github.com/huggingface/safetensors): 8 bytes little-endian header length, a JSON object of that length,
 * {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...}, then the byte buffer, which the tensors have to
 * cover without overlap or hole. Everything a header says is checked against the file at open.
 *
 * The file must not shrink while it is open: a mapped page beyond its end raises SIGBUS. Sizes are checked at open;
 * write model files by rename, as Hugging Face's tools do. */
#ifndef BRIAREUS_WORKER_WEIGHTS_SAFETENSORS_H
#define BRIAREUS_WORKER_WEIGHTS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    BR_TENSOR_MAX_RANK = 8,
    BR_TENSOR_MAX_NAME = 512,
    BR_SAFETENSORS_MAX_HEADER = 100 << 20,
    BR_SAFETENSORS_MAX_TENSORS = 1000000,
    BR_SAFETENSORS_MAX_SHARDS = 4096,
};

/* The first three are computed with; the others are known by name and size only. */
enum br_tensor_dtype { BR_TENSOR_F32, BR_TENSOR_F16, BR_TENSOR_BF16, BR_TENSOR_OTHER };

struct br_tensor {
    char *name; /* owned by the table */
    enum br_tensor_dtype dtype;
    char dtype_name[12];
    uint32_t rank;
    uint64_t shape[BR_TENSOR_MAX_RANK];
    uint64_t elements, bytes;
    const unsigned char *data; /* little-endian, any alignment */
    const char *file;          /* name of the file it lies in */
};

struct br_tensor_table {
    struct br_tensor *tensors; /* sorted by name once parsed */
    size_t n;
};

/* Parses one file's content; tensors point into data. file (for messages and br_tensor.file) must outlive the table.
 * BR_ECORRUPT: the content contradicts the format; BR_ENOTSUP: a dtype of unknown name. */
int br_safetensors_parse(const void *data, size_t size, const char *file, struct br_tensor_table *out,
                         struct br_err *err);
void br_tensor_table_free(struct br_tensor_table *table);

struct br_safetensors_file {
    char *name; /* within the folder */
    const unsigned char *map;
    uint64_t bytes;
    uint64_t stamp; /* hash of device, inode, size and mtime: another value means other content */
};

struct br_safetensors {
    char *dir;
    struct br_tensor_table table; /* of all files */
    struct br_safetensors_file *files;
    size_t n_files;
    unsigned char *copies; /* of a GGUF file: tensors that had to be written anew */
};

/* A folder without either that holds one *.gguf is opened as that (gguf.h). Errors name folder, file, tensor and
 * numbers. BR_ENOENT: neither file is there. */
int br_safetensors_open(const char *dir, struct br_safetensors **out, struct br_err *err);
void br_safetensors_close(struct br_safetensors *st);
/* NULL: no such tensor. */
const struct br_tensor *br_safetensors_find(const struct br_safetensors *st, const char *name);

/* Hash of device, inode, size and mtime. */
struct stat;
uint64_t br_safetensors_stamp(const struct stat *sb);

/* False: the tensor was written anew (GGUF), it lies in memory. */
static inline bool br_safetensors_in_file(const struct br_safetensors_file *file, const struct br_tensor *tensor)
{
    return tensor->data >= file->map && tensor->data <= file->map + file->bytes;
}

/* "[2048, 128]", for messages. */
const char *br_tensor_shape_text(const struct br_tensor *tensor, char *buf, size_t size);

#endif
