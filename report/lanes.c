#include "report/lanes.h"

#include <math.h>

static const char *const g_colours[] = {"#3b6fb6", "#d1702a", "#3d9a57", "#c23b4b", "#8457b5", "#8c6b4f", "#c95fa8",
                                        "#2aa3b8", "#a3a12c", "#6f7680", "#7cc58f", "#f0a35e", "#e58b95", "#b79bd8"};
enum { N_COLOURS = sizeof g_colours / sizeof *g_colours };

void br_report_escaped(struct br_buf *out, const char *text)
{
    for (; text && *text; text++) {
        const char *as = *text == '&'   ? "&amp;"
                         : *text == '<' ? "&lt;"
                         : *text == '>' ? "&gt;"
                         : *text == '"' ? "&quot;"
                                        : NULL;
        if (as)
            br_buf_puts(out, as);
        else
            br_buf_add(out, text, 1);
    }
}

static double place(const struct br_report_lanes *l, double at)
{
    double share = (at - l->from) / (l->to - l->from);
    return share > 0 ? fmin(100 * share, 100) : 0; /* not a number: 0 */
}

static void segment(struct br_buf *out, const struct br_report_lanes *l, const struct br_report_segment *s)
{
    double from = place(l, s->from), to = place(l, s->to);
    if (!(to > from) || s->what >= l->n_names)
        return;
    br_buf_printf(out, "<i style=\"left:%.3f%%;width:%.3f%%;background:%s\" title=\"", from, to - from,
                  g_colours[s->what % N_COLOURS]);
    br_report_escaped(out, l->names[s->what]);
    br_buf_printf(out, ", %.4g-%.4g\"></i>", fmax(s->from, l->from), fmin(s->to, l->to));
}

static void scale(struct br_buf *out, const struct br_report_lanes *l)
{
    br_buf_printf(out, "<div></div><div class=ends><span>%.4g</span><span>%.4g ", l->from, l->to);
    br_report_escaped(out, l->unit);
    br_buf_puts(out, "</span></div>\n");
}

static void names(struct br_buf *out, const struct br_report_lanes *l)
{
    br_buf_puts(out, "<p class=names>");
    for (uint32_t i = 0; i < l->n_names; i++) {
        br_buf_printf(out, "<span><i style=\"background:%s\"></i>", g_colours[i % N_COLOURS]);
        br_report_escaped(out, l->names[i]);
        br_buf_puts(out, "</span> ");
    }
    br_buf_puts(out, "</p>\n");
}

static void style(struct br_buf *out)
{
    br_buf_puts(out, "<style>.lanes{display:grid;grid-template-columns:max-content 1fr;gap:.25em .8em;"
                     "align-items:center}.lanes .lane{position:relative;height:1.1em;background:var(--card);"
                     "overflow:hidden}.lanes .lane i{position:absolute;top:0;bottom:0}"
                     ".lanes .ends{display:flex;justify-content:space-between;color:var(--dim);font-size:12px}"
                     ".names span{white-space:nowrap;margin-right:1em;font-size:13px}"
                     ".names i{display:inline-block;width:.8em;height:.8em;margin-right:.35em}</style>\n");
}

void br_report_lanes(struct br_buf *out, const struct br_report_lanes *l)
{
    style(out);
    br_buf_puts(out, "<h3>");
    br_report_escaped(out, l->title);
    br_buf_puts(out, "</h3>\n<div class=lanes>\n");
    for (uint32_t i = 0; i < l->n_lanes; i++) {
        br_buf_puts(out, "<div>");
        br_report_escaped(out, l->lanes[i].name);
        br_buf_puts(out, "</div><div class=lane>");
        for (uint32_t s = 0; s < l->lanes[i].n; s++)
            segment(out, l, &l->lanes[i].segments[s]);
        br_buf_puts(out, "</div>\n");
    }
    scale(out, l);
    br_buf_puts(out, "</div>\n");
    names(out, l);
}
