// A topology with files of Lua is checked before anything runs: columns, functions, state.
#include "file.h"
#include "runtime/topology/topology.h"

#define S_BEFORE "[run]\nsteps = 2\n[stage.rows]\nkind = \"synthetic\"\n[stage.shaping]\ndepends_on = [\"rows\"]\n"

static lua_file_t s_file;
static verl_plan_t *s_plan;
static verl_topology_errors_t s_errors;

static void
s_set_up(void)
{
    verl_error_t error = { "" };
    cr_assert_eq(verl_kind_register_all(verl_kinds, &error), 0, "%s", error.text);
}

static void
s_close(void)
{
    verl_plan_destroy(&s_plan);
    verl_topology_errors_done(&s_errors);
    lua_file_remove(&s_file);
}

TestSuite(lua_declare, .init = s_set_up);

static void
s_load(const char *lua, const char *kind, const char *keys)
{
    char text[1024], path[160];
    s_file = lua_file_write(lua);
    snprintf(path, sizeof path, "%s/t.toml", s_file.folder);
    snprintf(text, sizeof text, S_BEFORE "kind = \"%s\"\nfile = \"reward.lua\"\n%s", kind, keys);
    s_plan = verl_topology_load_text(text, strlen(text), path, NULL, 0, &s_errors);
}

static void
s_refuse(const char *lua, const char *kind, const char *keys, const char *piece)
{
    s_load(lua, kind, keys);
    cr_assert_null(s_plan);
    cr_assert_eq(s_errors.count, 1, "%d errors: %s", s_errors.count, s_errors.count ? s_errors.items[0] : "");
    cr_assert(strstr(s_errors.items[0], piece), "`%s` is not in: %s", piece, s_errors.items[0]);
    s_close();
}

#define S_FUNCTION "function score(batch) end\n"

Test(lua_declare, columns_are_those_of_the_file)
{
    s_load("needs = { 'id', 'absent?' }\ngives = { 'score', 'notes:text', 'ids:i32[n,*]' }\n" S_FUNCTION, "lua", "");
    cr_assert(s_plan, "%s", s_errors.count ? s_errors.items[0] : "");
    const verl_plan_stage_t *stage = &s_plan->stages[1];
    cr_assert_eq(stage->needs_count, 2);
    cr_assert(stage->needs[0].edge >= 0 && stage->needs[1].edge == -1);
    cr_assert_eq(stage->gives_count, 3);
    cr_assert_str_eq(stage->gives_type[1], "text");
    cr_assert_str_eq(stage->gives_type[2], "i32[n,*]");
    s_close();
}

Test(lua_declare, columns_may_depend_on_options_and_on_the_function)
{
    s_load("needs = options.ids > 0 and { 'id' } or {}\nstages = { other = { gives = { 'style' } } }\n" S_FUNCTION
           "function other(batch) end\n",
           "lua", "function = \"other\"\noptions = { ids = 1 }\n");
    cr_assert(s_plan, "%s", s_errors.count ? s_errors.items[0] : "");
    cr_assert_eq(s_plan->stages[1].needs_count, 0);
    cr_assert_str_eq(s_plan->stages[1].gives[0], "style");
    s_close();
}

Test(lua_declare, mistakes_are_reported_with_their_line)
{
    s_refuse("needs = {\n", "lua", "", "reward.lua:2: ");
    s_refuse("needs = { 'id' }\n\nlocal x = nil .. 1\n", "lua", "", "reward.lua:3: ");
    s_refuse("gives = { 'score' }\n", "lua", "", "no function `score`");
    s_refuse(S_FUNCTION, "lua", "function = \"style\"\n", "no function `style`");
    s_refuse("needs = 'id'\n" S_FUNCTION, "lua", "", "`needs` is string");
    s_refuse("needs = { 'id', 3 }\n" S_FUNCTION, "lua", "", "at 2");
    s_refuse("needs = { 'id if x' }\n" S_FUNCTION, "lua", "", "a name alone");
    s_refuse("needs = { 'rows' }\n" S_FUNCTION, "lua", "", "the need `rows`");
    s_refuse("gives = { 'score:f64[n]' }\n" S_FUNCTION, "lua", "", "whose type cannot be read");
    s_refuse("needs = { 'nothing' }\n" S_FUNCTION, "lua", "", "needs the column `nothing`");
    s_refuse("return 3\n", "lua", "", "returns number");
    s_refuse("while true do end\n", "lua", "", "reward.lua:1: more than");
    s_refuse("log('early')\n" S_FUNCTION, "lua", "", "no batch is handled");
    s_refuse(S_FUNCTION, "lua", "options = { x = \"y\" }\n", "options");
}

Test(lua_declare, state_is_kept_by_the_kind_that_keeps_it)
{
    s_refuse(S_FUNCTION "function snapshot() end\n", "lua", "", "kind = \"lua-state\"");
    s_refuse(S_FUNCTION "function snapshot() end\n", "lua-state", "", "no function `restore`");
    s_load(S_FUNCTION "function snapshot() end\nfunction restore() end\n", "lua-state", "");
    cr_assert(s_plan, "%s", s_errors.count ? s_errors.items[0] : "");
    s_close();
    s_refuse(S_FUNCTION "function snapshot() end\nfunction restore() end\n", "lua-state", "replicas = 2\n",
             "keeps state");
}
