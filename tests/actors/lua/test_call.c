// A file of Lua handles batches: what it sees, what it gives, what it may say.
#include <math.h>
#include "file.h"

static verl_batch_t *s_made, *s_in;

static void
s_set_up(void)
{
    s_made = lua_batch(3);
    s_in = rig_see(s_made);
}

static void
s_tear_down(void)
{
    verl_batch_destroy(&s_in);
    verl_batch_destroy(&s_made);
}

TestSuite(lua_call, .init = s_set_up, .fini = s_tear_down);

// Runs a file that has to succeed and hands over its output; the caller closes the stage.
static const verl_batch_t *
s_run(lua_stage_t *stage, const char *text, const char *options)
{
    lua_stage_open(stage, "lua", text, options);
    cr_assert_eq(stage->prepared, 0, "%s", stage->rig.failure);
    cr_assert_eq(rig_run(&stage->rig, s_in, 3), 0, "%s", stage->rig.failure);
    return stage->rig.out;
}

static float
s_score(const verl_batch_t *out, int64_t row)
{
    const verl_column_t *score = verl_batch_column(out, "score");
    cr_assert(score && score->dtype == VERL_F32 && !score->ragged);
    return *verl_column_f32(score, row);
}

Test(lua_call, a_reward_that_is_returned)
{
    lua_stage_t stage;
    const verl_batch_t *out = s_run(&stage,
                                    "needs = { 'response', 'answer' }\ngives = { 'score' }\n"
                                    "function score(batch)\n  local s = {}\n"
                                    "  for i = 1, batch.rows do s[i] = batch.response[i] == batch.answer[i] end\n"
                                    "  return { score = s }\nend\n",
                                    "");
    cr_assert_eq(s_score(out, 0), 1);
    cr_assert_eq(s_score(out, 1), 0);
    lua_stage_close(&stage);
}

Test(lua_call, a_table_that_the_file_returns_and_a_score_written_to_out)
{
    lua_stage_t stage;
    const verl_batch_t *out = s_run(&stage,
                                    "return { needs = { 'response_ids', 'score' }, gives = { 'score' },\n"
                                    "  length = function(batch)\n    for i, ids in ipairs(batch.response_ids) do\n"
                                    "      batch.out.score[i] = batch.score[i] - options.weight * #ids\n    end\n"
                                    "  end }\n",
                                    "function = \"length\"\noptions = { weight = 0.5 }\n");
    cr_assert_float_eq(s_score(out, 0), -0.25, 1e-6);
    cr_assert_float_eq(s_score(out, 1), -3.0, 1e-6);
    lua_stage_close(&stage);
}

#define TWO                                                                                                             \
    "stages = { shaping = { gives = { 'score' } }, score = { gives = { 'score' } } }\n"                               \
    "function shaping(batch) return { score = { 1, 2 } } end\nfunction score(batch) return { score = { 3, 4 } } end\n"

Test(lua_call, the_function_of_the_stages_own_name_is_called_where_none_is_named)
{
    lua_stage_t stage;
    cr_expect_eq(s_score(s_run(&stage, TWO, ""), 0), 1);
    lua_stage_close(&stage);
    cr_expect_eq(s_score(s_run(&stage, TWO, "function = \"score\"\n"), 0), 3);
    lua_stage_close(&stage);
}

Test(lua_call, every_type_that_is_read)
{
    lua_stage_t stage;
    s_run(&stage,
          "needs = { 'response_ids', 'id', 'score', 'response', 'absent?' }\ngives = { 'score' }\n"
          "function score(batch)\n  assert(#batch.response_ids == 2 and #batch.response_ids[2] == 3)\n"
          "  assert(batch.response_ids[2][1] == -8 and batch.response_ids[2][3] == 2147483647)\n"
          "  assert(batch.response_ids[2][4] == nil and batch.response_ids[3] == nil)\n"
          "  assert(math.type(batch.id[2]) == 'integer' and batch.id[2] == math.mininteger)\n"
          "  assert(batch.score[1] == 0.25 and batch.response[2] == 'a longer one')\n"
          "  assert(batch.absent == nil and batch.step == 3 and batch.first_row == 0)\n"
          "  assert(table.concat({ table.unpack(batch.response_ids[2]) }, ' ') == '-8 9 2147483647')\n"
          "  return { score = batch.score }\nend\n",
          "");
    cr_assert_eq(s_score(stage.rig.out, 1), -1.5F);
    lua_stage_close(&stage);
}

