// call.c: the life of an actor in Lua: what it declares, how it is prepared, and how a batch is handled.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "actors/lua/kind.h"

const verl_option_t verl_lua_actor_options[] = {
    VERL_OPTION_OF(PATH, verl_lua_actor_t, file, "file of Lua 5.4 with the function and the columns of it",
                   .must_exist = true, .also = "verl:custom_reward_function.path"),
    VERL_INT(verl_lua_actor_t, memory, 256, 1, 1048576, "MiB", "memory that the file's values may take"),
    VERL_OPTIONS_END
};

const verl_option_t verl_lua_work_options[] = {
    VERL_OPTION_OF(STRING, verl_lua_work_t, function,
                   "function of the file that is called with each batch; absent: the one of the stage's own name, else score",
                   .optional = true, .also = "verl:custom_reward_function.name"),
    VERL_INT(verl_lua_work_t, instructions, 2000000000, 10000, 1e15, "instructions", "what one batch may cost"),
    VERL_OPTION_OF(WEIGHTS, verl_lua_work_t, options, "numbers that the file finds as options.NAME", .optional = true,
                   .also = "verl:custom_reward_function.reward_kwargs"),
    VERL_OPTIONS_END
};

// ---------------------------------------------------------------------------------------------------------------
// Declaring

static int
s_declare(verl_declaration_t *declaration, const verl_lua_actor_t *actor, const verl_lua_work_t *work,
          verl_lua_spec_t *spec)
{
    char error[VERL_LUA_SENTENCE];
    if (verl_lua_spec_read(actor, work, verl_declare_stage(declaration), spec, error, sizeof error) != 0) {
        verl_declare_error(declaration, "file", "%s", error);
        return 0;
    }
    for (int i = 0; i < spec->needs_count; i++)
        verl_declare_need(declaration, spec->needs[i]);
    for (int i = 0; i < spec->gives_count; i++) {
        verl_lua_output_t output;
        if (verl_lua_output_read(spec->gives[i], &output, error, sizeof error) != 0)
            verl_declare_error(declaration, "file", "%s", error);
        else
            verl_declare_give(declaration, spec->gives[i]);
    }
    return 1;
}

int
verl_lua_declare_stateless(verl_declaration_t *declaration, const void *state, const void *options)
{
    verl_lua_spec_t spec;
    if (s_declare(declaration, state, options, &spec) && (spec.snapshot || spec.restore))
        verl_declare_error(declaration, "file",
                           "has a function `%s`, so it keeps state: kind = \"lua-state\" would be "
                           "right",
                           spec.snapshot ? "snapshot" : "restore");
    return 0;
}

int
verl_lua_declare_stateful(verl_declaration_t *declaration, const void *state, const void *options)
{
    verl_lua_actor_t actor = *(const verl_lua_actor_t *) state;
    verl_lua_spec_t spec;
    actor.keeps = true;
    if (s_declare(declaration, &actor, options, &spec) && !(spec.snapshot && spec.restore))
        verl_declare_error(declaration, "file",
                           "has no function `%s`, so its state could not be kept: snapshot() and "
                           "restore(state), or kind = \"lua\", would be right",
                           spec.snapshot ? "restore" : "snapshot");
    return 0;
}

// ---------------------------------------------------------------------------------------------------------------
// Preparing

// A run that is being stopped ends what Lua does.
static bool
s_tick(void *context)
{
    const verl_lua_call_t *call = context;
    return call->stage && verl_progress(call->stage, 0);
}

static int
s_start(lua_State *state)
{
    verl_stage_t *stage = lua_touserdata(state, 1);
    verl_lua_start(state, verl_stage_state(stage), verl_stage_options(stage));
    return 0;
}

int
verl_lua_prepare(verl_stage_t *stage)
{
    verl_lua_actor_t *self = verl_stage_state(stage);
    char error[VERL_LUA_SENTENCE];
    if (pthread_mutex_init(&self->lock, NULL) != 0)
        return verl_fail(stage, "no lock for the stages of '%s'", self->file);
    self->locks = true;
    self->lua =
        verl_lua_new(self->memory << 20, ((const verl_lua_work_t *) verl_stage_options(stage))->instructions, NULL);
    if (!self->lua)
        return verl_fail(stage, "no memory for a sandbox of Lua");
    self->lua->memory_key = "memory";
    self->lua->instructions_key = "instructions";
    if (verl_lua_run(self->lua, s_start, stage, error, sizeof error) != 0)
        return verl_fail(stage, "%s", error);
    return 0;
}

