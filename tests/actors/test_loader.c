// test_loader.c: records as columns, batches as a function of seed and id, ids by a tokenizer.
#include <stdio.h>
#include <unistd.h>
#include "rig.h"
#include "runtime/topology/topology.h"

#define TOKENIZER "\ntokenizer = \"topologies/models/addition-init\""

static char s_path[64];

// A state with `lines` as its only file.
static const char *
s_state(const char *lines, const char *more)
{
    static char state[256];
    snprintf(s_path, sizeof s_path, "/tmp/verl-loader-%d.jsonl", (int) getpid());
    FILE *file = fopen(s_path, "w");
    cr_assert(file);
    fputs(lines, file);
    fclose(file);
    snprintf(state, sizeof state, "files = [\"%s\"]%s", s_path, more);
    return state;
}

static void
s_teardown(void)
{
    unlink(s_path);
}

// What a topology with one loader of `lines` is refused for; "" where it is not.
static void
s_check(const char *lines, const char *more, char *said, size_t size)
{
    char text[512];
    verl_error_t error = { "" };
    verl_topology_errors_t errors = { 0 };
    cr_assert_eq(verl_kind_register_all(verl_kinds, &error), 0, "%s", error.text);
    snprintf(text, sizeof text, "[run]\nsteps = 1\n[stage.prompts]\nkind = \"loader\"\nrows = 1\n%s\n",
             s_state(lines, more));
    verl_plan_t *plan = verl_topology_load_text(text, strlen(text), "t.toml", NULL, 0, &errors);
    cr_assert_eq(errors.count, plan ? 0 : 1);
    snprintf(said, size, "%s", plan ? "" : errors.items[0]);
    verl_plan_destroy(&plan);
    verl_topology_errors_done(&errors);
}

TestSuite(loader, .fini = s_teardown);

static const char s_sums[] =
    "{\"prompt\": \"1+1=\", \"response\": \"2\", \"answer\": \"2\", \"level\": 1, \"weight\": 0.5, \"tags\": [7, 8]}\n"
    "{\"prompt\": \"10+11=\", \"response\": \"21\", \"answer\": \"21\", \"level\": 2, \"weight\": 1, \"tags\": []}\n"
    "{\"prompt\": \"9+9=\", \"response\": \"18\", \"answer\": \"18\", \"level\": 3, \"weight\": 2.5, \"tags\": [9]}\n";

static void
s_check_text(const rig_t *rig, const char *name, int64_t row, const char *expected)
{
    size_t bytes;
    const char *text = verl_column_text(verl_batch_column(rig->out, name), row, &bytes);
    cr_assert_eq(bytes, strlen(expected));
    cr_assert_eq(memcmp(text, expected, bytes), 0);
}

Test(loader, every_field_becomes_a_column)
{
    rig_t rig;
    rig_open(&rig, "loader", "load", "prompts", s_state(s_sums, ""), "rows = 3\nshuffle = false", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 0), 0, "%s", rig.failure);
    cr_assert_eq(verl_batch_rows(rig.out), 3);
    s_check_text(&rig, "prompt", 1, "10+11=");
    s_check_text(&rig, "answer", 2, "18");
    cr_assert_eq(*verl_column_i64(verl_batch_column(rig.out, "level"), 1), 2);
    cr_assert_eq(*verl_column_f32(verl_batch_column(rig.out, "weight"), 2), 2.5f);
    cr_assert_eq(*verl_column_i64(verl_batch_column(rig.out, "id"), 2), 2);
    const verl_column_t *tags = verl_batch_column(rig.out, "tags");
    cr_assert_eq(tags->dtype, VERL_I32);
    cr_assert_eq(verl_column_length(tags, 0), 2);
    cr_assert_eq(verl_column_length(tags, 1), 0);
    cr_assert_eq(*verl_column_i32(tags, 2), 9);
    cr_assert_null(verl_batch_column(rig.out, "prompt_ids"));
    rig_close(&rig);
}

