// Text to ids, one text after another on one core: our own sources and documents, with the tokenizer of
// $VERL_BENCH_TOKENIZER (a tokenizer.json) or one of the tests' own, beside the reference library.
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "actors/text/tokenizer.h"
#include "tests/bench/bench.h"
#include "tests/bench/peer.h"

#define TURNS      5
#define TEXTS_MOST 512

typedef struct texts {
    char        list[40];                   // a file that names them
    verl_text_t text[TEXTS_MOST];
    int         count;
    double      bytes;
} texts_t;

static bool
s_wanted(const char *name)
{
    const char *end = strrchr(name, '.');
    return end && (strcmp(end, ".c") == 0 || strcmp(end, ".h") == 0 || strcmp(end, ".md") == 0);
}

static int
s_by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int
s_read_text(verl_text_t *text, const char *path)
{
    char chunk[65536];
    FILE *file = fopen(path, "rbe");
    for (size_t got; file && (got = fread(chunk, 1, sizeof chunk, file)) > 0;)
        if (verl_text_add(text, chunk, got))
            break;
    if (file)
        fclose(file);
    return text->length > 0 ? 0 : -1;
}

// Our sources and documents; their names go to the list.
static int
s_collect(texts_t *self, verl_error_t *error)
{
    static const char *const folders[] = { "actors", "runtime", "kernels", "tools", NULL };
    char paths[4][4096], *roots[5] = { paths[0], paths[1], paths[2], paths[3], NULL };
    for (int i = 0; folders[i]; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", VERL_SOURCE_DIR, folders[i]);
    snprintf(self->list, sizeof self->list, "/tmp/verl-bench-texts-XXXXXX");
    int fd = mkstemp(self->list);
    FILE *list = fd >= 0 ? fdopen(fd, "w") : NULL;
    FTS *walk = list ? fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, s_by_name) : NULL;
    for (FTSENT *entry; walk && self->count < TEXTS_MOST && (entry = fts_read(walk));)
        if (entry->fts_info == FTS_F && s_wanted(entry->fts_name) &&
            s_read_text(&self->text[self->count], entry->fts_path) == 0) {
            self->bytes += (double) self->text[self->count++].length;
            fprintf(list, "%s\n", entry->fts_path);
        }
    if (walk)
        fts_close(walk);
    if (list)
        fclose(list);
    return self->count > 0 ? 0 : verl_error_set(error, "there are no texts in %s", VERL_SOURCE_DIR);
}

static int
s_encode(const texts_t *texts, verl_tokenizer_t *tokenizer, double *ret_seconds, size_t *ret_count,
         verl_error_t *error)
{
    char text[256] = "";
    double begin = verl_bench_now();
    *ret_count = 0;
    for (int i = 0; i < texts->count; i++) {
        verl_token_ids_t ids = { 0 };
        int rc = verl_tokenizer_encode(tokenizer, texts->text[i].data, texts->text[i].length,
                                       VERL_TOKENIZER_PARSE_SPECIAL, &ids, text, sizeof text);
        *ret_count += ids.count;
        verl_token_ids_done(&ids);
        if (rc)
            return verl_error_set(error, "%s", text);
    }
    *ret_seconds = verl_bench_now() - begin;
    return 0;
}

static int
s_measure(const texts_t *texts, verl_tokenizer_t *tokenizer, verl_bench_peer_t *peer, double (*seconds)[TURNS],
          verl_error_t *error)
{
    size_t count;
    double theirs;
    if (s_encode(texts, tokenizer, &seconds[0][0], &count, error) ||
        verl_bench_peer_ask(peer, "count", &theirs, error))
        return -1;
    if (theirs != (double) count)
        return verl_error_set(error, "the reference makes %.0f ids of texts of which we make %zu", theirs, count);
    for (int i = 0; i < TURNS; i++)
        if (s_encode(texts, tokenizer, &seconds[0][i], &count, error) ||
            verl_bench_peer_ask(peer, "encode", &seconds[1][i], error))
            return -1;
    return 0;
}

static int
s_tokenizer(verl_bench_run_t *run, verl_error_t *error)
{
    const char *given = getenv("VERL_BENCH_TOKENIZER");
    const char *path = given ? given : VERL_SOURCE_DIR "/tests/fixtures/tokenizers/llama3-small/tokenizer.json";
    char text[256] = "";
    double seconds[2][TURNS];
    verl_bench_peer_t peer = { 0 };
    texts_t texts = { 0 };
    verl_tokenizer_t *tokenizer = verl_tokenizer_open(path, text, sizeof text);
    int rc = tokenizer ? s_collect(&texts, error) : verl_error_set(error, "%s", text);
    const char *words[] = { path, texts.list, NULL };
    if (rc == 0 && verl_bench_peer_start(&peer, "tokenizer_reference.py", words, "tokenizer")) {
        rc = s_measure(&texts, tokenizer, &peer, seconds, error);
        if (rc == 0)
            verl_bench_report(run, "", texts.bytes / verl_bench_median(seconds[0], TURNS) / 1e6, "MB/s",
                              "the reference library, one core",
                              texts.bytes / verl_bench_median(seconds[1], TURNS) / 1e6);
    }
    verl_bench_peer_end(&peer);
    verl_tokenizer_close(&tokenizer);
    for (int i = 0; i < texts.count; i++)
        verl_text_done(&texts.text[i]);
    if (texts.list[0])
        unlink(texts.list);
    return rc;
}

VERL_BENCH(tokenizer, "text becomes ids no slower than in the reference library", s_tokenizer)
