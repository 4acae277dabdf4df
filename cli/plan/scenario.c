#include "cli/plan/scenario.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"

static const char *const g_names[] = {"paper-fig11a", "paper-fig11b", "market", "h20-72b", "l20-72b", "tco"};
enum { N_NAMES = sizeof g_names / sizeof *g_names };

/* The program's own folder, with a / at its end; empty when it cannot be known. */
static void program_folder(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    out[n > 0 ? n : 0] = 0;
    char *slash = strrchr(out, '/');
    *(slash ? slash + 1 : out) = 0;
}

int scenario_path(const char *name, char *path, size_t size, struct br_err *err)
{
    static const char *const places[] = {"../share/briareus/scenarios/", "../../scenarios/"};
    char folder[3000];
    bool known = false;
    for (size_t i = 0; i < N_NAMES; i++)
        known = known || strcmp(name, g_names[i]) == 0;
    if (!known) {
        const char *near = br_nearest(name, g_names, N_NAMES);
        return br_err_set(err, BR_ENOENT, "unknown scenario '%.40s'%s%s%s: there are " SCENARIO_NAMES, name,
                          near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    program_folder(folder, sizeof folder);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, size, "%s%s%s.yaml", folder, places[i], name);
        if (access(path, R_OK) == 0)
            return 0;
    }
    snprintf(path, size, "%s/%s.yaml", BRIAREUS_SCENARIOS, name);
    if (access(path, R_OK) == 0)
        return 0;
    return br_err_set(err, BR_ENOENT, "scenario %s: its file is neither in %s../share/briareus/scenarios nor in %s",
                      name, folder, BRIAREUS_SCENARIOS);
}
