#include "cli/key/key.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/options.h"
#include "cli/subcommand.h"
#include "scheduler/gateway/auth.h"

struct new_options {
    char *name, *file, *tenant;
    double requests, tokens, weight;
    uint32_t concurrency;
    struct br_option_list models;
    bool admin;
};

static const struct br_option new_table[] = {
    {"name", BR_OPT_STRING, offsetof(struct new_options, name), NULL, 0, 0, "NAME: whose key it is"},
    {"file", BR_OPT_STRING, offsetof(struct new_options, file), NULL, 0, 0,
     "FILE: its entry is added there; without it the entry is printed"},
    {"requests", BR_OPT_NUMBER, offsetof(struct new_options, requests), NULL, 0, 1e9, "N: a minute; 0: any number"},
    {"tokens", BR_OPT_NUMBER, offsetof(struct new_options, tokens), NULL, 0, 1e12, "N: a minute; 0: any number"},
    {"concurrency", BR_OPT_UINT, offsetof(struct new_options, concurrency), NULL, 0, 1000000,
     "N: requests at a time; 0: any number"},
    {"model", BR_OPT_LIST, offsetof(struct new_options, models), NULL, 0, 0,
     "NAME: it may use; may be repeated; without it: all"},
    {"weight", BR_OPT_NUMBER, offsetof(struct new_options, weight), "1", 0.001, 1000, "X: beside other keys"},
    {"tenant", BR_OPT_STRING, offsetof(struct new_options, tenant), NULL, 0, 0,
     "NAME: keys of one tenant share cached prefixes [NAME of the key]"},
    {"admin", BR_OPT_BOOL, offsetof(struct new_options, admin), NULL, 0, 0, "may use operators' endpoints"},
};
enum { N_NEW = sizeof new_table / sizeof new_table[0] };

static void entry_number(struct br_buf *out, const char *key, double value)
{
    if (value > 0)
        br_buf_printf(out, "    %s: %.10g\n", key, value);
}

static void entry_put(const struct new_options *o, const char *hash, struct br_buf *out)
{
    br_buf_printf(out, "  - name: \"%s\"\n    hash: %s\n", o->name, hash);
    entry_number(out, "requests", o->requests);
    entry_number(out, "tokens", o->tokens);
    entry_number(out, "concurrency", o->concurrency);
    if (o->weight < 1 || o->weight > 1)
        entry_number(out, "weight", o->weight);
    for (uint32_t i = 0; i < o->models.n; i++)
        br_buf_printf(out, "%s      - \"%s\"\n", i ? "" : "    models:\n", o->models.items[i]);
    if (o->tenant)
        br_buf_printf(out, "    tenant: \"%s\"\n", o->tenant);
    if (o->admin)
        br_buf_puts(out, "    admin: true\n");
}

/* Replaced as a whole, so that nobody reads half of it; for its owner's eyes. */
static int file_write(const char *path, const struct br_buf *text, struct br_err *err)
{
    char part[1024];
    FILE *f;
    int fd;
    bool good;
    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part)
        return br_err_set(err, BR_EINVAL, "%.64s...: the path is too long", path);
    fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f)
        return br_err_errno(err, BR_EIO, "cannot write %s", part);
    good = fwrite(text->data, 1, text->len, f) == text->len && fflush(f) == 0 && fsync(fd) == 0;
    good = fclose(f) == 0 && good;
    return good && rename(part, path) == 0 ? 0 : br_err_errno(err, BR_EIO, "cannot write %s", path);
}

/* The list with the new entry is checked as a whole before anything is written or printed. */
static int entry_add(const struct new_options *o, const struct br_buf *entry, struct br_err *err)
{
    const char *path = o->file ? o->file : "the new entry";
    struct br_buf text = {0};
    struct br_key_list list = {0};
    int rc = 0;
    if (o->file && br_buf_read_file(&text, path, BR_KEYS_MAX_BYTES) && errno != ENOENT)
        rc = br_buf_read_error(err, BR_EIO, "%s", path);
    if (text.len == 0)
        br_buf_puts(&text, "keys:\n");
    else if (text.data[text.len - 1] != '\n')
        br_buf_puts(&text, "\n");
    br_buf_add(&text, entry->data, entry->len);
    if (rc == 0)
        rc = br_keys_parse(text.data, text.len, path, &list, err);
    if (rc == 0 && o->file)
        rc = file_write(path, &text, err);
    br_keys_free(&list);
    br_buf_free(&text);
    return rc;
}

static int key_make(const struct new_options *o, struct br_err *err)
{
    char key[BR_KEY_TEXT], hash[2 * BR_KEY_HASH + 1];
    struct br_buf entry = {0};
    int rc = br_key_new(key, hash, err);
    if (rc == 0) {
        entry_put(o, hash, &entry);
        rc = entry_add(o, &entry, err);
    }
    if (rc == 0 && !o->file)
        fprintf(stderr, "For the file of --api-keys, under 'keys:' :\n%sThe key, which is kept nowhere:\n", entry.data);
    if (rc == 0)
        printf("%s\n", key);
    br_buf_free(&entry);
    return rc;
}

static int run_new(int argc, char **argv)
{
    struct new_options o = {0};
    struct br_err err;
    int rc = br_options_read(new_table, N_NEW, &o, "briareus key new",
                             "Makes an API key: prints it once; the file keeps its hash only.", argc, argv, &err);
    if (rc == 0 && !o.name)
        rc = br_err_set(&err, BR_EINVAL, "--name is needed: whose key is it?");
    if (rc == 0)
        rc = key_make(&o, &err);
    br_options_free(new_table, N_NEW, &o);
    if (rc < 0)
        fprintf(stderr, "briareus key new: %s\n", err.msg);
    if (rc < 0)
        return err.code == BR_EINVAL ? 2 : 1;
    return 0;
}

static int run_check(int argc, char **argv)
{
    struct br_key_list list;
    struct br_err err;
    if (argc != 2 || argv[1][0] == '-') {
        fprintf(stderr, "Usage: briareus key check FILE\n");
        return 2;
    }
    if (br_keys_read(argv[1], &list, &err)) {
        fprintf(stderr, "briareus key check: %s\n", err.msg);
        return 1;
    }
    printf("%s: %" PRIu32 " key%s\n", argv[1], list.n, list.n == 1 ? "" : "s");
    br_keys_free(&list);
    return 0;
}

static const struct cli_subcommand commands[] = {
    {"new", "makes a key and adds its entry to a file", run_new},
    {"check", "says whether a file of keys is right", run_check},
};

int br_cli_key(int argc, char **argv)
{
    return cli_subcommand_run("key", "[OPTION...]", commands, sizeof commands / sizeof commands[0], argc, argv);
}
