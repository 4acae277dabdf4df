/* Fits a few positive coefficients to measurements, by relative error. Private to cost/. */
#ifndef BRIAREUS_COST_FIT_H
#define BRIAREUS_COST_FIT_H

#include <stddef.h>

enum { BR_FIT_MAX_PARAMS = 12 };

/* Minimises sum |residual| + sum ridge (theta - prior)^2 over theta, the logarithms of the coefficients. Absolute, not
 * squared, residuals: what counts is the median error, and measurements have outliers. */
struct br_fit {
    size_t n_params, n_residuals;
    const double *prior, *ridge; /* n_params each; a ridge keeps what the measurements do not say at the prior */
    /* Writes n_residuals values, ln(predicted / measured) times a weight. Pure. */
    void (*residuals)(const void *context, const double *theta, double *out);
    const void *context;
};

/* theta is the start and becomes the result. Gauss-Newton with reweighting and damping; deterministic. */
void br_fit_run(const struct br_fit *fit, double *theta);

#endif
