// test_recorder.c: JSON lines, whole and valid, once for each batch.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
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
    unlink(s_file);
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
