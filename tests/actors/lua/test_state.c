// A file that keeps state: what it saves comes back, and what cannot be saved is said.
#include <math.h>
#include "file.h"

#define S_COUNTER                                                                                                     \
    "needs = { 'response' }\ngives = { 'score' }\n"                                                                   \
    "local count, seen = 0, { text = 'a\\0\\n\"\\\\\\r', third = 1 / 3, low = math.mininteger, [true] = { 1, 2 } }\n" \
    "function score(batch)\n  count = count + 1\n  total = (total or 0) + count\n"                                    \
    "  return { score = { count, total } }\nend\n"                                                                    \
    "function snapshot() return { count = count, total = total, seen = seen } end\n"                                  \
    "function restore(state)\n  count, total = state.count, state.total\n  local s = state.seen\n"                    \
    "  assert(s.text == seen.text and s.third == 1 / 3 and s.low == math.mininteger and s[true][2] == 2)\nend\n"

static void
s_step(lua_stage_t *stage, float count, float total)
{
    verl_batch_t *made = lua_batch(1), *in = rig_see(made);
    cr_assert_eq(rig_run(&stage->rig, in, 1), 0, "%s", stage->rig.failure);
    const verl_column_t *score = verl_batch_column(stage->rig.out, "score");
    cr_assert_eq(*verl_column_f32(score, 0), count);
    cr_assert_eq(*verl_column_f32(score, 1), total);
    verl_batch_destroy(&in);
    verl_batch_destroy(&made);
}

Test(lua_state, what_was_saved_comes_back)
{
    lua_stage_t one, two;
    lua_stage_open(&one, "lua_state", S_COUNTER, "");
    s_step(&one, 1, 1);
    s_step(&one, 2, 3);
    cr_assert_eq(one.rig.kind->snapshot(&one.rig.stage, one.file.folder), 0, "%s", one.rig.stage.error.text);
    lua_stage_open(&two, "lua_state", S_COUNTER, "");
    cr_assert_eq(two.rig.kind->restore(&two.rig.stage, one.file.folder), 0, "%s", two.rig.stage.error.text);
    s_step(&two, 3, 6);
    s_step(&one, 3, 6);
    lua_stage_close(&one);
    lua_stage_close(&two);
}

static void
s_refuse_snapshot(const char *body, const char *piece)
{
    char text[400];
    lua_stage_t stage;
    snprintf(text, sizeof text, "function score() end\nfunction restore() end\nfunction snapshot()\n%s\nend\n", body);
    lua_stage_open(&stage, "lua_state", text, "");
    cr_assert_eq(stage.prepared, 0, "%s", stage.rig.failure);
    cr_assert_eq(stage.rig.kind->snapshot(&stage.rig.stage, stage.file.folder), -1);
    cr_assert(strstr(stage.rig.stage.error.text, piece), "%s", stage.rig.stage.error.text);
    lua_stage_close(&stage);
}

Test(lua_state, what_cannot_be_saved_is_said)
{
    s_refuse_snapshot("return { f = print }", "function in its state");
    s_refuse_snapshot("local t = {}; t.t = t; return t", "one inside of itself");
    s_refuse_snapshot("error('not now')", "reward.lua:4: not now");
}

Test(lua_state, what_was_saved_can_call_nothing)
{
    lua_stage_t stage;
    char path[160];
    lua_stage_open(&stage, "lua_state", S_COUNTER, "");
    snprintf(path, sizeof path, "%s/state.lua", stage.file.folder);
    static const char *const texts[] = { "return print('x')", "\033LuaS", "return {",
                                         "while true do end" }; // the last one by its instructions
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        FILE *file = fopen(path, "w");
        cr_assert(file && fputs(texts[i], file) >= 0 && fclose(file) == 0);
        stage.rig.stage.error.text[0] = '\0';
        cr_assert_eq(stage.rig.kind->restore(&stage.rig.stage, stage.file.folder), -1, "%s", texts[i]);
        cr_assert(*stage.rig.stage.error.text);
    }
    unlink(path);
    cr_assert_eq(stage.rig.kind->restore(&stage.rig.stage, stage.file.folder), -1);
    lua_stage_close(&stage);
}
