/* The file format of a weight image: header and unit table. Private to worker/weights and its tests. */
#ifndef BRIAREUS_WORKER_WEIGHTS_IMAGE_FILE_H
#define BRIAREUS_WORKER_WEIGHTS_IMAGE_FILE_H

#include "worker/weights/image.h"

#define BR_IMAGE_MAGIC 0x31544847494557ull    /* "WEIGHT1" */
#define BR_IMAGE_COMMIT 0x44455454494d4d43ull /* "CMMITTED" */

struct br_image_unit {
    uint64_t offset, bytes, checksum; /* XXH3 of the unit */
};

struct br_image_header {
    uint64_t magic;
    uint32_t layout_version, header_bytes;
    uint32_t shape_bytes, units;
    uint64_t file_bytes, key;
    uint32_t numeric, reserved;
    struct br_model_shape shape;
    struct br_matrix_format format[BR_MATRICES];
    uint64_t checksum; /* XXH3 of the header above and of the unit table */
    uint64_t stamp;    /* of the source files; a hint, not covered by the checksum */
    uint64_t commit;
    struct br_image_unit unit[]; /* [units] */
};

/* 4096, or the next multiple that holds the unit table. */
uint32_t br_image_header_bytes(uint32_t units);
/* Fills header (br_image_header_bytes(layout->units) long, zeroed) but for checksums and commit word. */
void br_image_header_fill(struct br_image_header *header, const struct br_model_layout *layout);
uint64_t br_image_header_checksum(const struct br_image_header *header);
/* Header against file size and itself; on success *layout is the image's. Does not read the units. */
int br_image_header_check(const struct br_image_header *header, uint64_t file_bytes, struct br_model_layout *layout,
                          struct br_err *err);

/* Maps and checks a committed image; verify: the units' checksums too. */
int br_image_map(const char *path, bool verify, struct br_weight_image **out, struct br_err *err);

#endif
