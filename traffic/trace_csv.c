/* The CSV formats: which column is what, and how each writes time. */
#include <ctype.h>
#include <string.h>
#include <time.h>

#include "traffic/trace_row.h"

enum column { TIME, PROMPT, OUTPUT, MODEL };

static const char *const g_azure[] = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"};
static const char *const g_aegaeon[] = {"Request Time", "Input Length", "Output Length", "Model Name"};
static const char *const g_burstgpt[] = {"Timestamp", "Request tokens", "Response tokens", "Model"};

/* By the columns that only one format has, so that a header that lacks another is said to lack it. */
bool trace_csv_detect(const struct csv *csv, enum br_trace_format *out)
{
    static const struct {
        const char *column;
        enum br_trace_format format;
    } known[] = {
        {"TIMESTAMP", BR_TRACE_AZURE},         {"ContextTokens", BR_TRACE_AZURE},
        {"GeneratedTokens", BR_TRACE_AZURE},   {"Request Time", BR_TRACE_AEGAEON},
        {"Input Length", BR_TRACE_AEGAEON},    {"Output Length", BR_TRACE_AEGAEON},
        {"Request tokens", BR_TRACE_BURSTGPT}, {"Response tokens", BR_TRACE_BURSTGPT},
        {"rate_rps", BR_TRACE_SERVEGEN},       {"interarrival", BR_TRACE_SERVEGEN},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (csv_has(csv, known[i].column)) {
            *out = known[i].format;
            return true;
        }
    return false;
}

int trace_csv_header(struct csv *csv, enum br_trace_format format, struct br_err *err)
{
    if (format == BR_TRACE_AZURE)
        return csv_header(csv, g_azure, 3, err);
    return csv_header(csv, format == BR_TRACE_AEGAEON ? g_aegaeon : g_burstgpt, 4, err);
}

/* Digits, with up to nine used after the point; *end is what follows. False: no digit, or too large for ns. */
static bool decimal_ns(const char *text, const char **end, int64_t *ns)
{
    int64_t whole = 0, part = 0, unit = 100000000;
    if (!isdigit((unsigned char)*text))
        return false;
    for (; isdigit((unsigned char)*text); text++) {
        whole = whole * 10 + (*text - '0');
        if (whole > 8000000000) /* s; ns of it fit */
            return false;
    }
    if (*text == '.' && isdigit((unsigned char)text[1]))
        for (text++; isdigit((unsigned char)*text); text++, unit /= 10)
            part += (*text - '0') * unit;
    *ns = whole * 1000000000 + part;
    *end = text;
    return true;
}

static bool seconds_parse(const char *text, int64_t *ns)
{
    const char *end;
    return decimal_ns(text, &end, ns) && !*end;
}

static bool digits_parse(const char **text, int max_digits, int *value)
{
    int n = 0;
    *value = 0;
    for (; n < max_digits && isdigit((unsigned char)**text); n++, ++*text)
        *value = *value * 10 + (**text - '0');
    return n > 0;
}

/* HH:MM:SS[.fraction]; *end is what follows. */
static bool clock_parse(const char *text, const char **end, int64_t *ns)
{
    int hours, minutes;
    int64_t seconds_ns;
    if (!digits_parse(&text, 6, &hours) || *text++ != ':' || !digits_parse(&text, 2, &minutes) || *text++ != ':' ||
        minutes > 59 || !decimal_ns(text, end, &seconds_ns) || seconds_ns >= 60000000000)
        return false;
    *ns = (hours * 3600ll + minutes * 60) * 1000000000 + seconds_ns;
    return true;
}

/* YYYY-MM-DD HH:MM:SS[.fraction][+00:00 | Z]; UTC, as the data sets are. */
static bool date_parse(const char *text, int64_t *ns)
{
    struct tm date = {0}, same;
    const char *end;
    int year, month;
    time_t day;
    if (!digits_parse(&text, 4, &year) || *text++ != '-' || !digits_parse(&text, 2, &month) || *text++ != '-' ||
        !digits_parse(&text, 2, &date.tm_mday) || (*text != ' ' && *text != 'T'))
        return false;
    date.tm_year = year - 1900;
    date.tm_mon = month - 1;
    same = date;
    day = timegm(&same); /* brings 31 February to March: then the date was none */
    if (year < 1970 || year > 2200 || same.tm_mon != date.tm_mon || same.tm_mday != date.tm_mday ||
        !clock_parse(text + 1, &end, ns) || *ns >= 86400000000000)
        return false;
    *ns += (int64_t)day * 1000000000;
    return !*end || strcmp(end, "+00:00") == 0 || strcmp(end, "Z") == 0;
}

static int time_read(const struct csv *csv, enum br_trace_format format, int64_t *ns, struct br_err *err)
{
    const char *text = csv_field(csv, TIME), *end;
    switch (format) {
    case BR_TRACE_AZURE:
        return date_parse(text, ns) ? 0 : csv_fail(csv, TIME, "a time YYYY-MM-DD HH:MM:SS.fraction (UTC)", err);
    case BR_TRACE_AEGAEON:
        return clock_parse(text, &end, ns) && !*end ? 0 : csv_fail(csv, TIME, "a time HH:MM:SS.fraction", err);
    default:
        return seconds_parse(text, ns) ? 0 : csv_fail(csv, TIME, "a time in seconds from 0 to 8e9", err);
    }
}

int trace_csv_row(const struct csv *csv, enum br_trace_format format, struct trace_row *row, struct br_err *err)
{
    int rc = time_read(csv, format, &row->at_ns, err);
    if (!rc)
        rc = csv_count(csv, PROMPT, BR_WORKLOAD_MAX_TOKENS, &row->prompt, err);
    if (!rc)
        rc = csv_count(csv, OUTPUT, BR_WORKLOAD_MAX_TOKENS, &row->output, err);
    row->model = format == BR_TRACE_AZURE ? NULL : csv_field(csv, MODEL);
    row->n_blocks = 0;
    return rc;
}
