/* The blocks of GGUF files: Q8_0, Q4_0, Q4_K, Q6_K. Private to worker/weights. */
#ifndef BRIAREUS_WORKER_WEIGHTS_QUANT_BLOCK_H
#define BRIAREUS_WORKER_WEIGHTS_QUANT_BLOCK_H

#include "worker/weights/quant.h"

void quant_block_read(const struct br_quant_source *src, uint64_t row, struct br_quant_row *out);

#endif
