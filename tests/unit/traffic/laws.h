/* Exact laws and the distance to them, apart from the code under test. */
#ifndef BRIAREUS_TESTS_TRAFFIC_LAWS_H
#define BRIAREUS_TESTS_TRAFFIC_LAWS_H

#include <stddef.h>

struct law {
    double (*cdf)(const struct law *law, double x);
    double shape, rate;
};

/* Gaps of mean 1/rate, and (equilibrium) what is left of the gap that covers a fixed time:
 * F_e(x) = rate * integral of 1 - F over [0, x]. */
double law_exponential(const struct law *law, double x);
double law_gamma(const struct law *law, double x);
double law_gamma_equilibrium(const struct law *law, double x);
double law_weibull(const struct law *law, double x);
double law_weibull_equilibrium(const struct law *law, double x);
double law_uniform(const struct law *law, double x); /* on [0, 1/rate) */
double law_normal(double x);

/* Regularised lower incomplete gamma function P(a, x): series, and Lentz's continued fraction for x > a + 1. */
double incomplete_gamma(double a, double x);

/* sqrt(n) times the Kolmogorov-Smirnov distance; sorts x. Its limit law has P(D > 1.95) = 2 exp(-2 * 1.95^2) = .001. */
double ks_distance(double *x, size_t n, const struct law *law);
#define KS_LIMIT 1.95

#define assert_near(a, b, within) assert_true(fabs((double)(a) - (double)(b)) <= (within))

#endif
