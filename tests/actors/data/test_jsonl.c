// JSON-lines data sets: types, order over files, long and blank lines, and every way in which a file can be wrong.
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/data/jsonl.h"

static char s_dir[64];
static char s_error[512];

static void
s_setup(void)
{
    strcpy(s_dir, "/tmp/verl-jsonl-XXXXXX");
    cr_assert(mkdtemp(s_dir));
}

static void
s_teardown(void)
{
    char path[128];
    const char *names[] = { "a.jsonl", "b.jsonl", "c.jsonl" };
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", s_dir, names[i]);
        unlink(path);
    }
    rmdir(s_dir);
}

TestSuite(jsonl, .init = s_setup, .fini = s_teardown);

// Writes a file of the test's folder; the path is good till the next call for the same name.
static const char *
s_write(const char *name, const char *text, size_t bytes)
{
    static char paths[3][128];
    char *path = paths[name[0] - 'a'];
    snprintf(path, sizeof paths[0], "%s/%s", s_dir, name);
    FILE *file = fopen(path, "w");
    cr_assert(file);
    cr_assert_eq(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
    return path;
}

static verl_jsonl_t *
s_open(const char *text)
{
    const char *path = s_write("a.jsonl", text, strlen(text));
    s_error[0] = 0;
    return verl_jsonl_open(&path, 1, s_error, sizeof s_error);
}

static void
s_check_refused_bytes(const char *text, size_t bytes, const char *where, const char *word)
{
    const char *path = s_write("a.jsonl", text, bytes);
    char prefix[160];
    snprintf(prefix, sizeof prefix, "%s:%s", path, where);
    verl_jsonl_t *set = verl_jsonl_open(&path, 1, s_error, sizeof s_error);
    cr_assert_null(set, "opened %s", text);
    cr_assert(strncmp(s_error, prefix, strlen(prefix)) == 0, "\"%s\" does not begin with %s", s_error, prefix);
    cr_assert(strstr(s_error, word), "\"%s\" does not say \"%s\"", s_error, word);
}

static void
s_check_refused(const char *text, const char *where, const char *word)
{
    s_check_refused_bytes(text, strlen(text), where, word);
}

// The second record of the file has to be refused, with its line and a word.
static void
s_check_second(const char *text, const char *where, const char *word)
{
    verl_jsonl_t *set = s_open(text);
    cr_assert(set, "%s", s_error);
    verl_record_t *record = verl_jsonl_read(set, 1, s_error, sizeof s_error);
    cr_assert_null(record, "read: %s", text);
    cr_assert(strstr(s_error, where) && strstr(s_error, word), "\"%s\" does not say %s and \"%s\"", s_error, where,
              word);
    verl_jsonl_destroy(&set);
    cr_assert_null(set);
}

Test(jsonl, every_type_arrives)
{
    verl_jsonl_t *set = s_open("{\"prompt\":\"1+1=\",\"n\":-7,\"x\":0.5,\"ids\":[1,2,3],\"lp\":[0.5,1],\"ok\":true,"
                               "\"chat\":[{\"role\":\"user\",\"content\":\"h\u00e9\"}],\"info\":{\"a\":[1]}}\n");
    cr_assert(set, "%s", s_error);
    const verl_schema_t *schema = verl_jsonl_schema(set);
    const char *names[] = { "prompt", "n", "x", "ids", "lp", "ok", "chat", "info" };
    const char *types[] = { "text", "i64", "f32", "i32 list", "f32 list", "i64", "messages", "json" };
    cr_assert_eq(schema->count, 8);
    for (size_t i = 0; i < 8; i++) {
        cr_assert_str_eq(schema->fields[i].name, names[i]);
        cr_assert_str_eq(verl_field_type_name(schema->fields[i].type), types[i]);
    }
    cr_assert_eq(verl_schema_find(schema, "lp"), 4);
    cr_assert_eq(verl_schema_find(schema, "no"), -1);
    verl_record_t *record = verl_jsonl_read(set, 0, s_error, sizeof s_error);
    cr_assert(record, "%s", s_error);
    const verl_value_t *v = record->values;
    cr_assert_str_eq(v[0].text, "1+1=");
    cr_assert_eq(v[0].count, 4);
    cr_assert_eq(v[1].integer, -7);
    cr_assert_eq(v[2].real, 0.5f);
    cr_assert(v[3].count == 3 && v[3].ints[0] == 1 && v[3].ints[2] == 3);
    cr_assert(v[4].count == 2 && v[4].reals[0] == 0.5f && v[4].reals[1] == 1.0f);
    cr_assert_eq(v[5].integer, 1);
    cr_assert_str_eq(v[6].text, "[{\"role\":\"user\",\"content\":\"h\u00e9\"}]");
    cr_assert_str_eq(v[7].text, "{\"a\":[1]}");
    verl_jsonl_release(&record);
    cr_assert_null(record);
    verl_jsonl_destroy(&set);
}

Test(jsonl, later_records_may_write_integers_for_reals)
{
    verl_jsonl_t *set = s_open("{\"x\":0.5,\"l\":[0.5]}\n{\"x\":2,\"l\":[]}\n{\"l\":[3],\"x\":-1}\n");
    verl_record_t *record = verl_jsonl_read(set, 1, s_error, sizeof s_error);
    cr_assert(record && record->values[0].real == 2.0f && record->values[1].count == 0, "%s", s_error);
    verl_jsonl_release(&record);
    record = verl_jsonl_read(set, 2, s_error, sizeof s_error); // fields in another order
    cr_assert(record && record->values[0].real == -1.0f && record->values[1].reals[0] == 3.0f, "%s", s_error);
    verl_jsonl_release(&record);
    verl_jsonl_destroy(&set);
}

Test(jsonl, a_list_that_is_empty_first_gets_its_type_later)
{
    verl_jsonl_t *set =
        s_open("{\"l\":[],\"m\":[],\"n\":[]}\n{\"l\":[],\"m\":[1],\"n\":[]}\n{\"l\":[0.5],\"m\":[],\"n\":[]}\n");
    cr_assert(set, "%s", s_error);
    cr_assert_eq(verl_jsonl_schema(set)->fields[0].type, VERL_FIELD_F32_LIST);
    cr_assert_eq(verl_jsonl_schema(set)->fields[1].type, VERL_FIELD_I32_LIST);
    cr_assert_eq(verl_jsonl_schema(set)->fields[2].type, VERL_FIELD_I32_LIST);
    verl_jsonl_destroy(&set);
}

Test(jsonl, a_list_is_of_reals_where_any_of_its_numbers_is)
{
    verl_jsonl_t *set = s_open("{\"lr\":[0,0.5]}\n{\"lr\":[1]}\n");
    cr_assert(set, "%s", s_error);
    verl_record_t *record = verl_jsonl_read(set, 0, s_error, sizeof s_error);
    cr_assert(record && record->values[0].reals[0] == 0.0f && record->values[0].reals[1] == 0.5f, "%s", s_error);
    verl_jsonl_release(&record);
    verl_jsonl_destroy(&set);
}

Test(jsonl, integers_become_reals_where_a_later_record_writes_one)
{
    verl_jsonl_t *set = s_open("{\"x\":1,\"l\":[],\"m\":[3],\"n\":7}\n{\"x\":2,\"l\":[4],\"m\":[],\"n\":8}\n"
                               "{\"x\":2.5,\"l\":[1,0.5],\"m\":[5,-0.5],\"n\":9}\n");
    cr_assert(set, "%s", s_error);
    const verl_field_type_t types[] = { VERL_FIELD_F32, VERL_FIELD_F32_LIST, VERL_FIELD_F32_LIST, VERL_FIELD_I64 };
    for (size_t f = 0; f < 4; f++)
        cr_assert_eq(verl_jsonl_schema(set)->fields[f].type, types[f], "field %zu", f);
    verl_record_t *record = verl_jsonl_read(set, 0, s_error, sizeof s_error);
    cr_assert(record && record->values[0].real == 1.0f && record->values[2].reals[0] == 3.0f, "%s", s_error);
    verl_jsonl_release(&record);
    verl_jsonl_destroy(&set);
}

Test(jsonl, integers_that_reals_cannot_hold_do_not_become_reals)
{
    s_check_refused("{\"x\":16777217}\n{\"x\":2.5}\n", "1: field \"x\" is 16777217", "a real has 32 bits");
    s_check_second("{\"x\":2}\n{\"x\":16777217}\n{\"x\":2.5}\n", "a.jsonl:2:", "a real has 32 bits");
}

// Records {"n": 0}, {"n": 1} … with one {"n": 0.5} at number `real`, `fill` bytes of another field in each.
static const char *
s_write_numbers(const char *name, int count, int real, int fill)
{
    char *text = malloc((size_t) count * ((size_t) fill + 64)), *at = text;
    for (int i = 0; i < count; i++)
        at += i == real ? sprintf(at, "{\"n\":0.5,\"t\":\"%0*d\"}\n", fill, 0)
                        : sprintf(at, "{\"n\":%d,\"t\":\"%0*d\"}\n", i, fill, 0);
    const char *path = s_write(name, text, (size_t) (at - text));
    free(text);
    return path;
}

// Both readers of a schema have to find this type of the field n.
static void
s_check_both(const char *const *paths, size_t count, verl_field_type_t type)
{
    verl_schema_t schema;
    verl_jsonl_t *set = verl_jsonl_open(paths, count, s_error, sizeof s_error);
    cr_assert(set, "%s", s_error);
    cr_assert_eq(verl_jsonl_schema(set)->fields[0].type, type);
    cr_assert_eq(verl_jsonl_discover(paths, count, &schema, s_error, sizeof s_error), 0, "%s", s_error);
    cr_assert_eq(schema.fields[0].type, type);
    verl_schema_done(&schema);
    verl_jsonl_destroy(&set);
}

Test(jsonl, every_record_of_a_small_data_set_has_its_say)
{
    const char *paths[] = { s_write_numbers("a.jsonl", 300, 299, 1), s_write_numbers("b.jsonl", 300, -1, 1) };
    s_check_both(paths, 2, VERL_FIELD_F32);
}

Test(jsonl, the_first_records_of_each_large_file_have_their_say)
{
    const char *paths[] = { s_write_numbers("a.jsonl", 100, -1, 90000), s_write_numbers("b.jsonl", 64, 63, 1) };
    s_check_both(paths, 2, VERL_FIELD_F32);
    s_write_numbers("b.jsonl", 65, 64, 1);
    s_check_both(paths, 2, VERL_FIELD_I64);
}

Test(jsonl, blank_lines_and_a_mark_and_carriage_returns_are_skipped)
{
    verl_jsonl_t *set = s_open("\xef\xbb\xbf\n  \n{\"n\":1}\r\n\r\n\t\n{\"n\":2}\n\n{\"n\":3}");
    cr_assert(set, "%s", s_error);
    cr_assert_eq(verl_jsonl_records(set), 3);
    for (int64_t i = 0; i < 3; i++) {
        verl_record_t *record = verl_jsonl_read(set, i, s_error, sizeof s_error);
        cr_assert(record, "%s", s_error);
        cr_assert_eq(record->values[0].integer, i + 1);
        verl_jsonl_release(&record);
    }
    verl_jsonl_destroy(&set);
}

Test(jsonl, several_files_are_one_data_set)
{
    const char *paths[] = { s_write("a.jsonl", "{\"n\":0}\n{\"n\":1}\n", 16), s_write("b.jsonl", "{\"n\":2}", 7),
                            s_write("c.jsonl", "\n{\"n\":3}\n{\"n\":4}\n{\"n\":\"x\"}\n", 27) };
    verl_jsonl_t *set = verl_jsonl_open(paths, 3, s_error, sizeof s_error);
    cr_assert(set, "%s", s_error);
    cr_assert_eq(verl_jsonl_records(set), 6);
    for (int64_t i = 4; i >= 0; i--) {
        verl_record_t *record = verl_jsonl_read(set, i, s_error, sizeof s_error);
        cr_assert(record && record->values[0].integer == i, "%s", s_error);
        verl_jsonl_release(&record);
    }
    cr_assert_null(verl_jsonl_read(set, 5, s_error, sizeof s_error));
    cr_assert(strstr(s_error, "c.jsonl:4: field \"n\" is text"), "%s", s_error);
    verl_jsonl_destroy(&set);
}

Test(jsonl, a_line_of_two_megabytes_works)
{
    enum { LONG = 2 << 20 };
    char *text = malloc(LONG + 64), *at = text + sprintf(text, "{\"t\":\"");
    memset(at, 'x', LONG);
    strcpy(at + LONG, "\"}\n{\"t\":\"y\"}\n");
    verl_jsonl_t *set = s_open(text);
    cr_assert(set, "%s", s_error);
    cr_assert_eq(verl_jsonl_records(set), 2);
    verl_record_t *record = verl_jsonl_read(set, 0, s_error, sizeof s_error);
    cr_assert(record && record->values[0].count == LONG, "%s", s_error);
    verl_jsonl_release(&record);
    record = verl_jsonl_read(set, 1, s_error, sizeof s_error);
    cr_assert(record, "%s", s_error);
    cr_assert_str_eq(record->values[0].text, "y");
    verl_jsonl_release(&record);
    verl_jsonl_destroy(&set);
    free(text);
}

Test(jsonl, lines_that_meet_the_end_of_a_chunk_are_whole)
{
    // Lines of many lengths over more than two chunks of 1 MiB: each must come back with its own number.
    enum { N = 20000 };
    char *text = malloc(N * 160), *at = text;
    for (int i = 0; i < N; i++)
        at += sprintf(at, "{\"n\":%d,\"t\":\"%0*d\"}\n", i, i % 97 + 60, i);
    verl_jsonl_t *set = s_open(text);
    cr_assert(set, "%s", s_error);
    cr_assert_gt(at - text, 2 << 20);
    cr_assert_eq(verl_jsonl_records(set), N);
    for (int64_t i = 0; i < N; i++) {
        verl_record_t *record = verl_jsonl_read(set, i, s_error, sizeof s_error);
        cr_assert(record && record->values[0].integer == i, "%s", s_error);
        verl_jsonl_release(&record);
    }
    verl_jsonl_destroy(&set);
    free(text);
}

Test(jsonl, files_without_records_are_refused)
{
    s_check_refused("", " has no records", "one JSON object a line");
    s_check_refused("\n \n\r\n", " has no records", "one JSON object a line");
}

Test(jsonl, first_lines_that_are_wrong_are_refused_with_their_line)
{
    s_check_refused("\n{\"a\":1", "2: not JSON", "whole JSON object");
    s_check_refused("{\"a\":}\n", "1: not JSON at column 6", "a line is one JSON object");
    s_check_refused("[1,2]\n", "1: is a list", "one JSON object");
    s_check_refused("3\n", "1: is an integer", "one JSON object");
    s_check_refused("{}\n", "1: the record has no fields", "at least one");
    s_check_refused("{\"a\":1} {\"a\":2}\n", "1: not JSON", "one object on a line");
    s_check_refused("{\"a\":1,\"a\":2}\n", "1: not JSON", "stands once");
    s_check_refused("{\"a\":\"\xff\"}\n", "1: not JSON", "UTF-8");
    s_check_refused("{\"a\":\"\\u0000\"}\n", "1: not JSON", "NUL");
    s_check_refused_bytes("{\"a\":\0}\n", 8, "1: the line holds a NUL byte", "UTF-8");
    s_check_refused("{\"a\":99999999999999999999}\n", "1: not JSON", "64 bits");
    s_check_refused("{\"a\":1e999}\n", "1: not JSON", "1.8e308");
    s_check_refused("{\"a\":1e39}\n", "1: field \"a\" is 1e+39", "3.4e38");
    s_check_refused("{\"a\":null}\n", "1: field \"a\" is null", "give it a value");
    s_check_refused("{\"\":1}\n", "1: a field has an empty name", "name it");
    s_check_refused("{\"a\":[\"x\"]}\n", "1: field \"a\" is a list of other things", "integers, reals or");
    s_check_refused("{\"a\":[[1]]}\n", "1: field \"a\" is a list of lists", "integers, reals or");
    s_check_refused("{\"a\":[1,\"2\"]}\n", "1: element 1 of field \"a\" is text", "integers");
    s_check_refused("{\"a\":[16777217,2.5]}\n", "1: element 0 of field \"a\" is 16777217", "text would be right");
    s_check_refused("{\"a\":[4294967296]}\n", "1: element 0 of field \"a\" is 4294967296", "32 bits");
    s_check_refused("{\"a\":[0.5,1e60]}\n", "1: element 1 of field \"a\" is 1e+60", "3.4e38");
    s_check_refused("{\"a\":[0.5,16777217]}\n", "1: element 1 of field \"a\" is 16777217", "text would be right");
    s_check_refused("PAR1xxxx", "1: is a Parquet file", "convert");
    s_check_refused("\x1f\x8bxx", "1: is compressed by gzip", "decompress");
}

Test(jsonl, messages_are_checked)
{
    s_check_refused("{\"p\":[{\"role\":\"user\"}]}\n", "1: field \"p\": message 0 has no \"content\"", "text");
    s_check_refused("{\"p\":[{\"content\":\"x\"}]}\n", "1: field \"p\": message 0 has no \"role\"", "role");
    s_check_refused("{\"p\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":3,\"content\":\"x\"}]}\n",
                    "1: field \"p\": the role of message 1", "user");
    s_check_refused("{\"p\":[{\"role\":\"user\",\"content\":[]}]}\n", "1: field \"p\": the content of message 0",
                    "string");
    s_check_refused("{\"p\":[{\"role\":\"user\",\"content\":\"x\"},7]}\n", "1: field \"p\": message 1 is no object",
                    "role");
}

Test(jsonl, later_records_that_differ_are_refused_with_their_line)
{
    s_check_second("{\"a\":1,\"b\":2}\n\n{\"a\":1}\n", "a.jsonl:3:", "field \"b\" is missing");
    s_check_second("{\"a\":1}\n{\"a\":1,\"c\":2}\n", "a.jsonl:2:", "field \"c\" is not in the first record");
    s_check_second("{\"a\":1}\n{\"a\":\"x\"}\n", "a.jsonl:2:", "field \"a\" is text");
    s_check_second("{\"a\":\"x\"}\n{\"a\":1}\n", "a.jsonl:2:", "field \"a\" is an integer");
    s_check_second("{\"a\":true}\n{\"a\":1.5}\n", "a.jsonl:2:", "decimal point");
    s_check_second("{\"a\":0.5}\n{\"a\":16777217}\n", "a.jsonl:2:", "field \"a\" is 16777217: a real has 32 bits");
    s_check_second("{\"a\":1}\n{\"a\":null}\n", "a.jsonl:2:", "null");
    s_check_second("{\"a\":[1]}\n{\"a\":[1,\"x\"]}\n", "a.jsonl:2:", "element 1");
    s_check_second("{\"a\":[1]}\n{\"a\":7}\n", "a.jsonl:2:", "a list of integers");
    s_check_second("{\"a\":{}}\n{\"a\":[1]}\n", "a.jsonl:2:", "an object");
    s_check_second("{\"a\":1}\nxxx\n", "a.jsonl:2:", "not JSON");
    s_check_second("{\"a\":[{\"role\":\"u\",\"content\":\"\"}]}\n{\"a\":\"x\"}\n", "a.jsonl:2:", "messages");
}

Test(jsonl, error_sentences_hold_no_control_characters)
{
    s_check_refused("{\"a\":\x1b[31m}\n", "1: not JSON", "near '?'");
}

Test(jsonl, wrong_paths_are_refused)
{
    char path[128];
    const char *paths[] = { path };
    snprintf(path, sizeof path, "%s/none.jsonl", s_dir);
    cr_assert_null(verl_jsonl_open(paths, 1, s_error, sizeof s_error));
    cr_assert(strstr(s_error, "none.jsonl: cannot be opened: No such file"), "%s", s_error);
    paths[0] = s_dir;
    cr_assert_null(verl_jsonl_open(paths, 1, s_error, sizeof s_error));
    cr_assert(strstr(s_error, "is a folder"), "%s", s_error);
    snprintf(path, sizeof path, "%s/a.jsonl", s_dir);
    paths[0] = path;
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_null(verl_jsonl_open(paths, 1, s_error, sizeof s_error));
    cr_assert(strstr(s_error, "no regular file"), "%s", s_error);
    cr_assert_null(verl_jsonl_open(paths, 0, s_error, sizeof s_error));
    cr_assert(strstr(s_error, "there are no files"), "%s", s_error);
}

Test(jsonl, a_file_that_shrinks_is_an_error)
{
    verl_jsonl_t *set = s_open("{\"n\":1}\n{\"n\":2}\n");
    s_write("a.jsonl", "{\"n\":1}\n", 8);
    verl_record_t *record = verl_jsonl_read(set, 0, s_error, sizeof s_error);
    cr_assert(record);
    verl_jsonl_release(&record);
    cr_assert_null(verl_jsonl_read(set, 1, s_error, sizeof s_error));
    cr_assert(strstr(s_error, "a.jsonl:2: the file became shorter"), "%s", s_error);
    verl_jsonl_destroy(&set);
}

Test(jsonl, records_that_are_not_there_are_refused)
{
    verl_jsonl_t *set = s_open("{\"n\":1}\n");
    cr_assert_null(verl_jsonl_read(set, 1, s_error, sizeof s_error));
    cr_assert(strstr(s_error, "no record 1"), "%s", s_error);
    cr_assert_null(verl_jsonl_read(set, -1, s_error, sizeof s_error));
    verl_jsonl_destroy(&set);
}

Test(jsonl, discovery_reads_the_first_records_only)
{
    char *text = malloc(100000), *at = text;
    for (int i = 0; i < 100; i++)
        at += sprintf(at, "{\"n\":%d,\"t\":\"x\"}\n", i);
    strcpy(at, "broken\n");
    const char *path = s_write("a.jsonl", text, strlen(text));
    verl_schema_t schema;
    cr_assert_eq(verl_jsonl_discover(&path, 1, &schema, s_error, sizeof s_error), 0, "%s", s_error);
    cr_assert_eq(schema.count, 2);
    cr_assert_str_eq(schema.fields[1].name, "t");
    verl_schema_done(&schema);
    cr_assert_eq(schema.count, 0);
    free(text);
}

Test(jsonl, discovery_compares_files)
{
    const char *paths[] = { s_write("a.jsonl", "{\"n\":0}\n{\"n\":1}\n", 16), s_write("b.jsonl", "{\"m\":2}", 7) };
    verl_schema_t schema;
    cr_assert_eq(verl_jsonl_discover(paths, 2, &schema, s_error, sizeof s_error), -1);
    cr_assert(strstr(s_error, "b.jsonl:1: field \"n\" is missing"), "%s", s_error);
    cr_assert_eq(schema.count, 0);
}
