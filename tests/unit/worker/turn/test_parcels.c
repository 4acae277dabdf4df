/* Parcels between device processes: found, verified, taken once; room comes back whoever dies. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "worker/turn/parcels.h"

enum { BYTES = 1 << 20 };

struct rig {
    int fd;
    struct br_parcels *a, *b; /* devices 0 and 1 */
};

static void rig_open(struct rig *r)
{
    struct br_err err;
    assert_int_equal(br_parcels_create(BYTES, 2, &r->fd, &err), 0);
    assert_int_equal(br_parcels_open(r->fd, 0, &r->a, &err), 0);
    assert_int_equal(br_parcels_open(r->fd, 1, &r->b, &err), 0);
}

static void rig_close(struct rig *r)
{
    br_parcels_close(r->a);
    br_parcels_close(r->b);
    close(r->fd);
}

static int32_t give(struct br_parcels *p, uint64_t seq, uint64_t bytes, int byte)
{
    struct br_parcel_label label = {.seq = seq, .tokens = 40};
    int32_t place = br_parcel_announce(p, seq);
    unsigned char *data = place < 0 ? NULL : br_parcel_memory(p, place, bytes);
    if (!data)
        return -1;
    memset(data, byte, bytes);
    br_parcel_seal(p, place, &label);
    return place;
}

static void what_is_given_is_taken_once(void **state)
{
    struct rig r;
    struct br_parcel parcel, again;
    (void)state;
    rig_open(&r);
    assert_int_equal(br_parcel_find(r.b, 0, 7, &parcel), BR_PARCEL_NONE);
    int32_t place = br_parcel_announce(r.a, 7);
    assert_int_equal(br_parcel_find(r.b, 0, 7, &parcel), BR_PARCEL_COMING);
    memset(br_parcel_memory(r.a, place, 5000), 3, 5000);
    br_parcel_seal(r.a, place, &(struct br_parcel_label){.seq = 7, .tokens = 33, .block_bytes = 10});
    assert_int_equal(br_parcel_find(r.b, 0, 7, &parcel), BR_PARCEL_HERE);
    assert_int_equal(br_parcel_find(r.b, 1, 7, &again), BR_PARCEL_NONE); /* another device's */
    assert_int_equal(br_parcel_find(r.b, 99, 7, &again), BR_PARCEL_NONE);
    assert_int_equal(parcel.label.tokens, 33);
    assert_true(parcel.bytes >= 5000 && parcel.data[4999] == 3);
    assert_true(br_parcel_verify(r.b, &parcel));
    again = parcel;
    assert_true(br_parcel_take(r.b, &parcel));
    assert_false(br_parcel_take(r.a, &again));
    assert_int_equal(br_parcels_used(r.a), 8192);
    br_parcel_done(r.b, &parcel);
    assert_int_equal(br_parcels_used(r.a), 0);
    assert_int_equal(br_parcel_find(r.b, 0, 7, &parcel), BR_PARCEL_NONE);
    rig_close(&r);
}

static void a_flipped_bit_is_found(void **state)
{
    struct rig r;
    struct br_parcel parcel;
    (void)state;
    rig_open(&r);
    assert_true(give(r.a, 1, 9000, 1) >= 0);
    assert_int_equal(br_parcel_find(r.b, 0, 1, &parcel), BR_PARCEL_HERE);
    parcel.data[8999] ^= 4;
    assert_false(br_parcel_verify(r.b, &parcel));
    parcel.data[8999] ^= 4;
    assert_true(br_parcel_verify(r.b, &parcel));
    rig_close(&r);
}

static void a_full_share_refuses_and_recovers(void **state)
{
    struct rig r;
    struct br_parcel parcel;
    (void)state;
    rig_open(&r);
    for (uint64_t seq = 1; seq <= 4; seq++)
        assert_true(give(r.a, seq, BYTES / 4, (int)seq) >= 0);
    int32_t place = br_parcel_announce(r.a, 5);
    assert_true(place >= 0);
    assert_null(br_parcel_memory(r.a, place, 4096));
    br_parcel_refuse(r.a, place);
    assert_int_equal(br_parcel_find(r.b, 0, 5, &parcel), BR_PARCEL_REFUSED);
    assert_int_equal(br_parcels_used(r.a), BYTES);
    assert_int_equal(br_parcel_find(r.b, 0, 2, &parcel), BR_PARCEL_HERE);
    assert_true(br_parcel_take(r.b, &parcel));
    br_parcel_done(r.b, &parcel);
    assert_true(give(r.a, 6, BYTES / 4, 6) >= 0); /* into the gap */
    for (uint64_t seq = 1; seq <= 6; seq++)
        if (br_parcel_find(r.b, 0, seq, &parcel) == BR_PARCEL_HERE)
            assert_true(parcel.data[0] == seq && br_parcel_verify(r.b, &parcel));
    rig_close(&r);
}

static void places_run_out(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r);
    for (uint64_t seq = 1; seq <= BR_PARCELS; seq++)
        assert_true(br_parcel_announce(r.a, seq) >= 0);
    assert_int_equal(br_parcel_announce(r.a, 1000), -1);
    rig_close(&r);
}

/* Its memory is taken again: what was found before is not given out as something else. */
static void a_giver_that_starts_again_has_nothing_out(void **state)
{
    struct rig r;
    struct br_parcel parcel, other;
    struct br_err err;
    (void)state;
    rig_open(&r);
    assert_true(give(r.a, 1, 9000, 1) >= 0);
    assert_int_equal(br_parcel_find(r.b, 0, 1, &parcel), BR_PARCEL_HERE);
    br_parcels_close(r.a);
    assert_int_equal(br_parcels_open(r.fd, 0, &r.a, &err), 0);
    assert_int_equal(br_parcels_used(r.a), 0);
    assert_int_equal(br_parcel_find(r.b, 0, 1, &other), BR_PARCEL_NONE);
    assert_true(give(r.a, 1, 9000, 2) >= 0);
    assert_false(br_parcel_take(r.b, &parcel));
    rig_close(&r);
}

static void other_files_are_refused(void **state)
{
    struct rig r;
    struct br_parcels *p;
    struct br_err err;
    (void)state;
    rig_open(&r);
    assert_int_equal(br_parcels_open(r.fd, 2, &p, &err), BR_ECORRUPT);
    assert_int_equal(ftruncate(r.fd, 100), 0);
    assert_int_equal(br_parcels_open(r.fd, 0, &p, &err), BR_ECORRUPT);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_is_taken_once),
        cmocka_unit_test(a_flipped_bit_is_found),
        cmocka_unit_test(a_full_share_refuses_and_recovers),
        cmocka_unit_test(places_run_out),
        cmocka_unit_test(a_giver_that_starts_again_has_nothing_out),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
