/* Published traces: counts, sums, first and last requests. The figures were counted apart from this code, by awk and
 * wc: `awk -F, 'NR>1{n++; p+=$2; o+=$3} END{print n, p, o}'` for azure, columns $3 and $4 for aegaeon;
 * `awk -F'[:,]' '{n++; p+=$4; o+=$6}'` for mooncake, whose blocks are `grep -o '"hash_ids": \[[^]]*' | tr ',' '\n' |
 * wc -l`, and `| sort -u` of them for the different ones. */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/unit/traffic/trace_text.h"

#define near(a, b, within) assert_true(fabs((double)(a) - (double)(b)) <= (within))

static struct br_workload load(const char *name, const struct br_trace_options *options, struct br_trace_report *report)
{
    struct br_workload w;
    struct br_err err;
    if (br_trace_load(shared_trace(name), options, &w, report, &err))
        fail_msg("%s", err.msg);
    return w;
}

static void check_sums(const struct br_workload *w, size_t n, uint64_t prompt, uint64_t output)
{
    struct br_workload_sums sums;
    br_workload_sum(w, &sums);
    assert_int_equal(w->n, n);
    assert_int_equal(sums.prompt, prompt);
    assert_int_equal(sums.output, output);
}

static void check_request(const struct br_request *r, double at_s, uint32_t prompt, uint32_t output)
{
    near(r->at_s, at_s, 1e-9);
    assert_int_equal(r->prompt, prompt);
    assert_int_equal(r->output, output);
}

/* 18:17:03.97996 to 19:14:19.928016; 18:15:46.68059 to 19:14:08.4025270 */
static void azure(void **state)
{
    struct br_trace_options none = {0};
    struct br_trace_report report;
    struct br_workload w = load("AzureLLMInferenceTrace_code.csv", &none, &report);
    (void)state;
    assert_int_equal(report.format, BR_TRACE_AZURE);
    assert_int_equal(report.lines, 8820);
    check_sums(&w, 8819, 18059974, 245896);
    check_request(&w.requests[0], 0, 4808, 10);
    check_request(&w.requests[1], .052, 3180, 8);
    check_request(&w.requests[8818], 3435.948056, 549, 173);
    assert_int_equal(w.n_models, 1);
    assert_string_equal(w.names[0], "trace");
    br_workload_free(&w);
    w = load("AzureLLMInferenceTrace_conv.csv", &none, &report);
    check_sums(&w, 19366, 22361870, 4088665);
    check_request(&w.requests[0], 0, 374, 44);
    check_request(&w.requests[19365], 3501.721937, 197, 183);
    near(w.duration_s, 3501.721937, 1e-9);
    br_workload_free(&w);
}

/* `awk -F'[ ,:]' '$2=="18" && $3>=30 && $3<40 {n++; p+=$6}'`: 2130 requests of 4483746 tokens from 18:30 to 18:40,
 * which is 776.02004 s behind the first. */
static void a_part_of_azure_scaled(void **state)
{
    struct br_trace_options part = {
        .from_s = 776.02004, .duration_s = 600, .time_scale = .5, .output_scale = 2, .model = "code"};
    struct br_trace_report report;
    struct br_workload w = load("AzureLLMInferenceTrace_code.csv", &part, &report);
    struct br_workload_sums sums;
    uint64_t output = 0;
    (void)state;
    br_workload_sum(&w, &sums);
    assert_int_equal(w.n, 2130);
    assert_int_equal(sums.prompt, 4483746);
    assert_int_equal(report.outside, 8819 - 2130);
    assert_string_equal(w.names[0], "code");
    near(w.duration_s, 300, 1e-9);
    assert_true(w.requests[0].at_s >= 0 && w.requests[w.n - 1].at_s < 300 && w.requests[w.n - 1].at_s > 295);
    br_workload_free(&w);
    part.output_scale = 0;
    w = load("AzureLLMInferenceTrace_code.csv", &part, &report);
    for (size_t i = 0; i < w.n; i++)
        output += w.requests[i].output;
    assert_int_equal(sums.output, 2 * output);
    br_workload_free(&w);
}

/* 288500 blocks, 182790 different ones. A block's id stands for all before it too, so every repeated one is a hit of an
 * unbounded cache: 105710 / 288500 = 36.6 %. */
static void mooncake(void **state)
{
    struct br_trace_options none = {0};
    struct br_trace_report report;
    struct br_workload w = load("mooncake_conversation.jsonl", &none, &report);
    struct br_workload_sums sums;
    (void)state;
    assert_int_equal(report.format, BR_TRACE_MOONCAKE);
    check_sums(&w, 12031, 144793823, 4122048);
    check_request(&w.requests[0], 0, 6758, 500);
    check_request(&w.requests[12030], 3536.999, 20774, 508);
    assert_int_equal(w.block_tokens, 512);
    br_workload_sum(&w, &sums);
    assert_int_equal(sums.blocks, 288500);
    assert_int_equal(sums.block_hits, 288500 - 182790);
    near((double)sums.block_hits / (double)sums.blocks, .366, .0005);
    assert_int_equal(w.requests[2].n_blocks, 15);
    assert_int_equal(w.blocks[w.requests[2].first_block + 1], 28);
    br_workload_free(&w);
}

/* `awk '$2>=600000 && $2<1200000'`: 1908 of them; blocks shrink with the prompts. */
static void a_part_of_mooncake_scaled(void **state)
{
    struct br_trace_options part = {.from_s = 600, .duration_s = 600, .prompt_scale = .25};
    struct br_workload w = load("mooncake_conversation.jsonl", &part, NULL);
    (void)state;
    assert_int_equal(w.n, 1908);
    assert_int_equal(w.block_tokens, 128);
    for (size_t i = 0; i < w.n; i++)
        near((w.requests[i].prompt + 127) / 128, w.requests[i].n_blocks, 1); /* rounding of the prompt */
    br_workload_free(&w);
}

