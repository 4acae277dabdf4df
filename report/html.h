/* Self-contained HTML reports: one file that opens anywhere, without a network. Text is escaped, data is JSON in the
 * page, charts are drawn by uPlot (MIT), whose code is part of the page.
 *
 * A page is written into a br_buf from top to bottom: begin, then headings, paragraphs, tables, bars and charts, end.
 */
#ifndef BRIAREUS_REPORT_HTML_H
#define BRIAREUS_REPORT_HTML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* title: of the page; lead: one sentence below it, may be NULL. */
void br_report_begin(struct br_buf *out, const char *title, const char *lead);
void br_report_end(struct br_buf *out);

void br_report_heading(struct br_buf *out, const char *text);
void br_report_text(struct br_buf *out, const char *text);
/* Folded away until it is clicked: raw results, a log. */
void br_report_details(struct br_buf *out, const char *summary, const char *text);

/* cells: n_rows rows of n_columns texts, row after row; NULL: an empty cell. The first column is left-aligned, others
 * right. */
struct br_report_table {
    uint32_t n_columns, n_rows;
    const char *const *head;  /* [n_columns] */
    const char *const *cells; /* [n_rows * n_columns] */
};
void br_report_table(struct br_buf *out, const struct br_report_table *table);

/* Horizontal bars on one scale from 0. Values below 0 or not finite are drawn as 0 and written as "-". */
struct br_report_bar {
    const char *name;
    double value;
    double low, high;  /* an interval as a whisker; low >= high: none */
    const char *label; /* written behind the bar; NULL: the value */
};
void br_report_bars(struct br_buf *out, const char *title, const char *unit, const struct br_report_bar *bars,
                    uint32_t n);

enum br_report_line { BR_REPORT_LINE, BR_REPORT_STEPS, BR_REPORT_POINTS };

struct br_report_series {
    const char *name;
    const double *y; /* [n] of the chart; not finite: a gap */
    enum br_report_line line;
};

struct br_report_chart {
    const char *title, *x_label, *y_label;
    uint32_t n, n_series; /* at most BR_REPORT_SERIES */
    const double *x;      /* [n], rising */
    const struct br_report_series *series;
    bool log_x, log_y; /* then all values > 0 are drawn, others are gaps */
    bool from_zero;    /* the y scale begins at 0 */
};
enum { BR_REPORT_SERIES = 16 };
void br_report_chart(struct br_buf *out, const struct br_report_chart *chart);

#endif
