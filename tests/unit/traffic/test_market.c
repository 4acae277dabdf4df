/* The market tail: figures of the data's own description and columns, and what is drawn from it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "traffic/generate.h"
#include "traffic/market.h"

#define near(a, b, within) assert_true(fabs((a) - (b)) <= (within))
#define RATES "model,t_s,rate_rps,cv,interarrival,shape,scale\n"
#define MODELS "model,base,class,in_mean,in_p50,in_p90,in_p99,out_mean,out_p50,out_p90,out_p99\n"
#define STATS ",110,100,200,300,11,10,20,30\n"

static char g_rates[4096], g_models[4096];

static struct br_market load(const struct br_market_options *options)
{
    struct br_market market;
    struct br_err err;
    snprintf(g_rates, sizeof g_rates, "%s/data/traces/servegen_tail_rates.csv", getenv("BRIAREUS_SHARED"));
    snprintf(g_models, sizeof g_models, "%s/data/traces/servegen_tail_models.csv", getenv("BRIAREUS_SHARED"));
    if (br_market_load(g_rates, g_models, options, &market, &err))
        fail_msg("%s", err.msg);
    return market;
}

static double total_rate(const struct br_market *market)
{
    double sum = 0;
    for (uint32_t i = 0; i < market->n_models; i++)
        sum += market->models[i].mean_rate;
    return sum;
}

/* "147 models, 28 req/s on average, 47 in the busiest window"; by awk over the rates: 27.9584, and 46.8984 in the
 * window at 59400 s. */
static void the_tail_is_as_described(void **state)
{
    struct br_market_options none = {0};
    struct br_market market = load(&none);
    uint32_t known = 0;
    double at_s;
    (void)state;
    assert_int_equal(market.n_models, 147);
    assert_int_equal(market.n_windows, 7853); /* wc -l less the header */
    near(market.duration_s, 86400, 0);
    near(total_rate(&market), 27.9584, 1e-4);
    near(br_market_peak(&market, &at_s), 46.8984, 1e-4);
    near(at_s, 59400, 0);
    for (uint32_t i = 0; i < market.n_models; i++)
        known += market.models[i].lengths_known;
    assert_int_equal(known, 140);
    assert_string_equal(market.models[43].base, "qwen2.5-3b");
    assert_int_equal(market.models[43].n_windows, 144);
    br_market_free(&market);
}

/* The models file gives each model's mean and peak rate, which this code does not read. */
static void rates_are_those_of_the_models_file(void **state)
{
    struct br_market_options none = {0};
    struct br_market market = load(&none);
    char line[512];
    FILE *f = fopen(g_models, "r");
    (void)state;
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    for (uint32_t i = 0; i < market.n_models; i++) {
        double mean, peak;
        assert_non_null(fgets(line, sizeof line, f));
        assert_int_equal(sscanf(line, "%*[^,],%*[^,],%*[^,],%lf,%lf", &mean, &peak), 2);
        near(market.models[i].mean_rate / mean, 1, 1e-3); /* written with five digits, windows with five too */
        near(market.models[i].peak_rate / peak, 1, 1e-3);
    }
    fclose(f);
    br_market_free(&market);
}

/* By awk, 10:00 to 11:00: 379 windows that expect 132545 requests. */
static void a_part_scaled(void **state)
{
    struct br_market_options hour = {.from_s = 36000, .duration_s = 3600}, mean = {.mean_rate = .037}, slow = hour;
    struct br_market market = load(&hour);
    double at_s, peak, total;
    (void)state;
    assert_int_equal(market.n_windows, 379);
    total = total_rate(&market);
    near(total * 3600, 132545, 1);
    peak = br_market_peak(&market, &at_s);
    br_market_free(&market);
    slow.time_scale = .5;
    slow.rate_scale = 4;
    market = load(&slow);
    near(market.duration_s, 1800, 0);
    near(total_rate(&market), 4 * total, 1e-9 * total);
    near(br_market_peak(&market, &at_s), 4 * peak, 1e-9 * peak);
    br_market_free(&market);
    market = load(&mean);
    near(total_rate(&market) / 147, .037, 1e-12);
    br_market_free(&market);
    hour.from_s = 36300; /* half a window is cut off each end */
    market = load(&hour);
    for (uint32_t i = 0; i < market.n_windows; i++)
        assert_true(market.windows[i].start_s >= 0 && market.windows[i].end_s <= 3600);
    br_market_free(&market);
}

/* 470,000 requests of the tail at a mean of .037/s. The variance of a renewal count is at most max(1, cv^2) times its
 * mean, with cv^2 = 1/shape (gamma) or Gamma(1 + 2/k)/Gamma(1 + 1/k)^2 - 1 (Weibull). */