/* `awk` on the time's parts: 254 of 839 from 30 s to 60 s; synth_model_08 has 8. */
static void aegaeon(void **state)
{
    struct br_trace_options options = {0};
    struct br_trace_report report;
    const char *file = "aegaeon_artifact/synth-80-0.1-1.0-1.0.csv";
    struct br_workload w = load(file, &options, &report);
    uint32_t of_08 = 0;
    (void)state;
    assert_int_equal(report.format, BR_TRACE_AEGAEON);
    check_sums(&w, 839, 599013, 253809);
    assert_int_equal(w.n_models, 80);
    check_request(&w.requests[0], .054, 1514, 380);
    check_request(&w.requests[1], .065, 1468, 258);
    check_request(&w.requests[838], 119.795, 144, 438);
    assert_string_equal(w.names[w.requests[0].model], "synth_model_46");
    for (size_t i = 0; i < w.n; i++)
        of_08 += strcmp(w.names[w.requests[i].model], "synth_model_08") == 0;
    assert_int_equal(of_08, 8);
    br_workload_free(&w);
    options = (struct br_trace_options){.from_s = 30, .duration_s = 30};
    w = load(file, &options, NULL);
    assert_int_equal(w.n, 254);
    br_workload_free(&w);
}

/* The first lines of the published file, and two of its failed requests; a later release has more columns. */
static void burstgpt(void **state)
{
    static const char text[] = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                               "5,ChatGPT,472,18,490,Conversation log\r\n"
                               "45,ChatGPT,1087,230,1317,Conversation log\n"
                               "118.5,GPT-4,417,276,693,API log\n"
                               "1106,ChatGPT,0,0,0,Conversation log\n"
                               "4525,GPT-4,12,0,12,Conversation log";
    static const char later[] = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens\n"
                                "3,,0.5,GPT-4,7,9,16\n";
    struct br_trace_options none = {0};
    struct br_trace_report report;
    struct br_workload w;
    struct br_err err;
    (void)state;
    assert_int_equal(trace_text(text, strlen(text), &none, &w, &report, &err), 0);
    assert_int_equal(report.format, BR_TRACE_BURSTGPT);
    assert_int_equal(report.lines, 6);
    assert_int_equal(report.requests, 3);
    assert_int_equal(report.empty, 2);
    check_request(&w.requests[0], 5, 472, 18);
    check_request(&w.requests[2], 118.5, 417, 276);
    assert_string_equal(w.names[w.requests[2].model], "GPT-4");
    near(w.duration_s, 4525, 1e-9); /* gaps are fine, and the failed ones were sent */
    br_workload_free(&w);
    assert_int_equal(trace_text(later, strlen(later), &none, &w, &report, &err), 0);
    check_request(&w.requests[0], 3, 7, 9);
    br_workload_free(&w);
}

/* The 2024 release of the Azure traces writes the zone. */
static void azure_with_zones_over_midnight(void **state)
{
    static const char text[] = "\xEF\xBB\xBFTIMESTAMP,ContextTokens,GeneratedTokens\n"
                               "2024-02-29 23:59:59.500000+00:00,1,2\n2024-03-01T00:00:01.5Z,3,4\n";
    struct br_trace_options none = {0};
    struct br_workload w;
    struct br_err err;
    (void)state;
    assert_int_equal(trace_text(text, strlen(text), &none, &w, NULL, &err), 0);
    check_request(&w.requests[1], 2, 3, 4);
    br_workload_free(&w);
}

static void formats_are_told_apart(void **state)
{
    enum br_trace_format format;
    struct br_err err;
    (void)state;
    assert_int_equal(br_trace_detect(shared_trace("servegen_tail_rates.csv"), &format, &err), 0);
    assert_int_equal(format, BR_TRACE_SERVEGEN);
    assert_int_equal(br_trace_detect(shared_trace("aegaeon_artifact/synth-16-0.1-1.0-1.0.csv"), &format, &err), 0);
    assert_int_equal(format, BR_TRACE_AEGAEON);
    assert_int_equal(br_trace_detect(shared_trace("mooncake_conversation.jsonl"), &format, &err), 0);
    assert_int_equal(format, BR_TRACE_MOONCAKE);
    assert_int_equal(br_trace_detect(shared_trace("servegen_tail_models.csv"), &format, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "'model,base,class,"));
    assert_int_equal(br_trace_detect(shared_trace("nothing"), &format, &err), BR_ENOENT);
    for (int i = 0; i <= BR_TRACE_SERVEGEN; i++) {
        assert_int_equal(br_trace_format_parse(br_trace_format_name((enum br_trace_format)i), &format, &err), 0);
        assert_int_equal(format, i);
    }
    assert_int_equal(br_trace_format_parse("moncake", &format, &err), BR_EINVAL);
    assert_string_equal(err.msg, "no trace format 'moncake'; did you mean 'mooncake'?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(azure),
        cmocka_unit_test(a_part_of_azure_scaled),
        cmocka_unit_test(mooncake),
        cmocka_unit_test(a_part_of_mooncake_scaled),
        cmocka_unit_test(aegaeon),
        cmocka_unit_test(burstgpt),
        cmocka_unit_test(azure_with_zones_over_midnight),
        cmocka_unit_test(formats_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
