// script_toml.c: see script_toml.h. A text is built from pieces in a table of Lua, so that an error frees them.
#include "tools/script_toml.h"
#include <lauxlib.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S_DEPTH 16
#define S_PATH  200

typedef struct {
    lua_State *state;
    int pieces;        // the table that they are in
    char path[S_PATH]; // of the key that is written
} s_writer_t;

// Takes the text on top.
static void
s_put(s_writer_t *self)
{
    lua_rawseti(self->state, self->pieces, (lua_Integer) lua_rawlen(self->state, self->pieces) + 1);
}

static void
s_put_text(s_writer_t *self, const char *text)
{
    lua_pushstring(self->state, text);
    s_put(self);
}

static bool
s_is_bare(const char *key, size_t bytes)
{
    size_t bare = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return bytes > 0 && bare == bytes;
}

// A basic string: what is not printable, and quotes, escaped. Bytes above ASCII stand as they are.
static void
s_put_quoted(s_writer_t *self, const char *text, size_t bytes)
{
    luaL_Buffer quoted;
    luaL_buffinit(self->state, &quoted);
    luaL_addchar(&quoted, '"');
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char) text[i];
        char code[8];
        if (c == '"' || c == '\\') {
            luaL_addchar(&quoted, '\\');
            luaL_addchar(&quoted, (char) c);
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(code, sizeof code, "\\u%04X", c);
            luaL_addstring(&quoted, code);
        } else {
            luaL_addchar(&quoted, (char) c);
        }
    }
    luaL_addchar(&quoted, '"');
    luaL_pushresult(&quoted);
    s_put(self);
}

static void
s_put_key(s_writer_t *self, const char *key, size_t bytes)
{
    if (s_is_bare(key, bytes))
        s_put_text(self, key);
    else
        s_put_quoted(self, key, bytes);
}

// Keeps a point or an exponent, so that it is read back as a real number.
static void
s_put_number(s_writer_t *self, int index)
{
    char text[64];
    if (lua_isinteger(self->state, index)) {
        snprintf(text, sizeof text, "%lld", (long long) lua_tointeger(self->state, index));
        s_put_text(self, text);
        return;
    }
    double value = lua_tonumber(self->state, index);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (!isfinite(value))
        luaL_error(self->state, "`%s` is no finite number", self->path);
    s_put_text(self, text);
    if (!strpbrk(text, ".e"))
        s_put_text(self, ".0");
}

// Pushes the keys of the table at `index`, which have to be texts, in order. Returns how many.
static lua_Integer
s_push_keys(s_writer_t *self, int index)
{
    lua_State *state = self->state;
    lua_Integer count = 0;
    lua_newtable(state);
    int keys = lua_gettop(state);
    for (lua_pushnil(state); lua_next(state, index); lua_pop(state, 1)) {
        if (lua_type(state, -2) != LUA_TSTRING)
            luaL_error(state, "`%s` is a table with names and with numbers as keys: one of them would be right",
                       self->path);
        lua_pushvalue(state, -2);
        lua_Integer at = ++count;
        for (; at > 1; at--) {
            lua_rawgeti(state, keys, at - 1);
            bool before = lua_compare(state, -2, -1, LUA_OPLT);
            if (!before) {
                lua_pop(state, 1);
                break;
            }
            lua_rawseti(state, keys, at);
        }
        lua_rawseti(state, keys, at);
    }
    return count;
}

// Goes into a key: its name behind the path, and back.
static size_t
s_enter(s_writer_t *self, const char *key)
{
    size_t length = strlen(self->path);
    snprintf(self->path + length, sizeof self->path - length, "%s%s", length ? "." : "", key);
    return length;
}

static void s_put_value(s_writer_t *self, int index, int depth);

static void
s_put_array(s_writer_t *self, int index, lua_Integer count, int depth)
{
    lua_Integer seen = 0;
    for (lua_pushnil(self->state); lua_next(self->state, index); lua_pop(self->state, 1))
        seen++;
    if (seen != count)
        luaL_error(self->state, "`%s` is an array with gaps, or with names too", self->path);
    s_put_text(self, "[");
    for (lua_Integer i = 1; i <= count; i++) {
        if (i > 1)
            s_put_text(self, ", ");
        lua_rawgeti(self->state, index, i);
        s_put_value(self, lua_gettop(self->state), depth + 1);
        lua_pop(self->state, 1);
    }
    s_put_text(self, "]");
}

static void
s_put_inline(s_writer_t *self, int index, int depth)
{
    lua_State *state = self->state;
    lua_Integer count = s_push_keys(self, index);
    int keys = lua_gettop(state);
    s_put_text(self, count ? "{ " : "[]");
    for (lua_Integer i = 1; i <= count; i++) {
        size_t bytes;
        lua_rawgeti(state, keys, i);
        const char *key = lua_tolstring(state, -1, &bytes);
        size_t back = s_enter(self, key);
        if (i > 1)
            s_put_text(self, ", ");
        s_put_key(self, key, bytes);
        s_put_text(self, " = ");
        lua_pushvalue(state, -1);
        lua_rawget(state, index);
        s_put_value(self, lua_gettop(state), depth + 1);
        lua_pop(state, 2);
        self->path[back] = '\0';
    }
    s_put_text(self, count ? " }" : "");
    lua_pop(state, 1);
}

