#include "cli/devices/search.h"

static uint32_t clamp(uint32_t n, uint32_t least, uint32_t most)
{
    return n < least ? least : n > most ? most : n;
}

/* lo does not hold (or is least - 1), hi does (or is most + 1). */
int32_t devices_search(uint32_t guess, uint32_t least, uint32_t most, devices_hold_fn hold, void *ctx,
                       struct br_err *err)
{
    uint32_t lo = least - 1, hi = most + 1, step = 1, at = clamp(guess, least, most), asked = 0;
    while (hi - lo > 1) {
        int ok = hold(ctx, at, err);
        if (ok < 0)
            return ok;
        *(ok ? &hi : &lo) = at;
        if (lo >= least && hi <= most)
            at = lo + (hi - lo) / 2;
        else if (hi <= most) /* all so far hold */
            at = hi > least + step ? hi - step : least;
        else
            at = clamp(lo + step, least, most);
        step *= asked++ ? 2 : 1; /* a guess that is off by one costs three runs */
    }
    return hi <= most ? (int32_t)hi : 0;
}
