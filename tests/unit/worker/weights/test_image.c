/* Images: built once, reused, rebuilt when anything is wrong, never half there. */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/unit/worker/weights/model_dir.h"
#include "worker/weights/image_books.h"
#include "worker/weights/pack.h"

static const struct br_model_shape g_shape = {.arch = BR_ARCH_QWEN2,
                                              .hidden = 64,
                                              .ffn = 96,
                                              .layers = 2,
                                              .heads = 2,
                                              .kv_heads = 1,
                                              .head_dim = 32,
                                              .vocab = 70,
                                              .max_positions = 64,
                                              .qkv_bias = true,
                                              .tied = true};

struct fixture {
    struct test_model model;
    char cache[64], path[128];
};

static void fixture_make(struct fixture *f)
{
    test_model_init(&f->model, &g_shape, "BF16", false);
    test_model_write(&f->model, 1);
    test_dir_make(f->cache);
    snprintf(f->path, sizeof f->path, "%s/m.weights", f->cache);
}

static void fixture_free(struct fixture *f)
{
    test_model_free(&f->model);
    test_dir_remove(f->cache);
}

static ino_t inode(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 ? sb.st_ino : 0;
}

static struct br_weight_image *open_ok(const struct fixture *f, enum br_numeric numeric)
{
    struct br_weight_image *image;
    struct br_err err;
    if (br_weight_image_open(f->model.dir, "m", f->cache, numeric, &image, &err))
        fail_msg("%s", err.msg);
    return image;
}

static ino_t open_inode(const struct fixture *f, enum br_numeric numeric)
{
    br_weight_image_close(open_ok(f, numeric));
    return inode(f->path);
}

static void check_units(const struct fixture *f, const struct br_weight_image *image)
{
    struct br_model_shape shape;
    struct br_safetensors *st;
    struct br_packer packer;
    struct br_err err;
    assert_int_equal(br_model_shape_load(f->model.dir, &shape, &err), 0);
    assert_int_equal(br_safetensors_open(f->model.dir, &st, &err), 0);
    assert_int_equal(br_packer_init(&packer, st, &shape, image->layout.numeric, &err), 0);
    for (uint32_t u = 0; u < image->layout.units; u++) {
        uint64_t bytes = br_layout_unit_bytes(&image->layout, u);
        unsigned char *unit = aligned_alloc(64, bytes);
        br_pack_unit(&packer, u, unit);
        assert_int_equal(image->unit_offset[u] % 64, 0);
        assert_memory_equal(unit, br_weight_image_unit(image, u), bytes);
        free(unit);
    }
    br_packer_free(&packer);
    br_safetensors_close(st);
}

static void built_once_then_reused(void **state)
{
    struct fixture f;
    struct br_weight_image *image, *other;
    struct br_err err;
    struct stat sb;
    ino_t first;
    (void)state;
    fixture_make(&f);
    image = open_ok(&f, BR_NUMERIC_AUTO);
    first = inode(f.path);
    assert_int_equal(image->layout.numeric, BR_NUMERIC_BF16);
    for (uint32_t u = 0; u < image->layout.units; u++)
        assert_true(br_weight_image_has(image, u));
    assert_int_equal(br_weight_image_cached(image), br_layout_total_bytes(&image->layout));
    assert_int_equal(stat(f.path, &sb), 0);
    assert_int_equal(sb.st_mode & 07777, 0600);
    check_units(&f, image);
    assert_int_equal(br_weight_image_attach(f.path, &other, &err), 0);
    assert_true(br_weight_image_key(other) == br_weight_image_key(image));
    assert_memory_equal(&other->layout, &image->layout, sizeof image->layout);
    br_weight_image_close(other);
    br_weight_image_close(image);
    assert_int_equal(open_inode(&f, BR_NUMERIC_AUTO), first);
    fixture_free(&f);
}