Test(loader, a_tokenizer_gives_ids_and_a_response_its_stop_token)
{
    rig_t rig;
    rig_open(&rig, "loader", "load", "prompts", s_state(s_sums, TOKENIZER), "rows = 3\nshuffle = false", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 0), 0, "%s", rig.failure);
    const verl_column_t *prompts = verl_batch_column(rig.out, "prompt_ids"),
                        *responses = verl_batch_column(rig.out, "response_ids");
    const int32_t prompt[] = { 2, 1, 11, 2, 2, 12 }, response[] = { 3, 2, 13 };
    cr_assert_eq(verl_column_length(prompts, 0), 4);
    cr_assert_eq(verl_column_length(prompts, 1), 6);
    cr_assert_arr_eq(verl_column_i32(prompts, 1), prompt, sizeof prompt);
    cr_assert_eq(verl_column_length(responses, 1), 3);
    cr_assert_arr_eq(verl_column_i32(responses, 1), response, sizeof response);
    rig_close(&rig);
}

static void
s_ids(rig_t *rig, int64_t batch, int64_t ids[2])
{
    cr_assert_eq(rig_run(rig, NULL, batch), 0, "%s", rig->failure);
    cr_assert_eq(verl_batch_rows(rig->out), 2);
    for (int64_t row = 0; row < 2; row++)
        ids[row] = *verl_column_i64(verl_batch_column(rig->out, "id"), row);
}

Test(loader, a_batch_depends_on_its_id_alone_and_an_epoch_has_every_record_once)
{
    rig_t first, second;
    int64_t forwards[6][2], ids[2], counts[2][3] = { 0 };
    rig_open(&first, "loader", "load", "prompts", s_state(s_sums, ""), "rows = 2", NULL);
    for (int64_t batch = 0; batch < 6; batch++)
        s_ids(&first, batch, forwards[batch]);
    rig_close(&first);
    rig_open(&second, "loader", "load", "prompts", s_state(s_sums, ""), "rows = 2", NULL);
    for (int64_t batch = 5; batch >= 0; batch--) {
        s_ids(&second, batch, ids);
        cr_assert_arr_eq(ids, forwards[batch], sizeof ids);
        for (int row = 0; row < 2; row++)
            counts[(2 * batch + row) / 3 % 2][ids[row]]++;
    }
    rig_close(&second);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(counts[i / 3][i % 3], 2);
}

Test(loader, passes_over_no_record_where_it_works_on_some_batches_only)
{
    rig_t rig;
    int64_t ids[2];
    rig_open(&rig, "loader", "load", "prompts", s_state(s_sums, ""), "rows = 2\nshuffle = false\nepochs = 2", NULL);
    rig.stage.steps = 100;
    rig.stage.span = (verl_span_t){ .period = 3, .begin = 4 };
    for (int64_t batch = 6; batch <= 12; batch += 3) {
        s_ids(&rig, batch, ids);
        cr_assert_eq(ids[0], (batch - 6) / 3 * 2 % 3);
        cr_assert_eq(ids[1], ((batch - 6) / 3 * 2 + 1) % 3);
    }
    cr_assert_eq(rig_run(&rig, NULL, 15), -1);
    cr_assert(strstr(rig.failure, "the data end"), "%s", rig.failure);
    rig_close(&rig);
}

Test(loader, again_is_the_same_rows_every_time)
{
    rig_t rig;
    int64_t first[2], ids[2];
    rig_open(&rig, "loader", "load", "heldout", s_state(s_sums, ""), "rows = 2\nagain = true", NULL);
    s_ids(&rig, 0, first);
    for (int64_t batch = 1; batch < 6; batch++) {
        s_ids(&rig, batch, ids);
        cr_assert_arr_eq(ids, first, sizeof ids);
    }
    rig_close(&rig);
}