Test(lua_call, every_type_that_is_given)
{
    lua_stage_t stage;
    const verl_batch_t *out =
        s_run(&stage,
              "needs = { 'response' }\n"
              "gives = { 'a:f32[n,*]', 'b:i32[n,*]', 'c:text', 'd:i64[n]', 'e:u8[n]', 'f:f32[n,2]', 'g:bf16[n]',\n"
              "          'h:i32[n,*,2]' }\n"
              "function score(batch)\n  return { a = { {}, { 0.5, 1 } }, b = { { 1, -2 }, { 3.0 } },\n"
              "    c = { 'x\\0y', '' }, d = { 1, math.maxinteger }, e = { true, 255 },\n"
              "    f = { { 1, 2 }, { 3, 4 } }, g = { 1, 3.14159 }, h = { { { 1, 2 } }, {} } }\nend\n",
              "");
    const verl_column_t *column = verl_batch_column(out, "a");
    cr_assert(column->ragged && verl_column_length(column, 0) == 0 && verl_column_f32(column, 1)[0] == 0.5F);
    column = verl_batch_column(out, "b");
    cr_assert(verl_column_length(column, 0) == 2 && verl_column_i32(column, 0)[1] == -2 &&
              verl_column_i32(column, 1)[0] == 3);
    size_t bytes;
    const char *text = verl_column_text(verl_batch_column(out, "c"), 0, &bytes);
    cr_assert(bytes == 3 && memcmp(text, "x\0y", 3) == 0);
    cr_assert_eq(*verl_column_i64(verl_batch_column(out, "d"), 1), INT64_MAX);
    cr_assert(*verl_column_u8(verl_batch_column(out, "e"), 0) == 1 &&
              *verl_column_u8(verl_batch_column(out, "e"), 1) == 255);
    cr_assert(verl_column_f32(verl_batch_column(out, "f"), 1)[1] == 4);
    cr_assert_eq(((const uint16_t *) verl_column_at(verl_batch_column(out, "g"), 1))[0], 0x4049);
    column = verl_batch_column(out, "h");
    cr_assert(column->width == 2 && verl_column_length(column, 0) == 1 && verl_column_i32(column, 0)[1] == 2);
    lua_stage_close(&stage);
}

Test(lua_call, metrics_samples_and_the_log)
{
    lua_stage_t stage;
    s_run(&stage,
          "needs = { 'response', 'score' }\nfunction score(batch)\n  for i = 1, batch.rows do\n"
          "    metric('reward/length', #batch.response[i])\n    metric('reward/length/max', #batch.response[i])\n"
          "    metric('reward/weighted', i, i)\n  end\n"
          "  sample('2+2', batch.response[1], batch.score[1])\n  log('rows', batch.rows)\n  print(nil)\nend\n",
          "");
    cr_assert_float_eq(rig_metric(&stage.rig, "reward/length"), 8, 1e-12);
    cr_assert_float_eq(rig_metric(&stage.rig, "reward/length/max"), 12, 1e-12);
    cr_assert_float_eq(rig_metric(&stage.rig, "reward/weighted"), 5.0 / 3, 1e-12);
    cr_assert_eq(stage.rig.samples, 1);
    cr_assert_eq(verl_batch_columns(stage.rig.out), 0);
    lua_stage_close(&stage);
}

