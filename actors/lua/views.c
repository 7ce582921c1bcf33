// views.c: a batch as Lua sees it: rows, step, first_row, out, and its columns, which are read where they lie.
//
// A view is a window into the runtime's memory. Invariant: it is read only while the call that it was made for goes on;
// later uses raise an error, since the memory may be another's.
#include <string.h>
#include "actors/lua/kind.h"

#define S_VIEW   "verl.view"
#define S_SERIAL "verl.serial" // of the call that goes on

typedef struct {
    lua_Integer serial;
    const verl_column_t *column; // a whole column, by rows; NULL: count elements from data on
    const char *data;
    int64_t count, width; // elements of a position
    verl_dtype_t dtype;
} s_view_t;

static lua_Integer
s_serial(lua_State *state)
{
    lua_getfield(state, LUA_REGISTRYINDEX, S_SERIAL);
    lua_Integer serial = lua_tointeger(state, -1);
    lua_pop(state, 1);
    return serial;
}

void
verl_lua_end_batch(lua_State *state)
{
    lua_pushinteger(state, s_serial(state) + 1);
    lua_setfield(state, LUA_REGISTRYINDEX, S_SERIAL);
}

static s_view_t *
s_push_view(lua_State *state)
{
    s_view_t *view = lua_newuserdatauv(state, sizeof *view, 0);
    *view = (s_view_t){ .serial = s_serial(state) };
    luaL_setmetatable(state, S_VIEW);
    return view;
}

static const s_view_t *
s_check(lua_State *state)
{
    const s_view_t *view = luaL_checkudata(state, 1, S_VIEW);
    if (view->serial != s_serial(state))
        luaL_error(state, "a column of an earlier batch is read: its numbers, kept in a table, would be right");
    return view;
}

static void
s_push_number(lua_State *state, verl_dtype_t dtype, const char *at)
{
    float real;
    int32_t narrow;
    int64_t wide;
    uint16_t half;
    switch (dtype) {
    case VERL_F32:
        memcpy(&real, at, sizeof real);
        lua_pushnumber(state, (lua_Number) real);
        return;
    case VERL_BF16:
        memcpy(&half, at, sizeof half);
        narrow = (int32_t) ((uint32_t) half << 16);
        memcpy(&real, &narrow, sizeof real);
        lua_pushnumber(state, (lua_Number) real);
        return;
    case VERL_I32:
        memcpy(&narrow, at, sizeof narrow);
        lua_pushinteger(state, narrow);
        return;
    case VERL_I64:
        memcpy(&wide, at, sizeof wide);
        lua_pushinteger(state, wide);
        return;
    default:
        lua_pushinteger(state, *(const uint8_t *) at);
    }
}

// One row of a column: a text, a number, or a view of its elements.
static void
s_push_row(lua_State *state, const verl_column_t *column, int64_t row)
{
    const char *at = verl_column_at(column, row);
    int64_t length = verl_column_length(column, row);
    if (column->dtype == VERL_TEXT) {
        lua_pushlstring(state, at, (size_t) length);
    } else if (!column->ragged && column->width == 1) {
        s_push_number(state, column->dtype, at);
    } else {
        s_view_t *part = s_push_view(state);
        part->data = at;
        part->dtype = column->dtype;
        part->count = column->ragged ? length : column->width;
        part->width = column->ragged ? column->width : 1;
    }
}

static int
s_index(lua_State *state)
{
    const s_view_t *view = s_check(state);
    int whole = 0;
    lua_Integer index = lua_tointegerx(state, 2, &whole);
    if (!whole)
        return luaL_error(state, "a column is asked for %s: a number from 1 to %d would be right",
                          luaL_tolstring(state, 2, NULL), (int) view->count);
    if (index < 1 || index > view->count) {
        lua_pushnil(state);
        return 1;
    }
    if (view->column) {
        verl_lua_call_t *call = verl_lua_call_of(state);
        if (call)
            call->row = index - 1;
        s_push_row(state, view->column, index - 1);
        return 1;
    }
    const char *at = view->data + (size_t) ((index - 1) * view->width) * verl_dtype_bytes(view->dtype);
    if (view->width == 1) {
        s_push_number(state, view->dtype, at);
    } else {
        s_view_t *part = s_push_view(state);
        part->data = at;
        part->dtype = view->dtype;
        part->count = view->width;
        part->width = 1;
    }
    return 1;
}

