// sandbox.c: see sandbox.h.
#include "actors/lua/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define S_GRAIN   1000 // instructions between two looks at their number
#define S_TICKS   10   // such looks between two ticks
#define S_GLOBALS "verl.globals"

verl_lua_t *
verl_lua_of(lua_State *state)
{
    verl_lua_t *self;
    memcpy(&self, lua_getextraspace(state), sizeof self);
    return self;
}

// ---------------------------------------------------------------------------------------------------------------
// Limits

// "reward.lua:7: " of the innermost function that has lines; empty without one. Allocates nothing.
static void
s_where(lua_State *state, char *text, size_t size)
{
    lua_Debug frame;
    *text = '\0';
    for (int level = 0; level < 20 && lua_getstack(state, level, &frame); level++)
        if (lua_getinfo(state, "Sl", &frame) && frame.currentline > 0) {
            snprintf(text, size, "%s:%d: ", frame.short_src, frame.currentline);
            return;
        }
}

static void *
s_allocate(void *context, void *block, size_t old, size_t size)
{
    verl_lua_t *self = context;
    int64_t held = block ? (int64_t) old : 0;
    if (size == 0) {
        free(block);
        self->bytes -= held;
        return NULL;
    }
    bool room = size <= (size_t) self->max_bytes && self->bytes - held + (int64_t) size <= self->max_bytes;
    void *moved = room ? realloc(block, size) : NULL;
    if (moved)
        self->bytes += (int64_t) size - held;
    else if (self->state)
        s_where(self->state, self->where, sizeof self->where);
    return moved;
}

static const char *
s_key(const char *key, const char *text)
{
    return key ? text : "";
}

// Count 1 from here on, so that whatever catches the error fails at its next instruction.
static void s_exhaust(lua_State *state, verl_lua_t *self);

static void
s_count(lua_State *state, lua_Debug *frame)
{
    (void) frame;
    verl_lua_t *self = verl_lua_of(state);
    if (!self->exhausted && !self->stopped)
        self->instructions += S_GRAIN;
    bool due = self->instructions / S_GRAIN % S_TICKS == 0;
    if (!self->stopped && due && self->tick && self->tick(self->context))
        self->stopped = true;
    if (self->stopped || self->instructions > self->max_instructions)
        s_exhaust(state, self);
}

static void
s_exhaust(lua_State *state, verl_lua_t *self)
{
    if (!self->exhausted) {
        char where[96];
        s_where(state, where, sizeof where);
        self->exhausted = true;
        snprintf(self->limit, sizeof self->limit,
                 "%smore than %lld instructions in one call: a loop that ends%s%s%s would be right", where,
                 (long long) self->max_instructions, s_key(self->instructions_key, ", or a higher `"),
                 s_key(self->instructions_key, self->instructions_key), s_key(self->instructions_key, "`,"));
    }
    lua_sethook(state, s_count, LUA_MASKCOUNT, 1);
    lua_pushstring(state, self->limit);
    lua_error(state);
}

void
verl_lua_charge(lua_State *state, int64_t instructions)
{
    verl_lua_t *self = verl_lua_of(state);
    if (instructions > 0 && !self->exhausted)
        self->instructions =
            instructions > INT64_MAX - self->instructions ? INT64_MAX : self->instructions + instructions;
    if (self->instructions > self->max_instructions)
        s_exhaust(state, self);
}

// ---------------------------------------------------------------------------------------------------------------
// Errors

// Does a text begin with FILE:LINE: of this sandbox?
static bool
s_has_place(const verl_lua_t *self, const char *text)
{
    size_t length = strlen(self->name);
    if (length == 0 || strncmp(text, self->name, length) != 0 || text[length] != ':')
        return false;
    size_t digits = strspn(text + length + 1, "0123456789");
    return digits > 0 && text[length + 1 + digits] == ':';
}

