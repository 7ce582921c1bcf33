// says.c: what a file may say while a batch is handled: metric, log (and print), fail, sample; and its random numbers,
// which are a function of (seed, stage, batch, row).
#include <math.h>
#include <string.h>
#include "actors/lua/kind.h"

#define S_STREAM "verl.stream"

verl_lua_call_t *
verl_lua_call_of(lua_State *state)
{
    verl_lua_call_t *call = verl_lua_of(state)->context;
    return call && call->stage ? call : NULL;
}

static verl_lua_call_t *
s_call(lua_State *state, const char *name)
{
    verl_lua_call_t *call = verl_lua_call_of(state);
    if (!call || !call->in)
        luaL_error(state,
                   "`%s` is called while no batch is handled: inside of the function that handles one would be "
                   "right",
                   name);
    return call;
}

static int
s_metric(lua_State *state)
{
    verl_lua_call_t *call = s_call(state, "metric");
    const char *name = luaL_checkstring(state, 1);
    double value = luaL_checknumber(state, 2), weight = luaL_optnumber(state, 3, 1);
    if (!*name || strlen(name) > 200 || strpbrk(name, "\n\r\t\"\\"))
        return luaL_error(state, "a metric has a name such as \"reward/length\", of at most 200 bytes");
    if (!isfinite(weight) || weight < 0)
        return luaL_error(state, "the weight of metric `%s` is %f: 0 or more would be right", name, weight);
    verl_metric_weighted(call->stage, name, value, weight);
    return 0;
}

// The arguments as texts, with tabs between.
static const char *
s_join(lua_State *state)
{
    int count = lua_gettop(state);
    luaL_Buffer text;
    luaL_checkstack(state, 2 * count + 10, NULL);
    luaL_buffinit(state, &text);
    for (int i = 1; i <= count; i++) {
        if (i > 1)
            luaL_addchar(&text, '\t');
        luaL_tolstring(state, i, NULL);
        luaL_addvalue(&text);
    }
    luaL_pushresult(&text);
    return lua_tostring(state, -1);
}

static int
s_log(lua_State *state)
{
    verl_lua_call_t *call = s_call(state, "log");
    verl_log(call->stage, "%s", s_join(state));
    return 0;
}

static int
s_fail(lua_State *state)
{
    s_call(state, "fail");
    const char *text = s_join(state);
    return luaL_error(state, "%s", *text ? text : "fail");
}

static int
s_sample(lua_State *state)
{
    verl_lua_call_t *call = s_call(state, "sample");
    verl_sample(call->stage, luaL_checkstring(state, 1), luaL_checkstring(state, 2), luaL_checknumber(state, 3));
    return 0;
}

// ---------------------------------------------------------------------------------------------------------------
// Random numbers

// As math.random has it: () real in [0, 1); (m) 1 … m; (m, n) m … n.
static int
s_draw(lua_State *state, verl_random_t *stream, int first)
{
    if (lua_isnoneornil(state, first)) {
        lua_pushnumber(state, verl_random_uniform(stream));
        return 1;
    }
    lua_Integer low = luaL_checkinteger(state, first), high = low;
    if (lua_isnoneornil(state, first + 1))
        low = 1;
    else
        high = luaL_checkinteger(state, first + 1);
    if (low > high)
        return luaL_error(state, "a random number from %I to %I: the smaller one first would be right", low, high);
    uint64_t count = (uint64_t) high - (uint64_t) low + 1;
    uint64_t drawn = count == 0 ? verl_random_u64(stream) : verl_random_below(stream, count);
    lua_pushinteger(state, (lua_Integer) ((uint64_t) low + drawn));
    return 1;
}

static int
s_math_random(lua_State *state)
{
    return s_draw(state, &s_call(state, "math.random")->random, 1);
}

static int
s_stream_call(lua_State *state)
{
    return s_draw(state, luaL_checkudata(state, 1, S_STREAM), 2);
}

static int
s_stream_normal(lua_State *state)
{
    lua_pushnumber(state, verl_random_normal(luaL_checkudata(state, 1, S_STREAM)));
    return 1;
}

// random(row): the stream of that row, 1 … rows, from its start.
static int
s_random(lua_State *state)
{
    verl_lua_call_t *call = s_call(state, "random");
    lua_Integer row = luaL_checkinteger(state, 1);
    if (row < 1 || row > INT32_MAX)
        return luaL_error(state, "random is asked for row %I: 1 to batch.rows would be right", row);
    verl_random_t *stream = lua_newuserdatauv(state, sizeof *stream, 0);
    *stream = verl_random_stream(verl_stage_seed(call->stage), NULL, verl_batch_id(call->in),
                                 verl_batch_first_row(call->in) + row - 1);
    luaL_setmetatable(state, S_STREAM);
    return 1;
}

static void
s_open_streams(lua_State *state)
{
    luaL_newmetatable(state, S_STREAM);
    lua_pushcfunction(state, s_stream_call);
    lua_setfield(state, -2, "__call");
    lua_newtable(state);
    lua_pushcfunction(state, s_stream_normal);
    lua_setfield(state, -2, "normal");
    lua_setfield(state, -2, "__index");
    lua_pushboolean(state, 0);
    lua_setfield(state, -2, "__metatable");
    lua_pop(state, 1);
}

void
verl_lua_open_says(lua_State *state)
{
    static const luaL_Reg functions[] = { { "metric", s_metric }, { "log", s_log },       { "print", s_log },
                                          { "fail", s_fail },     { "sample", s_sample }, { "random", s_random },
                                          { NULL, NULL } };
    for (const luaL_Reg *function = functions; function->name; function++)
        verl_lua_register(state, function->name, function->func);
    lua_getglobal(state, "math");
    lua_pushcfunction(state, s_math_random);
    lua_setfield(state, -2, "random");
    lua_pop(state, 1);
    s_open_streams(state);
}
