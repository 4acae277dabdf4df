/* The fit recovers coefficients that are known. */
#include <math.h>

#include "cost/fit.h"
#include "tests/cmocka.h"

enum { N = 200 };

/* measured = 3 x + 0.5, one in ten of them three times too large. */
static void line_residuals(const void *context, const double *theta, double *out)
{
    const double *outlier = context;
    for (int i = 0; i < N; i++) {
        double x = 1 + 0.1 * i, measured = (3 * x + 0.5) * (i % 10 == 7 ? *outlier : 1);
        out[i] = log((exp(theta[0]) * x + exp(theta[1])) / measured);
    }
}

static void outliers_do_not_move_the_fit(void **state)
{
    static const double prior[2] = {0, 0}, ridge[2] = {1e-6, 1e-6};
    double outlier = 3, theta[2] = {0, 0};
    struct br_fit fit = {.n_params = 2,
                         .n_residuals = N,
                         .prior = prior,
                         .ridge = ridge,
                         .residuals = line_residuals,
                         .context = &outlier};
    (void)state;
    br_fit_run(&fit, theta);
    assert_true(fabs(exp(theta[0]) / 3 - 1) < 0.01);
    assert_true(fabs(exp(theta[1]) / 0.5 - 1) < 0.1);
}

static void unseen_coefficients_stay_at_the_prior(void **state)
{
    static const double prior[3] = {0, 0, -2}, ridge[3] = {1e-6, 1e-6, 1};
    double outlier = 1, theta[3] = {0, 0, -2};
    struct br_fit fit = {.n_params = 3,
                         .n_residuals = N,
                         .prior = prior,
                         .ridge = ridge,
                         .residuals = line_residuals,
                         .context = &outlier};
    (void)state;
    br_fit_run(&fit, theta);
    assert_true(fabs(theta[2] + 2) < 1e-9);
    assert_true(fabs(exp(theta[0]) / 3 - 1) < 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outliers_do_not_move_the_fit),
        cmocka_unit_test(unseen_coefficients_stay_at_the_prior),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