// The message handler: every error becomes a text that begins with its place, where it has one.
static int
s_complete(lua_State *state)
{
    char where[96];
    const char *text = lua_type(state, 1) == LUA_TSTRING ? lua_tostring(state, 1) : NULL;
    if (text && s_has_place(verl_lua_of(state), text))
        return 1;
    s_where(state, where, sizeof where);
    if (text || lua_type(state, 1) == LUA_TNUMBER)
        lua_pushfstring(state, "%s%s", where, lua_tostring(state, 1));
    else
        lua_pushfstring(state, "%san error of type %s instead of a text", where, luaL_typename(state, 1));
    return 1;
}

// One line, without control characters, which a terminal would obey.
static void
s_sentence(const char *text, char *error, size_t size)
{
    snprintf(error, size, "%s", text);
    for (unsigned char *c = (unsigned char *) error; *c; c++)
        if (*c < ' ' || *c == 0x7f)
            *c = ' ';
}

static void
s_explain(verl_lua_t *self, int status, char *error, size_t size)
{
    char text[VERL_LUA_SENTENCE];
    if (self->stopped)
        snprintf(text, sizeof text, "stopped");
    else if (self->exhausted)
        snprintf(text, sizeof text, "%s", self->limit);
    else if (status == LUA_ERRMEM)
        snprintf(text, sizeof text, "%smore than %lld bytes of memory: fewer of them%s%s%s would be right", self->where,
                 (long long) self->max_bytes, s_key(self->memory_key, ", or a higher `"),
                 s_key(self->memory_key, self->memory_key), s_key(self->memory_key, "`,"));
    else if (lua_type(self->state, -1) == LUA_TSTRING)
        snprintf(text, sizeof text, "%s", lua_tostring(self->state, -1));
    else
        snprintf(text, sizeof text, "%s: an error that has no text", self->name);
    s_sentence(text, error, size);
}

int
verl_lua_run(verl_lua_t *self, lua_CFunction function, void *argument, char *error, size_t size)
{
    lua_State *state = self->state;
    int top = lua_gettop(state);
    self->instructions = 0;
    self->exhausted = self->stopped = false;
    self->where[0] = '\0';
    lua_sethook(state, s_count, LUA_MASKCOUNT, S_GRAIN);
    lua_pushcfunction(state, s_complete);
    lua_pushcfunction(state, function);
    lua_pushlightuserdata(state, argument);
    int status = lua_pcall(state, 1, 0, top + 1);
    if (status != LUA_OK)
        s_explain(self, status, error, size);
    lua_sethook(state, NULL, 0, 0);
    lua_settop(state, top);
    return status == LUA_OK ? 0 : -1;
}

// ---------------------------------------------------------------------------------------------------------------
// A sandbox

// The globals of chunks are a table of their own, which falls back on the library's.
static int
s_open(lua_State *state)
{
    verl_lua_open_library(state);
    lua_newtable(state);
    lua_newtable(state);
    lua_pushglobaltable(state);
    lua_setfield(state, -2, "__index");
    lua_pushboolean(state, 0);
    lua_setfield(state, -2, "__metatable");
    lua_setmetatable(state, -2);
    lua_setfield(state, LUA_REGISTRYINDEX, S_GLOBALS);
    return 0;
}

verl_lua_t *
verl_lua_new(int64_t max_bytes, int64_t max_instructions, void *context)
{
    verl_lua_t *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->max_bytes = max_bytes;
    self->max_instructions = INT64_MAX;
    self->context = context;
    char error[VERL_LUA_SENTENCE];
    lua_State *state = lua_newstate(s_allocate, self);
    if (state) {
        memcpy(lua_getextraspace(state), &self, sizeof self);
        self->state = state;
        if (lua_checkstack(state, 100) && verl_lua_run(self, s_open, NULL, error, sizeof error) == 0) {
            self->max_instructions = max_instructions;
            return self;
        }
    }
    verl_lua_destroy(&self);
    return NULL;
}

void
verl_lua_destroy(verl_lua_t **lua_p)
{
    verl_lua_t *self = *lua_p;
    if (self && self->state)
        lua_close(self->state);
    free(self);
    *lua_p = NULL;
}

