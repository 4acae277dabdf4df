/* A model's weights in device-ready layout, in a memory file that outlives the process that built it.
 *
 * File: a header of 4096 bytes, or a multiple for models of very many layers (magic, layout version, key, shape,
 * numeric, unit table with the checksum of each unit, commit word written last), then the units in order. Mode 0600,
 * built under a lock (flock on NAME.weights.lock) as NAME.weights.tmp and renamed. A file without its commit word, with
 * another key or a wrong checksum is rebuilt. Every open but the builder's own verifies all checksums, about 0.1 s a
 * GiB. The source's files are read again only when their size, time or inode changed; then the key decides. */
#ifndef BRIAREUS_WORKER_WEIGHTS_IMAGE_H
#define BRIAREUS_WORKER_WEIGHTS_IMAGE_H

#include "cost/model_list.h"
#include "worker/weights/layout.h"

struct br_weight_image {
    struct br_model_layout layout;
    uint64_t key;             /* XXH3 of config and tensor bytes, numeric and layout version */
    const unsigned char *map; /* whole file, read-only; NULL: a model without weights */
    uint64_t map_bytes;
    uint64_t *unit_offset; /* [layout.units], from map */
    char path[512];
    struct br_model_outline *outline; /* owned; NULL: there are weights */
};

/* Opens or builds CACHE_DIR/<name>.weights from the Hugging Face folder dir. numeric AUTO: BF16 when every matrix of
 * the files is BF16, else F32. name is a plain file name; cache_dir is made (mode 0700) if its parent is there. Waits
 * while another process builds the same image. Errors name file and tensor; nothing half-built stays behind. BR_ENOMEM:
 * cache_dir has no room, with the numbers. */
int br_weight_image_open(const char *dir, const char *name, const char *cache_dir, enum br_numeric numeric,
                         struct br_weight_image **out, struct br_err *err);
/* Opens a committed image only, without the model folder (a restarted device process). BR_ENOENT: no such file;
 * BR_ECORRUPT: another format or layout version, not committed, truncated, or a checksum is wrong. */
int br_weight_image_attach(const char *path, struct br_weight_image **out, struct br_err *err);
/* An image without bytes: units of the entry's size, one a layer, and KV blocks as a group of `tensor_parallel` GPUs
 * holds them (KV heads are repeated where there are fewer of them). vocab, first_id and n_ids are its tokenizer's. */
void br_weight_image_outline(const struct br_model_entry *entry, uint32_t tensor_parallel, uint32_t vocab,
                             int32_t first_id, uint32_t n_ids, struct br_weight_image **out);
void br_weight_image_close(struct br_weight_image *image);

/* NULL in a model without weights. */
static inline const void *br_weight_image_unit(const struct br_weight_image *image, uint32_t unit)
{
    return image->map ? image->map + image->unit_offset[unit] : NULL;
}

#endif
