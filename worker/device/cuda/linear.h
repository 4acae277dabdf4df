/* The three ways of a matrix product; all give the same bits for a row, but for numeric F32, which has its own. */
#ifndef BRIAREUS_WORKER_DEVICE_CUDA_LINEAR_H
#define BRIAREUS_WORKER_DEVICE_CUDA_LINEAR_H

#include "worker/device/cuda/linear_end.h"
#include "worker/device/cuda/product.h"

static constexpr uint32_t LINEAR_FEW_ROWS = 64;

enum cell_kind cell_kind_of(const struct br_matrix_format *format);
void linear_few_rows(cudaStream_t stream, const struct br_linear_op *op);
void linear_many_rows(cudaStream_t stream, const struct br_linear_op *op);
void linear_plain(cudaStream_t stream, const struct br_linear_op *op);

#endif