Test(lua_call, random_numbers_are_of_the_row_not_of_when)
{
    static const char *const text = "needs = { 'response' }\ngives = { 'score', 'whole:i64[n]', 'free:f32[n]' }\n"
                                    "function score(batch)\n  for i = batch.rows, 1, -1 do\n    local r = random(i)\n"
                                    "    batch.out.score[i] = r() + r:normal()\n    batch.out.whole[i] = r(10, 12)\n"
                                    "    batch.out.free[i] = math.random()\n  end\nend\n";
    lua_stage_t one, two;
    const verl_batch_t *a = s_run(&one, text, ""), *b = s_run(&two, text, "");
    for (int64_t row = 0; row < 2; row++) {
        int64_t whole = *verl_column_i64(verl_batch_column(a, "whole"), row);
        cr_assert_eq(s_score(a, row), s_score(b, row));
        cr_assert(whole >= 10 && whole <= 12);
        cr_assert_eq(*verl_column_f32(verl_batch_column(a, "free"), row),
                     *verl_column_f32(verl_batch_column(b, "free"), row));
    }
    cr_assert_neq(s_score(a, 0), s_score(a, 1));
    lua_stage_close(&one);
    lua_stage_close(&two);
}

Test(lua_call, a_source_makes_its_rows)
{
    lua_stage_t stage;
    lua_stage_open(&stage, "lua",
                   "gives = { 'id:i64[n]', 'prompt:text' }\nfunction score(batch)\n"
                   "  return { id = { 1, 2, 3 }, prompt = { 'a', 'b', 'c' .. batch.step } }\nend\n",
                   "");
    cr_assert_eq(rig_run(&stage.rig, NULL, 4), 0, "%s", stage.rig.failure);
    size_t bytes;
    cr_assert_eq(verl_batch_rows(stage.rig.out), 3);
    cr_assert(strncmp(verl_column_text(verl_batch_column(stage.rig.out, "prompt"), 2, &bytes), "c4", 2) == 0);
    lua_stage_close(&stage);
}

// ---------------------------------------------------------------------------------------------------------------
// What is wrong is named with its line

// A file whose batch has to fail with a sentence that has both pieces in it.
static void
s_refuse(const char *text, const char *options, const char *piece, const char *other)
{
    lua_stage_t stage;
    lua_stage_open(&stage, "lua", text, options);
    cr_assert_eq(stage.prepared, 0, "%s", stage.rig.failure);
    cr_assert_eq(rig_run(&stage.rig, s_in, 3), -1, "%s was taken", text);
    cr_assert(strstr(stage.rig.failure, piece), "`%s` is not in: %s", piece, stage.rig.failure);
    cr_assert(strstr(stage.rig.failure, other), "`%s` is not in: %s", other, stage.rig.failure);
    lua_stage_close(&stage);
}

#define S_HEAD "needs = { 'response' }\ngives = { 'score' }\nfunction score(batch)\n"

Test(lua_call, an_error_names_file_line_and_row)
{
    s_refuse(S_HEAD "  for i = 1, batch.rows do\n    local x = batch.response[i] + {}\n  end\nend\n", "",
             "reward.lua:5: ", "row that it read is 1 of 2");
    s_refuse(S_HEAD "  local r = batch.response[2]\n  fail('no: ', r)\nend\n", "", "reward.lua:5: no:  a longer one",
             "2 of 2");
    s_refuse(S_HEAD "  error({ 1 })\nend\n", "", "reward.lua:4: ", "an error of type table instead of a text");
    s_refuse(S_HEAD "  error('bare', 0)\nend\n", "", "reward.lua:4: bare", "");
}

