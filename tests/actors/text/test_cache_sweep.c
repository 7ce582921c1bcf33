// The cache of images: what nobody uses goes, what is used stays, and nothing else is touched.
#include "text_fixture.h"
#include "actors/text/cache.h"
#include <fcntl.h>
#include <time.h>

TestSuite(cache_sweep, .init = fixture_setup, .fini = fixture_teardown, .timeout = 60);

#define DAY (24 * 3600LL)

// A name of an image: a key of 32 times one digit, and what comes behind.
static const char *
s_name(char digit, const char *behind)
{
    static char s_names[8][80];
    static int s_next;
    char *name = s_names[s_next++ % 8];
    memset(name, digit, 32);
    snprintf(name + 32, 48, "%s", behind);
    return name;
}

// A file of the folder of the cache, last used so many seconds ago.
static void
s_put(const char *name, size_t bytes, int64_t seconds_ago)
{
    char path[400];
    snprintf(path, sizeof path, "%s/cache", g_folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/cache/tokenizers", g_folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/cache/tokenizers/%s", g_folder, name);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert(file >= 0 && ftruncate(file, (off_t) bytes) == 0);
    struct timespec times[2] = { { .tv_sec = time(NULL) - seconds_ago }, { .tv_sec = time(NULL) - seconds_ago } };
    cr_assert_eq(futimens(file, times), 0);
    close(file);
}

static bool
s_there(const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/cache/tokenizers/%s", g_folder, name);
    return access(path, F_OK) == 0;
}

static void
s_sweep(const char *keep, int64_t seconds, int64_t bytes)
{
    char path[400];
    snprintf(path, sizeof path, "%s/cache/tokenizers", g_folder);
    verl_cache_sweep(path, keep, &(verl_cache_limits_t) { .seconds = seconds, .bytes = bytes }, time(NULL));
}

Test(cache_sweep, what_was_not_used_for_long_goes)
{
    s_put(s_name('a', ".img"), 100, 91 * DAY);
    s_put(s_name('b', ".img"), 100, 89 * DAY);
    s_sweep(NULL, 90 * DAY, 1 << 20);
    cr_expect(!s_there(s_name('a', ".img")));
    cr_expect(s_there(s_name('b', ".img")));
}

Test(cache_sweep, beyond_the_size_the_oldest_go_and_the_new_one_stays)
{
    s_put(s_name('a', ".img"), 400, 3 * DAY);
    s_put(s_name('b', ".img"), 400, 2 * DAY);
    s_put(s_name('c', ".img"), 400, 1 * DAY);
    s_put(s_name('d', ".img"), 400, 4 * DAY);
    s_sweep(s_name('d', ".img"), 90 * DAY, 900);
    cr_expect(!s_there(s_name('a', ".img")));
    cr_expect(!s_there(s_name('b', ".img")));
    cr_expect(s_there(s_name('c', ".img")));
    cr_expect(s_there(s_name('d', ".img")), "the one that was just made was deleted");
}

Test(cache_sweep, what_a_killed_process_left_goes_and_what_is_being_written_stays)
{
    s_put(s_name('a', ".img.123.0"), 100, 2 * DAY);
    s_put(s_name('b', ".img.124.0"), 100, 60);
    s_sweep(NULL, 90 * DAY, 0);
    cr_expect(!s_there(s_name('a', ".img.123.0")));
    cr_expect(s_there(s_name('b', ".img.124.0")));
}

Test(cache_sweep, nothing_else_is_touched)
{
    static const char *const names[] = { "notes.txt", "abc.img", "0123456789abcdef0123456789abcdef.img.old",
                                         "0123456789abcdef0123456789abcdef.image" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        s_put(names[i], 100, 900 * DAY);
    s_sweep(NULL, 0, 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_expect(s_there(names[i]), "%s was deleted", names[i]);
    verl_cache_sweep("/nonexistent/cache", NULL, &VERL_CACHE_LIMITS, time(NULL));
}

// As a user meets it: an image that a load maps is young again, and one that a load makes sweeps the others.
Test(cache_sweep, a_load_renews_what_it_uses_and_sweeps_what_it_does_not)
{
    char first[400] = "", command[500], error[1024] = "";
    s_put(s_name('a', ".img"), 100, 100 * DAY);
    verl_tokenizer_t *tokenizer = fixture_open(FIXTURES "llama3-small/tokenizer.json");
    cr_assert_eq(verl_tokenizer_load(tokenizer, error, sizeof error), 0, "%s", error);
    cr_expect_eq(verl_tokenizer_origin(tokenizer), VERL_TOKENIZER_COMPILED);
    cr_expect(!s_there(s_name('a', ".img")), "a load did not sweep");
    verl_tokenizer_close(&tokenizer);
    snprintf(command, sizeof command, "ls -d %s/cache/tokenizers/*.img", g_folder);
    FILE *list = popen(command, "r");
    cr_assert(list && fscanf(list, "%399s", first) == 1);
    pclose(list);

    struct timespec old[2] = { { .tv_sec = time(NULL) - 50 * DAY }, { .tv_sec = time(NULL) - 50 * DAY } };
    struct stat status;
    cr_assert_eq(utimensat(AT_FDCWD, first, old, 0), 0);
    tokenizer = fixture_open(FIXTURES "llama3-small/tokenizer.json");
    cr_assert_eq(verl_tokenizer_load(tokenizer, error, sizeof error), 0, "%s", error);
    cr_expect_eq(verl_tokenizer_origin(tokenizer), VERL_TOKENIZER_MAPPED);
    cr_assert_eq(stat(first, &status), 0);
    cr_expect(time(NULL) - status.st_mtime < DAY, "an image in use still looks old");
    verl_tokenizer_close(&tokenizer);
}
