/* Files of measurements: what is taken, and one clear sentence for what is not. */
#include <string.h>

#include "cost/check.h"
#include "cost/profile.h"
#include "tests/cmocka.h"

#define STEPS "model,gpu,prompt_tokens,batch,prefill_ms_median,decode_step_ms_median,samples\n"
#define LAYERS                                                                                                         \
    "gpu,model,tp,tokens,attn_pre_proj_ms,attn_post_proj_ms,mlp_up_proj_ms,mlp_act_ms,mlp_down_proj_ms,"               \
    "input_layernorm_ms,post_attention_layernorm_ms,attn_rope_ms,add_ms\n"

static int parse(const char *text, struct br_profile *out, struct br_err *err)
{
    return br_profile_parse(text, strlen(text), "f.csv", out, err);
}

static void steps_are_read(void **state)
{
    struct br_profile p;
    struct br_err err;
    (void)state;
    assert_int_equal(parse(STEPS "a,H20,16,1,8.5,9.25,12\r\na,H20,16,2,8.75,9.5,12\n\nb,L20,16,1,1,2e0,3", &p, &err),
                     0);
    assert_int_equal(p.kind, BR_PROFILE_STEPS);
    assert_int_equal(p.n_rows, 3);
    assert_int_equal(p.n_pairs, 2);
    assert_string_equal(p.pairs[1].model, "b");
    assert_int_equal(p.pairs[0].n, 2);
    assert_int_equal(p.rows[1].batch, 2);
    assert_true(p.rows[1].ms[BR_PROFILE_PREFILL] == 8.75 && p.rows[2].ms[BR_PROFILE_DECODE] == 2);
    br_profile_free(&p);
}

static void layers_are_read(void **state)
{
    struct br_profile p;
    struct br_err err;
    (void)state;
    assert_int_equal(
        parse(LAYERS "h100,Qwen-72B,1,64,1,2,3,4,5,6,7,8,9\nh100,Qwen-72B,2,64,1,2,3,4,5,6,7,8,9\n", &p, &err), 0);
    assert_int_equal(p.kind, BR_PROFILE_LAYERS);
    assert_int_equal(p.rows[1].tp, 2);
    assert_true(p.rows[0].ms[8] == 9);
    br_profile_free(&p);
}

static void what_is_wrong_is_said_in_one_sentence(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "f.csv: empty"},
        {STEPS, "f.csv: no rows below the header"},
        {"model,gpu,batch\n", "f.csv: line 1: no column 'prompt_tokens', which a file of steps needs"},
        {"gpu,model,tp,tokens\n", "f.csv: line 1: no column 'attn_pre_proj_ms', which a file of layer operators needs"},
        {STEPS "a,H20,16,1,-8.5,9\n",
         "f.csv: line 2: prefill_ms_median = '-8.5': must be a time in ms, above 0 and at most 1e7"},
        {STEPS "a,H20,16,1,8,nan\n",
         "f.csv: line 2: decode_step_ms_median = 'nan': must be a time in ms, above 0 and at most 1e7"},
        {STEPS "a,H20,16,1,8,inf\n",
         "f.csv: line 2: decode_step_ms_median = 'inf': must be a time in ms, above 0 and at most 1e7"},
        {STEPS "a,H20,16,1,8,\n", "f.csv: line 2: 5 columns, too few for 'decode_step_ms_median'"},
        {STEPS "a,H20,-16,1,8,9\n", "f.csv: line 2: prompt_tokens = '-16': must be a whole number in 1..4194304"},
        {STEPS "a,H20,16,1.5,8,9\n", "f.csv: line 2: batch = '1.5': must be a whole number in 1..65536"},
        {STEPS "a,H20,16,2,8,9\na,H20,16,1,8,9\n",
         "f.csv: line 3: out of order: the rows of a on H20 have to ascend by prompt_tokens and batch"},
        {STEPS "a,H20,16,2,8,9\na,H20,16,2,8,9\n",
         "f.csv: line 3: out of order: the rows of a on H20 have to ascend by prompt_tokens and batch"},
        {STEPS "a,H20,16,1,8,9\nb,H20,16,1,8,9\na,H20,16,2,8,9\n",
         "f.csv: line 4: rows of a on H20 are not together: they began in line 2"},
        {LAYERS "h100,m,2,64,1,2,3,4,5,6,7,8,9\nh100,m,1,64,1,2,3,4,5,6,7,8,9\n",
         "f.csv: line 3: out of order: the rows of m on h100 have to ascend by tp"},
        {STEPS "a\tb,H20,16,1,8,9\n",
         "f.csv: line 2: model = '...': must be plain printable characters without spaces"},
    };
    struct br_profile p;
    struct br_err err;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse(cases[i].text, &p, &err), BR_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
        assert_null(p.rows);
    }
}

static void unknown_names_say_where(void **state)
{
    struct br_profile p;
    struct br_check check;
    struct br_err err;
    (void)state;
    assert_int_equal(parse(STEPS "qwen2_5_7b,H21,16,1,8,9\n", &p, &err), 0);
    assert_int_equal(br_check_run(&p, "f.csv", &check, &err), BR_ENOENT);
    assert_string_equal(err.msg, "f.csv: line 2: unknown GPU 'H21': did you mean 'H20'?");
    br_profile_free(&p);
}

/* One pair leaves nothing to fit: the prior predicts, other GPUs say nothing. */
static void a_single_pair_is_predicted_by_the_prior(void **state)
{
    struct br_profile p;
    struct br_check check;
    struct br_err err;
    (void)state;
    assert_int_equal(parse(STEPS "qwen2_5_7b,H800,16,1,8.4,8.5\n", &p, &err), 0);
    assert_int_equal(br_check_run(&p, "f.csv", &check, &err), 0);
    assert_int_equal(check.total.held_out[0].n, 1);
    assert_int_equal(check.total.other_gpus[0].n, 0);
    assert_true(check.total.held_out[BR_PROFILE_DECODE].median < 0.3);
    br_check_free(&check);
    br_profile_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_read),
        cmocka_unit_test(layers_are_read),
        cmocka_unit_test(unknown_names_say_where),
        cmocka_unit_test(what_is_wrong_is_said_in_one_sentence),
        cmocka_unit_test(a_single_pair_is_predicted_by_the_prior),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
