#include "worker/node/gpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct answer {
    uint64_t bytes;
    int rc;
    struct br_err err;
};

static void child_main(uint32_t index, int to)
{
    const struct br_cuda_plugin *plugin;
    struct answer answer = {0};
    answer.rc = br_cuda_plugin_open(&plugin, &answer.err);
    if (answer.rc == 0)
        answer.rc = plugin->memory(index, &answer.bytes, &answer.err);
    _exit(write(to, &answer, sizeof answer) == sizeof answer ? 0 : 1);
}

int node_gpu_memory(uint32_t index, uint64_t *bytes, struct br_err *err)
{
    struct answer answer;
    int ends[2], status;
    if (pipe(ends))
        return br_err_errno(err, BR_EIO, "GPU %u: cannot ask for its memory", index);
    pid_t child = fork();
    if (child == 0)
        child_main(index, ends[1]);
    close(ends[1]);
    ssize_t n = child > 0 ? read(ends[0], &answer, sizeof answer) : -1; /* less than a pipe's atomic size */
    close(ends[0]);
    if (child > 0)
        waitpid(child, &status, 0);
    if (n != sizeof answer)
        return br_err_set(err, BR_EIO, "GPU %u: its driver ended the process that asked for its memory", index);
    *bytes = answer.bytes;
    if (answer.rc)
        *err = answer.err;
    return answer.rc;
}

void node_gpu_kind(const char *kind, uint32_t device, char *out, size_t size)
{
    uint32_t index;
    if (br_cuda_kind(kind, &index))
        snprintf(out, size, "cuda:%u", index + device);
    else
        snprintf(out, size, "%s", kind);
}
