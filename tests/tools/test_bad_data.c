// Records that are broken, empty, too long or changed while a run reads them, and responses that teach nothing.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "tools/bad.h"

// Eight records, the fourth of which is `line` (as printf has it).
#define WITH(LINE)                                                                                             \
    MODEL_FILES "for i in 1 2 3; do printf '" RECORD "'; done >d.jsonl; printf '%b\\n' '" LINE "' >>d.jsonl; " \
                "for i in 5 6 7 8; do printf '" RECORD "'; done >>d.jsonl"

// Known before the start: line 4 of the file named in line 10 of the topology.
#define REFUSED(LINE, WORDS)                               \
    s_refuses(WITH(LINE), RIGHT, "", "topology.toml:10:"); \
    s_refuses(WITH(LINE), RIGHT, "", "/d.jsonl:4: " WORDS)

Test(bad_data, a_broken_line)
{
    REFUSED("{\"prompt\": \"1+2", "not JSON at column");
}

Test(bad_data, a_line_of_something_else)
{
    REFUSED("[1, 2]", "is a list");
    REFUSED("hello", "not JSON");
    REFUSED("{\"prompt\": \"1+2=\"}", "field \"answer\" is missing");
    REFUSED("{\"prompt\": 5, \"answer\": \"3\"}", "field \"prompt\" is an integer");
    REFUSED("{\"prompt\": null, \"answer\": \"3\"}", "field \"prompt\" is null");
    REFUSED("{\"prompt\": \"a\", \"prompt\": \"b\", \"answer\": \"3\"}", "not JSON at column 24: duplicate object key");
}

Test(bad_data, bytes_that_are_no_text)
{
    REFUSED("{\"prompt\": \"\\0377\\0376\", \"answer\": \"3\"}", "not JSON at column");
    REFUSED("{\"prompt\": \"\\\\ud800\", \"answer\": \"3\"}", "not JSON at column");
    REFUSED("\\0000\\0000", "the line holds a NUL byte");
}

Test(bad_data, a_line_cut_at_the_end)
{
    s_refuses(FILES "truncate -s -8 d.jsonl", RIGHT, "", "/d.jsonl:8: not JSON");
}

Test(bad_data, a_line_that_nests_too_deeply)
{
    s_refuses(MODEL_FILES "{ printf '{\"prompt\": '; head -c 200000 /dev/zero | tr '\\0' '['; } >d.jsonl", RIGHT, "",
              "/d.jsonl:1: not JSON");
}

Test(bad_data, two_megabytes_of_rubbish_in_a_line)
{
    s_refuses(FILES "head -c 2000000 /dev/zero | tr '\\0' 'x' >>d.jsonl", RIGHT, "", "/d.jsonl:9: not JSON");
}

Test(bad_data, a_prompt_of_two_megabytes)
{
    s_fails(
        FILES
        "{ printf '{\"answer\": \"3\", \"prompt\": \"'; head -c 2000000 /dev/zero | tr '\\0' '7'; printf '\"}\\n'; }"
        " >>d.jsonl",
        RIGHT, "--set stage.prompts.rows=9",
        "row 8: a prompt of 2000000 tokens and max_new_tokens = 4 are longer than the model's context of 64");
}

Test(bad_data, an_answer_of_two_megabytes_is_no_mistake)
{
    s_works(FILES "{ printf '{\"prompt\": \"1+2=\", \"answer\": \"'; head -c 2000000 /dev/zero | tr '\\0' '7'; "
                  "printf '\"}\\n'; } >>d.jsonl",
            RIGHT, "--set stage.prompts.rows=9");
}

Test(bad_data, an_empty_file)
{
    s_refuses(FILES ": >d.jsonl", RIGHT, "", "d.jsonl: has no records");
    s_refuses(FILES "printf '\\n\\n\\n' >d.jsonl", RIGHT, "", "d.jsonl: has no records");
}

Test(bad_data, something_that_is_no_file)
{
    s_refuses(FILES "rm d.jsonl", RIGHT, "", "which is not there");
    s_refuses(FILES "rm d.jsonl; mkdir d.jsonl", RIGHT, "", "is a folder");
    s_refuses(FILES "rm d.jsonl; mkfifo d.jsonl", RIGHT, "", "is no regular file");
    s_refuses(FILES "rm d.jsonl; ln -s /dev/zero d.jsonl", RIGHT, "", "is no regular file");
    s_refuses(FILES "rm d.jsonl; ln -s d.jsonl d.jsonl", RIGHT, "", "which is not there");
}

