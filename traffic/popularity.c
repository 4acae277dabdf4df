#include "traffic/popularity.h"

#include <math.h>

int br_popularity_weights(double *share, const double *weight, uint32_t n, struct br_err *err)
{
    double sum = 0;
    if (!n)
        return br_err_set(err, BR_EINVAL, "no models to divide traffic over");
    for (uint32_t i = 0; i < n; i++) {
        if (!(weight[i] >= 0 && weight[i] <= 1e100))
            return br_err_set(err, BR_EINVAL, "weight of model %u = %g: must be a number from 0 to 1e100", i,
                              weight[i]);
        sum += weight[i];
    }
    if (!(sum > 0))
        return br_err_set(err, BR_EINVAL, "all %u weights are 0: at least one model needs traffic", n);
    for (uint32_t i = 0; i < n; i++)
        share[i] = weight[i] / sum;
    return 0;
}

int br_popularity_equal(double *share, uint32_t n, struct br_err *err)
{
    return br_popularity_zipf(share, n, 0, err);
}

int br_popularity_zipf(double *share, uint32_t n, double s, struct br_err *err)
{
    if (!(s >= 0 && s <= 10))
        return br_err_set(err, BR_EINVAL, "Zipf exponent %g: must be a number from 0 (equal) to 10", s);
    for (uint32_t i = 0; i < n; i++)
        share[i] = pow(i + 1., -s);
    return br_popularity_weights(share, share, n, err);
}

int br_popularity_workload(double *share, const struct br_workload *workload, struct br_err *err)
{
    for (uint32_t i = 0; i < workload->n_models; i++)
        share[i] = 0;
    for (size_t i = 0; i < workload->n; i++)
        share[workload->requests[i].model]++;
    return br_popularity_weights(share, share, workload->n_models, err);
}
