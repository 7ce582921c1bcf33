// seeds.c: each seed through its fuzzer, in the builds that have no libFuzzer. Linked to every fuzz_NAME.c in turn
// (VERL_FUZZ_SEEDS: tests/fuzz/corpus/NAME), so that none stops building or reading before somebody fuzzes again.
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

// In memory of its very size, so that reading past its end is found.
static void
s_give(const char *path)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s cannot be opened", path);
    cr_assert_eq(fseek(file, 0, SEEK_END), 0);
    size_t size = (size_t) ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(size ? size : 1);
    cr_assert(bytes);
    cr_assert_eq(fread(bytes, 1, size, file), size, "%s cannot be read", path);
    fclose(file);
    cr_assert_eq(LLVMFuzzerTestOneInput(bytes, size), 0, "%s", path);
    free(bytes);
}

Test(fuzz, takes_each_of_its_seeds)
{
    char path[4096];
    int count = 0;
    DIR *folder = opendir(VERL_FUZZ_SEEDS);
    cr_assert(folder, "there is no %s", VERL_FUZZ_SEEDS);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", VERL_FUZZ_SEEDS, entry->d_name);
        s_give(path);
        count++;
    }
    closedir(folder);
    cr_assert_gt(count, 0, "%s is empty", VERL_FUZZ_SEEDS);
}

Test(fuzz, takes_no_bytes_at_all)
{
    uint8_t *none = calloc(1, 1);
    cr_assert_eq(LLVMFuzzerTestOneInput(none, 0), 0);
    free(none);
}