Test(loader, rows_0_is_the_whole_set_every_time)
{
    rig_t rig;
    rig_open(&rig, "loader", "load", "heldout", s_state(s_sums, ""), "rows = 0\nshuffle = false", NULL);
    for (int64_t batch = 0; batch < 60; batch += 20) {
        cr_assert_eq(rig_run(&rig, NULL, batch), 0, "%s", rig.failure);
        cr_assert_eq(verl_batch_rows(rig.out), 3);
        for (int64_t row = 0; row < 3; row++)
            cr_assert_eq(*verl_column_i64(verl_batch_column(rig.out, "id"), row), row);
    }
    rig_close(&rig);
}

Test(loader, a_long_prompt_fails_or_is_cut_or_left_out)
{
    rig_t rig;
    rig_open(&rig, "loader", "load", "prompts", s_state(s_sums, TOKENIZER),
             "rows = 3\nshuffle = false\nmax_prompt_tokens = 4", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 0), -1);
    cr_assert(strstr(rig.failure, ": its prompt has 6 tokens, more than max_prompt_tokens = 4"), "%s",
              rig.failure);
    rig_close(&rig);
    rig_open(&rig, "loader", "load", "prompts", s_state(s_sums, TOKENIZER),
             "rows = 3\nshuffle = false\nmax_prompt_tokens = 4\ntoo_long = \"cut-left\"", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 0), 0, "%s", rig.failure);
    const int32_t cut[] = { 11, 2, 2, 12 };
    cr_assert_eq(verl_column_length(verl_batch_column(rig.out, "prompt_ids"), 1), 4);
    cr_assert_arr_eq(verl_column_i32(verl_batch_column(rig.out, "prompt_ids"), 1), cut, sizeof cut);
    cr_assert_eq(*verl_column_i32(verl_batch_column(rig.out, "prompt_ids"), 2), 10);
    rig_close(&rig);
    rig_open(&rig, "loader", "load", "prompts", s_state(s_sums, TOKENIZER),
             "rows = 3\nshuffle = false\nmax_prompt_tokens = 4\ntoo_long = \"skip\"", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 0), 0, "%s", rig.failure);
    cr_assert_eq(verl_batch_rows(rig.out), 2);
    s_check_text(&rig, "prompt", 1, "9+9=");
    cr_assert_eq(*verl_column_i64(verl_batch_column(rig.out, "id"), 1), 2);
    rig_close(&rig);
}

Test(loader, recorded_ids_are_taken_as_they_are)
{
    rig_t rig;
    const char *lines = "{\"id\": 70, \"prompt\": \"1+1=\", \"prompt_ids\": [5, 6], \"response_ids\": [13]}\n";
    rig_open(&rig, "loader", "load", "prompts", s_state(lines, TOKENIZER), "rows = 1", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 0), 0, "%s", rig.failure);
    cr_assert_eq(*verl_column_i64(verl_batch_column(rig.out, "id"), 0), 70);
    cr_assert_eq(verl_column_length(verl_batch_column(rig.out, "prompt_ids"), 0), 2);
    cr_assert_eq(*verl_column_i32(verl_batch_column(rig.out, "prompt_ids"), 0), 5);
    rig_close(&rig);
}