static void rebuilt_when_the_content_changes(void **state)
{
    struct fixture f;
    struct br_weight_image *image;
    uint64_t key;
    ino_t first;
    (void)state;
    fixture_make(&f);
    image = open_ok(&f, BR_NUMERIC_AUTO);
    first = inode(f.path);
    key = br_weight_image_key(image);
    test_model_write(&f.model, 1); /* same content, new mtime: the key decides */
    assert_int_equal(open_inode(&f, BR_NUMERIC_AUTO), first);
    test_model_write(&f.model, 3); /* another file in front of the shards: still model.safetensors */
    assert_int_equal(open_inode(&f, BR_NUMERIC_AUTO), first);
    br_weight_image_close(image);

    image = open_ok(&f, BR_NUMERIC_F32); /* the old mapping would keep the inode busy */
    assert_int_not_equal(br_weight_image_key(image), key);
    assert_int_equal(image->layout.numeric, BR_NUMERIC_F32);
    check_units(&f, image);
    br_weight_image_close(image);

    test_file_write(f.model.dir, "generation_config.json", "{\"eos_token_id\":[3]}", 20);
    image = open_ok(&f, BR_NUMERIC_AUTO);
    assert_int_equal(image->layout.shape.n_eos, 1);
    assert_int_not_equal(br_weight_image_key(image), key);
    br_weight_image_close(image);
    fixture_free(&f);
}

static void poke(const char *path, long at, unsigned char mask)
{
    FILE *f = fopen(path, "r+b");
    int c;
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ mask, f);
    fclose(f);
}

static void attach_refused(const struct fixture *f, int code, const char *part)
{
    struct br_weight_image *image;
    struct br_err err;
    assert_int_equal(br_weight_image_attach(f->path, &image, &err), code);
    assert_non_null(strstr(err.msg, f->path));
    if (!strstr(err.msg, part))
        fail_msg("\"%s\" lacks \"%s\"", err.msg, part);
}

static long state_at(uint32_t unit, size_t field)
{
    size_t table = sizeof(struct br_image_header) + 4 * sizeof(struct br_image_unit);
    return (long)((table + 63) / 64 * 64 + unit * sizeof(struct br_image_state) + field);
}

/* Of the last unit: final norm, 4 bytes for each of 64 values. */
static long last_byte(void)
{
    struct br_model_layout layout;
    long at = br_image_header_bytes(4);
    br_model_layout_init(&layout, &g_shape, BR_NUMERIC_BF16, NULL);
    for (uint32_t u = 0; u < 3; u++)
        at += (long)(br_layout_unit_bytes(&layout, u) + 4095) / 4096 * 4096;
    return at + 4 * 64 - 1;
}

static void damage_is_found_and_repaired(void **state)
{
    const long first = br_image_header_bytes(4); /* units of less than 8 MiB lie on pages, one behind the other */
    const struct {
        long at;
        const char *part;
    } cases[] = {
        {offsetof(struct br_image_header, magic), "not a weight image"},
        {offsetof(struct br_image_header, layout_version), "layout version"},
        {offsetof(struct br_image_header, shape_bytes), "layout version"},
        {offsetof(struct br_image_header, units), "header"},
        {offsetof(struct br_image_header, header_bytes), "header of"},
        {offsetof(struct br_image_header, file_bytes), "its header says"},
        {offsetof(struct br_image_header, states_at), "header of"},
        {offsetof(struct br_image_header, config_hash), "header checksum"},
        {offsetof(struct br_image_header, tp_rank), "part 1 of 1"},
        {offsetof(struct br_image_header, shape.heads), "header checksum"},
        {offsetof(struct br_image_header, commit), "not committed"},
        {offsetof(struct br_image_header, unit[1].offset), "header checksum"},
        {state_at(1, offsetof(struct br_image_state, checksum)), "unit 1: checksum"},
        {state_at(2, offsetof(struct br_image_state, content)), "unit 2: checksum"},
        {state_at(3, offsetof(struct br_image_state, state)), "unit 3 is not in it"},
        {first, "unit 0: checksum"},
        {last_byte(), "unit 3: checksum"},
    };
    struct fixture f;
    (void)state;
    fixture_make(&f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct br_weight_image *image;
        open_inode(&f, BR_NUMERIC_AUTO);
        poke(f.path, cases[i].at, 0x01);
        attach_refused(&f, BR_ECORRUPT, cases[i].part);
        image = open_ok(&f, BR_NUMERIC_AUTO);
        check_units(&f, image);
        br_weight_image_close(image);
    }
    assert_int_equal(truncate(f.path, 8192), 0);
    attach_refused(&f, BR_ECORRUPT, "8192 bytes, its header says");
    assert_int_equal(truncate(f.path, 0), 0);
    attach_refused(&f, BR_ECORRUPT, "0 bytes");
    unlink(f.path);
    attach_refused(&f, BR_ENOENT, "open");
    br_weight_image_close(open_ok(&f, BR_NUMERIC_AUTO));
    assert_int_equal(chmod(f.path, 0644), 0);
    attach_refused(&f, BR_EINVAL, "mode 0644");
    fixture_free(&f);
}

