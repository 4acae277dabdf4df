/* uPlot's code and style, generated into the build tree from the npm package (embed.cmake). */
#ifndef BRIAREUS_REPORT_ASSETS_H
#define BRIAREUS_REPORT_ASSETS_H

#include <stddef.h>

extern const unsigned char report_uplot_js[], report_uplot_css[];
extern const size_t report_uplot_js_bytes, report_uplot_css_bytes;

#endif
