/* A whole image out of the cache, to come back unit by unit. */
#include <inttypes.h>
#include <sys/stat.h>

#include "base/log.h"
#include "worker/weights/image_books.h"

int br_weight_image_may_go(const struct br_weight_image *image, struct br_err *err)
{
    struct br_weight_source *source;
    if (!image->books)
        return 0;
    if (image_source(image, &source, err))
        return br_err_wrap(err, "%s: it could not be read again", image->path);
    return store_ring_for(image->books->store, image, err);
}

static uint64_t file_blocks(int fd)
{
    struct stat sb;
    return fstat(fd, &sb) == 0 ? 512ull * (uint64_t)sb.st_blocks : 0;
}

int br_weight_image_vacate(const struct br_weight_image *image, uint64_t *freed, struct br_err *err)
{
    uint64_t before;
    uint32_t stuck = 0;
    *freed = 0;
    if (!image->books)
        return 0;
    before = file_blocks(image->books->fd);
    for (uint32_t u = 0; u < image->layout.units; u++)
        stuck += br_weight_image_has(image, u) && !br_weight_image_drop(image, u);
    *freed = before - file_blocks(image->books->fd);
    br_log(BR_INFO, "weights_vacated", "path=%s bytes=%" PRIu64, BR_Q(image->path), *freed);
    return stuck ? br_err_set(err, BR_EBUSY, "%s: %u units are being copied", image->path, stuck) : 0;
}
