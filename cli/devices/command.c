#include <stdio.h>
#include <string.h>

#include "cli/devices/devices.h"
#include "cli/devices/find.h"
#include "loadgen/load.h"

static char *const *g_words; /* for `briareus serve` */
static uint32_t g_n_words;

/* What is found until an error or Ctrl-C is shown and written all the same. */
static int find(const struct load_config *load, struct br_err *err)
{
    struct br_err later;
    json_t *found;
    int rc = devices_find(load, g_words, g_n_words, &found, err);
    if (rc == 0 || json_array_size(json_object_get(found, "policies")))
        devices_table(found, stdout);
    if (load->result_filename && json_dump_file(found, load->result_filename, JSON_INDENT(1) | JSON_REAL_PRECISION(9)))
        rc = rc ? rc : br_err_errno(err, BR_EIO, "cannot write %s", load->result_filename);
    if (load->html && devices_page(found, load->html, &later))
        rc = rc ? rc : br_err_set(err, later.code, "%s", later.msg);
    json_decref(found);
    return rc == BR_EBUSY ? LOAD_EXIT_INTERRUPTED : rc;
}

int br_cli_load_or_find(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0) {
            g_words = argv + i + 1;
            g_n_words = (uint32_t)(argc - i - 1);
            argc = i;
        }
    return br_cli_load(argc, argv, find);
}
