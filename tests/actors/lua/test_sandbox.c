// The sandbox: what a file may not do, and that an order of keys is the same in every run.
#include <criterion/criterion.h>
#include <string.h>
#include "actors/lua/sandbox.h"

static verl_lua_t *s_lua;
static char s_error[VERL_LUA_SENTENCE];

static void
s_set_up(void)
{
    s_lua = verl_lua_new(8 << 20, 5000000, NULL);
    cr_assert(s_lua);
}

static void
s_tear_down(void)
{
    verl_lua_destroy(&s_lua);
    cr_assert_null(s_lua);
}

TestSuite(lua_sandbox, .init = s_set_up, .fini = s_tear_down);

static int
s_do(lua_State *state)
{
    const char *text = lua_touserdata(state, 1);
    verl_lua_load_text(state, text, strlen(text), "a.lua");
    lua_call(state, 0, 0);
    return 0;
}

static int
s_run(const char *text)
{
    *s_error = '\0';
    return verl_lua_run(s_lua, s_do, (void *) text, s_error, sizeof s_error);
}

static void
s_refuse(const char *text, const char *piece)
{
    cr_assert_eq(s_run(text), -1, "%s was allowed", text);
    cr_assert(strstr(s_error, piece), "`%s` is not in: %s", piece, s_error);
}

Test(lua_sandbox, nothing_reaches_outside)
{
    static const char *const names[] = { "io",     "os",          "package",     "debug",          "coroutine", "load",
                                         "dofile", "loadfile",    "require",     "collectgarbage", "_G",        "print",
                                         "warn",   "string.dump", "math.random", "math.randomseed" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[100];
        snprintf(text, sizeof text, "assert(%s == nil)", names[i]);
        cr_assert_eq(s_run(text), 0, "%s: %s", names[i], s_error);
    }
    s_refuse("assert(io == 1)", "a.lua:1: ");
    s_refuse("\033Lua", "compiled chunk");
    s_refuse("setmetatable({}, { __gc = function() while true do end end })", "__gc");
    s_refuse("getmetatable('').__index.rep('x', 1e18)", "a.lua:1: ");
}

Test(lua_sandbox, what_a_reward_needs_is_there)
{
    cr_assert_eq(
        s_run("assert(('%d'):format(3) == '3' and math.floor(2.5) == 2 and utf8.char(228) == 'ä')\n"
              "local t = table.pack(3, 1, 2); table.sort(t); assert(table.concat(t, ',') == '1,2,3')\n"
              "assert(select('#', 1, nil) == 2 and tonumber('0x10') == 16 and not pcall(error))\n"
              "assert(('a b'):match('(%a) (%a)') == 'a' and rawequal(t, t) and rawlen(t) == 3)\n"
              "local p = setmetatable({}, { __index = function(_, k) return k .. '!' end }); assert(p.x == 'x!')\n"
              "assert(table.unpack(table.move({ 1, 2 }, 1, 2, 3, { 9, 8 }), 3) == 1 and ('x'):rep(3, '-') == 'x-x-x')"),
        0, "%s", s_error);
}

Test(lua_sandbox, keys_come_in_an_order_of_their_own)
{
    cr_assert_eq(s_run("local t, seen = { 10, 20, zebra = 1, ape = 2, [-1] = 3, [true] = 4, [2.5] = 5 }, {}\n"
                       "for k, v in pairs(t) do seen[#seen + 1] = tostring(k) .. '=' .. v end\n"
                       "local s = table.concat(seen, ' ')\n"
                       "assert(s == '-1=3 1=10 2=20 2.5=5 ape=2 zebra=1 true=4', s)\n"
                       "for k in pairs(t) do t[k] = nil end\nassert(next(t) == nil and next({ b = 1, a = 2 }) == 'a')\n"
                       "local n = 0; for _ in pairs({ 1, 2, nil, 4 }) do n = n + 1 end; assert(n == 3)\n"
                       "table.sort = nil; for k in pairs({ b = 1, a = 1 }) do n = k end; assert(n == 'b')"),
                 0, "%s", s_error);
    s_refuse("local k = next({ 1 }, 1)", "pairs");
}

Test(lua_sandbox, limits_hold_whoever_catches_errors)
{
    s_refuse("\nwhile true do end", "a.lua:2: more than 5000000 instructions");
    s_refuse("local function f() while true do end end\nwhile true do pcall(f) xpcall(f, f) end", "more than 5000000");
    s_refuse("local t = {}\nwhile true do t[#t + 1] = {} end", "a.lua:2: more than 8388608 bytes");
    s_refuse("local function f() return 1 + f() end\nf()", "a.lua:1: ");
    s_refuse("for i = 1, 100 do ('').rep('', 1e7) end", "more than 5000000");
    cr_assert_eq(s_run("local s = 0; for i = 1, 1000 do s = s + i end"), 0, "after a limit was met: %s", s_error);
}

Test(lua_sandbox, errors_are_one_line_with_its_place)
{
    s_refuse("\n\nlocal x = nil + 1", "a.lua:3: attempt to perform arithmetic");
    s_refuse("error('two\\nlines\\27[2J', 0)", "a.lua:1: two lines [2J");
    s_refuse("error()", "a.lua:1: an error of type nil");
    s_refuse("x = = 1", "a.lua:1: ");
    s_refuse("goto nowhere", "nowhere");
}

Test(lua_sandbox, little_memory_is_no_crash)
{
    for (int64_t bytes = 0; bytes < 200000; bytes += 997) {
        verl_lua_t *lua = verl_lua_new(bytes, 1000000, NULL);
        if (!lua)
            continue;
        char error[VERL_LUA_SENTENCE] = "";
        int rc = verl_lua_run(lua, s_do, (void *) "local t = {}\nfor i = 1, 2000 do t[i] = { i, tostring(i) } end",
                              error, sizeof error);
        cr_assert(rc == 0 || *error);
        verl_lua_destroy(&lua);
        cr_assert_null(lua);
    }
}
