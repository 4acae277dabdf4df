/* A sequence goes from one device to another in the middle of its answer, with its KV or without: the tokens are those
 * of the sequence alone. Two turns of one process stand for two device processes; what they share is the parcels. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "tests/cmocka.h"

enum { MODEL = 3, PROMPT = 60, ANSWER = 120, MOVE_AT = 10, PARCELS_BYTES = 4 << 20 };

static struct fx_models models;
static struct fx_result want;

struct pair {
    struct fx_run run[2];
    struct br_parcels *parcels[2];
    int fd;
};

static void spec_make(struct br_seq_spec *spec)
{
    fx_spec(&models, MODEL, 1, spec);
    free(spec->prompt);
    spec->n_prompt = PROMPT;
    spec->prompt = malloc(PROMPT * sizeof *spec->prompt);
    for (int32_t i = 0; i < PROMPT; i++)
        spec->prompt[i] = (i * 37 + 5) % 500;
    spec->max_tokens = ANSWER;
    spec->ignore_eos = true;
}

/* A result for a sequence that begins behind n tokens. */
static uint32_t expect(struct fx_run *run, uint64_t seq, uint32_t n)
{
    uint32_t index;
    pthread_mutex_lock(&run->mutex);
    index = run->n++;
    run->results[index] = (struct fx_result){.seq = seq, .given = n, .n = n};
    pthread_mutex_unlock(&run->mutex);
    return index;
}

/* The sequence on one device from beginning to end. */
static void alone(const struct br_seq_spec *spec)
{
    static struct fx_run run;
    struct br_turn_config config;
    fx_config(&models, &config);
    fx_start(&run, &config, &models, FX_MODELS);
    fx_add(&run, spec, NULL, 0);
    fx_wait(&run);
    want = run.results[0];
    fx_stop(&run);
    assert_int_equal(want.n, ANSWER);
}

static void pair_open(struct pair *p, const char *policy)
{
    struct br_turn_config config;
    struct br_err err;
    assert_int_equal(br_parcels_create(PARCELS_BYTES, 2, &p->fd, &err), 0);
    fx_config(&models, &config);
    config.policy = policy;
    config.prefill_chunk = 32;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(br_parcels_open(p->fd, i, &p->parcels[i], &err), 0);
        config.parcels = p->parcels[i];
        fx_start(&p->run[i], &config, &models, FX_MODELS);
    }
}

static void pair_close(struct pair *p)
{
    for (uint32_t i = 0; i < 2; i++) {
        fx_stop(&p->run[i]);
        br_parcels_close(p->parcels[i]);
    }
    close(p->fd);
}

static enum br_parcel_state wait_parcel(struct pair *p, uint64_t seq)
{
    enum br_parcel_state state;
    struct br_parcel parcel;
    while ((state = br_parcel_find(p->parcels[1], 0, seq, &parcel)) == BR_PARCEL_NONE || state == BR_PARCEL_COMING)
        usleep(1000);
    return state;
}

static bool ended(struct fx_run *run, uint32_t index)
{
    pthread_mutex_lock(&run->mutex);
    bool over = run->results[index].end != BR_END_NONE;
    pthread_mutex_unlock(&run->mutex);
    return over;
}

enum trouble { NONE, DAMAGED, GIVER_AGAIN, GIVER_DEAD, NOT_ASKED };

/* Whatever is to happen to the parcel. False: the first device had ended before it was told. */
static bool trouble_make(struct pair *p, uint32_t index, uint64_t seq, enum trouble trouble)
{
    struct br_parcels *again;
    struct br_parcel parcel;
    struct br_err err;
    if (trouble == GIVER_DEAD || trouble == NOT_ASKED)
        br_turn_forget(p->run[0].turn, seq);
    else
        br_turn_hand_over(p->run[0].turn, seq);
    if (trouble != DAMAGED && trouble != GIVER_AGAIN)
        return !ended(&p->run[0], index);
    if (wait_parcel(p, seq) != BR_PARCEL_HERE) {
        assert_true(ended(&p->run[0], index));
        return false;
    }
    if (trouble == DAMAGED) {
        assert_int_equal(br_parcel_find(p->parcels[1], 0, seq, &parcel), BR_PARCEL_HERE);
        parcel.data[100] ^= 1;
    } else {
        assert_int_equal(br_parcels_open(p->fd, 0, &again, &err), 0);
        br_parcels_close(again);
    }
    return true;
}

/* Returns the second device's numbers; steps 0: try again. */
static struct br_turn_stats moved_once(const char *policy, enum trouble trouble)
{
    static struct pair p;
    struct br_seq_spec spec, copy;
    struct br_turn_stats stats;
    int32_t ids[ANSWER];
    uint32_t n, index;
    pair_open(&p, policy);
    spec_make(&spec);
    index = fx_add(&p.run[0], &spec, NULL, 0);
    fx_wait_tokens(&p.run[0], index, MOVE_AT);
    if (!trouble_make(&p, index, spec.id, trouble)) {
        br_seq_spec_free(&spec);
        pair_close(&p);
        return (struct br_turn_stats){0};
    }
    pthread_mutex_lock(&p.run[0].mutex);
    n = p.run[0].results[index].n;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = p.run[0].results[index].tokens[i].id;
    pthread_mutex_unlock(&p.run[0].mutex);
    assert_int_equal(br_seq_spec_copy(&copy, &spec), 0);
    index = expect(&p.run[1], spec.id, n);
    if (trouble == NOT_ASKED)
        br_turn_add(p.run[1].turn, &copy, 2, ids, n, 0);
    else
        br_turn_add_from(p.run[1].turn, &copy, 2, ids, n, 0, 0);
    fx_wait(&p.run[1]);
    fx_same(&want, &p.run[1].results[index], n);
    do
        br_turn_stats(p.run[1].turn, &stats, NULL);
    while (stats.rows + stats.handed_tokens < PROMPT);
    if (trouble == NONE && ended(&p.run[0], 0))
        stats.steps = 0;
    assert_int_equal(br_parcels_used(p.parcels[1]), 0);
    assert_true(trouble != NONE || br_parcels_used(p.parcels[0]) == 0); /* it was taken, and is free again */
    br_seq_spec_free(&spec);
    pair_close(&p);
    return stats;
}

