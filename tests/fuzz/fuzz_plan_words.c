/* What the planner reads from people: lines of models, prices, load curves. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/plan/model_words.h"
#include "cli/plan/money.h"
#include "cli/plan/prices.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_model(const char *text)
{
    const struct plan_defaults d = {"bf16", "bf16", 10, .1, .1, 1};
    struct plan_model *models = NULL;
    struct br_err err;
    uint32_t n = 0;
    plan_model_words(text, &d, &models, &n, &err);
    free(models);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct prices prices;
    struct br_err err;
    double shares[MONEY_MAX_HOURS];
    char *text;
    if (size < 1 || size > 1 << 16)
        return 0;
    text = br_calloc(size, 1); /* the first byte chooses; the rest is the text */
    memcpy(text, data + 1, size - 1);
    if (data[0] == 'p')
        prices_parse(text, size - 1, "fuzz", &prices, &err);
    else if (data[0] == 'c')
        load_curve_parse(text, shares, &err);
    else
        read_model(text);
    free(text);
    return 0;
}
