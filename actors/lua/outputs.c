// outputs.c: what a function returned, or wrote to batch.out, becomes columns of the batch that is made.
//
// Nothing is believed: every row has to be there and of its column's type, and a column's memory is written only as far
// as was asked for, whatever the tables answer the second time they are read.
#include <float.h>
#include <math.h>
#include <string.h>
#include "actors/lua/kind.h"

// One column that is being read: its values are on the stack at `index`.
typedef struct {
    lua_State *state;
    verl_lua_call_t *call;
    const verl_lua_output_t *output;
    int index;
    int64_t rows;
} s_taking_t;

// Counts rows as people do.
static void
s_wrong(const s_taking_t *self, int64_t row, const char *wanted)
{
    if (lua_isnoneornil(self->state, -1))
        luaL_error(self->state, "%s: `%s` has nothing for row %d of %d: %s would be right",
                   verl_lua_of(self->state)->name, self->output->name, (int) row + 1, (int) self->rows, wanted);
    bool text = lua_type(self->state, -1) == LUA_TSTRING;
    luaL_error(self->state, text ? "%s: `%s` has the text \"%s\" for row %d of %d: %s would be right"
                                 : "%s: `%s` has %s for row %d of %d: %s would be right",
               verl_lua_of(self->state)->name, self->output->name, luaL_tolstring(self->state, -1, NULL),
               (int) row + 1, (int) self->rows, wanted);
}

// The value on top as a real number that is finite; true is 1.
static double
s_real(const s_taking_t *self, int64_t row)
{
    int type = lua_type(self->state, -1);
    double value = type == LUA_TNUMBER ? lua_tonumber(self->state, -1) : lua_toboolean(self->state, -1);
    if ((type != LUA_TNUMBER && type != LUA_TBOOLEAN) || !(fabs(value) <= (double) FLT_MAX))
        s_wrong(self, row, "a finite number");
    return value;
}

static int64_t
s_integer(const s_taking_t *self, int64_t row, int64_t low, int64_t high)
{
    int whole = lua_isboolean(self->state, -1);
    int64_t value = whole ? lua_toboolean(self->state, -1) : 0;
    if (!whole && lua_type(self->state, -1) == LUA_TNUMBER)
        value = lua_tointegerx(self->state, -1, &whole);
    if (!whole || value < low || value > high)
        s_wrong(self, row, "a whole number that its type holds");
    return value;
}

static uint16_t
s_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Writes the value on top as element `at` of the column's memory, and takes it off.
static void
s_put(const s_taking_t *self, void *data, int64_t at, int64_t row)
{
    switch (self->output->dtype) {
    case VERL_F32:
        ((float *) data)[at] = (float) s_real(self, row);
        break;
    case VERL_BF16:
        ((uint16_t *) data)[at] = s_half((float) s_real(self, row));
        break;
    case VERL_I64:
        ((int64_t *) data)[at] = s_integer(self, row, INT64_MIN, INT64_MAX);
        break;
    case VERL_I32:
        ((int32_t *) data)[at] = (int32_t) s_integer(self, row, INT32_MIN, INT32_MAX);
        break;
    default:
        ((uint8_t *) data)[at] = (uint8_t) s_integer(self, row, 0, UINT8_MAX);
    }
    lua_pop(self->state, 1);
}

// Can it be asked for elements: a table or a view.
static bool
s_is_list(lua_State *state)
{
    return lua_istable(state, -1) || lua_isuserdata(state, -1);
}

// The list on top holds `count` elements of `width` numbers each, from element `at` on.
static void
s_put_elements(const s_taking_t *self, void *data, int64_t at, int64_t count, int64_t width, int64_t row)
{
    for (int64_t i = 0; i < count; i++) {
        lua_geti(self->state, -1, i + 1);
        if (width == 1) {
            s_put(self, data, at + i, row);
            continue;
        }
        if (!s_is_list(self->state))
            s_wrong(self, row, "an array of numbers for each position");
        s_put_elements(self, data, at + i * width, width, 1, row);
        lua_pop(self->state, 1);
    }
    verl_lua_charge(self->state, count);
}

static void
s_check_no_more(const s_taking_t *self)
{
    if (lua_geti(self->state, self->index, self->rows + 1) != LUA_TNIL)
        luaL_error(self->state, "%s: `%s` has more values than the batch has rows, %d", verl_lua_of(self->state)->name,
                   self->output->name, (int) self->rows);
    lua_pop(self->state, 1);
}

static int
s_take_fixed(const s_taking_t *self)
{
    const verl_lua_output_t *output = self->output;
    void *data = verl_batch_add(self->call->out, output->name, output->dtype, output->width);
    for (int64_t row = 0; data && row < self->rows; row++) {
        lua_geti(self->state, self->index, row + 1);
        if (output->width == 1) {
            s_put(self, data, row, row);
            continue;
        }
        if (!s_is_list(self->state))
            s_wrong(self, row, "an array of numbers");
        s_put_elements(self, data, row * output->width, output->width, 1, row);
        lua_pop(self->state, 1);
    }
    return data ? 0 : -1;
}

