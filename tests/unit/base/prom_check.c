#include "tests/unit/base/prom_check.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"

enum { MAX_FAMILIES = 256, NAME = 128, LABELS = 512 };

struct reader {
    char seen[MAX_FAMILIES][NAME]; /* families, the last one is being read */
    int n;
    char type[16], help[NAME];
    char series[LABELS]; /* labels but le of the histogram being read */
    double bucket, inf;
};

static bool name_good(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!(isalpha((unsigned char)name[i]) || name[i] == '_' || name[i] == ':' ||
              (i && isdigit((unsigned char)name[i]))))
            return false;
    return len > 0;
}

static void family_begin(struct reader *r, const char *line)
{
    char name[NAME], type[16];
    if (sscanf(line, "# TYPE %127s %15s", name, type) != 2 || !name_good(name, strlen(name)))
        fail_msg("bad TYPE: %s", line);
    if (strcmp(r->help, name) != 0)
        fail_msg("TYPE of %s does not follow its HELP", name);
    if (strcmp(type, "counter") != 0 && strcmp(type, "gauge") != 0 && strcmp(type, "histogram") != 0)
        fail_msg("type %s of %s", type, name);
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->seen[i], name) == 0)
            fail_msg("family %s is there twice", name);
    assert_true(r->n < MAX_FAMILIES);
    strcpy(r->seen[r->n++], name);
    strcpy(r->type, type);
    r->series[0] = 0;
}

/* key="value",... ; what le says goes to *le, the others to rest. */
static const char *labels_read(const char *p, char rest[LABELS], char le[32])
{
    size_t n = 0;
    *le = 0;
    while (*p != '}') {
        const char *key = p, *value;
        p += strcspn(p, "=");
        if (!name_good(key, (size_t)(p - key)) || strchr(key, ':') == key || p[1] != '"')
            fail_msg("bad label at %s", key);
        value = p += 2;
        while (*p && *p != '"')
            p += *p == '\\' ? 2 : 1;
        if (*p != '"')
            fail_msg("label without an end: %s", key);
        if (strncmp(key, "le=", 3) == 0)
            snprintf(le, 32, "%.*s", (int)(p - value), value);
        else
            n += (size_t)snprintf(rest + n, LABELS - n, "%.*s,", (int)(p - key), key);
        p += p[1] == ',' ? 2 : 1;
    }
    return p + 1;
}

static void bucket_read(struct reader *r, const char *line, const char *rest, const char *le, double value)
{
    if (strcmp(rest, r->series) != 0)
        r->bucket = 0;
    strcpy(r->series, rest);
    if (!*le || value < r->bucket)
        fail_msg("bucket without le, or smaller than the one before: %s", line);
    r->bucket = r->inf = value;
    if (strcmp(le, "+Inf") == 0)
        r->bucket = 0;
}

static void sample_read(struct reader *r, const char *line)
{
    const char *family = r->n ? r->seen[r->n - 1] : "", *p = line + strcspn(line, "{ ");
    size_t len = strlen(family);
    char rest[LABELS] = "", le[32] = "", *end;
    double value;
    const char *suffix = line + len;
    if (!name_good(line, (size_t)(p - line)) || strncmp(line, family, len) != 0)
        fail_msg("a sample outside its family: %s", line);
    if (*p == '{')
        p = labels_read(p + 1, rest, le);
    value = strtod(p, &end);
    if (*p != ' ' || end == p || *end)
        fail_msg("no value: %s", line);
    if (strcmp(r->type, "histogram") != 0) {
        assert_true(*suffix == '{' || *suffix == ' ');
        assert_true(strcmp(r->type, "counter") != 0 || value >= 0);
    } else if (strncmp(suffix, "_bucket{", 8) == 0)
        bucket_read(r, line, rest, le, value);
    else if (strncmp(suffix, "_count", 6) == 0)
        assert_true(value == r->inf);
    else
        assert_int_equal(strncmp(suffix, "_sum", 4), 0);
}

static void line_read(struct reader *r, const char *line)
{
    if (strncmp(line, "# HELP ", 7) == 0) {
        if (sscanf(line, "# HELP %127s", r->help) != 1)
            fail_msg("bad HELP: %s", line);
    } else if (*line == '#')
        family_begin(r, line);
    else
        sample_read(r, line);
}

void prom_check(char *text)
{
    struct reader *r = calloc(1, sizeof *r);
    size_t len = strlen(text);
    assert_true(len > 0 && text[len - 1] == '\n');
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        *end = 0;
        line_read(r, line);
        *end = '\n';
        line = end + 1;
    }
    free(r);
}

double prom_value(const char *text, const char *sample)
{
    size_t len = strlen(sample);
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, sample, len) == 0 && line[len] == ' ')
            return strtod(line + len, NULL);
    fail_msg("no sample %s", sample);
    return 0;
}
