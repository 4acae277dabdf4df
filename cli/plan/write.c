#include "cli/plan/write.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void plan_out_begin(const char *path, struct plan_out *out)
{
    char *real = realpath(path, NULL);
    struct stat st;
    bool there;
    snprintf(out->path, sizeof out->path, "%s", real ? real : path);
    free(real);
    there = stat(out->path, &st) == 0;
    out->mode = there ? st.st_mode & 07777 : 0;
    if (there && !S_ISREG(st.st_mode))
        snprintf(out->part, sizeof out->part, "%s", out->path);
    else
        snprintf(out->part, sizeof out->part, "%.4090s.part", out->path);
}

int plan_out_end(const struct plan_out *out, int rc, struct br_err *err)
{
    if (strcmp(out->part, out->path) == 0)
        return rc;
    if (rc == 0 && ((out->mode && chmod(out->part, out->mode) != 0) || rename(out->part, out->path) != 0))
        rc = br_err_errno(err, BR_EIO, "cannot write %s", out->path);
    if (rc < 0)
        unlink(out->part);
    return rc;
}

static int write_all(FILE *f, const char *path, const char *data, size_t len, struct br_err *err)
{
    if (!f || fwrite(data, 1, len, f) != len || fflush(f) != 0)
        return br_err_errno(err, BR_EIO, "cannot write %s", path);
    return 0;
}

int plan_write(const char *path, const char *data, size_t len, struct br_err *err)
{
    struct plan_out out;
    if (strcmp(path, "-") == 0)
        return write_all(stdout, path, data, len, err);
    plan_out_begin(path, &out);
    FILE *f = fopen(out.part, "w");
    int rc = write_all(f, path, data, len, err);
    if (f && fclose(f) != 0 && rc == 0)
        rc = br_err_errno(err, BR_EIO, "cannot write %s", path);
    return f ? plan_out_end(&out, rc, err) : rc;
}

int plan_write_check(const char *path, struct br_err *err)
{
    struct plan_out out;
    if (!path || strcmp(path, "-") == 0)
        return 0;
    plan_out_begin(path, &out);
    if (strcmp(out.part, out.path) == 0) /* a pipe would be opened twice */
        return access(out.path, W_OK) == 0 ? 0 : br_err_errno(err, BR_EIO, "cannot write %s", path);
    FILE *f = fopen(out.part, "w");
    if (!f)
        return br_err_errno(err, BR_EIO, "cannot write %s", path);
    fclose(f);
    unlink(out.part);
    return 0;
}
