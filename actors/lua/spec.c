// spec.c: runs a file and reads what it says about itself: its table, its functions, the columns that they need and
// give.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "actors/lua/kind.h"

#define S_ROOT              "verl.root" // the file's table: what it returned, else its globals
#define S_LOAD_INSTRUCTIONS 100000000   // for the file itself, where nothing but functions should be made

void
verl_lua_set_options(lua_State *state, const verl_lua_work_t *work)
{
    // one table for ever, so that a file may keep it: emptied and filled again
    if (lua_getglobal(state, "options") != LUA_TTABLE) {
        lua_pop(state, 1);
        lua_newtable(state);
        lua_pushvalue(state, -1);
        lua_setglobal(state, "options");
    }
    for (lua_pushnil(state); lua_next(state, -2);) {
        lua_pop(state, 1);
        lua_pushvalue(state, -1);
        lua_pushnil(state);
        lua_rawset(state, -4);
    }
    for (int i = 0; i < work->options.count; i++) {
        lua_pushnumber(state, work->options.values[i]);
        lua_setfield(state, -2, work->options.names[i]);
    }
    lua_pop(state, 1);
}

void
verl_lua_start(lua_State *state, const verl_lua_actor_t *actor, const verl_lua_work_t *work)
{
    verl_lua_open_says(state);
    verl_lua_set_options(state, work);
    verl_lua_load(state, actor->file);
    int chunk = lua_gettop(state);
    lua_pushvalue(state, chunk);
    lua_call(state, 0, 1);
    if (lua_isnil(state, -1)) {
        lua_pop(state, 1);
        verl_lua_push_globals(state);
    } else if (!lua_istable(state, -1))
        luaL_error(state, "%s returns %s: a table with its functions, or nothing, would be right",
                   verl_lua_of(state)->name, luaL_typename(state, -1));
    lua_setfield(state, LUA_REGISTRYINDEX, S_ROOT);
    if (!actor->keeps)
        verl_lua_freeze(state, chunk,
                        "a local in the function, or functions snapshot and restore in the file and kind "
                        "= \"lua-state\" in the topology,");
    lua_pop(state, 1);
}

// A field of a table without asking the library behind the globals.
static int
s_field(lua_State *state, int table, const char *name)
{
    table = lua_absindex(state, table);
    lua_pushstring(state, name);
    return lua_rawget(state, table);
}

void
verl_lua_push_function(lua_State *state, const char *name)
{
    lua_getfield(state, LUA_REGISTRYINDEX, S_ROOT);
    if (s_field(state, -1, name) != LUA_TFUNCTION) {
        lua_pop(state, 1);
        lua_pushnil(state);
    }
    lua_remove(state, -2);
}

static bool
s_has(lua_State *state, const char *name)
{
    verl_lua_push_function(state, name);
    bool there = lua_isfunction(state, -1);
    lua_pop(state, 1);
    return there;
}

// ---------------------------------------------------------------------------------------------------------------
// Columns

static int
s_list(lua_State *state, int table, const char *key, char (*names)[VERL_LUA_NAME])
{
    const char *file = verl_lua_of(state)->name;
    int type = s_field(state, table, key);
    if (type == LUA_TNIL) {
        lua_pop(state, 1);
        return 0;
    }
    if (type != LUA_TTABLE)
        return luaL_error(state, "%s: `%s` is %s: an array of names, { \"response\" }, would be right", file, key,
                          lua_typename(state, type));
    int count = 0;
    for (; lua_rawgeti(state, -1, count + 1) != LUA_TNIL; lua_pop(state, 1), count++) {
        size_t bytes = 0;
        const char *name = lua_type(state, -1) == LUA_TSTRING ? lua_tolstring(state, -1, &bytes) : NULL;
        if (!name || strlen(name) != bytes || bytes == 0 || bytes >= VERL_LUA_NAME)
            return luaL_error(state, "%s: `%s` has something in it, at %d, that is no name of a column", file, key,
                              count + 1);
        if (strstr(name, " if ") || *name == '*')
            return luaL_error(state, "%s: `%s` has \"%s\": a name alone would be right, chosen by what `options` says",
                              file, key, name);
        if (count == VERL_MAX_COLUMNS)
            return luaL_error(state, "%s: `%s` has more than %d columns", file, key, VERL_MAX_COLUMNS);
        memcpy(names[count], name, bytes + 1);
    }
    lua_pop(state, 2);
    return count;
}

// The table that has needs and gives of a function: stages.NAME, where there is one, else that of the file.
static void
s_push_columns_table(lua_State *state, const char *function)
{
    lua_getfield(state, LUA_REGISTRYINDEX, S_ROOT);
    if (s_field(state, -1, "stages") == LUA_TTABLE && s_field(state, -1, function) == LUA_TTABLE)
        return;
    lua_getfield(state, LUA_REGISTRYINDEX, S_ROOT);
}

