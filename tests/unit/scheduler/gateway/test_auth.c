/* Keys: the file, finding one, limits. Hashes are SHA-256 test vectors of FIPS 180-2 ("abc" and the empty text), times
 * follow from the rules of a bucket that holds one minute's worth. */
#include "scheduler/gateway/auth.h"

#include <math.h>
#include <string.h>

#include "tests/cmocka.h"

#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct br_key_list parse(const char *yaml)
{
    struct br_key_list list;
    struct br_err err;
    if (br_keys_parse(yaml, strlen(yaml), "f", &list, &err))
        fail_msg("%s", err.msg);
    return list;
}

static struct br_auth *auth_of(const char *yaml, double now_s)
{
    struct br_key_list list = parse(yaml);
    struct br_auth *auth = br_auth_create();
    br_auth_set(auth, &list, now_s);
    return auth;
}

static void everything_a_file_can_say(void **state)
{
    struct br_key_list list = parse("keys:\n- name: alice\n  hash: " ABC "\n  requests: 60\n  tokens: 1e5\n"
                                    "  concurrency: 8\n  models: [m1, m2]\n  weight: 2\n  tenant: acme\n  admin: true\n"
                                    "- {name: bob, hash: " EMPTY "}\n");
    const struct br_key *a = &list.keys[0], *b = &list.keys[1];
    (void)state;
    assert_int_equal(list.n, 2);
    assert_string_equal(a->name, "alice");
    assert_string_equal(a->tenant, "acme");
    assert_int_equal(a->hash[0], 0xba);
    assert_int_equal(a->hash[31], 0xad);
    assert_true(a->requests_per_min == 60 && a->tokens_per_min == 100000 && a->concurrency == 8 && a->weight == 2);
    assert_true(a->admin && a->models.n == 2);
    assert_string_equal(a->models.items[1], "m2");
    assert_string_equal(b->tenant, "bob");
    assert_true(b->requests_per_min == 0 && b->weight == 1 && !b->admin && b->models.n == 0);
    br_keys_free(&list);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *yaml, *says;
    } cases[] = {
        {"", "'keys:' with a list"},
        {"keys: []", "'keys:' with a list"},
        {"keys: 1", "'keys:' with a list"},
        {"keys:\n- name: a\n  hash: " ABC "\nother: 1", "'keys:' with a list"},
        {"keys:\n- name: a\n", "f:2: hash: 64 hexadecimal digits"},
        {"keys:\n- hash: " ABC "\n", "f:2: name: a name of 1 to 63 bytes"},
        {"keys:\n- name: a b\n  hash: " ABC "\n", "'a b' has a blank"},
        {"keys:\n- name: a\n  hash: x" ABC "\n", "64 hexadecimal digits"},
        {"keys:\n- name: a\n  hash: ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n", "digit 1 "},
        {"keys:\n- name: a\n  hash: " ABC "\n- name: b\n  hash: " ABC "\n", "f:4: 'b' has the hash of 'a'"},
        {"keys:\n- name: a\n  hash: " ABC "\n- name: a\n  hash: " EMPTY "\n", "two keys are called 'a'"},
        {"keys:\n- name: a\n  hash: " ABC "\n  name: b\n", "f:4: 'name' is there twice"},
        {"keys:\n- name: a\n  hash: " ABC "\n  reqests: 1\n", "did you mean 'requests'"},
        {"keys:\n- name: a\n  hash: " ABC "\n  requests: -1\n", "f:4: requests: '-1' is not a number from"},
        {"keys:\n- name: a\n  hash: " ABC "\n  models: []\n", "an empty list allows none"},
        {"keys:\n- name: a\n  hash: " ABC "\n  models: [[x]]\n", "models: a list of names"},
        {"keys:\n- [a]\n", "f:2: a key is a mapping"},
        {"keys: [\n", "f:2:"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_key_list list;
        struct br_err err;
        assert_int_equal(br_keys_parse(cases[i].yaml, strlen(cases[i].yaml), "f", &list, &err), BR_EINVAL);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("case %zu: '%s' does not say '%s'", i, err.msg, cases[i].says);
        assert_null(strstr(err.msg, ABC)); /* somebody may have put the key there instead */
    }
}

