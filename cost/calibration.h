/* The coefficients of the cost model: what data sheets do not say. */
#ifndef BRIAREUS_COST_CALIBRATION_H
#define BRIAREUS_COST_CALIBRATION_H

#include "cost/gpu.h"

enum br_cost_form {
    BR_COST_IDEAL, /* the idealised formulas of the scheduling policies' comparison: fractions of peaks, fixed overheads
                    */
    BR_COST_FITTED, /* the roofline of cost.c with the coefficients below */
};

/* Of BR_COST_FITTED. Efficiencies are fractions of the data sheet's peak, times are seconds. */
enum br_coef {
    BR_COEF_MEMORY,      /* reading weights; at most BR_COEF_MAX_EFFICIENCY is used */
    BR_COEF_COMPUTE,     /* matrix products, at 1 TFLOP/s of peak per watt: see br_sustained_flops() */
    BR_COEF_LAYER,       /* s a layer: launches, small operators */
    BR_COEF_STEP,        /* s a step */
    BR_COEF_DECODE_SEQ,  /* s a decoding sequence */
    BR_COEF_PREFILL_SEQ, /* s a chunk of prompt */
    BR_COEF_KV,          /* reading KV, fraction of memory bandwidth */
    BR_COEF_KV_SEQ,      /* s a sequence and MB of KV per token: attention over short contexts is not bandwidth-bound */
    BR_COEF_N,
};
#define BR_COEF_MAX_EFFICIENCY 0.95

struct br_calibration {
    const char *name;
    enum br_cost_form form;
    double coef[BR_COEF_N];
    double load_efficiency;   /* fraction of the raw link that weights and KV reach; 0: the GPU's effective link */
    double switch_s;          /* added to a load: the engine takes up another model */
    double resident_switch_s; /* between two models that are both in device memory */
};

/* The named calibration `policy`: decode max((W + KV)/(.8 HBM), 2 P B/(.6 peak)) + 1.5 ms; prefill 2 P n/(.55 peak) +
 * 5 ms; fused 1.1 max(memory, sum of flops) + 5 ms; switch W/(.8 link) + 10 ms, resident 2 ms. */
extern const struct br_calibration br_calibration_policy;

/* Where a fit starts and what it is drawn to: plain expectations, from no measurement of the profiles. */
extern const struct br_calibration br_calibration_prior;

/* The built-in fit to the published profiles: the GPU's own (H100 for H200, A100-80 for A100-40) or, for a GPU without
 * measurements, that of all GPUs together. */
const struct br_calibration *br_calibration_for(const struct br_gpu *gpu);

/* Sustained rate of matrix products: peak x efficiency x (peak per watt in TFLOP/s)^(-1/3), at most 0.95 of the peak.
 * Dynamic power grows with the cube of the clock, so a chip that is short of power runs at the cube root of its share;
 * that is why an H20 reaches nearly its (cut) peak and an H100 two thirds of it. */
double br_sustained_flops(double peak, double peak_bf16, double power_watts, double efficiency);

/* Time of work that needs two resources and overlaps in part: the root of the sum of squares, between the maximum and
 * the sum of the two. */
double br_overlap_s(double memory_s, double compute_s);

/* Rows of a matrix product as kernels round them up: to `smallest` up to 64 rows, then to multiples of 128. The
 * profiles show 64 for 16-bit weights: on an H20, short of compute, one row takes as long as 64. Kernels that widen
 * 4-bit weights (Marlin's) take 16 rows at a time. */
#define BR_TILE_ROWS 64
#define BR_TILE_ROWS_INT4 16
double br_tile_rows(double rows, double smallest);

#endif
