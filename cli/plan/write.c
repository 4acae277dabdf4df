#include "cli/plan/write.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int plan_write(const char *path, const char *data, size_t len, struct br_err *err)
{
    bool to_stdout = strcmp(path, "-") == 0;
    char part[4096];
    int rc = 0;
    snprintf(part, sizeof part, "%s.part", path);
    FILE *f = to_stdout ? stdout : fopen(part, "w");
    if (!f || fwrite(data, 1, len, f) != len || fflush(f) != 0)
        rc = br_err_errno(err, BR_EIO, "cannot write %s", path);
    if (f && !to_stdout && fclose(f) != 0 && rc == 0)
        rc = br_err_errno(err, BR_EIO, "cannot write %s", path);
    if (f && !to_stdout && rc == 0 && rename(part, path) != 0)
        rc = br_err_errno(err, BR_EIO, "cannot write %s", path);
    if (f && !to_stdout && rc < 0)
        unlink(part);
    return rc;
}

int plan_write_check(const char *path, struct br_err *err)
{
    char part[4096];
    if (!path || strcmp(path, "-") == 0)
        return 0;
    snprintf(part, sizeof part, "%s.part", path);
    FILE *f = fopen(part, "w");
    if (!f)
        return br_err_errno(err, BR_EIO, "cannot write %s", path);
    fclose(f);
    unlink(part);
    return 0;
}
