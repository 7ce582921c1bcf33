// A kind that is no part of the programs: a shared object that a topology names.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/run.h"

static void
s_topology(char *text, size_t size, const char *kind)
{
    snprintf(text, size,
             "[run]\nname = \"plugin\"\nsteps = 2\n"
             "[stage.data]\nkind = \"loader\"\nfiles = [\"%s/tests/fixtures/kinds/responses.jsonl\"]\nrows = 3\nshuffle = false\n"
             "[stage.reward]\nkind = \"%s\"\ntarget = 2\ndepends_on = [\"data\"]\n"
             "[stage.out]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"score\"]\ndepends_on = [\"reward\"]\n",
             VERL_SOURCE_DIR, kind);
}

Test(plugin, works_like_a_kind_of_the_tree)
{
    run_t run;
    char text[2000];
    s_topology(text, sizeof text, VERL_BINARY_DIR "/tests/length_reward.so");
    run_whole(&run, text, "");
    cr_assert_eq(run.code, 0, "%s", run.said);
    char *rows = run_file(&run, "out.jsonl");
    cr_assert(strstr(rows, "0.5"), "a response of 2 tokens: %s", rows);
    cr_assert(strstr(rows, "0.4"), "a response of 3 tokens: %s", rows);
    cr_assert_eq(run_lines(rows), 6);
    free(rows);
    run_done(&run);
}

Test(plugin, that_makes_rows_without_declaring_it_is_named)
{
    run_t run;
    run_whole(&run, "[run]\nname = \"rows\"\nsteps = 2\n[stage.src]\nkind = \"synthetic\"\nrows = 6\n"
                    "[stage.back]\nkind = \"" VERL_BINARY_DIR "/tests/reverse.so\"\ndepends_on = [\"src\"]\n"
                    "[stage.out]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"id\", \"own\"]\n"
                    "depends_on = [\"back\"]\n", "");
    cr_assert_eq(run.code, 1, "%s", run.said);
    cr_assert(run_said(&run, "the handler gave a row map, and its kind does not declare"), "%s", run.said);
    run_done(&run);
}

Test(plugin, that_is_not_there_is_named)
{
    run_t run;
    char text[2000];
    s_topology(text, sizeof text, "./no_such_kind.so");
    run_whole(&run, text, "");
    cr_assert_eq(run.code, 2);
    cr_assert(run_said(&run, "no_such_kind.so"), "%s", run.said);
    cr_assert(run_said(&run, "topology.toml:10:"), "%s", run.said);
    run_done(&run);
}
