// Files of Lua in whole runs: the length penalty that we ship, and how a run ends when a file fails.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/run.h"

// A file next to the topology, made of single-quoted shell text.
#define S_LUA(text) "cat > reward.lua << 'END'\n" text "\nEND\n"

#define S_ROWS      "[run]\nsteps = 6\n[stage.rows]\nkind = \"synthetic\"\nrows = 4\n"

static char *
s_metrics(run_t *run, const char *topology, const char *arguments, int steps)
{
    run_whole(run, topology, arguments);
    cr_assert_eq(run->code, 0, "%s", run->said);
    char *metrics = run_timeless_metrics(run);
    cr_assert_eq(run_lines(metrics), steps, "%s", metrics);
    return metrics;
}

Test(lua_run, the_length_penalty_is_part_of_the_reward_and_repeats_itself)
{
    run_t one, two;
    char text[8192] = "", path[] = VERL_SOURCE_DIR "/topologies/lua-length-penalty.toml", sets[1024];
    FILE *file = fopen(path, "r");
    cr_assert(file);
    cr_assert_gt(fread(text, 1, sizeof text - 1, file), 0);
    fclose(file);
    snprintf(
        sets, sizeof sets,
        "--steps 3 --set actor.policy.model=\"%s/models/addition-1m\" --set stage.prompts.tokenizer=\"%s/models/"
        "addition-1m\" --set 'stage.prompts.files=[\"%s/data/addition-train.jsonl\"]' --set stage.length.file=\"%s/"
        "actors/length_penalty.lua\"",
        VERL_SOURCE_DIR "/topologies", VERL_SOURCE_DIR "/topologies", VERL_SOURCE_DIR "/topologies",
        VERL_SOURCE_DIR "/topologies");
    char *first = s_metrics(&one, text, sets, 3), *second = s_metrics(&two, text, sets, 3);
    cr_assert_str_eq(first, second);
    cr_assert(strstr(first, "reward/over_length"), "%s", first);
    cr_assert(strstr(first, "actor/pg_loss"), "%s", first);
    free(first);
    free(second);
    run_done(&one);
    run_done(&two);
}

Test(lua_run, a_failure_names_stage_batch_and_line)
{
    run_t run;
    run_start_after(
        &run,
        S_LUA("needs = { 'id' }\ngives = { 'score' }\nfunction score(batch)\n  for i, id in ipairs(batch.id) do\n"
              "    if id == 9 then fail('nine is refused') end\n    batch.out.score[i] = 0\n  end\nend"),
        S_ROWS "[stage.shaping]\nkind = \"lua\"\nfile = \"reward.lua\"\ndepends_on = [\"rows\"]\n", "");
    run_wait(&run, 20);
    cr_assert_eq(run.code, 1, "%s", run.said);
    cr_assert(run_said(&run, "reward.lua:5: nine is refused"), "%s", run.said);
    cr_assert(run_said(&run, "shaping"), "%s", run.said);
    cr_assert(run_said(&run, "row that it read is 2 of 4"), "%s", run.said);
    run_done(&run);
}

Test(lua_run, a_mistake_in_a_file_is_found_before_anything_starts)
{
    run_t run;
    run_start_after(&run, S_LUA("needs = {\n"),
                    S_ROWS "[stage.shaping]\nkind = \"lua\"\nfile = \"reward.lua\"\ndepends_on = [\"rows\"]\n", "");
    run_wait(&run, 20);
    cr_assert_eq(run.code, 2, "%s", run.said);
    cr_assert(run_said(&run, "`file`: reward.lua:3: "), "%s", run.said);
    run_done(&run);
}

Test(lua_run, a_source_and_a_stage_with_state_in_lua)
{
    run_t run;
    run_start_after(
        &run,
        "cat > rows.lua << 'END'\ngives = { 'id:i64[n]', 'word:text' }\nfunction score(batch)\n"
        "  return { id = { batch.step, 10 }, word = { 'a', 'b' } }\nend\nEND\n" S_LUA(
            "needs = { 'id', 'word' }\ngives = { 'score' }\nlocal sum = 0\nfunction score(batch)\n"
            "  sum = sum + batch.id[1]\n  metric('sum/max', sum)\n  return { score = { sum, #batch.word[1] } }\n"
            "end\nfunction snapshot() return sum end\nfunction restore(s) sum = s end"),
        "[run]\nsteps = 6\n[stage.rows]\nkind = \"lua\"\nfile = \"rows.lua\"\n"
        "[stage.sum]\nkind = \"lua-state\"\nfile = \"reward.lua\"\ndepends_on = [\"rows\"]\n",
        "");
    run_wait(&run, 20);
    cr_assert_eq(run.code, 0, "%s", run.said);
    char *metrics = run_file(&run, "metrics.jsonl"), *saved = run_file(&run, "checkpoints/step-6/sum/state.lua");
    cr_assert(strstr(metrics, "\"sum/max\":15.0"), "%s", metrics);
    cr_assert_str_eq(saved, "return 0xf\n");
    free(metrics);
    free(saved);
    run_done(&run);
}
