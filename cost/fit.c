#include "cost/fit.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { MAX_ROUNDS = 15, MAX_TRIES = 6 };
#define SMALL_RESIDUAL 0.02 /* |r| is weighted as r^2 / SMALL_RESIDUAL below this */
#define DIFFERENCE 1e-4
#define MAX_MOVE 0.5

struct work {
    const struct br_fit *fit;
    double *r, *moved, *jacobian; /* n, n, params x n */
    double matrix[BR_FIT_MAX_PARAMS][BR_FIT_MAX_PARAMS], gradient[BR_FIT_MAX_PARAMS];
};

static double fit_objective(const struct br_fit *fit, const double *theta, double *r)
{
    double sum = 0;
    fit->residuals(fit->context, theta, r);
    for (size_t i = 0; i < fit->n_residuals; i++)
        sum += fabs(r[i]);
    for (size_t j = 0; j < fit->n_params; j++)
        sum += fit->ridge[j] * (theta[j] - fit->prior[j]) * (theta[j] - fit->prior[j]);
    return sum;
}

static void fit_jacobian(struct work *w, const double *theta)
{
    const struct br_fit *fit = w->fit;
    double at[BR_FIT_MAX_PARAMS];
    for (size_t j = 0; j < fit->n_params; j++) {
        double *column = w->jacobian + j * fit->n_residuals;
        memcpy(at, theta, fit->n_params * sizeof *at);
        at[j] += DIFFERENCE;
        fit->residuals(fit->context, at, column);
        for (size_t i = 0; i < fit->n_residuals; i++)
            column[i] = (column[i] - w->r[i]) / DIFFERENCE;
    }
}

/* Normal equations of the reweighted problem. */
static void fit_equations(struct work *w, const double *theta)
{
    const struct br_fit *fit = w->fit;
    size_t n = fit->n_residuals;
    for (size_t j = 0; j < fit->n_params; j++) {
        const double *a = w->jacobian + j * n;
        w->gradient[j] = 2 * fit->ridge[j] * (theta[j] - fit->prior[j]);
        for (size_t i = 0; i < n; i++)
            w->gradient[j] += a[i] * w->r[i] / fmax(fabs(w->r[i]), SMALL_RESIDUAL);
        for (size_t k = 0; k <= j; k++) {
            const double *b = w->jacobian + k * n;
            double sum = j == k ? 2 * fit->ridge[j] : 0;
            for (size_t i = 0; i < n; i++)
                sum += a[i] * b[i] / fmax(fabs(w->r[i]), SMALL_RESIDUAL);
            w->matrix[j][k] = w->matrix[k][j] = sum;
        }
    }
}

/* Cholesky of matrix + damping; false when it is not positive definite. Writes the step down the gradient. */
static bool fit_solve(const struct work *w, double damping, double *step)
{
    double l[BR_FIT_MAX_PARAMS][BR_FIT_MAX_PARAMS];
    size_t n = w->fit->n_params;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = w->matrix[i][j] + (i == j ? damping : 0);
            for (size_t k = 0; k < j; k++)
                sum -= l[i][k] * l[j][k];
            if (i == j && !(sum > 0))
                return false;
            l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
        }
    for (size_t i = 0; i < n; i++) {
        step[i] = -w->gradient[i];
        for (size_t k = 0; k < i; k++)
            step[i] -= l[i][k] * step[k];
        step[i] /= l[i][i];
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t k = i + 1; k < n; k++)
            step[i] -= l[k][i] * step[k];
        step[i] /= l[i][i];
    }
    return true;
}

/* One step that lowers the objective; false when none was found. */
static bool fit_step(struct work *w, double *theta, double *objective, double *damping)
{
    size_t n = w->fit->n_params;
    double step[BR_FIT_MAX_PARAMS], next[BR_FIT_MAX_PARAMS];
    for (int i = 0; i < MAX_TRIES; i++, *damping *= 8) {
        double value;
        if (!fit_solve(w, *damping, step))
            continue;
        for (size_t j = 0; j < n; j++)
            next[j] = theta[j] + fmax(-MAX_MOVE, fmin(MAX_MOVE, step[j]));
        value = fit_objective(w->fit, next, w->moved);
        if (!(value < *objective))
            continue;
        *objective = value;
        memcpy(theta, next, n * sizeof *theta);
        memcpy(w->r, w->moved, w->fit->n_residuals * sizeof *w->r);
        *damping = fmax(*damping / 4, 1e-6);
        return true;
    }
    return false;
}

void br_fit_run(const struct br_fit *fit, double *theta)
{
    size_t n = fit->n_residuals;
    struct work w = {.fit = fit};
    double objective, damping = 1e-2;
    assert(fit->n_params <= BR_FIT_MAX_PARAMS);
    w.r = br_malloc((n + 1) * sizeof *w.r);
    w.moved = br_malloc((n + 1) * sizeof *w.moved);
    w.jacobian = br_malloc((n * fit->n_params + 1) * sizeof *w.jacobian);
    objective = fit_objective(fit, theta, w.r);
    for (int i = 0; i < MAX_ROUNDS; i++) {
        fit_jacobian(&w, theta);
        fit_equations(&w, theta);
        if (!fit_step(&w, theta, &objective, &damping))
            break;
    }
    free(w.r);
    free(w.moved);
    free(w.jacobian);
}
