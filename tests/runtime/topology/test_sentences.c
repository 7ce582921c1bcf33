// test_sentences.c: what a sentence says would be right, and what it leaves unsaid because it only follows.
#include "helper.h"
#include <stdio.h>

static int
s_writer_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    (void) options;
    verl_declare_writes(declaration, "file", ((const record_t *) state)->file);
    return 0;
}

static const verl_option_t s_writer_options[] = { VERL_STRING(record_t, file, "x", "file"), VERL_OPTIONS_END };
static const verl_kind_t s_writer = {
    .name = "writer", .about = "writes a file", .state_size = sizeof(record_t), .options = s_writer_options,
    .stages = { { .name = "write", .handler = s_handle, .declare = s_writer_declare } },
};

static int
s_blame(verl_declaration_t *declaration, const void *state, const void *options)
{
    (void) state;
    (void) options;
    verl_declare_error(declaration, "files", "'/dev/full': is no file: one would be right");
    return 0;
}

typedef struct {
    verl_strings_t files;
} blamer_t;
static const verl_option_t s_files[] = { VERL_OPTION_OF(PATHS, blamer_t, files, "files"), VERL_OPTIONS_END };
static const verl_kind_t s_blamer = {
    .name = "blamer", .about = "finds a file wrong", .state_size = sizeof(blamer_t), .options = s_files,
    .stages = { { .name = "blame", .handler = s_handle, .declare = s_blame } },
};

static int
s_count(verl_declaration_t *declaration, const void *state, const void *options)
{
    (void) state;
    (void) options;
    verl_declare_rows(declaration, 6);
    return 0;
}

static const verl_kind_t s_counted = {
    .name = "counted", .about = "knows its rows",
    .stages = { { .name = "count", .handler = s_handle, .gives = { "advantages:f32[n,*]", "response_ids:i32[n,*]" },
                  .source_only = true, .declare = s_count } },
};
static const verl_kind_t *const s_writers[] = { &s_writer, &s_blamer, &s_counted, NULL };

Test(sentences, a_mistyped_kind_or_actor)
{
    static const char *const typos[] = { "kinds", "Kind", "kinnd", "type" };
    for (size_t i = 0; i < sizeof typos / sizeof *typos; i++) {
        char text[200], words[100];
        snprintf(text, sizeof text, RUN "[stage.a]\n%s = 'synthetic'\nrows = 3\n", typos[i]);
        snprintf(words, sizeof words, "there is no key `%s` in [stage.a]: did you mean `kind`?", typos[i]);
        s_one_mistake(text, "t.toml:4:1:", words);
    }
    s_one_mistake(RUN SOURCE "[stage.m]\ndepends_on = ['src']\nactr = 'src'\n", "t.toml:7:1:",
                  "did you mean `actor`?");
    s_one_mistake(RUN "[actor.p]\nkidn = 'policy'\nmodel = 'x'\n[stage.s]\nactor = 'p'\n", "t.toml:4:1:",
                  "no key `kidn` in [actor.p]: did you mean `kind`?");
}

Test(sentences, a_key_of_ours_is_not_called_that_of_another_system)
{
    s_one_mistake(RUN "lr = 1\n" SOURCE, "t.toml:3:1:",
                  "`lr` is a key of a stage that does `update` of kind `policy`: there it would be right");
    s_one_mistake(RUN SOURCE "seed = 1\n", "t.toml:5:1:", "`seed` is a key of [run]: there it would be right");
    s_one_mistake("name = 'x'\n" RUN SOURCE, "t.toml:1:1:", "`name` is a key of [run]");
    s_one_mistake(RUN SOURCE "path = 'x'\n", "t.toml:5:1:", "there is no key `path` in [stage.src]");
    s_one_mistake(RUN "[stage.l]\nkind = 'loader'\npath = 'x'\n", "t.toml:5:1:", "did you mean `files`?");
}

Test(sentences, what_a_stage_can_depend_on)
{
    s_one_mistake_set(RUN GRPO, "stage.reward.depends_on=['policy']", "--set",
                      "`policy` is an actor|depend only on stages: `generate` or `update`, which run in it, would be right");
    s_one_mistake_set(RUN GRPO, "stage.advantage.depends_on=['score']", "--set",
                      "`score` is a column|`reward`, which gives it, would be right");
    s_one_mistake_set(RUN GRPO, "stage.reward.depends_on=['stage.generate']", "--set", "did you mean `generate`?");
    s_one_mistake_set(RUN GRPO, "stage.reward.depends_on=['']", "--set", "an empty string|the name of a stage");
}

