// test_recorder.c: JSON lines, whole and valid, once for each batch.
#include <jansson.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "rig.h"

static char s_directory[] = "/tmp/verl-recorder-XXXXXX";
static char s_file[64];

static void
s_setup(void)
{
    cr_assert(mkdtemp(s_directory));
    snprintf(s_file, sizeof s_file, "%s/rows.jsonl", s_directory);
    setenv("VERL_RUN_DIR", s_directory, 1);
}

static void
s_teardown(void)
{
    char path[96];
    const char *names[] = { "rows.jsonl", "one/two/rows.jsonl", "one/two", "one", "link" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", s_directory, names[i]);
        remove(path);
    }
    rmdir(s_directory);
}

static json_t *
s_line(int number)
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(s_file, "r");
    cr_assert(file);
    for (int i = 0; i <= number; i++)
        cr_assert(getline(&line, &room, file) > 0, "there is no line %d", number);
    json_error_t error;
    json_t *json = json_loads(line, 0, &error);
    cr_assert(json, "%s: %s", line, error.text);
    fclose(file);
    free(line);
    return json;
}

static int
s_lines(void)
{
    int lines = 0;
    FILE *file = fopen(s_file, "r");
    for (int c; (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

TestSuite(recorder, .init = s_setup, .fini = s_teardown);

Test(recorder, writes_every_type_so_that_it_reads_back)
{
    rig_t rig;
    const char *texts[] = { "one \"two\"\n\\ \x01 \xc3\xa9", "a\xff\xc0\x80z" };
    const float reals[] = { 0.1f, NAN }, lists[] = { 1e-30f, 16777217.0f, -3.5f };
    const int64_t integers[] = { INT64_MIN, 9007199254740993 }, lengths[] = { 3, 0 };
    rig_open(&rig, "recorder", "record", "rows", "",
             "file = \"rows.jsonl\"\ncolumns = [\"text\", \"real\", \"integer\", \"list\"]", NULL);
    verl_batch_t *made = rig_made(5, 2);
    rig_add_texts(made, "text", texts);
    rig_add_reals(made, "real", reals);
    rig_add_integers(made, "integer", integers);
    rig_add_ragged(made, "list", VERL_F32, lengths, lists);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    json_t *first = s_line(0), *second = s_line(1);
    cr_assert_eq(json_integer_value(json_object_get(first, "batch")), 5);
    cr_assert_eq(json_integer_value(json_object_get(second, "row")), 1);
    cr_assert_str_eq(json_string_value(json_object_get(first, "text")), texts[0]);
    cr_assert_str_eq(json_string_value(json_object_get(second, "text")), "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
    cr_assert_eq((float) json_number_value(json_object_get(first, "real")), reals[0]);
    cr_assert(json_is_null(json_object_get(second, "real")));
    cr_assert_eq(json_integer_value(json_object_get(first, "integer")), INT64_MIN);
    cr_assert_eq(json_integer_value(json_object_get(second, "integer")), 9007199254740993);
    json_t *list = json_object_get(first, "list");
    cr_assert_eq(json_array_size(list), 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq((float) json_number_value(json_array_get(list, i)), lists[i]);
        cr_assert(json_is_real(json_array_get(list, i)), "element %zu would be read as an integer", i);
    }
    cr_assert_eq(json_array_size(json_object_get(second, "list")), 0);
    json_decref(first);
    json_decref(second);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    rig_close(&rig);
}

static void
s_record(rig_t *rig, int64_t batch)
{
    const int64_t numbers[] = { batch * 10, batch * 10 + 1 };
    verl_batch_t *made = rig_made(batch, 2);
    rig_add_integers(made, "number", numbers);
    verl_batch_t *in = rig_see(made);
    cr_assert_eq(rig_run(rig, in, 0), 0, "%s", rig->failure);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
}

Test(recorder, a_successor_cuts_off_what_it_will_write_again)
{
    rig_t rig;
    const char *options = "file = \"rows.jsonl\"\ncolumns = [\"number\"]";
    rig_open(&rig, "recorder", "record", "rows", "", options, NULL);
    for (int64_t batch = 0; batch < 4; batch++)
        s_record(&rig, batch);
    rig_close(&rig);
    cr_assert_eq(s_lines(), 8);
    FILE *file = fopen(s_file, "a");
    fputs("{\"batch\": 4, \"row\": 0, \"num", file);          // a writer that died
    fclose(file);
    rig_open(&rig, "recorder", "record", "rows", "", options, NULL);
    s_record(&rig, 2);
    cr_assert_eq(s_lines(), 6);
    s_record(&rig, 3);
    rig_close(&rig);
    cr_assert_eq(s_lines(), 8);
    json_t *line = s_line(5);
    cr_assert_eq(json_integer_value(json_object_get(line, "number")), 21);
    json_decref(line);
}

Test(recorder, makes_the_folders_in_between)
{
    rig_t rig;
    struct stat info;
    rig_open(&rig, "recorder", "record", "rows", "", "file = \"one/two/rows.jsonl\"\ncolumns = [\"number\"]", NULL);
    s_record(&rig, 0);
    rig_close(&rig);
    snprintf(s_file, sizeof s_file, "%s/one/two", s_directory);
    cr_assert_eq(stat(s_file, &info), 0);
    cr_assert_eq(info.st_mode & 07777, 0700u);
    snprintf(s_file, sizeof s_file, "%s/one/two/rows.jsonl", s_directory);
    cr_assert_eq(s_lines(), 2);
}

// What is written under this name in the run directory has to be refused.
static void
s_check_refused(const char *name)
{
    rig_t rig;
    char options[128];
    snprintf(options, sizeof options, "file = \"%s\"\ncolumns = []", name);
    rig_open(&rig, "recorder", "record", "rows", "", options, NULL);
    verl_batch_t *in = verl_batch_new_given(0, 1, 0);
    cr_assert_eq(rig_run(&rig, in, 0), -1, "'%s' is followed", name);
    cr_assert(strstr(rig.failure, "cannot write"), "%s", rig.failure);
    verl_batch_destroy(&in);
    rig_close(&rig);
}

Test(recorder, follows_no_link_in_the_run_directory)
{
    char link[96], outside[] = "/tmp/verl-outside-XXXXXX";
    cr_assert(mkdtemp(outside));
    snprintf(link, sizeof link, "%s/link", s_directory);
    cr_assert_eq(symlink(outside, link), 0);
    s_check_refused("link/rows.jsonl");
    cr_assert_eq(rmdir(outside), 0, "something was written there");
    cr_assert_eq(unlink(link), 0);
    cr_assert_eq(symlink(outside, link), 0);
    s_check_refused("link");
    cr_assert_eq(access(outside, F_OK), -1);
}

// In a process of its own: has the file for so long.
static pid_t
s_occupy(double seconds)
{
    int ready[2];
    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        int fd = open(s_file, O_RDWR | O_CREAT, 0600);
        if (flock(fd, LOCK_EX) != 0 || fcntl(fd, F_SETLK, &lock) != 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        usleep((useconds_t) (seconds * 1e6));
        _exit(0);
    }
    char byte;
    close(ready[1]);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

Test(recorder, waits_for_another_actor_of_the_run_that_has_the_file, .timeout = 60)
{
    int status;
    pid_t first = s_occupy(3), second = fork();
    if (second == 0) {
        rig_t rig;
        rig_open(&rig, "recorder", "record", "rows", "", "file = \"rows.jsonl\"\ncolumns = []", NULL);
        verl_batch_t *in = verl_batch_new_given(0, 1, 0);
        _exit(rig_run(&rig, in, 0) == 0 ? 0 : 1);
    }
    cr_assert_eq(waitpid(second, &status, 0), second);
    cr_assert_eq(status, 0, "it did not wait");
    cr_assert_eq(waitpid(first, &status, 0), first);
}

Test(recorder, says_why_it_cannot_write)
{
    rig_t rig;
    setenv("VERL_RUN_DIR", "/nonexistent/run", 1);
    rig_open(&rig, "recorder", "record", "rows", "", "file = \"rows.jsonl\"\ncolumns = []", NULL);
    verl_batch_t *in = verl_batch_new_given(0, 1, 0);
    cr_assert_eq(rig_run(&rig, in, 0), -1);
    cr_assert(strstr(rig.failure, "/nonexistent/run/rows.jsonl"), "%s", rig.failure);
    verl_batch_destroy(&in);
    rig_close(&rig);
}