Test(lua_call, a_result_that_is_not_whole_is_named_by_its_row)
{
    s_refuse(S_HEAD "  return { score = { 1 } }\nend\n", "", "`score` has nothing for row 2 of 2", "a finite number");
    s_refuse(S_HEAD "  return { score = { 1, 0 / 0 } }\nend\n", "", "nan for row 2", "finite");
    s_refuse(S_HEAD "  return { score = { 1, 'x' } }\nend\n", "", "has the text \"x\" for row 2", "finite");
    s_refuse(S_HEAD "  return { score = { 1, 2, 3 } }\nend\n", "", "more values than the batch has rows, 2", "");
    s_refuse(S_HEAD "  return { scroe = { 1, 2 } }\nend\n", "", "gives `scroe`", "`gives` does not name");
    s_refuse(S_HEAD "  batch.out.scroe = { 1, 2 }\nend\n", "", "gives `scroe`", "");
    s_refuse(S_HEAD "  return { score = 1 }\nend\n", "", "`score` is number", "an array");
    s_refuse(S_HEAD "  return 1\nend\n", "", "returns number", "");
    s_refuse(S_HEAD "  batch.out = nil\nend\n", "", "took `out`", "");
    s_refuse("needs = { 'response' }\ngives = { 'a:u8[n]' }\nfunction score(b) return { a = { 1, 256 } } end\n", "",
             "has 256 for row 2", "a whole number");
    s_refuse("needs = { 'response' }\ngives = { 'a:i32[n,*]' }\nfunction score(b) return { a = { { 1 }, 2 } } end\n",
             "", "has 2 for row 2", "an array");
}

Test(lua_call, a_column_that_is_not_there_or_of_an_earlier_batch)
{
    s_refuse(S_HEAD "  return { score = batch.respnse }\nend\n", "", "has no `respnse`", "needs");
    s_refuse(S_HEAD "  batch.response[1] = 'x'\nend\n", "", "is written to", "reward.lua:4:");
    lua_stage_t stage;
    const char *text =
        "local kept\n" S_HEAD "  kept = kept or batch.response\n  return { score = { #kept[1], 0 } }\nend\n";
    lua_stage_open(&stage, "lua", text, "");
    cr_assert_eq(rig_run(&stage.rig, s_in, 3), 0, "%s", stage.rig.failure);
    cr_assert_eq(rig_run(&stage.rig, s_in, 4), -1);
    cr_assert(strstr(stage.rig.failure, "earlier batch"), "%s", stage.rig.failure);
    lua_stage_close(&stage);
}

Test(lua_call, a_global_of_a_stateless_file_stays_as_it_is)
{
    s_refuse("count = 0\n" S_HEAD "  count = count + 1\nend\n", "", "reward.lua:5: the global `count` is assigned",
             "lua-state");
}

Test(lua_call, a_loop_without_end_and_memory_without_bound_end_with_their_line)
{
    s_refuse(S_HEAD "  while true do end\nend\n", "instructions = 1000000\n",
             "reward.lua:4: more than 1000000 instructions", "a higher `instructions`");
    s_refuse(S_HEAD "  while true do pcall(function() while true do end end) end\nend\n", "instructions = 1000000\n",
             "reward.lua:4: more than 1000000", "");
    s_refuse(S_HEAD "  local t = {}\n  for i = 1, 1e9 do\n    t[i] = ('x'):rep(1000) .. i\n  end\nend\n", "",
             "reward.lua:6: more than 16777216 bytes", "`memory`");
    s_refuse(S_HEAD "  local s = ('x'):rep(1 << 40)\nend\n", "", "reward.lua:4: ", "");
    s_refuse(S_HEAD "  table.move({}, 1, math.maxinteger - 1, 2)\nend\n", "", "reward.lua:4: more than 2000000000", "");
}

Test(lua_call, after_a_failure_the_next_batch_is_handled)
{
    lua_stage_t stage;
    lua_stage_open(&stage, "lua", S_HEAD "  while batch.step == 3 do end\n  return { score = { 1, 2 } }\nend\n",
                   "instructions = 100000\n");
    cr_assert_eq(rig_run(&stage.rig, s_in, 3), -1);
    verl_batch_t *in = rig_see(stage.rig.out);
    verl_batch_destroy(&in);
    verl_batch_t *made = lua_batch(4);
    in = rig_see(made);
    cr_assert_eq(rig_run(&stage.rig, in, 4), 0, "%s", stage.rig.failure);
    cr_assert_eq(s_score(stage.rig.out, 1), 2);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
    lua_stage_close(&stage);
}