Test(bad_data, another_encoding)
{
    s_refuses(FILES "iconv -t UTF-16 d.jsonl >e && mv e d.jsonl", RIGHT, "", "write it in UTF-8");
    s_works(FILES "sed -i '1s/^/\\xef\\xbb\\xbf/; s/$/\\r/' d.jsonl", RIGHT, "");
}

Test(bad_data, a_field_with_an_endless_name)
{
    s_refuses(MODEL_FILES
              "{ printf '{\"prompt\": \"1\", \"answer\": \"2\", \"'; head -c 9999 /dev/zero | tr '\\0' 'f'; "
              "printf '\": 3}\\n'; } >d.jsonl",
              RIGHT, "", "a name of 9999 bytes: at most 255");
}

Test(bad_data, an_empty_prompt)
{
    s_fails(WITH("{\"prompt\": \"\", \"answer\": \"3\"}"), RIGHT, "", "/d.jsonl:4: its prompt has no tokens");
}

Test(bad_data, a_prompt_that_the_tokenizer_cannot_spell)
{
    s_fails(WITH("{\"prompt\": \"hello\", \"answer\": \"3\"}"), RIGHT, "", "/d.jsonl:4: its prompt has no tokens");
}

Test(bad_data, an_empty_prompt_without_a_tokenizer_at_the_loader)
{
    s_fails(WITH("{\"prompt\": \"\", \"answer\": \"3\"}"), RIGHT, "--set 'stage.prompts.tokenizer=\"\"'",
            "row 3: its prompt has no tokens");
}

Test(bad_data, a_prompt_longer_than_the_context)
{
    s_fails(WITH("{\"prompt\": \"1111111111111111111111111111111111111111111111111111111111111\", \"answer\": \"3\"}"),
            RIGHT, "",
            "row 3: a prompt of 61 tokens and max_new_tokens = 4 are longer than the model's context of 64: "
            "max_prompt_tokens = 60");
    s_works(WITH("{\"prompt\": \"1111111111111111111111111111111111111111111111111111111111111\", \"answer\": \"3\"}"),
            RIGHT, "--set stage.prompts.max_prompt_tokens=60 --set stage.prompts.too_long=skip");
}

Test(bad_data, every_prompt_longer_than_the_limit)
{
    s_fails(FILES, RIGHT, "--set stage.prompts.max_prompt_tokens=2 --set stage.prompts.too_long=skip",
            "every prompt of the batch is longer");
    s_fails(FILES, RIGHT, "--set stage.prompts.max_prompt_tokens=2", "/d.jsonl:1: its prompt has 4 tokens");
}

Test(bad_data, ids_outside_the_vocabulary)
{
    s_fails(MODEL_FILES "printf '{\"prompt_ids\": [1, 300], \"answer\": \"3\"}\\n' >d.jsonl", RIGHT, "",
            "row 0: its prompt has the id 300 at place 1, and the model's vocabulary ends at 15");
    s_fails(MODEL_FILES "printf '{\"prompt_ids\": [-1], \"answer\": \"3\"}\\n' >d.jsonl", RIGHT, "",
            "has the id -1 at place 0");
    s_fails(MODEL_FILES "printf '{\"prompt_ids\": [], \"answer\": \"3\"}\\n' >d.jsonl", RIGHT, "",
            "row 0: its prompt has no tokens");
}

Test(bad_data, more_rows_than_records)
{
    s_works(FILES, RIGHT, "--set stage.prompts.rows=20");
    s_works(FILES, RIGHT, "--set stage.prompts.rows=0");
    s_refuses(FILES, RIGHT, "--set stage.prompts.rows=20 --set stage.prompts.drop_last=true",
              "a batch takes 20 rows but");
    s_refuses(FILES, RIGHT, "--set stage.prompts.rows=-1", "`rows` is -1");
}

// --- while the run goes on ----------------------------------------------------------------------------------------

