#include "tests/unit/traffic/laws.h"

#include <math.h>
#include <stdlib.h>

static double gamma_series(double a, double x)
{
    double term = 1 / a, sum = term;
    for (double n = a + 1; term > sum * 1e-16; n++) {
        term *= x / n;
        sum += term;
    }
    return sum * exp(a * log(x) - x - lgamma(a));
}

/* Q(a, x) = exp(-x) x^a / Gamma(a) * 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)) */
static double gamma_fraction(double a, double x)
{
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int i = 1; i < 1000; i++) {
        double an = -i * (i - a), step;
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        step = c * d;
        h *= step;
        if (fabs(step - 1) < 1e-15)
            break;
    }
    return h * exp(a * log(x) - x - lgamma(a));
}

double incomplete_gamma(double a, double x)
{
    if (x <= 0)
        return 0;
    return x < a + 1 ? gamma_series(a, x) : 1 - gamma_fraction(a, x);
}

double law_exponential(const struct law *law, double x)
{
    return -expm1(-law->rate * x);
}

double law_gamma(const struct law *law, double x)
{
    return incomplete_gamma(law->shape, law->shape * law->rate * x);
}

/* By parts: rate * x * (1 - F(x)) + rate * integral of t f(t), and t f(t) is the density of shape + 1 over rate. */
double law_gamma_equilibrium(const struct law *law, double x)
{
    return law->rate * x * (1 - law_gamma(law, x)) + incomplete_gamma(law->shape + 1, law->shape * law->rate * x);
}

static double weibull_power(const struct law *law, double x)
{
    return pow(x * law->rate * tgamma(1 + 1 / law->shape), law->shape);
}

double law_weibull(const struct law *law, double x)
{
    return -expm1(-weibull_power(law, x));
}

/* Substituting y = (x / scale)^shape in the integral of exp(-(x / scale)^shape). */
double law_weibull_equilibrium(const struct law *law, double x)
{
    return incomplete_gamma(1 / law->shape, weibull_power(law, x));
}

double law_uniform(const struct law *law, double x)
{
    return fmin(x * law->rate, 1);
}

double law_normal(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double ks_distance(double *x, size_t n, const struct law *law)
{
    double distance = 0;
    qsort(x, n, sizeof *x, by_size);
    for (size_t i = 0; i < n; i++) {
        double f = law->cdf(law, x[i]);
        distance = fmax(distance, fmax(f - (double)i / (double)n, (double)(i + 1) / (double)n - f));
    }
    return distance * sqrt((double)n);
}