static int
s_length(lua_State *state)
{
    lua_pushinteger(state, s_check(state)->count);
    return 1;
}

static int
s_refuse_write(lua_State *state)
{
    return luaL_error(state, "a column of a batch is written to: a table of one's own would be right");
}

static int
s_step(lua_State *state)
{
    lua_Integer index = luaL_checkinteger(state, 2) + 1;
    lua_pushinteger(state, index);
    lua_geti(state, 1, index);
    return lua_isnil(state, -1) ? 1 : 2;
}

static int
s_pairs(lua_State *state)
{
    lua_pushcfunction(state, s_step);
    lua_pushvalue(state, 1);
    lua_pushinteger(state, 0);
    return 3;
}

static void
s_open(lua_State *state)
{
    static const luaL_Reg methods[] = { { "__index", s_index },
                                        { "__len", s_length },
                                        { "__newindex", s_refuse_write },
                                        { "__pairs", s_pairs },
                                        { NULL, NULL } };
    if (luaL_newmetatable(state, S_VIEW)) {
        luaL_setfuncs(state, methods, 0);
        lua_pushboolean(state, 0);
        lua_setfield(state, -2, "__metatable");
    }
    lua_pop(state, 1);
}

// ---------------------------------------------------------------------------------------------------------------
// The batch

// A key that a batch has not: nil for a need that may be absent, else a mistake.
static int
s_absent(lua_State *state)
{
    verl_lua_call_t *call = verl_lua_call_of(state);
    const char *key = luaL_tolstring(state, 2, NULL);
    size_t length = strlen(key);
    for (int i = 0; call && i < call->entry->spec.needs_count; i++) {
        const char *need = call->entry->spec.needs[i];
        if (strncmp(need, key, length) == 0 && (need[length] == '?' || need[length] == '\0')) {
            lua_pushnil(state);
            return 1;
        }
    }
    return luaL_error(state, "the batch has no `%s`: a column that `needs` names would be right", key);
}

static void
s_put_columns(lua_State *state, const verl_batch_t *in)
{
    for (int i = 0; i < verl_batch_columns(in); i++) {
        const verl_column_t *column = verl_batch_column_at(in, i);
        s_view_t *view = s_push_view(state);
        view->column = column;
        view->count = verl_batch_rows(in);
        lua_setfield(state, -2, column->name);
    }
}

static void
s_put_out(lua_State *state, const verl_lua_entry_t *entry)
{
    lua_newtable(state);
    for (int i = 0; i < entry->spec.gives_count; i++) {
        lua_newtable(state);
        lua_setfield(state, -2, entry->outputs[i].name);
    }
    lua_setfield(state, -2, "out");
}

void
verl_lua_push_batch(lua_State *state, verl_lua_call_t *call)
{
    s_open(state);
    lua_newtable(state);
    s_put_columns(state, call->in);
    lua_pushinteger(state, verl_batch_rows(call->in));
    lua_setfield(state, -2, "rows");
    lua_pushinteger(state, verl_batch_id(call->in));
    lua_setfield(state, -2, "step");
    lua_pushinteger(state, verl_batch_first_row(call->in));
    lua_setfield(state, -2, "first_row");
    s_put_out(state, call->entry);
    lua_newtable(state);
    lua_pushcfunction(state, s_absent);
    lua_setfield(state, -2, "__index");
    lua_setmetatable(state, -2);
}
