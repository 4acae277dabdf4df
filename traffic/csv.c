/* CSV rows by named columns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "traffic/lines.h"

bool csv_split(struct csv *csv)
{
    char *at = csv->lines.text;
    csv->n_fields = 0;
    while (csv->n_fields < CSV_MAX_COLUMNS) {
        char *comma = strchr(at, ',');
        csv->fields[csv->n_fields++] = at;
        if (!comma)
            return true;
        *comma = '\0';
        at = comma + 1;
    }
    return false;
}

static int column_find(const struct csv *csv, const char *column)
{
    for (int i = 0; i < csv->n_fields; i++)
        if (strcmp(csv->fields[i], column) == 0)
            return i;
    return -1;
}

bool csv_has(const struct csv *csv, const char *column)
{
    return column_find(csv, column) >= 0;
}

int csv_header(struct csv *csv, const char *const *names, int n, struct br_err *err)
{
    csv->names = names;
    csv->n_names = n;
    for (int i = 0; i < n; i++) {
        csv->where[i] = column_find(csv, names[i]);
        if (csv->where[i] < 0)
            return lines_fail(&csv->lines, err, "no column '%s' in the header", names[i]);
    }
    return 0;
}

int csv_next(struct csv *csv, struct br_err *err)
{
    int rc;
    do {
        rc = lines_next(&csv->lines, err);
        if (rc <= 0)
            return rc;
    } while (csv->lines.len == 0);
    if (!csv_split(csv))
        return lines_fail(&csv->lines, err, "more than %d columns", CSV_MAX_COLUMNS);
    for (int i = 0; i < csv->n_names; i++)
        if (csv->where[i] >= csv->n_fields)
            return lines_fail(&csv->lines, err, "%d columns, but '%s' is column %d of the header", csv->n_fields,
                              csv->names[i], csv->where[i] + 1);
    return 1;
}

const char *csv_field(const struct csv *csv, int name)
{
    return csv->fields[csv->where[name]];
}

int csv_fail(const struct csv *csv, int name, const char *what, struct br_err *err)
{
    return lines_fail(&csv->lines, err, "column %s: '%.60s' is not %s", csv->names[name], csv_field(csv, name), what);
}

int csv_count(const struct csv *csv, int name, uint64_t max, uint64_t *out, struct br_err *err)
{
    const char *text = csv_field(csv, name);
    char *end, what[64];
    errno = 0;
    *out = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : max + 1;
    if (*out <= max && !*end && !errno)
        return 0;
    snprintf(what, sizeof what, "a whole number from 0 to %llu", (unsigned long long)max);
    return csv_fail(csv, name, what, err);
}

/* Decimal only: no sign, "nan", "inf" or hexadecimal. */
int csv_number(const struct csv *csv, int name, double max, double *out, struct br_err *err)
{
    const char *text = csv_field(csv, name);
    char *end = NULL, what[64];
    *out = *text && strspn(text, "0123456789.eE+-") == strlen(text) && *text != '+' ? strtod(text, &end) : -1;
    if (end && end != text && !*end && *out >= 0 && *out <= max)
        return 0;
    snprintf(what, sizeof what, "a number from 0 to %g", max);
    return csv_fail(csv, name, what, err);
}