static struct br_turn_stats moved(const char *policy, enum trouble trouble)
{
    struct br_turn_stats stats;
    do
        stats = moved_once(policy, trouble);
    while (!stats.steps);
    return stats;
}

static const char *const policies[] = {"slack", "quota-rr"};

static void kv_moves_with_its_sequence(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct br_turn_stats s = moved(policies[i], NONE);
        assert_true(s.handed_tokens >= PROMPT + MOVE_AT - 1);
        assert_true(s.rows <= ANSWER - MOVE_AT + 1); /* of the prompt nothing was computed again */
        assert_true(s.handed_in_bytes > 0 && s.handed_damaged == 0);
    }
}

static void without_kv_it_is_computed(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (enum trouble t = DAMAGED; t <= NOT_ASKED; t++) {
            struct br_turn_stats s = moved(policies[i], t);
            assert_int_equal(s.handed_tokens, 0);
            assert_int_equal(s.handed_damaged, t == DAMAGED);
            assert_true(s.rows >= PROMPT + MOVE_AT);
        }
}

/* One that the first device has never heard of: the second is told so, and does not wait. */
static void nothing_to_hand_over(void **state)
{
    static struct pair p;
    struct br_parcel parcel;
    (void)state;
    pair_open(&p, "slack");
    br_turn_hand_over(p.run[0].turn, 4711);
    while (br_parcel_find(p.parcels[1], 0, 4711, &parcel) != BR_PARCEL_REFUSED)
        usleep(1000);
    assert_int_equal(br_parcels_used(p.parcels[0]), 0);
    pair_close(&p);
}

struct back {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t n[3]; /* tokens, by fence */
    struct fx_result got;
};

static void on_back(void *ctx, const struct br_turn_output *out)
{
    struct back *b = ctx;
    pthread_mutex_lock(&b->mutex);
    if (out->fence == 2 && out->n)
        b->got.tokens[out->first] = out->tokens[0];
    if (out->fence == 2)
        b->got.end = out->end;
    b->n[out->fence] += out->n;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mutex);
}

/* Waits for n tokens under a fence, or for the end under the second; how many there are. */
static uint32_t back_wait(struct back *b, uint32_t fence, uint32_t n)
{
    pthread_mutex_lock(&b->mutex);
    while (b->n[fence] < n && !(fence == 2 && b->got.end != BR_END_NONE))
        pthread_cond_wait(&b->changed, &b->mutex);
    n = b->n[fence];
    pthread_mutex_unlock(&b->mutex);
    return n;
}

/* It leaves and comes back while a step of it runs. */
static void there_and_back(struct br_turn *turn, struct back *b, const struct br_seq_spec *like, uint64_t id)
{
    struct br_seq_spec spec, again;
    int32_t ids[ANSWER];
    uint32_t n;
    assert_int_equal(br_seq_spec_copy(&spec, like), 0);
    assert_int_equal(br_seq_spec_copy(&again, like), 0);
    spec.id = again.id = id;
    memset(b->n, 0, sizeof b->n);
    b->got = want;
    b->got.end = BR_END_NONE;
    for (uint32_t i = 0; i < ANSWER; i++)
        ids[i] = want.tokens[i].id;
    br_turn_add(turn, &spec, 1, NULL, 0, 0);
    n = back_wait(b, 1, 1 + (uint32_t)id % 5);
    n = n < ANSWER ? n : ANSWER - 1;
    br_turn_hand_over(turn, id);
    br_turn_add(turn, &again, 2, ids, n, 0);
    back_wait(b, 2, ANSWER + 1); /* until its end */
    assert_int_equal(b->got.end, BR_END_LENGTH);
    assert_int_equal(b->n[2], ANSWER - n);
    fx_same(&want, &b->got, n);
}

static void one_that_comes_back_at_once_is_not_lost(void **state)
{
    struct back b = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    struct br_turn_cb cb = {.ctx = &b, .output = on_back};
    struct br_turn_config config;
    struct br_seq_spec spec;
    struct br_turn *turn;
    struct br_err err;
    (void)state;
    fx_config(&models, &config);
    assert_int_equal(br_turn_create(&config, models.model, FX_MODELS, &cb, &turn, &err), 0);
    spec_make(&spec);
    for (uint64_t id = 9000; id < 9040; id++)
        there_and_back(turn, &b, &spec, id);
    br_seq_spec_free(&spec);
    br_turn_destroy(turn);
}

static int setup(void **state)
{
    struct br_seq_spec spec;
    (void)state;
    fx_models_open(&models);
    spec_make(&spec);
    alone(&spec);
    br_seq_spec_free(&spec);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fx_models_close(&models);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kv_moves_with_its_sequence), cmocka_unit_test(without_kv_it_is_computed),
        cmocka_unit_test(one_that_comes_back_at_once_is_not_lost), cmocka_unit_test(nothing_to_hand_over)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