Test(loader, recorded_ids_that_are_too_long_fail_or_are_cut_or_left_out)
{
    rig_t rig;
    const char *lines = "{\"prompt_ids\": [5, 6, 7, 8]}\n{\"prompt_ids\": [9]}\n";
    rig_open(&rig, "loader", "load", "prompts", s_state(lines, ""),
             "rows = 2\nshuffle = false\nmax_prompt_tokens = 3", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 0), -1);
    cr_assert(strstr(rig.failure, ":1: its prompt has 4 tokens, more than max_prompt_tokens = 3"), "%s", rig.failure);
    rig_close(&rig);
    rig_open(&rig, "loader", "load", "prompts", s_state(lines, ""),
             "rows = 2\nshuffle = false\nmax_prompt_tokens = 3\ntoo_long = \"cut-left\"", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 0), 0, "%s", rig.failure);
    const int32_t cut[] = { 6, 7, 8 };
    cr_assert_eq(verl_column_length(verl_batch_column(rig.out, "prompt_ids"), 0), 3);
    cr_assert_arr_eq(verl_column_i32(verl_batch_column(rig.out, "prompt_ids"), 0), cut, sizeof cut);
    cr_assert_eq(*verl_column_i32(verl_batch_column(rig.out, "prompt_ids"), 1), 9);
    rig_close(&rig);
    rig_open(&rig, "loader", "load", "prompts", s_state(lines, ""),
             "rows = 2\nshuffle = false\nmax_prompt_tokens = 3\ntoo_long = \"skip\"", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 0), 0, "%s", rig.failure);
    cr_assert_eq(verl_batch_rows(rig.out), 1);
    cr_assert_eq(*verl_column_i64(verl_batch_column(rig.out, "id"), 0), 1);
    rig_close(&rig);
}

Test(loader, a_broken_record_is_named_by_file_and_line)
{
    rig_t rig;
    rig_open(&rig, "loader", "load", "prompts", s_state("{\"prompt\": \"1\"}\n{\"prompt\": 2}\n", ""),
             "rows = 2\nshuffle = false", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 0), -1);
    cr_assert(strstr(rig.failure, ".jsonl:2:"), "%s", rig.failure);
    rig_close(&rig);
    rig_open(&rig, "loader", "load", "prompts", s_state("{\"prompt\": \"1\"}\n", ""), "rows = 1\nepochs = 2", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 1), 0, "%s", rig.failure);
    cr_assert_eq(rig_run(&rig, NULL, 2), -1);
    cr_assert(strstr(rig.failure, "end"), "%s", rig.failure);
    rig_close(&rig);
}

Test(loader, messages_need_a_chat_template)
{
    char said[1024];
    static const char lines[] = "{\"prompt\": [{\"role\": \"user\", \"content\": \"1+1=\"}]}\n";
    s_check(lines, TOKENIZER, said, sizeof said);
    cr_assert(strstr(said, "the prompts are messages: template = \"chat\" would be right"), "%s", said);
    s_check(lines, "", said, sizeof said);
    cr_assert_str_empty(said, "%s", said);
    s_check("{\"prompt\": \"1+1=\"}\n", TOKENIZER, said, sizeof said);
    cr_assert_str_empty(said, "%s", said);
}

Test(loader, a_tokenizer_reads_text_and_messages_alone)
{
    static const struct {
        const char *line, *said;
    } cases[] = {
        { "{\"prompt\": 5}\n", "field \"prompt\" is an integer: text, or a list of {\"role\", \"content\"} messages," },
        { "{\"prompt\": 5.5}\n", "field \"prompt\" is a number: text" },
        { "{\"prompt\": [1, 2]}\n", "field \"prompt\" is a list of integers: text" },
        { "{\"prompt\": {\"a\": 1}}\n", "field \"prompt\" is an object: text" },
        { "{\"prompt\": \"1\", \"response\": 7}\n", "field \"response\" is an integer: text would be right" },
        { "{\"prompt\": \"1\", \"response\": [7]}\n", "field \"response\" is a list of integers: text would be right" },
        { "{\"prompt\": \"1\", \"response\": [{\"role\": \"assistant\", \"content\": \"2\"}]}\n",
          "field \"response\" is a list of {\"role\", \"content\"} messages: text would be right" },
        { "{\"prompt\": \"1\", \"response\": 7, \"response_ids\": [7]}\n", "" },
    };
    char said[1024];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s_check(cases[i].line, TOKENIZER, said, sizeof said);
        cr_expect(*cases[i].said ? strstr(said, cases[i].said) != NULL : !*said, "%s: %s", cases[i].line, said);
        s_check(cases[i].line, "", said, sizeof said);
        cr_expect_str_empty(said, "%s: %s", cases[i].line, said);
    }
}