static void as_much_is_offered_as_the_windows_say(void **state)
{
    struct br_market_options mean = {.mean_rate = .037};
    struct br_market market = load(&mean);
    struct br_source sources[147];
    struct br_workload w;
    struct br_err err;
    double variance = 0, expected = .037 * 147 * 86400;
    (void)state;
    for (uint32_t i = 0; i < market.n_models; i++)
        br_market_source(&market, i, &sources[i]);
    for (uint32_t i = 0; i < market.n_windows; i++) {
        const struct br_window *win = &market.windows[i];
        double k = win->shape;
        double cv2 = win->kind == BR_PROCESS_GAMMA ? 1 / k : tgamma(1 + 2 / k) / pow(tgamma(1 + 1 / k), 2) - 1;
        variance += win->rate * 600 * fmax(1, cv2);
    }
    assert_int_equal(br_workload_generate(sources, 147, market.duration_s, 1, &w, &err), 0);
    near((double)w.n, expected, 3 * sqrt(variance));
    assert_true(3 * sqrt(variance) < .02 * expected); /* and that says something */
    br_workload_free(&w);
    br_market_free(&market);
}

static int read_text(const char *rates, const char *models, struct br_market *out, struct br_err *err)
{
    struct br_market_options none = {0};
    FILE *r = fmemopen((void *)(uintptr_t)rates, strlen(rates), "r");
    FILE *m = fmemopen((void *)(uintptr_t)models, strlen(models), "r");
    int rc = br_market_read(r, "rates", m, "models", &none, out, err);
    fclose(r);
    fclose(m);
    return rc;
}

/* Medians of the class: prompts 100 and 300 give 200; another class does not count. */
static void missing_lengths_are_medians_of_the_class(void **state)
{
    static const char models[] = MODELS "a,b,x,100,100,100,100,10,10,10,10\nb,b,x,300,300,300,300,30,30,30,30\n"
                                        "c,b,y,900,900,900,900,90,90,90,90\nd,b,x,,,,,,,,\ne,b,z,,,,,,,,\n";
    struct br_market market;
    struct br_err err;
    (void)state;
    assert_int_equal(read_text(RATES "d,0,1,1,Gamma,1,1\n", models, &market, &err), 0);
    assert_false(market.models[3].lengths_known);
    near(market.models[3].lengths.prompt.median, 200, 0);
    near(market.models[3].lengths.output.median, 20, 0);
    near(market.models[4].lengths.prompt.median, 300, 0); /* no other z: of all three */
    assert_int_equal(market.models[0].n_windows, 0);
    near(market.models[3].mean_rate, 1, 0);
    br_market_free(&market);
}

static void a_bad_line_is_named(void **state)
{
    static const char good[] = MODELS "m,base,x" STATS "n,base,x" STATS;
    static const struct {
        const char *rates, *models, *message;
    } cases[] = {
        {"", good, "rates: empty"},
        {RATES, good, "rates: no windows"},
        {"model,t_s\n", good, "rates:1: no column 'rate_rps' in the header"},
        {RATES "m,0,abc,1,Gamma,1,1\n", good, "rates:2: column rate_rps: 'abc' is not a number from 0 to 100000"},
        {RATES "m,0,-1,1,Gamma,1,1\n", good, "rates:2: column rate_rps: '-1' is not a number from 0 to 100000"},
        {RATES "m,0,nan,1,Gamma,1,1\n", good, "rates:2: column rate_rps: 'nan' is not a number from 0 to 100000"},
        {RATES "m,0,1e99,1,Gamma,1,1\n", good, "rates:2: column rate_rps: '1e99' is not a number from 0 to 100000"},
        {RATES "m,0,1,1,Pareto,1,1\n", good,
         "rates:2: column interarrival: 'Pareto' is not Gamma, Weibull or Exponential"},
        {RATES "m,0,1,1,Gamma,0,1\n", good, "rates:2: column shape: '0' is not a number from 0.01 to 1000"},
        {RATES "q,0,1,1,Gamma,1,1\n", good, "rates:2: column model: 'q' is not a model of the models file"},
        {RATES "m,600,1,1,Gamma,1,1\nm,0,1,1,Gamma,1,1\n", good,
         "rates:3: window of 'm' at 0 s: starts before the one above it ends (1200 s)"},
        {RATES "m,0,1,1,Gamma,1,1\nn,0,1,1,Gamma,1,1\nm,600,1,1,Gamma,1,1\n", good,
         "rates:4: rows of model 'm' are not together"},
        {RATES "m,0,1,1,Gamma,1,1\n", MODELS "m,base,x,,,,,,,,\n", "models: no model has length statistics"},
        {RATES "m,0,1,1,Gamma,1,1\n", MODELS "m,base,x,1,1,1,,1,1,1,1\n",
         "models:2: column in_p99: '' is not a number from 0 to 1e+06"},
        {RATES "m,0,1,1,Gamma,1,1\n", MODELS "m,base,x,1,9,8,9,1,1,1,1\n",
         "models:2: column in_p90: '8' is not at least the quantile before it"},
        {RATES "m,0,1,1,Gamma,1,1\n", MODELS "m,base,x" STATS "m,base,x" STATS, "models:3: model 'm' is there twice"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct br_market market;
        struct br_err err;
        assert_int_equal(read_text(cases[i].rates, cases[i].models, &market, &err), BR_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
        assert_null(market.models);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tail_is_as_described),
        cmocka_unit_test(rates_are_those_of_the_models_file),
        cmocka_unit_test(a_part_scaled),
        cmocka_unit_test(as_much_is_offered_as_the_windows_say),
        cmocka_unit_test(missing_lengths_are_medians_of_the_class),
        cmocka_unit_test(a_bad_line_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
