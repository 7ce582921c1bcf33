// The log of a run: what something follows from is there as a whole line, or not at all; and it says so.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/director/record.h"

static char s_folder[64];

static verl_record_t *
s_begin(const char *log)
{
    char path[128];
    verl_error_t error = { "" };
    strcpy(s_folder, "/tmp/verl-test-XXXXXX");
    cr_assert(mkdtemp(s_folder));
    snprintf(path, sizeof path, "%s/run.log", s_folder);
    cr_assert(!log || symlink(log, path) == 0);
    verl_record_t *record = verl_record_new(s_folder, &error);
    cr_assert(record, "%s", error.text);
    return record;
}

static int
s_remove(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void) info;
    (void) type;
    (void) walk;
    return remove(path);
}

static void
s_end(verl_record_t *record)
{
    verl_record_destroy(&record);
    nftw(s_folder, s_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static off_t
s_size(const char *name)
{
    char path[128];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", s_folder, name);
    return stat(path, &info) == 0 ? info.st_size : -1;
}

// Bytes that a file of this process may have.
static void
s_room(rlim_t bytes)
{
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = { bytes, RLIM_INFINITY };
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

Test(record, a_line_that_was_committed_is_there)
{
    verl_error_t error = { "" };
    verl_record_t *record = s_begin(NULL);
    cr_assert_eq(verl_record_commit(record, "cut", json_pack("{s:i}", "first", 7), &error), 0);
    char path[128], text[200] = "";
    snprintf(path, sizeof path, "%s/run.log", s_folder);
    FILE *file = fopen(path, "re");
    cr_assert(file && fgets(text, sizeof text, file) && fclose(file) == 0);
    cr_assert(strstr(text, "\"event\":\"cut\",\"first\":7}\n"), "%s", text);
    s_end(record);
}

Test(record, a_line_that_was_not_committed_is_not_there)
{
    verl_error_t error = { "" };
    verl_record_t *record = s_begin(NULL);
    verl_record_event(record, "begun", NULL);
    off_t size = s_size("run.log");
    cr_assert_eq(verl_record_commit(record, "cut", NULL, &error), -1, "what it says is missing");
    cr_assert(strstr(error.text, "run.log"), "%s", error.text);
    error = (verl_error_t) { "" };
    s_room((rlim_t) size + 10);             // of which it has some
    cr_assert_eq(verl_record_commit(record, "cut", json_pack("{s:i}", "first", 7), &error), -1);
    cr_assert(strstr(error.text, "cannot write") && strstr(error.text, "run.log"), "%s", error.text);
    cr_assert_eq(s_size("run.log"), size);
    s_room(RLIM_INFINITY);
    cr_assert_eq(verl_record_commit(record, "cut", json_pack("{s:i}", "first", 8), &error), 0);
    s_end(record);
}

Test(record, a_full_disk_and_one_that_cannot_be_synced_are_told)
{
    static const char *const logs[] = { "/dev/full", "/dev/null" };
    for (int i = 0; i < 2; i++) {
        verl_error_t error = { "" };
        verl_record_t *record = s_begin(logs[i]);
        cr_assert_eq(verl_record_commit(record, "cut", json_pack("{s:i}", "first", 7), &error), -1, "%s", logs[i]);
        cr_assert(strstr(error.text, "run.log: "), "%s", error.text);
        s_end(record);
    }
}

Test(record, a_topology_is_there_whole_or_leaves_nothing)
{
    verl_error_t error = { "" };
    verl_record_t *record = s_begin(NULL);
    s_room(10);
    cr_assert_eq(verl_record_topology(record, 3, "[run]\nname = \"much\"\n", 20, &error), -1);
    cr_assert(strstr(error.text, "topology-3.toml"), "%s", error.text);
    cr_assert(s_size("topology-3.toml") < 0 && s_size("topology-3.toml.tmp") < 0, "something is left");
    s_room(RLIM_INFINITY);
    cr_assert_eq(verl_record_topology(record, 3, "[run]\nname = \"much\"\n", 20, &error), 0);
    cr_assert_eq(s_size("topology-3.toml"), 20);
    verl_record_drop_topology(record, 3);
    cr_assert_lt(s_size("topology-3.toml"), 0);
    s_end(record);
}
