// The data sets that we ship: every record reads, and nothing held out is in a file to learn from.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/data/jsonl.h"

static char s_error[512];

static verl_jsonl_t *
s_open(const char *name)
{
    char path[512];
    const char *paths[] = { path };
    snprintf(path, sizeof path, VERL_SOURCE_DIR "/topologies/data/%s", name);
    verl_jsonl_t *set = verl_jsonl_open(paths, 1, s_error, sizeof s_error);
    cr_assert(set, "%s", s_error);
    return set;
}

static int
s_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

// The prompts of a file, sorted; each record has to read.
static char **
s_prompts(const char *name, size_t *count)
{
    verl_jsonl_t *set = s_open(name);
    int64_t field = verl_schema_find(verl_jsonl_schema(set), "prompt");
    cr_assert_geq(field, 0);
    *count = (size_t) verl_jsonl_records(set);
    char **prompts = malloc(*count * sizeof *prompts);
    for (size_t i = 0; i < *count; i++) {
        verl_record_t *record = verl_jsonl_read(set, (int64_t) i, s_error, sizeof s_error);
        cr_assert(record, "%s", s_error);
        prompts[i] = strdup(record->values[field].text);
        verl_jsonl_release(&record);
    }
    qsort(prompts, *count, sizeof *prompts, s_compare);
    verl_jsonl_destroy(&set);
    return prompts;
}

static void
s_check_apart(const char *heldout_name, const char *train_name, size_t heldout_count, size_t train_count)
{
    size_t n, m;
    char **heldout = s_prompts(heldout_name, &n), **train = s_prompts(train_name, &m);
    cr_assert_eq(n, heldout_count, "%s has %zu records", heldout_name, n);
    cr_assert_eq(m, train_count, "%s has %zu records", train_name, m);
    for (size_t i = 0; i < n; i++)
        cr_assert_null(bsearch(&heldout[i], train, m, sizeof *train, s_compare), "%s is in %s", heldout[i], train_name);
    for (size_t i = 1; i < n; i++)
        cr_assert(strcmp(heldout[i - 1], heldout[i]) != 0, "%s comes twice", heldout[i]);
    for (size_t i = 0; i < n; i++)
        free(heldout[i]);
    for (size_t i = 0; i < m; i++)
        free(train[i]);
    free(heldout);
    free(train);
}

Test(samples, addition_holds_out_what_it_says)
{
    s_check_apart("addition-heldout.jsonl", "addition-train.jsonl", 512, 7588);
    s_check_apart("addition-heldout.jsonl", "addition-sft.jsonl", 512, 76800);
}

Test(samples, words_hold_out_what_they_say)
{
    s_check_apart("words-heldout.jsonl", "words-train.jsonl", 128, 240);
}

Test(samples, answers_of_addition_are_right)
{
    verl_jsonl_t *set = s_open("addition-train.jsonl");
    int64_t prompt = verl_schema_find(verl_jsonl_schema(set), "prompt"),
            answer = verl_schema_find(verl_jsonl_schema(set), "answer");
    for (int64_t i = 0; i < verl_jsonl_records(set); i += 7) {
        verl_record_t *record = verl_jsonl_read(set, i, s_error, sizeof s_error);
        char *rest;
        long a = strtol(record->values[prompt].text, &rest, 10), b = strtol(rest + 1, NULL, 10);
        cr_assert_eq(a + b, strtol(record->values[answer].text, NULL, 10), "%s%s", record->values[prompt].text,
                     record->values[answer].text);
        verl_jsonl_release(&record);
    }
    verl_jsonl_destroy(&set);
}
