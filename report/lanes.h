/* Lanes: rows of coloured segments on one scale. Where time goes (a lane a system, its parts side by side), who had a
 * machine when (a lane a machine, a segment a spell of work). Part of an HTML report, see html.h. */
#ifndef BRIAREUS_REPORT_LANES_H
#define BRIAREUS_REPORT_LANES_H

#include <stdint.h>

#include "base/buf.h"

struct br_report_segment {
    double from, to; /* cut to the scale */
    uint32_t what;   /* index of names: its colour and what is shown under the pointer */
};
struct br_report_lane {
    const char *name;
    const struct br_report_segment *segments;
    uint32_t n;
};
struct br_report_lanes {
    const char *title, *unit; /* unit of the scale, written behind its ends; may be NULL */
    double from, to;          /* the scale */
    const struct br_report_lane *lanes;
    const char *const *names; /* [n_names], listed below in their colours; from the 15th on colours come again */
    uint32_t n_lanes, n_names;
};
void br_report_lanes(struct br_buf *out, const struct br_report_lanes *lanes);
/* Text with &, <, > and quotes replaced. */
void br_report_escaped(struct br_buf *out, const char *text);

#endif