static void
s_put_value(s_writer_t *self, int index, int depth)
{
    lua_State *state = self->state;
    size_t bytes;
    luaL_checkstack(state, 20, "a change nests too deep");
    if (depth > S_DEPTH)
        luaL_error(state, "`%s` nests more than %d deep, or lies inside of itself", self->path, S_DEPTH);
    switch (lua_type(state, index)) {
    case LUA_TBOOLEAN:
        s_put_text(self, lua_toboolean(state, index) ? "true" : "false");
        return;
    case LUA_TNUMBER:
        s_put_number(self, index);
        return;
    case LUA_TSTRING: {
        const char *text = lua_tolstring(state, index, &bytes);
        s_put_quoted(self, text, bytes);
        return;
    }
    case LUA_TTABLE:
        if (lua_rawlen(state, index) > 0)
            s_put_array(self, index, (lua_Integer) lua_rawlen(state, index), depth);
        else
            s_put_inline(self, index, depth);
        return;
    default:
        luaL_error(state, "`%s` is %s: a text, a number, a boolean or a table would be right", self->path,
                   luaL_typename(state, index));
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Sections

// Pushes key number `at` of `keys` and its value in the table at `index`; the key's text.
static const char *
s_push_pair(s_writer_t *self, int index, int keys, lua_Integer at, size_t *ret_bytes)
{
    lua_rawgeti(self->state, keys, at);
    const char *key = lua_tolstring(self->state, -1, ret_bytes);
    lua_pushvalue(self->state, -1);
    lua_rawget(self->state, index);
    return key;
}

// An empty array says nothing about what it would hold, and may stand where a section may.
static bool
s_is_section(lua_State *state, int index)
{
    return lua_istable(state, index) && lua_rawlen(state, index) == 0;
}

// KEY = VALUE for each key of the table at `index`.
static void
s_put_pairs(s_writer_t *self, int index)
{
    lua_Integer count = s_push_keys(self, index);
    int keys = lua_gettop(self->state);
    for (lua_Integer i = 1; i <= count; i++) {
        size_t bytes;
        const char *key = s_push_pair(self, index, keys, i, &bytes);
        size_t back = s_enter(self, key);
        s_put_key(self, key, bytes);
        s_put_text(self, " = ");
        s_put_value(self, lua_gettop(self->state), 0);
        s_put_text(self, "\n");
        self->path[back] = '\0';
        lua_settop(self->state, keys);
    }
    lua_pop(self->state, 1);
}

// [SECTION.NAME] for each name in the table at `index`.
static void
s_put_named(s_writer_t *self, int index, const char *section)
{
    lua_Integer count = s_push_keys(self, index);
    int keys = lua_gettop(self->state);
    for (lua_Integer i = 1; i <= count; i++) {
        size_t bytes;
        const char *name = s_push_pair(self, index, keys, i, &bytes);
        size_t back = s_enter(self, name);
        if (!s_is_section(self->state, lua_gettop(self->state)))
            luaL_error(self->state, "`%s` is no table of keys: { key = value } would be right", self->path);
        s_put_text(self, "[");
        s_put_text(self, section);
        s_put_text(self, ".");
        s_put_key(self, name, bytes);
        s_put_text(self, "]\n");
        s_put_pairs(self, lua_gettop(self->state));
        self->path[back] = '\0';
        lua_settop(self->state, keys);
    }
    lua_pop(self->state, 1);
}

// What is no section stands first: a key behind a header would be that section's.
static void
s_put_document(s_writer_t *self, int index)
{
    lua_State *state = self->state;
    lua_Integer count = s_push_keys(self, index);
    int keys = lua_gettop(state);
    for (int pass = 0; pass < 2; pass++)
        for (lua_Integer i = 1; i <= count; i++) {
            size_t bytes;
            const char *key = s_push_pair(self, index, keys, i, &bytes);
            int value = lua_gettop(state);
            bool section = s_is_section(state, value), named = strcmp(key, "actor") == 0 || strcmp(key, "stage") == 0;
            size_t back = s_enter(self, key);
            if (!section && pass == 0) {
                s_put_key(self, key, bytes);
                s_put_text(self, " = ");
                s_put_value(self, value, 0);
                s_put_text(self, "\n");
            } else if (section && pass == 1 && named) {
                s_put_named(self, value, key);
            } else if (section && pass == 1) {
                s_put_text(self, "[");
                s_put_key(self, key, bytes);
                s_put_text(self, "]\n");
                s_put_pairs(self, value);
            }
            self->path[back] = '\0';
            lua_settop(state, keys);
        }
    lua_pop(state, 1);
}

void
verl_script_push_toml(lua_State *state, int index)
{
    index = lua_absindex(state, index);
    luaL_checkstack(state, 40, NULL);
    lua_newtable(state);
    s_writer_t self = { .state = state, .pieces = lua_gettop(state) };
    s_put_document(&self, index);
    lua_Integer count = (lua_Integer) lua_rawlen(state, self.pieces);
    luaL_Buffer text;
    luaL_buffinit(state, &text);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(state, self.pieces, i);
        luaL_addvalue(&text);
    }
    luaL_pushresult(&text);
    lua_remove(state, self.pieces);
}
