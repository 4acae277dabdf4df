#include "cli/plan/prices.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/options.h"

static const double RESERVED_SHARE = .6, SPOT_SHARE = .4; /* of on-demand: the order of public price lists in 2025 */
enum { MAX_BYTES = 1 << 16 };

static struct price price_of(const struct br_gpu *gpu, double on_demand)
{
    return (struct price){gpu, on_demand, RESERVED_SHARE * on_demand, SPOT_SHARE * on_demand};
}

static void placeholders(struct prices *out)
{
    const struct br_gpu *gpu;
    *out = (struct prices){0};
    for (size_t i = 0; (gpu = br_gpu_at(i)) && out->n < PRICES_MAX; i++)
        out->list[out->n++] = price_of(gpu, gpu->price_usd_per_hour);
}

static struct price *entry(struct prices *prices, const struct br_gpu *gpu)
{
    for (uint32_t i = 0; i < prices->n; i++)
        if (prices->list[i].gpu == gpu)
            return &prices->list[i];
    return NULL;
}

struct words {
    double on_demand, reserved, spot;
};
#define AT(field) offsetof(struct words, field)
static const struct br_option g_words[] = {
    {"on-demand", BR_OPT_NUMBER, AT(on_demand), NULL, 1e-6, 1e4, "P: $/h"},
    {"reserved", BR_OPT_NUMBER, AT(reserved), NULL, 1e-6, 1e4, "P: $/h"},
    {"spot", BR_OPT_NUMBER, AT(spot), NULL, 1e-6, 1e4, "P: $/h"},
};

static int words_read(char *text, struct words *w, struct br_err *err)
{
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        char *equals = strchr(word, '=');
        if (!equals)
            return br_err_set(err, BR_EINVAL, "'%.40s' must be on-demand=P, reserved=P or spot=P", word);
        *equals = 0;
        if (br_options_set(g_words, 3, w, word, equals + 1, err) < 0)
            return err->code;
    }
    return 0;
}

/* "NAME=on-demand=1.6 ..." as the YAML reader hands mappings over. */
static int line_read(const char *line, struct prices *out, struct br_err *err)
{
    char *copy = br_strdup(line), *equals = strchr(copy, '=');
    struct words w = {0};
    int rc = 0;
    if (equals)
        *equals = 0;
    const struct br_gpu *gpu = br_gpu_find(copy, err);
    struct price *p = gpu ? entry(out, gpu) : NULL;
    if (!p)
        rc = gpu ? br_err_set(err, BR_EINVAL, "too many GPUs") : err->code;
    else if ((rc = words_read(equals ? equals + 1 : copy + strlen(copy), &w, err)) == 0) {
        *p = price_of(gpu, w.on_demand > 0 ? w.on_demand : p->on_demand);
        p->reserved = w.reserved > 0 ? w.reserved : p->reserved;
        p->spot = w.spot > 0 ? w.spot : p->spot;
    }
    free(copy);
    return rc;
}

struct file {
    struct br_option_list prices;
};
static const struct br_option g_file[] = {
    {"prices", BR_OPT_LIST, offsetof(struct file, prices), NULL, 0, 0, "GPU=PRICES: a mapping of GPUs"},
};

int prices_parse(const char *yaml, size_t len, const char *where, struct prices *out, struct br_err *err)
{
    struct file f = {0};
    placeholders(out);
    out->own = true;
    int rc = br_options_yaml(g_file, 1, &f, yaml, len, where, err);
    for (uint32_t i = 0; rc == 0 && i < f.prices.n; i++)
        if ((rc = line_read(f.prices.items[i], out, err)) < 0)
            br_err_wrap(err, "%s: '%.60s'", where, f.prices.items[i]);
    br_options_free(g_file, 1, &f);
    return rc;
}

int prices_load(const char *file, struct prices *out, struct br_err *err)
{
    struct br_buf text = {0};
    int rc = 0;
    placeholders(out);
    if (!file)
        return 0;
    if (br_buf_read_file(&text, file, MAX_BYTES) < 0)
        rc = br_buf_read_error(err, BR_ENOENT, "prices %s", file);
    else
        rc = prices_parse(text.data ? text.data : "", text.len, file, out, err);
    br_buf_free(&text);
    return rc;
}

int prices_add(struct prices *prices, const struct br_gpu *device, struct br_err *err)
{
    if (prices_find(prices, device->name))
        return br_err_set(err, BR_EINVAL,
                          "a measured device cannot be called '%s': the catalogue has a GPU of that name",
                          device->name);
    if (prices->n == PRICES_MAX)
        return br_err_set(err, BR_EINVAL, "more than %d priced devices", PRICES_MAX);
    prices->list[prices->n++] = price_of(device, device->price_usd_per_hour);
    return 0;
}

const struct price *prices_find(const struct prices *prices, const char *gpu)
{
    for (uint32_t i = 0; i < prices->n; i++)
        if (strcmp(prices->list[i].gpu->name, gpu) == 0)
            return &prices->list[i];
    return NULL;
}