void
verl_lua_register(lua_State *state, const char *name, lua_CFunction function)
{
    lua_pushglobaltable(state);
    lua_pushcfunction(state, function);
    lua_setfield(state, -2, name);
    lua_pop(state, 1);
}

void
verl_lua_push_globals(lua_State *state)
{
    lua_getfield(state, LUA_REGISTRYINDEX, S_GLOBALS);
}

// ---------------------------------------------------------------------------------------------------------------
// Chunks

void
verl_lua_load_text(lua_State *state, const char *text, size_t bytes, const char *name)
{
    verl_lua_t *self = verl_lua_of(state);
    snprintf(self->name, sizeof self->name, "%.55s", name);
    if (bytes > 0 && *text == LUA_SIGNATURE[0])
        luaL_error(state, "%s is a compiled chunk: its source would be right", self->name);
    const char *chunk = lua_pushfstring(state, "@%s", self->name);
    if (luaL_loadbufferx(state, text, bytes, chunk, "t") != LUA_OK)
        lua_error(state);
    lua_remove(state, -2);
    verl_lua_push_globals(state);
    lua_setupvalue(state, -2, 1);
}

// Reads into memory of Lua's, so that an error frees it.
static char *
s_slurp(lua_State *state, int fd, size_t bytes)
{
    char *text = lua_newuserdatauv(state, bytes + 1, 0);
    size_t got = 0;
    while (got < bytes) {
        ssize_t more = read(fd, text + got, bytes - got);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return NULL;
        got += (size_t) more;
    }
    return text;
}

typedef struct {
    const char *path, *name;
    int fd;
} s_file_t;

static int
s_load(lua_State *state)
{
    const s_file_t *file = lua_touserdata(state, 1);
    struct stat info;
    if (fstat(file->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return luaL_error(state, "'%s' is no regular file: a file of Lua would be right", file->path);
    if (info.st_size > VERL_LUA_MAX_FILE)
        return luaL_error(state, "'%s' is larger than 1 MiB: a script is a few kilobytes", file->path);
    size_t bytes = (size_t) info.st_size;
    char *text = s_slurp(state, file->fd, bytes);
    if (!text)
        return luaL_error(state, "'%s' cannot be read: %s", file->path, strerror(errno));
    for (char *c = text; bytes > 0 && *text == '#' && c < text + bytes && *c != '\n'; c++)
        if (c > text)
            *c = ' ';
    if (bytes > 1 && *text == '#')
        memcpy(text, "--", 2);
    verl_lua_load_text(state, text, bytes, file->name);
    return 1;
}

void
verl_lua_load(lua_State *state, const char *path)
{
    const char *slash = strrchr(path, '/');
    s_file_t file = { .path = path, .name = slash ? slash + 1 : path };
    file.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file.fd < 0)
        luaL_error(state, "'%s' cannot be read: %s", path, strerror(errno));
    lua_pushcfunction(state, s_load);
    lua_pushlightuserdata(state, &file);
    int status = lua_pcall(state, 1, 1, 0);
    close(file.fd);
    if (status != LUA_OK)
        lua_error(state);
}

static int
s_refuse_global(lua_State *state)
{
    return luaL_error(state, "the global `%s` is assigned: %s would be right", luaL_tolstring(state, 2, NULL),
                      lua_tostring(state, lua_upvalueindex(1)));
}

void
verl_lua_freeze(lua_State *state, int chunk, const char *cure)
{
    chunk = lua_absindex(state, chunk);
    lua_newtable(state);
    lua_newtable(state);
    verl_lua_push_globals(state);
    lua_setfield(state, -2, "__index");
    lua_pushstring(state, cure);
    lua_pushcclosure(state, s_refuse_global, 1);
    lua_setfield(state, -2, "__newindex");
    lua_pushboolean(state, 0);
    lua_setfield(state, -2, "__metatable");
    lua_setmetatable(state, -2);
    lua_setupvalue(state, chunk, 1);
}
