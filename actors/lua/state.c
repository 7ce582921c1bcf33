// state.c: the state of an actor on disk: what snapshot() of its file returned, as a text of Lua that gives it back.
//
// Values are booleans, numbers, texts, and tables of them, at most S_DEPTH deep; numbers come back to the bit. The text
// is read back where it finds no function to call.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "actors/lua/kind.h"

#define S_FILE  "state.lua"
#define S_DEPTH 60

typedef struct {
    FILE *file;       // that is written
    const char *text; // that was read
    size_t bytes;
} s_state_t;

// ---------------------------------------------------------------------------------------------------------------
// Writing

static void
s_write_number(lua_State *state, FILE *file, int index)
{
    lua_Number real = lua_tonumber(state, index);
    if (lua_isinteger(state, index))
        fprintf(file, "0x%llx", (unsigned long long) lua_tointeger(state, index)); // wraps: also what is below 0
    else if (isnan(real))
        fputs("(0/0)", file);
    else if (isinf(real))
        fputs(real > 0 ? "1e9999" : "-1e9999", file);
    else
        fprintf(file, "%a", real);
}

static void
s_write_text(lua_State *state, FILE *file, int index)
{
    size_t bytes;
    const char *text = lua_tolstring(state, index, &bytes);
    fputc('"', file);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char) text[i];
        if (c < 0x80 && isprint(c) && c != '"' && c != '\\')
            fputc(c, file);
        else
            fprintf(file, "\\%03u", c);
    }
    fputc('"', file);
}

static void
s_write(lua_State *state, FILE *file, int index, int depth)
{
    luaL_checkstack(state, 10, "state nests too deep");
    switch (lua_type(state, index)) {
    case LUA_TBOOLEAN:
        fputs(lua_toboolean(state, index) ? "true" : "false", file);
        return;
    case LUA_TNUMBER:
        s_write_number(state, file, index);
        return;
    case LUA_TSTRING:
        s_write_text(state, file, index);
        return;
    case LUA_TTABLE:
        break;
    default:
        luaL_error(state,
                   "%s: snapshot() returns %s in its state: booleans, numbers, texts and tables of them would be "
                   "right",
                   verl_lua_of(state)->name, luaL_typename(state, index));
    }
    if (depth == S_DEPTH)
        luaL_error(state, "%s: snapshot() returns tables more than %d deep, or one inside of itself",
                   verl_lua_of(state)->name, S_DEPTH);
    fputc('{', file);
    for (lua_pushnil(state); lua_next(state, index); lua_pop(state, 1)) {
        fputc('[', file);
        s_write(state, file, lua_gettop(state) - 1, depth + 1);
        fputs("]=", file);
        s_write(state, file, lua_gettop(state), depth + 1);
        fputs(",\n", file);
    }
    fputc('}', file);
}

static int
s_take_snapshot(lua_State *state)
{
    const s_state_t *self = lua_touserdata(state, 1);
    verl_lua_push_function(state, "snapshot");
    lua_call(state, 0, 1);
    fputs("return ", self->file);
    s_write(state, self->file, lua_gettop(state), 0);
    fputc('\n', self->file);
    return 0;
}

static int
s_path(verl_stage_t *stage, const char *directory, char *path, size_t size)
{
    if (snprintf(path, size, "%s/" S_FILE, directory) >= (int) size)
        return verl_fail(stage, "the path '%s/" S_FILE "' is too long", directory);
    return 0;
}

int
verl_lua_snapshot(verl_stage_t *stage, const char *directory)
{
    verl_lua_actor_t *self = verl_stage_state(stage);
    char path[4096], error[VERL_LUA_SENTENCE] = "";
    if (s_path(stage, directory, path, sizeof path) != 0)
        return -1;
    s_state_t snapshot = { .file = fopen(path, "we") };
    if (!snapshot.file)
        return verl_fail(stage, "cannot write '%s': %s", path, strerror(errno));
    int rc = verl_lua_run(self->lua, s_take_snapshot, &snapshot, error, sizeof error);
    errno = 0;
    bool written = fflush(snapshot.file) == 0 && !ferror(snapshot.file) && fsync(fileno(snapshot.file)) == 0;
    int reason = errno;
    if (fclose(snapshot.file) != 0 && written) {
        written = false;
        reason = errno;
    }
    if (rc != 0)
        return verl_fail(stage, "%s", error);
    return written ? 0 : verl_fail(stage, "cannot write '%s': %s", path, strerror(reason));
}

// ---------------------------------------------------------------------------------------------------------------
// Reading

static int
s_put_back(lua_State *state)
{
    const s_state_t *self = lua_touserdata(state, 1);
    if (luaL_loadbufferx(state, self->text, self->bytes, "=" S_FILE, "t") != LUA_OK)
        return lua_error(state);
    lua_newtable(state);
    lua_setupvalue(state, -2, 1);
    lua_call(state, 0, 1);
    verl_lua_push_function(state, "restore");
    lua_insert(state, -2);
    lua_call(state, 1, 0);
    return 0;
}

// All of a file, malloc'ed; NULL with the reason in errno.
static char *
s_slurp(const char *path, size_t *ret_bytes)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    struct stat info;
    if (!file)
        return NULL;
    if (fstat(fileno(file), &info) == 0 && (text = malloc((size_t) info.st_size + 1))) {
        *ret_bytes = fread(text, 1, (size_t) info.st_size, file);
        if (ferror(file) || *ret_bytes != (size_t) info.st_size) {
            free(text);
            text = NULL;
            errno = EIO;
        }
    }
    int reason = errno;
    fclose(file);
    errno = reason;
    return text;
}

int
verl_lua_restore(verl_stage_t *stage, const char *directory)
{
    verl_lua_actor_t *self = verl_stage_state(stage);
    char path[4096], error[VERL_LUA_SENTENCE] = "";
    if (s_path(stage, directory, path, sizeof path) != 0)
        return -1;
    s_state_t saved = { 0 };
    char *text = s_slurp(path, &saved.bytes);
    if (!text)
        return verl_fail(stage, "cannot read '%s': %s", path, strerror(errno));
    saved.text = text;
    int rc = verl_lua_run(self->lua, s_put_back, &saved, error, sizeof error);
    free(text);
    return rc == 0 ? 0 : verl_fail(stage, "%s", error);
}
