// file.h: a Lua file of a test, in a folder of its own, and a stage that runs it.
#ifndef VERL_TESTS_LUA_FILE_H
#define VERL_TESTS_LUA_FILE_H
#include <stdio.h>
#include <unistd.h>
#include "actors/rig.h"

typedef struct lua_file {
    char folder[64], path[128];
} lua_file_t;

static inline lua_file_t
lua_file_write(const char *text)
{
    lua_file_t file = { .folder = "/tmp/verl-lua-XXXXXX" };
    cr_assert(mkdtemp(file.folder));
    snprintf(file.path, sizeof file.path, "%s/reward.lua", file.folder);
    FILE *to = fopen(file.path, "w");
    cr_assert(to && fputs(text, to) >= 0 && fclose(to) == 0);
    return file;
}

static inline void
lua_file_remove(const lua_file_t *file)
{
    char state[160];
    snprintf(state, sizeof state, "%s/state.lua", file->folder);
    unlink(state);
    unlink(file->path);
    rmdir(file->folder);
}

typedef struct lua_stage {
    lua_file_t file;
    char options[256];
    rig_t rig;
    int prepared; // what prepare returned; why is in rig.failure
} lua_stage_t;

// A stage of `kind` whose file is `text`; options of the work as TOML.
static inline void
lua_stage_open(lua_stage_t *self, const char *kind, const char *text, const char *options)
{
    self->file = lua_file_write(text);
    snprintf(self->options, sizeof self->options, "file = \"%s\"\nmemory = 16\n", self->file.path);
    rig_init(&self->rig, kind, "call", "shaping", self->options, options, NULL);
    self->prepared = rig_prepare(&self->rig);
}

static inline void
lua_stage_close(lua_stage_t *self)
{
    rig_close(&self->rig);
    lua_file_remove(&self->file);
}

// Two rows: texts, ids of different lengths, and two columns of one number a row.
static inline verl_batch_t *
lua_batch(int64_t id)
{
    verl_batch_t *made = rig_made(id, 2);
    rig_add_texts(made, "response", (const char *[]){ "four", "a longer one" });
    rig_add_texts(made, "answer", (const char *[]){ "four", "five" });
    rig_add_ragged(made, "response_ids", VERL_I32, (int64_t[]){ 1, 3 }, (int32_t[]){ 7, -8, 9, 2147483647 });
    rig_add_reals(made, "score", (float[]){ 0.25F, -1.5F });
    rig_add_integers(made, "id", (int64_t[]){ 5, INT64_MIN });
    return made;
}
#endif
