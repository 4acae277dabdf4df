/* The file of rates by window. */
#include <string.h>

#include "base/buf.h"
#include "traffic/market_file.h"

enum column { MODEL, TIME, RATE, FAMILY, SHAPE, N_COLUMNS };

static const char *const g_columns[] = {"model", "t_s", "rate_rps", "interarrival", "shape"};

static int family_read(const struct csv *csv, enum br_process_kind *out, struct br_err *err)
{
    static const struct {
        const char *name;
        enum br_process_kind kind;
    } families[] = {{"Gamma", BR_PROCESS_GAMMA}, {"Weibull", BR_PROCESS_WEIBULL}, {"Exponential", BR_PROCESS_POISSON}};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(csv_field(csv, FAMILY), families[i].name) == 0) {
            *out = families[i].kind;
            return 0;
        }
    return csv_fail(csv, FAMILY, "Gamma, Weibull or Exponential", err);
}

/* The model of the row: the one of the row before, or one that had no rows yet. */
static int model_find(const struct csv *csv, struct br_market *market, struct br_market_model **current,
                      struct br_err *err)
{
    const char *name = csv_field(csv, MODEL);
    if (*current && strcmp((*current)->name, name) == 0)
        return 0;
    for (uint32_t i = 0; i < market->n_models; i++) {
        struct br_market_model *m = &market->models[i];
        if (strcmp(m->name, name) != 0)
            continue;
        if (m->n_windows)
            return lines_fail(&csv->lines, err, "rows of model '%s' are not together", m->name);
        m->first_window = market->n_windows;
        *current = m;
        return 0;
    }
    return csv_fail(csv, MODEL, "a model of the models file", err);
}

static int window_read(const struct csv *csv, struct br_window *w, struct br_err *err)
{
    int rc = csv_number(csv, TIME, 1e9, &w->start_s, err);
    if (!rc)
        rc = csv_number(csv, RATE, 1e5, &w->rate, err);
    if (!rc)
        rc = family_read(csv, &w->kind, err);
    if (!rc)
        rc = csv_number(csv, SHAPE, 1000, &w->shape, err);
    if (!rc && w->shape < .01)
        rc = csv_fail(csv, SHAPE, "a number from 0.01 to 1000", err);
    w->end_s = w->start_s + BR_MARKET_WINDOW_S;
    return rc;
}

static int row_take(const struct csv *csv, struct br_market *market, struct br_market_model **current,
                    struct br_err *err)
{
    struct br_window w;
    int rc = model_find(csv, market, current, err);
    if (!rc)
        rc = window_read(csv, &w, err);
    if (rc)
        return rc;
    if ((*current)->n_windows && w.start_s < market->windows[market->n_windows - 1].end_s)
        return lines_fail(&csv->lines, err, "window of '%s' at %g s: starts before the one above it ends (%g s)",
                          (*current)->name, w.start_s, market->windows[market->n_windows - 1].end_s);
    if (market->n_windows == BR_MARKET_MAX_WINDOWS)
        return lines_fail(&csv->lines, err, "more than %d windows", BR_MARKET_MAX_WINDOWS);
    if ((market->n_windows & (market->n_windows - 1)) == 0) /* full at every power of two */
        market->windows =
            br_realloc(market->windows, (market->n_windows ? 2 * (size_t)market->n_windows : 1) * sizeof w);
    market->windows[market->n_windows++] = w;
    (*current)->n_windows++;
    return 0;
}

static int rates_read(struct csv *csv, struct br_market *out, struct br_err *err)
{
    struct br_market_model *current = NULL;
    int rc = lines_next(&csv->lines, err);
    if (rc != 1)
        return rc ? rc : br_err_set(err, BR_EINVAL, "%.100s: empty", csv->lines.file);
    if (!csv_split(csv))
        return lines_fail(&csv->lines, err, "more than %d columns", CSV_MAX_COLUMNS);
    rc = csv_header(csv, g_columns, N_COLUMNS, err);
    while (!rc && (rc = csv_next(csv, err)) == 1)
        rc = row_take(csv, out, &current, err);
    if (!rc && !out->n_windows)
        rc = br_err_set(err, BR_EINVAL, "%.100s: no windows", csv->lines.file);
    return rc;
}

int market_rates_read(struct lines *lines, struct br_market *out, struct br_err *err)
{
    struct csv csv = {.lines = *lines};
    int rc = rates_read(&csv, out, err);
    *lines = csv.lines;
    return rc;
}
