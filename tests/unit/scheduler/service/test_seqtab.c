#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "scheduler/seqtab.h"
#include "tests/cmocka.h"

static struct sched_seq *add(struct seqtab *tab, uint64_t id)
{
    struct br_seq_spec spec;
    struct sched_seq *seq;
    br_seq_spec_init(&spec);
    spec.id = id;
    seq = seqtab_add(tab, &spec);
    if (seq)
        seq->state = SCHED_WAITING;
    else
        br_seq_spec_free(&spec);
    return seq;
}

/* Random adds and removes beside a plain array; ids collide in the hash on purpose. */
static void behaves_like_an_array(void **state)
{
    enum { MAX = 64, STEPS = 100000 };
    struct seqtab *tab = seqtab_create(MAX);
    uint64_t ids[MAX];
    uint32_t n = 0;
    (void)state;
    for (uint64_t step = 0; step < STEPS; step++) {
        uint64_t r = br_rng_u64(3, 0, step, 0), id = 1 + ((r >> 8) % 97) * 0x100000000ull;
        bool known = false;
        for (uint32_t i = 0; i < n; i++)
            known = known || ids[i] == id;
        if (r % 2 == 0) {
            struct sched_seq *seq = add(tab, id);
            assert_int_equal(seq != NULL, !known && n < MAX);
            if (seq)
                ids[n++] = id;
        } else if (n) {
            uint32_t victim = (uint32_t)((r >> 1) % n);
            seqtab_remove(tab, seqtab_find(tab, ids[victim]));
            ids[victim] = ids[--n];
        }
        assert_int_equal(seqtab_count(tab), n);
        for (uint32_t i = 0; step % 64 == 0 && i < n; i++)
            assert_true(seqtab_find(tab, ids[i])->spec.id == ids[i]);
    }
    seqtab_destroy(tab);
}

static void tokens_are_taken_once_and_in_order(void **state)
{
    struct seqtab *tab = seqtab_create(2);
    struct sched_seq *seq = add(tab, 1);
    struct br_token t[5] = {{.id = 10}, {.id = 11}, {.id = 12}, {.id = 13}, {.id = 14}};
    (void)state;
    assert_int_equal(seqtab_take_tokens(seq, 0, t, 2), 2);
    assert_int_equal(seqtab_take_tokens(seq, 0, t, 2), 0);     /* sent again */
    assert_int_equal(seqtab_take_tokens(seq, 1, t + 1, 3), 2); /* overlaps */
    assert_int_equal(seqtab_take_tokens(seq, 5, t, 1), -1);    /* gap */
    assert_int_equal(seqtab_take_tokens(seq, 4, t + 4, 1), 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(seq->tokens[i].id, 10 + i);
    seqtab_destroy(tab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behaves_like_an_array),
        cmocka_unit_test(tokens_are_taken_once_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