static void a_key_is_found_by_its_text_alone(void **state)
{
    struct br_auth *auth = auth_of("keys:\n- {name: a, hash: " ABC "}\n- {name: b, hash: " EMPTY "}\n", 0);
    (void)state;
    assert_string_equal(br_auth_find(auth, "abc")->key.name, "a");
    assert_string_equal(br_auth_find(auth, "")->key.name, "b");
    assert_null(br_auth_find(auth, "abd"));
    assert_null(br_auth_find(auth, ABC));
    assert_true(br_client_salt(br_auth_at(auth, 0)) != br_client_salt(br_auth_at(auth, 1)));
    br_auth_destroy(auth);
}

static void a_new_key_is_let_in(void **state)
{
    char key[BR_KEY_TEXT], other[BR_KEY_TEXT], hash[2 * BR_KEY_HASH + 1], yaml[256];
    struct br_auth *auth;
    struct br_err err;
    (void)state;
    assert_int_equal(br_key_new(other, hash, &err), 0);
    assert_int_equal(br_key_new(key, hash, &err), 0);
    assert_int_equal(strlen(key), 4 + 43); /* 256 bits, six to a character */
    assert_string_not_equal(key, other);
    snprintf(yaml, sizeof yaml, "keys:\n- {name: a, hash: %s}\n", hash);
    auth = auth_of(yaml, 0);
    assert_non_null(br_auth_find(auth, key));
    assert_null(br_auth_find(auth, other));
    br_auth_destroy(auth);
}

static struct br_client *client_of(struct br_auth *auth)
{
    return br_auth_find(auth, "abc");
}

/* 60 a minute: 60 at once, then one a second. */
static void requests_a_minute(void **state)
{
    struct br_auth *auth = auth_of("keys:\n- {name: a, hash: " ABC ", requests: 60}\n", 1000);
    struct br_client *c = client_of(auth);
    struct br_problem problem;
    (void)state;
    for (int i = 0; i < 60; i++) {
        assert_int_equal(br_client_begin(c, 1000, &problem), 0);
        br_client_end(c);
    }
    assert_int_equal(br_client_begin(c, 1000.25, &problem), -1);
    assert_int_equal(problem.status, 429);
    assert_string_equal(problem.code, "rate_limit_exceeded");
    assert_true(fabs(problem.retry_after_s - .75) < 1e-9);
    assert_int_equal(br_client_begin(c, 1001.001, &problem), 0);
    br_client_end(c);
    assert_int_equal(br_client_begin(c, 1001.002, &problem), -1);
    assert_true(c->n_requests == 61 && c->n_refused == 2);
    br_auth_destroy(auth);
}

static void requests_at_a_time(void **state)
{
    struct br_auth *auth = auth_of("keys:\n- {name: a, hash: " ABC ", concurrency: 2}\n", 0);
    struct br_client *c = client_of(auth);
    struct br_problem problem;
    (void)state;
    assert_int_equal(br_client_begin(c, 0, &problem), 0);
    assert_int_equal(br_client_begin(c, 0, &problem), 0);
    assert_int_equal(br_client_begin(c, 0, &problem), -1);
    assert_int_equal(problem.status, 429);
    assert_true(problem.retry_after_s > 0);
    br_client_end(c);
    assert_int_equal(br_client_begin(c, 0, &problem), 0);
    br_client_end(c);
    br_client_end(c);
    br_auth_destroy(auth);
}

/* 600 a minute, ten a second: 100 of prompt and 550 of answer leave a debt of 50, so 20 more fit after seven seconds.
 */
