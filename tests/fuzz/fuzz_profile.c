/* The input is a whole file of measurements. What is taken is consistent and, when small, gives a check with finite
 * errors or one sentence. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "cost/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_small(const struct br_profile *p)
{
    struct br_check check;
    struct br_err err;
    if (p->n_rows > 12 || p->n_pairs > 3 || br_check_run(p, "input", &check, &err))
        return;
    for (int i = 0; i < BR_CHECK_MEASURES; i++)
        if (!isfinite(check.total.held_out[i].median) || check.total.held_out[i].n == 0)
            abort();
    br_check_free(&check);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_profile p;
    struct br_err err;
    size_t rows = 0;
    if (br_profile_parse((const char *)data, size, "input", &p, &err))
        return 0;
    for (size_t i = 0; i < p.n_pairs; i++) {
        if (p.pairs[i].first != rows || p.pairs[i].n == 0)
            abort(); /* pairs are contiguous and cover all rows */
        rows += p.pairs[i].n;
    }
    if (rows != p.n_rows)
        abort();
    for (size_t i = 0; i < p.n_rows; i++)
        if (!p.rows[i].tokens || !p.rows[i].batch || !p.rows[i].tp || !(p.rows[i].ms[0] > 0))
            abort();
    check_small(&p);
    br_profile_free(&p);
    return 0;
}
