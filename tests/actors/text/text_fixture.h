// text_fixture.h: what the tests of tokenizers share: a cache of their own, files, and short forms of calls.
#ifndef VERL_TESTS_TEXT_FIXTURE_H
#define VERL_TESTS_TEXT_FIXTURE_H
#include "actors/text/tokenizer.h"
#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIXTURES VERL_SOURCE_DIR "/tests/fixtures/tokenizers/"
#define QWEN3 VERL_SOURCE_DIR "/../shared/data/tokenizers/qwen3"
#define SMOLLM2 VERL_SOURCE_DIR "/topologies/models/smollm2-135m/model.gguf"

static char g_folder[64];                   // a temporary folder; the cache is in it

static inline int
fixture_remove(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void) status;
    (void) type;
    (void) walk;
    return remove(path);
}

static inline void
fixture_setup(void)
{
    char cache[96];
    strcpy(g_folder, "/tmp/verl-text-XXXXXX");
    cr_assert(mkdtemp(g_folder));
    snprintf(cache, sizeof cache, "%s/cache", g_folder);
    setenv("VERL_CACHE_DIR", cache, 1);
}

static inline void
fixture_teardown(void)
{
    nftw(g_folder, fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
}

// The contents of a file; the caller frees data.
static inline verl_text_t
fixture_read(const char *path)
{
    verl_text_t text = { 0 };
    char chunk[65536];
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s is missing", path);
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, file)) > 0;)
        cr_assert_eq(verl_text_add(&text, chunk, got), 0);
    fclose(file);
    return text;
}

// Writes a file of the temporary folder and returns its path, which lives until the next call.
static inline const char *
fixture_write(const char *name, const void *data, size_t length)
{
    static char s_path[256];
    snprintf(s_path, sizeof s_path, "%s/%s", g_folder, name);
    FILE *file = fopen(s_path, "wb");
    cr_assert(file);
    cr_assert_eq(fwrite(data, 1, length, file), length);
    cr_assert_eq(fclose(file), 0);
    return s_path;
}

static inline verl_tokenizer_t *
fixture_open(const char *path)
{
    char error[1024] = "";
    verl_tokenizer_t *tokenizer = verl_tokenizer_open(path, error, sizeof error);
    cr_assert(tokenizer, "%s", error);
    return tokenizer;
}

static inline verl_token_ids_t
fixture_encode(verl_tokenizer_t *tokenizer, const char *text, size_t length, unsigned flags)
{
    char error[1024] = "";
    verl_token_ids_t ids = { 0 };
    cr_assert_eq(verl_tokenizer_encode(tokenizer, text, length, flags, &ids, error, sizeof error), 0, "%s", error);
    return ids;
}

static inline verl_text_t
fixture_decode(verl_tokenizer_t *tokenizer, const verl_token_ids_t *ids, unsigned flags)
{
    char error[1024] = "";
    verl_text_t text = { 0 };
    cr_assert_eq(verl_tokenizer_decode(tokenizer, ids->data, ids->count, flags, &text, error, sizeof error), 0, "%s",
                 error);
    return text;
}
#endif
