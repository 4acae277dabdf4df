/* A plan as one HTML page that opens anywhere. Made from its JSON, so it shows nothing that the JSON does not hold,
 * but for the timeline. Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_HTML_H
#define BRIAREUS_CLI_PLAN_HTML_H

#include <jansson.h>

#include "base/buf.h"
#include "sim/plan/timeline.h"

/* root: as of --json, with needs or with --max. timeline: of one of its pools, and the ask with the models' names; may
 * be NULL. */
void plan_html(const json_t *root, const struct plan_ask *ask, const struct plan_timeline *timeline,
               struct br_buf *out);

/* Parts of it (html_parts.c). */
void plan_html_time(const json_t *results, struct br_buf *out);
void plan_html_node(const struct plan_ask *ask, const struct plan_timeline *timeline, struct br_buf *out);
void plan_html_curves(const json_t *results, double target, struct br_buf *out);
void plan_html_inputs(const json_t *workload, const json_t *targets, struct br_buf *out);

/* A table that is filled cell by cell; all texts are copied. */
struct plan_cells {
    char **cells;
    uint32_t n, cap;
};
void plan_cell(struct plan_cells *cells, const char *format, ...) __attribute__((format(printf, 2, 3)));
void plan_cells_table(struct plan_cells *cells, const char *const *head, uint32_t n_columns, struct br_buf *out);
double plan_json_get(const json_t *object, const char *key); /* NAN: no number */
const char *plan_json_text(const json_t *object, const char *key);

#endif