Test(bad_data, a_file_that_shrinks_while_it_is_read)
{
    run_t run;
    char path[128];
    run_start_after(&run, FILES, RIGHT, "--steps 100000");
    run_until_steps(&run, 2);
    snprintf(path, sizeof path, "%s/d.jsonl", run.folder);
    cr_assert_eq(truncate(path, 20), 0);
    run_wait(&run, 20);
    s_ended(&run, 1, "the file became shorter since it was opened");
    cr_assert(run_said(&run, "while stage `prompts` of `prompts#"), "%s", run.said);
    run_done(&run);
}

Test(bad_data, a_file_that_is_removed_while_it_is_read_is_no_mistake)
{
    run_t run;
    char path[128];
    run_start_after(&run, FILES, RIGHT, "--steps 20");
    run_until_steps(&run, 2);
    snprintf(path, sizeof path, "%s/d.jsonl", run.folder);
    cr_assert_eq(unlink(path), 0);
    run_wait(&run, 30);
    s_ended(&run, 0, "");
    run_done(&run);
}

// --- nothing to learn from ----------------------------------------------------------------------------------------

#define IMITATE                                                                                       \
    "[run]\nname = \"s\"\nsteps = 2\n[actor.policy]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\n" \
    "[stage.pairs]\nkind = \"loader\"\nfiles = [\"d.jsonl\"]\nrows = 0\nshuffle = false\n"            \
    "[stage.update]\nactor = \"policy\"\ndepends_on = [\"pairs\"]\nloss = \"sft\"\n"
#define TOKENIZER "--set stage.pairs.tokenizer=m"

static void
s_imitates(const char *records, const char *arguments, const char *failure)
{
    char setup[1000];
    snprintf(setup, sizeof setup, MODEL_FILES "printf '%s' >d.jsonl", records);
    if (failure)
        s_fails(setup, IMITATE, arguments, failure);
    else
        s_works(setup, IMITATE, arguments);
}

Test(bad_data, responses_of_length_0)
{
    s_imitates("{\"prompt_ids\": [1], \"response_ids\": [2]}\\n{\"prompt_ids\": [1], \"response_ids\": []}\\n", "",
               NULL);
    s_imitates("{\"prompt_ids\": [1], \"response_ids\": []}\\n{\"prompt_ids\": [1], \"response_ids\": []}\\n", "",
               "none of the 2 rows has a token to learn from");
    s_imitates("{\"prompt\": \"1+2=\", \"response\": \"\"}\\n", TOKENIZER, NULL); // a stop token is learned
}

Test(bad_data, responses_that_are_masked_out)
{
    s_imitates("{\"prompt_ids\": [1], \"response_ids\": [2, 3], \"response_mask\": [0, 0]}\\n", "",
               "none of the 1 rows has a token to learn from");
    s_imitates("{\"prompt_ids\": [1], \"response_ids\": [2, 3], \"response_mask\": [1]}\\n", "",
               "row 0: response_mask has 1 places, and the response 2 tokens");
}

Test(bad_data, responses_that_do_not_fit)
{
    s_imitates("{\"prompt_ids\": [], \"response_ids\": [2]}\\n", "", "row 0: its prompt has no tokens");
    s_imitates("{\"prompt_ids\": [1], \"response_ids\": [99]}\\n", "", "row 0: response_ids has the id 99 at place 0");
    s_imitates(
        "{\"prompt\": \"111111111111111111111111111111111111\", \"response\": \"222222222222222222222222222222\"}\\n",
        TOKENIZER, "longer than the model's context of 64");
}

Test(bad_data, rewards_that_are_all_equal_teach_nothing_and_are_no_mistake)
{
    run_t run;
    run_start_after(&run, FILES "sed -i 's/\"3\"/\"x\"/' d.jsonl", RIGHT, "--set stage.reward.rule=exact");
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    char *metrics = run_file(&run, "metrics.jsonl");
    cr_assert(strstr(metrics, "\"critic/score/mean\":0.0") && strstr(metrics, "\"actor/grad_norm\":0.0"), "%s",
              metrics);
    cr_assert(!strstr(metrics, "nan") && !strstr(metrics, "NaN"), "%s", metrics);
    free(metrics);
    run_done(&run);
}