Test(sentences, a_column_that_was_renamed_upstream)
{
    s_one_mistake(RUN GRPO "[stage.r2]\nkind = 'rule-reward'\ndepends_on = ['generate']\nas = 'b_'\n"
                           "[stage.f]\nkind = 'filter'\ndepends_on = ['r2']\n", "t.toml:29:14:",
                  "`r2` gives it as `b_score`, so `uses = { score = \"b_score\" }` in [stage.f] would be right");
}

Test(sentences, a_string_where_a_list_is_wanted)
{
    s_one_mistake(RUN SOURCE "[stage.m]\nkind = 'synthetic'\ndepends_on = 'src, mid'\n", "t.toml:7:",
                  "[\"src\", \"mid\"]");
}

Test(sentences, a_name_that_begins_with_a_dash)
{
    s_one_mistake(RUN "[stage.-a]\nkind = 'synthetic'\n", "t.toml:3:",
                  "and -, which no name begins with, would be right");
}

Test(sentences, one_dependency_that_is_missing_is_one_mistake)
{
    static const char *const s_whole = RUN
        "[actor.policy]\nkind = 'policy'\n[stage.prompts]\nkind = 'loader'\nfiles = ['/dev/null']\nrows = 4\n"
        "[stage.generate]\nactor = 'policy'\n%ssamples = 8\n[stage.reward]\nkind = 'rule-reward'\n%s"
        "[stage.advantage]\nkind = 'advantage'\n%s[stage.update]\nactor = 'policy'\n%slr = 1e-4\n";
    static const char *const depends[] = { "depends_on = ['prompts']\n", "depends_on = ['generate']\n",
                                           "depends_on = ['reward']\n", "depends_on = ['advantage']\n" };
    for (int without = 0; without < 4; without++) {
        char text[1000];
        const char *had[4];
        for (int i = 0; i < 4; i++)
            had[i] = i == without ? "" : depends[i];
        snprintf(text, sizeof text, s_whole, had[0], had[1], had[2], had[3]);
        s_one_mistake(text, "t.toml:", "depends_on would be right");
    }
    s_one_mistake(RUN GRPO "[stage.r]\nkind = 'recorder'\ncolumns = ['answer', 'response', 'score']\n", "t.toml:25:12:",
                  "`prompts` gives it, so \"reward\" in depends_on, which comes behind that, would be right");
}

// Rows of another source, a held-out set's, are never proposed to one that has rows already.
Test(sentences, a_column_of_another_source)
{
    s_one_mistake(RUN "[actor.policy]\nkind = 'policy'\n" SOURCE
                      "[stage.held]\nkind = 'loader'\nfiles = ['/dev/null']\nevery = 2\n"
                      "[stage.generate]\nactor = 'policy'\ndepends_on = ['src']\n"
                      "[stage.val]\nactor = 'policy'\ndoes = 'generate'\ndepends_on = ['held']\n",
                  "t.toml:", "the column `prompt`|a stage that does `load` of kind `loader` gives it");
}

Test(sentences, the_fields_that_there_are_where_one_is_missing)
{
    s_one_mistake(RUN SOURCE "[stage.r]\nkind = 'recorder'\ncolumns = ['question']\ndepends_on = ['src']\n", "t.toml:",
                  "`src` gives `payload`, `id`: `uses = { question = \"…\" }` with one of these");
}

Test(sentences, a_mistyped_section_is_one_mistake)
{
    s_one_mistake(RUN SOURCE "[stag.mid]\nkind = 'synthetic'\ndepends_on = ['src']\n"
                             "[stage.end]\nkind = 'synthetic'\ndepends_on = ['mid']\n",
                  "t.toml:5:", "did you mean `stage`");
    s_one_mistake(RUN "[actors.policy]\nkind = 'policy'\n[stage.l]\nkind = 'loader'\nfiles = ['/dev/null']\n"
                      "[stage.g]\nactor = 'policy'\ndoes = 'generate'\ndepends_on = ['l']\n", "t.toml:3:",
                  "did you mean `actor`");
    s_one_mistake(RUN "[actor]\npolicy = 'm'\n[stage.l]\nkind = 'loader'\nfiles = ['/dev/null']\n"
                      "[stage.g]\nactor = 'policy'\ndoes = 'generate'\ndepends_on = ['l']\n", "t.toml:4:",
                  "[actor.policy] must be a table");
}

Test(sentences, a_wrong_staleness_is_one_mistake)
{
    s_one_mistake(RUN SOURCE "staleness = -1\n", "t.toml:5:", "`staleness`");
    s_one_mistake(RUN SOURCE "staleness = 'x'\n", "t.toml:5:", "`staleness`");
}

