/* Runs a fuzz target over every file of the folders given: the corpus as a regression test, without a fuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_folder(const char *folder)
{
    struct dirent *entry;
    int files = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return 0;
    while ((entry = readdir(dir))) {
        char path[4096];
        struct br_buf buf = {0};
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && br_buf_read_file(&buf, path, 64u << 20) == 0) {
            LLVMFuzzerTestOneInput((const uint8_t *)(buf.data ? buf.data : ""), buf.len);
            files++;
        }
        br_buf_free(&buf);
    }
    closedir(dir);
    return files;
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = 1; i < argc; i++)
        files += replay_folder(argv[i]);
    printf("replayed %d inputs\n", files);
    return files > 0 ? 0 : 1; /* an empty corpus is a mistake, not a pass */
}