int
verl_lua_prepare_stateful(verl_stage_t *stage)
{
    verl_lua_actor_t *self = verl_stage_state(stage);
    self->keeps = true;
    return verl_lua_prepare(stage);
}

static verl_lua_entry_t *
s_find(verl_lua_actor_t *self, const verl_stage_t *stage)
{
    pthread_mutex_lock(&self->lock);
    verl_lua_entry_t *entry = self->entries;
    while (entry && entry->stage != stage)
        entry = entry->next;
    pthread_mutex_unlock(&self->lock);
    return entry;
}

// In front of an older entry of a stage that had this address before.
static void
s_add(verl_lua_actor_t *self, verl_lua_entry_t *entry)
{
    pthread_mutex_lock(&self->lock);
    entry->next = self->entries;
    self->entries = entry;
    pthread_mutex_unlock(&self->lock);
}

int
verl_lua_begin(verl_stage_t *stage)
{
    verl_lua_actor_t *self = verl_stage_state(stage);
    char error[VERL_LUA_SENTENCE];
    verl_lua_entry_t *entry = calloc(1, sizeof *entry);
    if (!entry)
        return verl_fail(stage, "no memory for what '%s' gives", self->file);
    entry->stage = stage;
    int rc = verl_lua_spec_read(self, verl_stage_options(stage), verl_stage_name(stage), &entry->spec, error,
                                sizeof error);
    for (int i = 0; i < entry->spec.gives_count && rc == 0; i++)
        rc = verl_lua_output_read(entry->spec.gives[i], &entry->outputs[i], error, sizeof error);
    if (rc != 0) {
        free(entry);
        return verl_fail(stage, "%s", error);
    }
    s_add(self, entry);
    return 0;
}

void
verl_lua_finish(verl_stage_t *stage)
{
    verl_lua_actor_t *self = verl_stage_state(stage);
    verl_lua_destroy(&self->lua);
    while (self->entries) {
        verl_lua_entry_t *entry = self->entries;
        self->entries = entry->next;
        free(entry);
    }
    if (self->locks)
        pthread_mutex_destroy(&self->lock);
    self->locks = false;
}

// ---------------------------------------------------------------------------------------------------------------
// A batch

static int
s_call(lua_State *state)
{
    verl_lua_call_t *call = lua_touserdata(state, 1);
    verl_lua_end_batch(state);
    verl_lua_set_options(state, call->work);
    verl_lua_push_batch(state, call);
    const char *function = call->entry->spec.function;
    verl_lua_push_function(state, function);
    if (lua_isnil(state, -1))
        return luaL_error(state, "%s has no function `%s` any more", verl_lua_of(state)->name, function);
    lua_pushvalue(state, 2);
    lua_call(state, 1, 1);
    verl_lua_take_outputs(state, call, 2, 3);
    return 0;
}

int
verl_lua_handle(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    verl_lua_actor_t *self = verl_stage_state(stage);
    verl_lua_call_t call = { .stage = stage, .work = verl_stage_options(stage), .in = in, .out = out, .row = -1 };
    char error[VERL_LUA_SENTENCE];
    call.entry = s_find(self, stage);
    if (!call.entry)
        return verl_fail(stage, "the stage was not begun");
    call.random = verl_random_stream(verl_stage_seed(stage), NULL, verl_batch_id(in), UINT32_MAX);
    self->lua->max_instructions = call.work->instructions;
    self->lua->tick = s_tick;
    self->lua->context = &call;
    int rc = verl_lua_run(self->lua, s_call, &call, error, sizeof error);
    self->lua->context = NULL;
    self->lua->tick = NULL;
    if (rc == 0)
        return call.rc;
    if (self->lua->stopped)
        return -1;
    if (call.row >= 0)
        return verl_fail(stage, "%s (the last row that it read is %lld of %lld)", error, (long long) call.row + 1,
                         (long long) verl_batch_rows(in));
    return verl_fail(stage, "%s", error);
}