static void tokens_a_minute(void **state)
{
    struct br_auth *auth = auth_of("keys:\n- {name: a, hash: " ABC ", tokens: 600}\n", 0);
    struct br_client *c = client_of(auth);
    struct br_problem problem;
    struct br_buf lines = {0};
    (void)state;
    assert_int_equal(br_client_charge(c, 100, 0, &problem), 0);
    br_client_headers(c, 0, &lines);
    assert_string_equal(lines.data, "x-ratelimit-limit-tokens: 600\r\nx-ratelimit-remaining-tokens: 500\r\n"
                                    "x-ratelimit-reset-tokens: 10.000s\r\n");
    br_buf_free(&lines);
    br_client_generated(c, 550, 0);
    assert_int_equal(br_client_charge(c, 20, 0, &problem), -1);
    assert_true(fabs(problem.retry_after_s - 7) < 1e-9);
    assert_int_equal(br_client_charge(c, 20, 6.9, &problem), -1);
    assert_int_equal(br_client_charge(c, 20, 7.1, &problem), 0);
    assert_true(c->prompt_tokens == 120 && c->generated_tokens == 550);
    br_client_refund(c, 20, 7.1);
    assert_true(c->prompt_tokens == 100);
    assert_int_equal(br_client_charge(c, 601, 1e6, &problem), -1); /* never: so no time is named */
    assert_true(problem.retry_after_s == 0);
    br_auth_destroy(auth);
}

/* A new file: what a key has used counts on, one that is gone is refused but its request ends well. */
static void another_file(void **state)
{
    struct br_auth *auth =
        auth_of("keys:\n- {name: a, hash: " ABC ", requests: 10}\n- {name: b, hash: " EMPTY "}\n", 0);
    struct br_client *a = client_of(auth), *b = br_auth_find(auth, "");
    struct br_problem problem;
    struct br_key_list list = parse("keys:\n- {name: a, hash: " ABC ", requests: 4}\n");
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(br_client_begin(a, 0, &problem), 0);
    assert_int_equal(br_client_begin(b, 0, &problem), 0);
    br_auth_set(auth, &list, 0);
    assert_ptr_equal(client_of(auth), a);
    assert_null(br_auth_find(auth, ""));
    assert_int_equal(br_client_begin(a, 0, &problem), 0); /* the fourth of four */
    assert_int_equal(br_client_begin(a, 0, &problem), -1);
    br_client_end(b);
    assert_null(br_auth_at(auth, 1));
    for (int i = 0; i < 4; i++)
        br_client_end(a);
    br_auth_destroy(auth);
}

static void models(void **state)
{
    struct br_auth *auth = auth_of("keys:\n- {name: a, hash: " ABC ", models: [x]}\n- {name: b, hash: " EMPTY "}\n", 0);
    (void)state;
    assert_true(br_client_may(client_of(auth), "x"));
    assert_false(br_client_may(client_of(auth), "xy"));
    assert_true(br_client_may(br_auth_find(auth, ""), "xy"));
    br_auth_destroy(auth);
}

/* Shares by weight 3 : 1. With 6 and 6 requests the fair share of each unit of weight is 12 / 4 = 3: the first has
 * 6 / 3 = 2 of its unit, the second 6, which is twice its share. */
static void a_key_with_more_than_its_share(void **state)
{
    struct br_auth *auth = auth_of("keys:\n- {name: a, hash: " ABC ", weight: 3}\n- {name: b, hash: " EMPTY "}\n", 0);
    struct br_client *a = client_of(auth), *b = br_auth_find(auth, "");
    struct br_problem problem;
    (void)state;
    for (int i = 0; i < 6; i++)
        assert_int_equal(br_client_begin(b, 0, &problem), 0);
    assert_true(br_client_share(b) == 1); /* nobody else is there */
    for (int i = 0; i < 6; i++)
        assert_int_equal(br_client_begin(a, 0, &problem), 0);
    assert_true(br_client_share(a) == 1);
    assert_true(fabs(br_client_share(b) - .5) < 1e-9);
    for (int i = 0; i < 6; i++)
        br_client_end(a);
    assert_true(br_client_share(b) == 1);
    for (int i = 0; i < 6; i++)
        br_client_end(b);
    br_auth_destroy(auth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_a_file_can_say),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_key_is_found_by_its_text_alone),
        cmocka_unit_test(a_new_key_is_let_in),
        cmocka_unit_test(requests_a_minute),
        cmocka_unit_test(requests_at_a_time),
        cmocka_unit_test(tokens_a_minute),
        cmocka_unit_test(another_file),
        cmocka_unit_test(models),
        cmocka_unit_test(a_key_with_more_than_its_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