Test(sentences, a_file_within_another)
{
    verl_error_t error = { "" };
    cr_assert(verl_kind_register_all(s_writers, &error) == 0, "%s", error.text);
    s_one_mistake(RUN SOURCE "[stage.a]\nkind = 'writer'\nfile = 'a'\ndepends_on = ['src']\n"
                             "[stage.b]\nkind = 'writer'\nfile = 'a/b'\ndepends_on = ['src']\n", "t.toml:11:",
                  "'a' is what `a` writes already, and one of the two would have to be a folder: another name");
    verl_plan_t *plan = s_good(RUN SOURCE "[stage.a]\nkind = 'writer'\nfile = 'a'\ndepends_on = ['src']\n"
                                          "[stage.b]\nkind = 'writer'\nfile = 'ab'\ndepends_on = ['src']\n");
    verl_plan_destroy(&plan);
}

Test(limits, a_mini_batch_is_not_rounded_up)
{
    static const struct {
        int rows;
        const char *would;
    } wrong[] = { { 3, ": 8 would" }, { 7, ": 8 would" }, { 9, ": 8 or 16 would" }, { 12, ": 8 or 16 would" },
                  { 31, ": 16 or 32 would" } };
    static const int right[] = { 1, 2, 4, 8, 16, 32 };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char set[60], words[90];
        snprintf(set, sizeof set, "stage.update.mini_batch=%d", wrong[i].rows);
        snprintf(words, sizeof words, "`mini_batch` is %d, and the 32 rows of a batch|%s", wrong[i].rows,
                 wrong[i].would);
        s_one_mistake_set(RUN GRPO, set, "--set", words);
    }
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        char set[60];
        verl_topology_errors_t errors;
        snprintf(set, sizeof set, "stage.update.mini_batch=%d", right[i]);
        verl_plan_t *plan = s_load(RUN GRPO, set, &errors);
        cr_assert_not_null(plan, "%s", set);
        verl_plan_destroy(&plan);
    }
}

Test(syntax, in_words_of_ours)
{
    static const struct {
        const char *line, *where, *words;
    } cases[] = {
        { "name = \"a\n", "t.toml:3:10:",
          "this is no TOML: a string that nothing closes: a quote at its end would be right" },
        { "name = 'a\r\n", "t.toml:3:10:", "a string that nothing closes" },
        { "name = \"a\001b\"\n", "t.toml:3:10:", "control characters" },
        { "seed = None\n", "t.toml:3:", "`None` is no value: leaving the key out would be right" },
        { "seed = null\n", "t.toml:3:", "`null` is no value: leaving the key out" },
        { "seed = [ nil ]\n", "t.toml:3:", "`nil` is no value: leaving the key out" },
        { "seed = True\n", "t.toml:3:", "`True` is no value: true would be right" },
        { "name = work\n", "t.toml:3:", "`work` is no value: \"work\", in quotes, would be right" },
        { "name = info\n", "t.toml:3:", "`info` is no value: \"info\", in quotes" },
        { "seed = 1\n\"seed\" = 2\n", "t.toml:4:1:", "`seed` is there already: once would be right" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        snprintf(text, sizeof text, RUN "%s" SOURCE, cases[i].line);
        s_one_mistake(text, cases[i].where, cases[i].words);
    }
    s_one_mistake(RUN SOURCE "as = 'a", "t.toml:5:", "a string that nothing closes");
    s_one_mistake_set(RUN SOURCE, "run.name=\"a",
                      "--set run.name=\"a: a string that nothing closes: a quote at its end would be right", "right");
}

Test(sentences, the_entry_of_a_list_that_is_to_blame)
{
    verl_error_t error = { "" };
    cr_assert(verl_kind_register_all(s_writers, &error) == 0, "%s", error.text);
    s_one_mistake(RUN "[stage.a]\nkind = 'blamer'\nfiles = [\n'/dev/null',\n'/dev/full',\n'/dev/fullest']\n",
                  "t.toml:7:1:", "`files`: '/dev/full': is no file: one would be right");
}

Test(sentences, a_list_of_which_no_entry_is_named)
{
    verl_error_t error = { "" };
    cr_assert(verl_kind_register_all(s_writers, &error) == 0, "%s", error.text);
    s_one_mistake(RUN "[stage.a]\nkind = 'blamer'\nfiles = ['/dev/null']\n", "t.toml:5:9:", "'/dev/full'");
}

Test(limits, a_mini_batch_of_a_source_that_counts_its_rows)
{
    verl_error_t error = { "" };
    cr_assert(verl_kind_register_all(s_writers, &error) == 0, "%s", error.text);
    s_one_mistake(RUN "[stage.a]\nkind = 'counted'\n[actor.p]\nkind = 'policy'\n"
                      "[stage.u]\nactor = 'p'\ndoes = 'update'\ndepends_on = ['a']\nmini_batch = 4\n", "t.toml:11:14:",
                  "`mini_batch` is 4, and the 6 rows of a batch (6 of `a`) do not divide|3 or 6 would be right");
}
