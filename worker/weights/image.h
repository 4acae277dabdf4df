/* A model's weights in device-ready layout, in a memory file that outlives the process that built it.
 *
 * File: a 4096-byte header (magic, layout version, key, numeric, unit table, checksum of each unit, commit word written
 * last), then the units in order. Mode 0600, one lock (flock) per file while it is built. A file without its commit
 * word or with another key is rebuilt; checksums are verified at the first use after a restart. */
#ifndef BRIAREUS_WORKER_WEIGHTS_IMAGE_H
#define BRIAREUS_WORKER_WEIGHTS_IMAGE_H

#include "worker/weights/layout.h"

struct br_weight_image {
    struct br_model_layout layout;
    uint64_t key;             /* XXH3 of config and tensor bytes, numeric and layout version */
    const unsigned char *map; /* whole file, read-only */
    uint64_t map_bytes;
    uint64_t *unit_offset; /* [layout.units], from map */
    char path[512];
};

/* Opens or builds CACHE_DIR/<name>.weights from the Hugging Face folder dir. numeric AUTO: BF16 when every matrix of
 * the files is BF16, else F32. name is a plain file name. Errors name file and tensor; nothing half-built stays behind.
 */
int br_weight_image_open(const char *dir, const char *name, const char *cache_dir, enum br_numeric numeric,
                         struct br_weight_image **out, struct br_err *err);
/* Opens a committed image only, without the model folder (a restarted device process). */
int br_weight_image_attach(const char *path, struct br_weight_image **out, struct br_err *err);
void br_weight_image_close(struct br_weight_image *image);

static inline const void *br_weight_image_unit(const struct br_weight_image *image, uint32_t unit)
{
    return image->map + image->unit_offset[unit];
}

#endif
