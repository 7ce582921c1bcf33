// A table of Lua as a fragment of a topology.
#include <criterion/criterion.h>
#include <string.h>
#include "actors/lua/sandbox.h"
#include "runtime/topology/toml.h"
#include "tools/script_toml.h"

static char s_text[4096], s_error[VERL_LUA_SENTENCE];

static int
s_do(lua_State *state)
{
    const char *text = lua_touserdata(state, 1);
    verl_lua_load_text(state, text, strlen(text), "a.lua");
    lua_call(state, 0, 1);
    verl_script_push_toml(state, -1);
    snprintf(s_text, sizeof s_text, "%s", lua_tostring(state, -1));
    return 0;
}

static int
s_write(const char *lua)
{
    verl_lua_t *sandbox = verl_lua_new(8 << 20, 5000000, NULL);
    *s_error = *s_text = '\0';
    int rc = verl_lua_run(sandbox, s_do, (void *) lua, s_error, sizeof s_error);
    verl_lua_destroy(&sandbox);
    return rc;
}

static void
s_is(const char *lua, const char *toml)
{
    cr_assert_eq(s_write(lua), 0, "%s: %s", lua, s_error);
    cr_assert_str_eq(s_text, toml);
    verl_pool_t pool = { 0 };
    verl_toml_error_t error;
    cr_assert(verl_toml_parse(s_text, strlen(s_text), &pool, &error), "%s: %s", s_text, error.text);
    verl_pool_done(&pool);
}

Test(script_toml, sections_are_merged_and_what_is_below_them_stands_in_a_line)
{
    s_is("return { actor = { critic2 = { kind = 'critic', model = 'models/small' } },\n"
         "  stage = { values2 = { actor = 'critic2', does = 'values', depends_on = { 'generate' }, as = { values = "
         "'values2' } },\n"
         "            advantage = { scores = { score = 1.0, other = 0.2 } } }, run = { steps = 5 }, unset = { "
         "'stage.x' } }",
         "unset = [\"stage.x\"]\n"
         "[actor.critic2]\nkind = \"critic\"\nmodel = \"models/small\"\n"
         "[run]\nsteps = 5\n"
         "[stage.advantage]\nscores = { other = 0.2, score = 1.0 }\n"
         "[stage.values2]\nactor = \"critic2\"\nas = { values = \"values2\" }\ndepends_on = [\"generate\"]\n"
         "does = \"values\"\n");
}

Test(script_toml, numbers_and_texts_keep_their_value)
{
    s_is("return { stage = { x = { a = 5e-6, b = 1, c = 1.0, d = 0.1, e = 1 / 3, f = 1e300, g = -2, h = true } } }",
         "[stage.x]\na = 5e-06\nb = 1\nc = 1.0\nd = 0.1\ne = 0.3333333333333333\nf = 1e+300\ng = -2\nh = true\n");
    s_is("return { stage = { ['a b'] = { ['x.y'] = 'quote \" back \\\\ line\\nend', z = {} } } }",
         "[stage.\"a b\"]\n\"x.y\" = \"quote \\\" back \\\\ line\\u000Aend\"\nz = []\n");
    s_is("return { stage = { x = {} } }", "[stage.x]\n");
    s_is("return {}", "");
}

Test(script_toml, what_toml_cannot_say_is_named_by_its_path)
{
    static const char *const texts[][2] = {
        { "return { stage = { x = { f = print or next } } }", "`stage.x.f` is function" },
        { "return { stage = { x = { f = 0 / 0 } } }", "`stage.x.f` is no finite" },
        { "return { stage = { x = 3 } }", "`stage.x` is no table" },
        { "return { stage = { x = { a = { 1, k = 2 } } } }", "`stage.x.a` is an array with gaps" },
        { "return { stage = { x = { a = { [1.5] = 2, k = 2 } } } }", "`stage.x.a` is a table with names and" },
        { "local t = {}; t.t = t; return { stage = { x = t } }", "inside of itself" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cr_assert_eq(s_write(texts[i][0]), -1, "%s: %s", texts[i][0], s_text);
        cr_assert(strstr(s_error, texts[i][1]), "%s: %s", texts[i][0], s_error);
    }
}