/* A header whose checksum is right, but whose shape does not fit its table. */
static void consistent_lies_are_refused(void **state)
{
    struct fixture f;
    struct br_image_header *h;
    struct br_model_layout layout;
    struct br_weight_image *image;
    struct br_err err;
    (void)state;
    fixture_make(&f);
    image = open_ok(&f, BR_NUMERIC_AUTO);
    h = malloc(br_image_header_bytes(4));
    memcpy(h, image->map, br_image_header_bytes(4));
    assert_int_equal(br_image_header_check(h, image->map_bytes, &layout, &err), 0);
    h->shape.ffn = 1000;
    h->checksum = br_image_header_checksum(h);
    assert_int_equal(br_image_header_check(h, image->map_bytes, &layout, &err), BR_ECORRUPT);
    assert_non_null(strstr(err.msg, "its shape says"));
    h->shape.head_dim = 0;
    h->checksum = br_image_header_checksum(h);
    assert_true(br_image_header_check(h, image->map_bytes, &layout, &err) < 0);
    assert_non_null(strstr(err.msg, "head_dim = 0"));
    free(h);
    br_weight_image_close(image);
    fixture_free(&f);
}

static void files_in_cache(const struct fixture *f, const char *part, bool there)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", f->path, part);
    assert_int_equal(access(path, F_OK) == 0, there);
}

static void failures_leave_nothing_behind(void **state)
{
    struct fixture f;
    struct br_weight_image *image;
    struct br_err err;
    (void)state;
    fixture_make(&f);
    test_model_drop(&f.model, "model.layers.1.mlp.down_proj.weight");
    test_model_write(&f.model, 1);
    assert_int_equal(br_weight_image_open(f.model.dir, "m", f.cache, BR_NUMERIC_AUTO, &image, &err), BR_ECORRUPT);
    assert_non_null(strstr(err.msg, "model.layers.1.mlp.down_proj.weight is missing"));
    files_in_cache(&f, "", false);
    files_in_cache(&f, ".tmp", false);
    assert_int_equal(br_weight_image_open(f.model.dir, "../m", f.cache, BR_NUMERIC_AUTO, &image, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "../m"));
    assert_int_equal(br_weight_image_open("/nonexistent", "m", f.cache, BR_NUMERIC_AUTO, &image, &err), BR_ENOENT);
    fixture_free(&f);
}

/* Runs in a process of its own, whose file size limit stands in for a full tmpfs (posix_fallocate answers EFBIG). */
static void open_without_room(const struct fixture *f)
{
    struct rlimit limit = {32768, 32768};
    struct br_weight_image *image;
    struct br_err err;
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
        _exit(2);
    if (br_weight_image_open(f->model.dir, "m", f->cache, BR_NUMERIC_AUTO, &image, &err) != BR_ENOMEM)
        _exit(3);
    _exit(strstr(err.msg, "needs 1") && strstr(err.msg, "bytes free") ? 0 : 4);
}

static void no_room_is_said_with_numbers(void **state)
{
    struct fixture f;
    int status;
    pid_t pid;
    (void)state;
    fixture_make(&f);
    test_file_write(f.cache, "m.weights.tmp", "of a builder that died", 22);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        open_without_room(&f);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    files_in_cache(&f, "", false);
    files_in_cache(&f, ".tmp", false);
    fixture_free(&f);
}

/* Several processes at once: one builds, all see the same image. */
static void one_builder_at_a_time(void **state)
{
    enum { PROCESSES = 6 };
    struct fixture f;
    pid_t pids[PROCESSES];
    int status;
    (void)state;
    fixture_make(&f);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            struct br_weight_image *image;
            struct br_err err;
            _exit(br_weight_image_open(f.model.dir, "m", f.cache, BR_NUMERIC_AUTO, &image, &err) ? 1 : 0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    files_in_cache(&f, "", true);
    files_in_cache(&f, ".tmp", false);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_once_then_reused),        cmocka_unit_test(rebuilt_when_the_content_changes),
        cmocka_unit_test(damage_is_found_and_repaired),  cmocka_unit_test(consistent_lies_are_refused),
        cmocka_unit_test(failures_leave_nothing_behind), cmocka_unit_test(no_room_is_said_with_numbers),
        cmocka_unit_test(one_builder_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