static void
s_check_needs(lua_State *state, const verl_lua_spec_t *spec)
{
    static const char *const taken[] = { "rows", "step", "first_row", "out", NULL };
    for (int i = 0; i < spec->needs_count; i++)
        for (int k = 0; taken[k]; k++)
            if (strcmp(spec->needs[i], taken[k]) == 0)
                luaL_error(state,
                           "%s: the need `%s` is what a batch has of its own: another name, and uses = { name = "
                           "\"%s\" } in the topology, would be right",
                           verl_lua_of(state)->name, taken[k], taken[k]);
}

typedef struct {
    const verl_lua_actor_t *actor;
    const verl_lua_work_t *work;
    const char *stage;
    verl_lua_spec_t *spec;
} s_reading_t;

// The function that is meant where the topology names none.
static const char *
s_choose(lua_State *state, const s_reading_t *reading)
{
    if (*reading->work->function)
        return reading->work->function;
    return s_has(state, reading->stage) ? reading->stage : "score";
}

static int
s_read(lua_State *state)
{
    s_reading_t *reading = lua_touserdata(state, 1);
    verl_lua_spec_t *spec = reading->spec;
    verl_lua_start(state, reading->actor, reading->work);
    const char *function = spec->function = s_choose(state, reading);
    if (!s_has(state, function))
        return luaL_error(state,
                          "%s has no function `%s`: `function %s(batch) … end` in it, or `function = \"…\"` in "
                          "the topology, would be right",
                          verl_lua_of(state)->name, function, function);
    s_push_columns_table(state, function);
    spec->needs_count = s_list(state, -1, "needs", spec->needs);
    spec->gives_count = s_list(state, -1, "gives", spec->gives);
    s_check_needs(state, spec);
    spec->snapshot = s_has(state, "snapshot");
    spec->restore = s_has(state, "restore");
    return 0;
}

int
verl_lua_spec_read(const verl_lua_actor_t *actor, const verl_lua_work_t *work, const char *stage,
                   verl_lua_spec_t *ret_spec, char *error, size_t size)
{
    memset(ret_spec, 0, sizeof *ret_spec);
    s_reading_t reading = { actor, work, stage, ret_spec };
    verl_lua_t *lua = verl_lua_new(actor->memory << 20, S_LOAD_INSTRUCTIONS, NULL);
    if (!lua) {
        snprintf(error, size, "no memory for a sandbox of Lua");
        return -1;
    }
    lua->memory_key = "memory";
    int rc = verl_lua_run(lua, s_read, &reading, error, size);
    verl_lua_destroy(&lua);
    return rc;
}

// ---------------------------------------------------------------------------------------------------------------
// "advantages:f32[n,*]"

static int
s_dtype(const char *text, size_t length)
{
    for (int i = 0; i < VERL_DTYPE_COUNT; i++) {
        const char *name = verl_dtype_name((verl_dtype_t) i);
        if (strlen(name) == length && strncmp(name, text, length) == 0)
            return i;
    }
    return -1;
}

// Behind the type: nothing, "[n]", "[n,*]", "[n,3]", "[n,*,3]". Blanks were taken out.
static int
s_shape(const char *text, verl_lua_output_t *output)
{
    output->width = 1;
    if (strncmp(text, "[n", 2) != 0)
        return -1;
    text += 2;
    if (strncmp(text, ",*", 2) == 0) {
        output->ragged = true;
        text += 2;
    }
    if (*text == ',' && isdigit((unsigned char) text[1])) {
        char *end;
        output->width = strtoll(text + 1, &end, 10);
        text = end;
    }
    bool good = strcmp(text, "]") == 0 && output->width >= 1 && output->width <= 1 << 24;
    return good ? 0 : -1;
}

int
verl_lua_output_read(const char *text, verl_lua_output_t *ret_output, char *error, size_t size)
{
    char plain[VERL_LUA_NAME];
    size_t length = 0;
    for (const char *c = text; *c && length + 1 < sizeof plain; c++)
        if (*c != ' ')
            plain[length++] = *c;
    plain[length] = '\0';
    *ret_output = (verl_lua_output_t){ .dtype = VERL_F32, .width = 1 };
    size_t name = strcspn(plain, ":");
    memcpy(ret_output->name, plain, name);
    if (!plain[name])
        return 0;
    const char *type = plain + name + 1;
    size_t bytes = strcspn(type, "[");
    int dtype = s_dtype(type, bytes);
    ret_output->dtype = dtype < 0 ? VERL_F32 : (verl_dtype_t) dtype;
    ret_output->ragged = dtype == VERL_TEXT;
    if (dtype >= 0 && (dtype == VERL_TEXT ? !type[bytes] : s_shape(type + bytes, ret_output) == 0))
        return 0;
    snprintf(error, size,
             "gives \"%s\", whose type cannot be read: \"%.*s:f32[n]\", \"%.*s:i32[n,*]\", \"%.*s:text\" "
             "or the name alone would be right",
             text, (int) name, plain, (int) name, plain, (int) name, plain);
    return -1;
}
