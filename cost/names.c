#include "cost/names.h"

#include <ctype.h>
#include <string.h>

#include "base/options.h"

static void name_strip(char *text, const char *word)
{
    size_t len = strlen(text), cut = strlen(word);
    if (len > cut && strcmp(text + len - cut, word) == 0)
        text[len - cut] = '\0';
    else if (len > cut && strncmp(text, word, cut) == 0)
        memmove(text, text + cut, len - cut + 1);
}

void br_name_plain(const char *name, const char *const *ignored, char out[BR_NAME_MAX])
{
    const char *slash = strrchr(name, '/');
    size_t n = 0;
    for (const char *c = slash ? slash + 1 : name; *c && n < BR_NAME_MAX - 1; c++)
        if (isalnum((unsigned char)*c))
            out[n++] = (char)tolower((unsigned char)*c);
    out[n] = '\0';
    for (; *ignored; ignored++)
        name_strip(out, *ignored);
}

/* The nearest of the names, their plain forms compared. */
static const char *name_nearest(const char *name, const char *const *names, size_t n)
{
    static const char *const none[] = {NULL};
    char plain[BR_NAMES_MAX][BR_NAME_MAX], word[BR_NAME_MAX];
    const char *list[BR_NAMES_MAX], *near;
    br_name_plain(name, none, word);
    for (size_t i = 0; i < n && i < BR_NAMES_MAX; i++) {
        br_name_plain(names[i], none, plain[i]);
        list[i] = plain[i];
    }
    near = br_nearest(word, list, n < BR_NAMES_MAX ? n : BR_NAMES_MAX);
    for (size_t i = 0; near && i < n; i++)
        if (near == list[i])
            return names[i];
    return NULL;
}

int br_name_unknown(const char *what, const char *name, const char *const *names, size_t n, struct br_err *err)
{
    const char *near = name_nearest(name, names, n);
    char all[200] = "";
    if (near)
        return br_err_set(err, BR_ENOENT, "unknown %s '%.64s': did you mean '%s'?", what, name, near);
    for (size_t i = 0; i < n && strlen(all) + strlen(names[i]) + 8 < sizeof all; i++) {
        strcat(all, i ? ", " : "");
        strcat(all, names[i]);
    }
    return br_err_set(err, BR_ENOENT, "unknown %s '%.64s': known are %s%s", what, name, all,
                      n > 16 ? " and others" : "");
}
