#include "cost/gpu.h"

#include <string.h>

#include "base/options.h"
#include "cost/names.h"

#define GB 1e9
#define TFLOP 1e12
#define GEN4 32e9, 25.6e9 /* PCIe x16: 31.5 GB/s after coding; large pinned copies reach about 0.8 of it */
#define GEN5 64e9, 51.2e9

/* Sources, NVIDIA's public documents where they exist:
 *   H100, H200: "H100 Tensor Core GPU" and "H200 Tensor Core GPU" data sheets (SXM). H800: an H100 whose NVLink carries
 *     400 GB/s both ways.
 *   A100: "A100 Tensor Core GPU" data sheet (SXM); A10: "A10 Tensor Core GPU" data sheet; L40S: "L40S" data sheet.
 *   H20, L20: as server vendors publish them; there is no public NVIDIA sheet.
 *   RTX 4090, 5090: "Ada GPU Architecture" and "RTX Blackwell GPU Architecture" white papers, appendix A, dense rates
 *     with FP32 accumulation.
 * NVLink is half of the sheets' figure, which counts both directions.
 * Prices are placeholders, rounded from public on-demand list prices of GPU clouds in 2025: override them with your
 * own, nothing in them is a quotation. */
static const struct br_gpu g_gpus[] = {
    /* name      memory   bandwidth    BF16           FP8           INT8          W    link  NVLink     $/h */
    {"H20", 96 * GB, 4000 * GB, 148 * TFLOP, 296 * TFLOP, 296 * TFLOP, 400, GEN5, 450 * GB, 1.60},
    {"L20", 48 * GB, 864 * GB, 119.5 * TFLOP, 239 * TFLOP, 239 * TFLOP, 275, GEN4, 0, 0.80},
    {"H800", 80 * GB, 3350 * GB, 989 * TFLOP, 1979 * TFLOP, 1979 * TFLOP, 700, GEN5, 200 * GB, 2.80},
    {"H100", 80 * GB, 3350 * GB, 989 * TFLOP, 1979 * TFLOP, 1979 * TFLOP, 700, GEN5, 450 * GB, 3.00},
    {"H200", 141 * GB, 4800 * GB, 989 * TFLOP, 1979 * TFLOP, 1979 * TFLOP, 700, GEN5, 450 * GB, 3.80},
    {"A100-40", 40 * GB, 1555 * GB, 312 * TFLOP, 0, 624 * TFLOP, 400, GEN4, 300 * GB, 1.30},
    {"A100-80", 80 * GB, 2039 * GB, 312 * TFLOP, 0, 624 * TFLOP, 400, GEN4, 300 * GB, 1.90},
    {"A10", 24 * GB, 600 * GB, 125 * TFLOP, 0, 250 * TFLOP, 150, GEN4, 0, 0.75},
    {"L40S", 48 * GB, 864 * GB, 362 * TFLOP, 733 * TFLOP, 733 * TFLOP, 350, GEN4, 0, 1.00},
    {"RTX 4090", 24 * GB, 1008 * GB, 165.2 * TFLOP, 330.3 * TFLOP, 660.6 * TFLOP, 450, GEN4, 0, 0.45},
    {"RTX 5090", 32 * GB, 1792 * GB, 209.5 * TFLOP, 419 * TFLOP, 838 * TFLOP, 575, GEN5, 0, 0.90},
};
enum { N_GPUS = sizeof g_gpus / sizeof g_gpus[0] };

static const char *const g_ignored[] = {"nvidia", "gb", NULL};

const struct br_gpu *br_gpu_at(size_t index)
{
    return index < N_GPUS ? &g_gpus[index] : NULL;
}

const struct br_gpu *br_gpu_find(const char *name, struct br_err *err)
{
    const char *names[N_GPUS];
    char plain[BR_NAME_MAX];
    br_name_plain(name, g_ignored, plain);
    if (strcmp(plain, "a100") == 0)
        strcpy(plain, "a10080");
    for (size_t i = 0; i < N_GPUS; i++) {
        char known[BR_NAME_MAX];
        br_name_plain(g_gpus[i].name, g_ignored, known);
        names[i] = g_gpus[i].name;
        if (strcmp(plain, known) == 0)
            return &g_gpus[i];
    }
    br_name_unknown("GPU", name, names, N_GPUS, err);
    return NULL;
}
