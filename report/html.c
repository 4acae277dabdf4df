#include "report/html.h"

#include <assert.h>
#include <math.h>

#include "report/assets.h"
#include "report/lanes.h"

static const char style[] =
    ":root{--ink:#1b1f24;--dim:#656d76;--line:#d0d7de;--back:#fff;--bar:#3b6fb6;--card:#f6f8fa}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--dim:#8d96a0;--line:#30363d;--back:#0d1117;--bar:#5b8fd6;"
    "--card:#161b22}}"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:1000px;margin:2em auto;"
    "padding:0 1em}h1{font-size:1.6em;margin-bottom:.2em}h2{font-size:1.2em;margin-top:2em}p.lead{color:var(--dim)}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}"
    "th,td{border-bottom:1px solid var(--line);padding:.3em .8em;text-align:right;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}th{color:var(--dim);font-weight:600}"
    ".bars{display:grid;grid-template-columns:max-content 1fr;gap:.35em .8em;align-items:center}"
    ".bars div.row{display:flex;align-items:center;gap:.6em}.bars .track{position:relative;height:1.1em;flex:1}"
    ".bars .bar{position:absolute;inset:0 auto 0 0;background:var(--bar);border-radius:2px}"
    ".bars .ci{position:absolute;top:40%;height:20%;background:var(--ink);opacity:.7}"
    ".bars .label{min-width:9em;font-variant-numeric:tabular-nums}"
    "details{background:var(--card);padding:.5em 1em;margin:1em 0;border-radius:4px}pre{overflow-x:auto;font-size:12px}"
    ".uplot{margin:1em 0}.u-legend{font-size:13px}";

/* Draws every <div class=chart> from the JSON that follows it. */
static const char script[] =
    "(()=>{const C=['#3b6fb6','#d1702a','#3d9a57','#c23b4b','#8457b5','#8c6b4f','#c95fa8','#6f7680','#a3a12c',"
    "'#2aa3b8','#5b8fd6','#f0a35e','#7cc58f','#e58b95','#b79bd8','#b89c84'];"
    "const ink=getComputedStyle(document.body).color;"
    "for(const e of document.querySelectorAll('div.chart')){const d=JSON.parse(e.dataset.chart);"
    "const axis=l=>({label:l,stroke:ink,grid:{stroke:'#8884',width:1},ticks:{stroke:'#8888'}});"
    "const paths={steps:uPlot.paths.stepped({align:1}),points:()=>null,line:uPlot.paths.linear()};"
    "new uPlot({title:d.title,width:Math.min(960,document.body.clientWidth),height:320,"
    "scales:{x:{time:false,distr:d.logx?3:1},y:{distr:d.logy?3:1,range:d.zero?(u,a,b)=>[0,b>0?b*1.05:1]:undefined}},"
    "axes:[axis(d.x),axis(d.y)],series:[{label:d.x}].concat(d.series.map((s,i)=>({label:s.name,stroke:C[i%16],"
    "width:2,paths:paths[s.line],points:{show:s.line=='points',size:5,fill:C[i%16]}})))},"
    "[d.xs].concat(d.series.map(s=>s.ys)),e)}})()";

static void element(struct br_buf *out, const char *open, const char *text, const char *close)
{
    br_buf_puts(out, open);
    br_report_escaped(out, text);
    br_buf_puts(out, close);
}

void br_report_begin(struct br_buf *out, const char *title, const char *lead)
{
    element(out,
            "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport "
            "content=\"width=device-width\"><title>",
            title, "</title><style>");
    br_buf_add(out, report_uplot_css, report_uplot_css_bytes);
    br_buf_puts(out, style);
    element(out, "</style></head><body><h1>", title, "</h1>\n");
    if (lead)
        element(out, "<p class=lead>", lead, "</p>\n");
}

void br_report_end(struct br_buf *out)
{
    br_buf_puts(out, "<script>");
    br_buf_add(out, report_uplot_js, report_uplot_js_bytes);
    br_buf_puts(out, "</script>\n<script>");
    br_buf_puts(out, script);
    br_buf_puts(out, "</script></body></html>\n");
}

void br_report_heading(struct br_buf *out, const char *text)
{
    element(out, "<h2>", text, "</h2>\n");
}

void br_report_text(struct br_buf *out, const char *text)
{
    element(out, "<p>", text, "</p>\n");
}

void br_report_details(struct br_buf *out, const char *summary, const char *text)
{
    element(out, "<details><summary>", summary, "</summary>");
    element(out, "<pre>", text, "</pre></details>\n");
}

