// library.c: what of Lua's own library a sandbox has, and what of it is changed (see sandbox.h).
//
// Changed: pairs and next go by numbers first, then by texts in the order of their bytes, since Lua's own order depends
// on a number drawn at the start; setmetatable refuses __gc, which would run uncounted; table.move and string.rep count
// what they cost. Missing: whatever reaches outside, compiles, or depends on time or addresses.
#include <limits.h>
#include <lualib.h>
#include <string.h>
#include "actors/lua/sandbox.h"

// ---------------------------------------------------------------------------------------------------------------
// An order of keys

static int
s_rank(lua_State *state, int index)
{
    int type = lua_type(state, index);
    return type == LUA_TNUMBER ? 0 : type == LUA_TSTRING ? 1 : type == LUA_TBOOLEAN ? 2 : 3;
}

static int
s_compare_texts(lua_State *state, int a, int b)
{
    size_t a_bytes, b_bytes;
    const char *a_text = lua_tolstring(state, a, &a_bytes), *b_text = lua_tolstring(state, b, &b_bytes);
    int order = memcmp(a_text, b_text, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order < 0 : a_bytes < b_bytes;
}

// The comparison that table.sort is given. Keys of other types stand in any order behind the rest.
static int
s_before(lua_State *state)
{
    int a = s_rank(state, 1), b = s_rank(state, 2), before = a < b;
    if (a == b && a == 0)
        before = lua_compare(state, 1, 2, LUA_OPLT);
    else if (a == b && a == 1)
        before = s_compare_texts(state, 1, 2);
    else if (a == b && a == 2)
        before = !lua_toboolean(state, 1) && lua_toboolean(state, 2);
    lua_pushboolean(state, before);
    return 1;
}

// Pushes the keys of the table at 1, in order. A sequence, which most tables are, is in order already.
static lua_Integer
s_push_keys(lua_State *state)
{
    lua_Integer count = 0;
    bool plain = true;
    lua_newtable(state);
    int keys = lua_gettop(state);
    for (lua_pushnil(state); lua_next(state, 1); lua_pop(state, 1)) {
        count++;
        plain = plain && lua_isinteger(state, -2) && lua_tointeger(state, -2) == count;
        lua_pushvalue(state, -2);
        lua_rawseti(state, keys, count);
    }
    verl_lua_charge(state, count);
    if (!plain) {
        lua_pushvalue(state, lua_upvalueindex(1)); // table.sort as it was before any file ran
        lua_pushvalue(state, keys);
        lua_pushcfunction(state, s_before);
        lua_call(state, 2, 0);
        verl_lua_charge(state, 10 * count);
    }
    return count;
}

// Upvalues: the keys, how many were given, the table. Keys that were taken away meanwhile are left out.
static int
s_step(lua_State *state)
{
    lua_Integer at = lua_tointeger(state, lua_upvalueindex(2));
    for (;;) {
        at++;
        lua_settop(state, 0);
        if (lua_rawgeti(state, lua_upvalueindex(1), at) == LUA_TNIL)
            return 1;
        lua_pushvalue(state, 1);
        if (lua_rawget(state, lua_upvalueindex(3)) != LUA_TNIL)
            break;
    }
    lua_pushinteger(state, at);
    lua_replace(state, lua_upvalueindex(2));
    return 2;
}

static int
s_pairs(lua_State *state)
{
    luaL_checkany(state, 1);
    if (luaL_getmetafield(state, 1, "__pairs") != LUA_TNIL) {
        lua_pushvalue(state, 1);
        lua_call(state, 1, 3);
        return 3;
    }
    luaL_checktype(state, 1, LUA_TTABLE);
    lua_settop(state, 1);
    s_push_keys(state);
    lua_pushinteger(state, 0);
    lua_pushvalue(state, 1);
    lua_pushcclosure(state, s_step, 3);
    return 1;
}

// next(t) alone: is there anything in it, and what is first.
static int
s_next(lua_State *state)
{
    luaL_checktype(state, 1, LUA_TTABLE);
    if (!lua_isnoneornil(state, 2))
        return luaL_error(state, "next is given a key: pairs, whose order is the same in every run, would be right");
    lua_settop(state, 1);
    if (s_push_keys(state) == 0) {
        lua_pushnil(state);
        return 1;
    }
    lua_rawgeti(state, 2, 1);
    lua_pushvalue(state, -1);
    lua_rawget(state, 1);
    return 2;
}

// ---------------------------------------------------------------------------------------------------------------
// Functions that are held

static int
s_setmetatable(lua_State *state)
{
    luaL_checktype(state, 1, LUA_TTABLE);
    if (!lua_isnil(state, 2))
        luaL_checktype(state, 2, LUA_TTABLE);
    lua_settop(state, 2);
    if (luaL_getmetafield(state, 1, "__metatable") != LUA_TNIL)
        return luaL_error(state, "the metatable of this table cannot be changed");
    if (lua_istable(state, 2)) {
        lua_pushliteral(state, "__gc");
        if (lua_rawget(state, 2) != LUA_TNIL)
            return luaL_error(state, "a metatable has __gc, which does not run here: leaving it out would be right");
    }
    lua_settop(state, 2);
    lua_setmetatable(state, 1);
    return 1;
}

// Counts `cost` and calls the function that is the first upvalue with the same arguments.
static int
s_forward(lua_State *state, lua_Integer cost)
{
    verl_lua_charge(state, cost);
    int count = lua_gettop(state);
    lua_pushvalue(state, lua_upvalueindex(1));
    lua_insert(state, 1);
    lua_call(state, count, LUA_MULTRET);
    return lua_gettop(state);
}

static int
s_move(lua_State *state)
{
    lua_Integer first = luaL_checkinteger(state, 2), last = luaL_checkinteger(state, 3);
    bool long_way = first < 0 && last > LUA_MAXINTEGER + first;
    return s_forward(state, last < first ? 0 : long_way ? LUA_MAXINTEGER : last - first);
}

static int
s_rep(lua_State *state)
{
    return s_forward(state, luaL_checkinteger(state, 2));
}

static void
s_wrap(lua_State *state, const char *table, const char *name, lua_CFunction function)
{
    lua_getglobal(state, table);
    lua_getfield(state, -1, name);
    lua_pushcclosure(state, function, 1);
    lua_setfield(state, -2, name);
    lua_pop(state, 1);
}

static void
s_forget(lua_State *state, const char *table, const char *const *names)
{
    if (table)
        lua_getglobal(state, table);
    else
        lua_pushglobaltable(state);
    for (; *names; names++) {
        lua_pushnil(state);
        lua_setfield(state, -2, *names);
    }
    lua_pop(state, 1);
}

static void
s_order(lua_State *state, const char *name, lua_CFunction function)
{
    lua_getglobal(state, "table");
    lua_getfield(state, -1, "sort");
    lua_pushcclosure(state, function, 1);
    lua_setglobal(state, name);
    lua_pop(state, 1);
}

void
verl_lua_open_library(lua_State *state)
{
    static const luaL_Reg libraries[] = { { LUA_GNAME, luaopen_base },        { LUA_TABLIBNAME, luaopen_table },
                                          { LUA_STRLIBNAME, luaopen_string }, { LUA_MATHLIBNAME, luaopen_math },
                                          { LUA_UTF8LIBNAME, luaopen_utf8 },  { NULL, NULL } };
    static const char *const base[] = { "dofile",         "load", "loadfile", "loadstring", "require",
                                        "collectgarbage", "warn", "print",    "_G",         NULL };
    static const char *const strings[] = { "dump", NULL };
    static const char *const maths[] = { "random", "randomseed", NULL };
    for (const luaL_Reg *library = libraries; library->name; library++) {
        luaL_requiref(state, library->name, library->func, 1);
        lua_pop(state, 1);
    }
    s_order(state, "pairs", s_pairs);
    s_order(state, "next", s_next);
    s_wrap(state, "table", "move", s_move);
    s_wrap(state, "string", "rep", s_rep);
    s_forget(state, NULL, base);
    s_forget(state, "string", strings);
    s_forget(state, "math", maths);
    lua_pushcfunction(state, s_setmetatable);
    lua_setglobal(state, "setmetatable");
}
