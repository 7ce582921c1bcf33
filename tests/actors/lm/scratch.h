// scratch.h: what the tests of models share: a directory that goes away, small files, copies of fixtures.
#ifndef VERL_TEST_LM_SCRATCH_H
#define VERL_TEST_LM_SCRATCH_H
#include <criterion/criterion.h>
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODELS VERL_SOURCE_DIR "/tests/fixtures/models/"

#define cr_assert_says(error, text) \
    cr_assert(strstr(error, text), "the error is \"%s\" and should have \"%s\"", error, text)

// Makes a directory; path has room for PATH_MAX.
static inline void
scratch_make(char *path)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, PATH_MAX, "%s/verl-lm-XXXXXX", base ? base : "/tmp");
    cr_assert(mkdtemp(path));
}

// Removes a directory of files and of such directories.
static inline void
scratch_remove(const char *path)
{
    struct dirent *entry;
    DIR           *listing = opendir(path);
    while (listing && (entry = readdir(listing))) {
        char inner[PATH_MAX];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        cr_assert(snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) < PATH_MAX);
        if (unlink(inner) != 0)
            scratch_remove(inner);
    }
    if (listing)
        closedir(listing);
    rmdir(path);
}

static inline void
scratch_write(const char *dir, const char *name, const void *bytes, size_t size)
{
    char path[PATH_MAX];
    cr_assert(snprintf(path, sizeof path, "%s/%s", dir, name) < PATH_MAX);
    FILE *file = fopen(path, "wb");
    cr_assert(file);
    cr_assert_eq(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

// The whole of a file in memory of exactly its size, so that a sanitizer sees the first byte beyond it.
static inline uint8_t *
scratch_read(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file, "no %s", path);
    fseek(file, 0, SEEK_END);
    *ret_size = (size_t) ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*ret_size ? *ret_size : 1);
    cr_assert(bytes);
    cr_assert_eq(fread(bytes, 1, *ret_size, file), *ret_size);
    fclose(file);
    return bytes;
}

static inline void
scratch_copy(const char *from_dir, const char *name, const char *to_dir)
{
    char   path[PATH_MAX];
    size_t size;
    cr_assert(snprintf(path, sizeof path, "%s/%s", from_dir, name) < PATH_MAX);
    uint8_t *bytes = scratch_read(path, &size);
    scratch_write(to_dir, name, bytes, size);
    free(bytes);
}

// A safetensors file of that header and size bytes of data, each 0 but where data is given. The caller frees it.
static inline uint8_t *
scratch_safetensors(const char *header, const void *data, size_t size, size_t *ret_size)
{
    size_t length = strlen(header);
    *ret_size = 8 + length + size;
    uint8_t *bytes = calloc(1, *ret_size);
    cr_assert(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t) (length >> (8 * i));
    memcpy(bytes + 8, header, length);
    if (data)
        memcpy(bytes + 8 + length, data, size);
    return bytes;
}
#endif