static int
s_take_ragged(const s_taking_t *self)
{
    lua_State *state = self->state;
    const verl_lua_output_t *output = self->output;
    int64_t *lengths = lua_newuserdatauv(state, (size_t) (self->rows + 1) * sizeof *lengths, 0);
    for (int64_t row = 0; row < self->rows; row++) {
        lua_geti(state, self->index, row + 1);
        if (!s_is_list(state))
            s_wrong(self, row, "an array");
        lengths[row] = luaL_len(state, -1);
        if (lengths[row] < 0 || lengths[row] > INT32_MAX)
            s_wrong(self, row, "an array");
        lua_pop(state, 1);
    }
    void *data = verl_batch_add_ragged(self->call->out, output->name, output->dtype, output->width, lengths);
    int64_t at = 0;
    for (int64_t row = 0; data && row < self->rows; row++) {
        lua_geti(state, self->index, row + 1);
        if (!s_is_list(state))
            s_wrong(self, row, "an array");
        s_put_elements(self, data, at, lengths[row], output->width, row);
        at += lengths[row] * output->width;
        lua_pop(state, 1);
    }
    lua_pop(state, 1);
    return data ? 0 : -1;
}

// The texts are kept by a table of our own until they are copied.
static int
s_take_texts(const s_taking_t *self)
{
    lua_State *state = self->state;
    size_t rows = (size_t) self->rows + 1;
    const char **texts = lua_newuserdatauv(state, rows * sizeof *texts, 0);
    size_t *bytes = lua_newuserdatauv(state, rows * sizeof *bytes, 0);
    lua_newtable(state);
    for (int64_t row = 0; row < self->rows; row++) {
        lua_geti(state, self->index, row + 1);
        if (lua_type(state, -1) != LUA_TSTRING && lua_type(state, -1) != LUA_TNUMBER)
            s_wrong(self, row, "a text");
        texts[row] = lua_tolstring(state, -1, &bytes[row]);
        lua_rawseti(state, -2, row + 1);
    }
    int rc = verl_batch_add_texts(self->call->out, self->output->name, texts, bytes);
    lua_pop(state, 3);
    return rc;
}

static int
s_take(s_taking_t *self)
{
    if (!s_is_list(self->state))
        luaL_error(self->state, "%s: `%s` is %s: an array with a value for each row would be right",
                   verl_lua_of(self->state)->name, self->output->name, luaL_typename(self->state, self->index));
    s_check_no_more(self);
    if (self->output->dtype == VERL_TEXT)
        return s_take_texts(self);
    return self->output->ragged ? s_take_ragged(self) : s_take_fixed(self);
}

// Every key of the table at `index` names a column that is given.
static void
s_check_keys(lua_State *state, const verl_lua_entry_t *entry, int index)
{
    for (lua_pushnil(state); lua_next(state, index); lua_pop(state, 1)) {
        bool known = false;
        for (int i = 0; i < entry->spec.gives_count && lua_type(state, -2) == LUA_TSTRING; i++)
            known = known || strcmp(entry->outputs[i].name, lua_tostring(state, -2)) == 0;
        if (!known)
            luaL_error(state, "%s: the function gives `%s`, which `gives` does not name", verl_lua_of(state)->name,
                       luaL_tolstring(state, -2, NULL));
    }
}

// A source makes as many rows as its first column has values.
static int
s_set_rows(lua_State *state, verl_lua_call_t *call, int result, int out)
{
    if (call->entry->spec.needs_count > 0 || verl_batch_rows(call->in) > 0 || call->entry->spec.gives_count == 0)
        return 0;
    const char *name = call->entry->outputs[0].name;
    int64_t rows = 0;
    if (!result || lua_getfield(state, result, name) == LUA_TNIL) {
        lua_settop(state, out);
        lua_getfield(state, out, name);
    }
    if (s_is_list(state))
        rows = luaL_len(state, -1);
    lua_settop(state, out);
    return verl_batch_set_rows(call->out, rows);
}

void
verl_lua_take_outputs(lua_State *state, verl_lua_call_t *call, int batch, int result)
{
    const verl_lua_entry_t *entry = call->entry;
    if (!lua_isnil(state, result) && !lua_istable(state, result))
        luaL_error(state, "%s: the function returns %s: a table of columns, { %s = { … } }, would be right",
                   verl_lua_of(state)->name, luaL_typename(state, result),
                   entry->spec.gives_count ? entry->outputs[0].name : "score");
    lua_pushliteral(state, "out");
    if (lua_rawget(state, batch) != LUA_TTABLE)
        luaL_error(state, "%s: the function took `out` from the batch", verl_lua_of(state)->name);
    int out = lua_gettop(state);
    s_check_keys(state, entry, out);
    result = lua_istable(state, result) ? result : 0;
    if (result)
        s_check_keys(state, entry, result);
    call->rc = s_set_rows(state, call, result, out);
    int64_t rows = call->rc == 0 ? verl_batch_rows(call->out) : 0;
    for (int i = 0; i < entry->spec.gives_count && call->rc == 0; i++) {
        s_taking_t taking = {
            .state = state, .call = call, .output = &entry->outputs[i], .index = out + 1, .rows = rows
        };
        if (!result || lua_getfield(state, result, taking.output->name) == LUA_TNIL) {
            lua_settop(state, out);
            lua_getfield(state, out, taking.output->name);
        }
        call->rc = s_take(&taking);
        lua_settop(state, out);
    }
}