static void row(struct br_buf *out, const char *const *cells, uint32_t n, const char *open, const char *close)
{
    br_buf_puts(out, "<tr>");
    for (uint32_t i = 0; i < n; i++)
        element(out, open, cells[i], close);
    br_buf_puts(out, "</tr>\n");
}

void br_report_table(struct br_buf *out, const struct br_report_table *table)
{
    br_buf_puts(out, "<table><thead>");
    row(out, table->head, table->n_columns, "<th>", "</th>");
    br_buf_puts(out, "</thead><tbody>");
    for (uint32_t i = 0; i < table->n_rows; i++)
        row(out, table->cells + (size_t)i * table->n_columns, table->n_columns, "<td>", "</td>");
    br_buf_puts(out, "</tbody></table>\n");
}

static double clean(double value)
{
    return isfinite(value) && value > 0 ? value : 0;
}

static void bar(struct br_buf *out, const struct br_report_bar *b, double percent)
{
    element(out, "<div>", b->name, "</div><div class=row><div class=track>");
    br_buf_printf(out, "<div class=bar style=\"width:%.2f%%\"></div>", clean(b->value) * percent);
    if (b->high > b->low)
        br_buf_printf(out, "<div class=ci style=\"left:%.2f%%;width:%.2f%%\"></div>", clean(b->low) * percent,
                      (clean(b->high) - clean(b->low)) * percent);
    br_buf_puts(out, "</div>");
    if (b->label)
        element(out, "<div class=label>", b->label, "</div></div>\n");
    else if (isfinite(b->value) && b->value >= 0)
        br_buf_printf(out, "<div class=label>%.4g</div></div>\n", b->value);
    else
        br_buf_puts(out, "<div class=label>-</div></div>\n");
}

void br_report_bars(struct br_buf *out, const char *title, const char *unit, const struct br_report_bar *bars,
                    uint32_t n)
{
    double most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = fmax(most, fmax(clean(bars[i].value), clean(bars[i].high)));
    element(out, "<h3>", title, "");
    element(out, unit ? " (" : "", unit, unit ? ")</h3>\n<div class=bars>\n" : "</h3>\n<div class=bars>\n");
    for (uint32_t i = 0; i < n; i++)
        bar(out, &bars[i], most > 0 ? 100 / most : 0);
    br_buf_puts(out, "</div>\n");
}

/* A JSON string inside an HTML attribute in double quotes. */
static void json_text(struct br_buf *out, const char *text)
{
    br_buf_puts(out, "&quot;");
    for (; text && *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '&')
            br_buf_printf(out, "\\u%04x", c);
        else
            br_buf_add(out, text, 1);
    }
    br_buf_puts(out, "&quot;");
}

static void json_member(struct br_buf *out, const char *name, const char *text)
{
    br_buf_printf(out, "&quot;%s&quot;:", name);
    json_text(out, text);
    br_buf_puts(out, ",");
}

static void json_numbers(struct br_buf *out, const double *values, uint32_t n, bool positive)
{
    br_buf_puts(out, "[");
    for (uint32_t i = 0; i < n; i++) {
        if (isfinite(values[i]) && (!positive || values[i] > 0))
            br_buf_printf(out, "%s%.9g", i ? "," : "", values[i]);
        else
            br_buf_puts(out, i ? ",null" : "null");
    }
    br_buf_puts(out, "]");
}

static void json_series(struct br_buf *out, const struct br_report_series *s, const struct br_report_chart *chart)
{
    static const char *const lines[] = {"line", "steps", "points"};
    br_buf_puts(out, "{");
    json_member(out, "name", s->name);
    json_member(out, "line", lines[s->line]);
    br_buf_puts(out, "&quot;ys&quot;:");
    json_numbers(out, s->y, chart->n, chart->log_y);
    br_buf_puts(out, "}");
}

void br_report_chart(struct br_buf *out, const struct br_report_chart *chart)
{
    assert(chart->n_series <= BR_REPORT_SERIES);
    br_buf_puts(out, "<div class=chart data-chart=\"{");
    json_member(out, "title", chart->title);
    json_member(out, "x", chart->x_label);
    json_member(out, "y", chart->y_label);
    br_buf_printf(out, "&quot;logx&quot;:%d,&quot;logy&quot;:%d,&quot;zero&quot;:%d,&quot;xs&quot;:", chart->log_x,
                  chart->log_y, chart->from_zero && !chart->log_y);
    json_numbers(out, chart->x, chart->n, false);
    br_buf_puts(out, ",&quot;series&quot;:[");
    for (uint32_t i = 0; i < chart->n_series; i++) {
        br_buf_puts(out, i ? "," : "");
        json_series(out, &chart->series[i], chart);
    }
    br_buf_puts(out, "]}\"></div>\n");
}
