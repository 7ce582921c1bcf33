// script_words.c: what a script may say: at_step, when, every, and run:apply, set, swap, remove, pause, resume, metric,
// step, log (run:branch is script_branch.c).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/inject.h"
#include "tools/script_impl.h"
#include "tools/script_toml.h"

#define S_BATCH_MOST INT64_C(1000000000000)

script_t *
verl_script_of(lua_State *state)
{
    return verl_lua_of(state)->context;
}

void
verl_script_place(lua_State *state, char *place, size_t size)
{
    lua_Debug frame;
    snprintf(place, size, "%s", verl_lua_of(state)->name);
    for (int level = 1; lua_getstack(state, level, &frame); level++)
        if (lua_getinfo(state, "Sl", &frame) && frame.currentline > 0) {
            snprintf(place, size, "%s:%d", frame.short_src, frame.currentline);
            return;
        }
}

// A sentence of the run's may have lines, one a mistake, and an error of Lua's is one line. What is wrong in a fragment
// has its place already, which begins with the script's.
int
verl_script_raise(lua_State *state, const verl_error_t *error)
{
    luaL_where(state, 1);
    size_t length = lua_rawlen(state, -1);  // "s.lua:1: "
    bool placed = length > 1 && strncmp(error->text, lua_tostring(state, -1), length - 1) == 0;
    const char *text = luaL_gsub(state, error->text, "\n", "; ");
    lua_pushfstring(state, "%s%s", placed ? "" : lua_tostring(state, -2), text);
    return lua_error(state);
}

// ---------------------------------------------------------------------------------------------------------------
// When something happens

static int64_t
s_batch(lua_State *state, int index, const char *what, int64_t least)
{
    lua_Integer batch = luaL_checkinteger(state, index);
    if (batch < least || batch > S_BATCH_MOST)
        luaL_error(state, "%s is given %I: %I or more would be right", what, batch, (lua_Integer) least);
    return batch;
}

// at_step(n, f): f is called when all batches before n are done, and what it changes is in force from n on.
static int
s_at_step(lua_State *state)
{
    script_t *self = verl_script_of(state);
    verl_error_t error = { "" };
    int64_t batch = s_batch(state, 1, "at_step", 0);
    luaL_checktype(state, 2, LUA_TFUNCTION);
    if (self->own &&
        (batch < self->done ||
         verl_script_recalled_moment(self, batch))) { // a run that was resumed: what it changed is in its topology
        verl_script_say(self, lua_pushfstring(state, "step %I is done: at_step is left out", (lua_Integer) batch));
        return 0;
    }
    if (verl_script_hold(self, batch, &error) != 0)
        return verl_script_raise(state, &error);
    lua_settop(state, 2);
    int function = luaL_ref(state, LUA_REGISTRYINDEX);
    script_moment_t *moment = calloc(1, sizeof *moment), **link = &self->moments;
    if (!moment)
        return luaL_error(state, "no memory");
    *moment = (script_moment_t){ .batch = batch, .function = function };
    while (*link && (*link)->batch <= batch)
        link = &(*link)->next;
    moment->next = *link;
    *link = moment;
    return 0;
}

static int
s_add_watch(lua_State *state, verl_condition_tree_t *condition, int64_t period, bool again)
{
    script_t *self = verl_script_of(state);
    script_watch_t *watch = calloc(1, sizeof *watch), **link = &self->watches;
    if (!watch) {
        verl_condition_destroy(&condition);
        return luaL_error(state, "no memory");
    }
    *watch = (script_watch_t){ .condition = condition, .period = period, .again = again, .function = LUA_NOREF };
    watch->number = ++self->watches_made;
    watch->fired = verl_script_recalled_watch(self, watch->number);
    watch->over = watch->fired >= 0 && !again;
    while (*link)
        link = &(*link)->next;
    *link = watch;
    lua_settop(state, 2);
    watch->function = luaL_ref(state, LUA_REGISTRYINDEX);
    return 0;
}

// when("actor/ppo_kl > 0.1", f, { again = true })
static int
s_when(lua_State *state)
{
    verl_error_t error = { "" };
    const char *text = luaL_checkstring(state, 1);
    luaL_checktype(state, 2, LUA_TFUNCTION);
    bool again = false;
    if (!lua_isnoneornil(state, 3)) {
        luaL_checktype(state, 3, LUA_TTABLE);
        lua_getfield(state, 3, "again");
        again = lua_toboolean(state, -1);
    }
    verl_condition_tree_t *condition = verl_condition_parse(text, &error);
    return condition ? s_add_watch(state, condition, 0, again) : verl_script_raise(state, &error);
}

// every(n, f): after each n steps
static int
s_every(lua_State *state)
{
    int64_t period = s_batch(state, 1, "every", 1);
    luaL_checktype(state, 2, LUA_TFUNCTION);
    return s_add_watch(state, NULL, period, true);
}

// ---------------------------------------------------------------------------------------------------------------
// Changes

char *
verl_script_fragment(lua_State *state, int index)
{
    if (lua_type(state, index) == LUA_TTABLE)
        verl_script_push_toml(state, index);
    else if (lua_type(state, index) == LUA_TSTRING)
        lua_pushvalue(state, index);
    else
        luaL_error(state,
                   "a change is %s: a table, { stage = { update = { lr = 5e-6 } } }, or a text of TOML would be "
                   "right",
                   luaL_typename(state, index));
    char *text = strdup(lua_tostring(state, -1));
    if (!text)
        luaL_error(state, "no memory");
    lua_pop(state, 1);
    return text;
}

// Makes a change, whose fragments it frees. Pushes revision and first batch; nothing where nothing would change.
static int
s_make(lua_State *state, script_change_t *change)
{
    script_t *self = verl_script_of(state);
    verl_error_t error = { "" };
    int64_t revision = 0, first = 0;
    change->at = self->at;
    verl_script_place(state, change->place, sizeof change->place);
    int made = verl_script_apply(self, change, &revision, &first, &error);
    for (int i = 0; i < change->ways; i++)
        free(change->fragments[i]);
    if (made < 0)
        return verl_script_raise(state, &error);
    if (made == 0)
        return 0;
    lua_pushinteger(state, revision);
    lua_pushinteger(state, first);
    return 2;
}

static int
s_apply(lua_State *state)
{
    script_change_t change = { .ways = 1, .text = lua_type(state, 2) == LUA_TSTRING };
    change.fragments[0] = verl_script_fragment(state, 2);
    return s_make(state, &change);
}

// run:set("stage.update.lr", 5e-6)
static int
s_set(lua_State *state)
{
    script_change_t change = { .ways = 1 };
    const char *path = luaL_checkstring(state, 2);
    luaL_checkany(state, 3);
    if (strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != strlen(path) ||
        !strchr(path, '.'))
        return luaL_error(state, "run:set is given the key `%s`: \"stage.update.lr\" would be right", path);
    lua_newtable(state); // { v = value } as TOML, "v = …\n"
    lua_pushvalue(state, 3);
    lua_setfield(state, -2, "v");
    if (lua_istable(state, 3) && lua_rawlen(state, 3) == 0)
        return luaL_error(state, "run:set is given a table: run:apply{ … } would be right");
    verl_script_push_toml(state, -1);
    lua_pushfstring(state, "%s%s", path, lua_tostring(state, -1) + 1);
    change.fragments[0] = verl_script_fragment(state, -1);
    return s_make(state, &change);
}

static const char *
s_name(lua_State *state, const char *word)
{
    const char *name = luaL_checkstring(state, 2);
    if (!*name || strlen(name) > 200 || strpbrk(name, "\"\\\n\r\t"))
        luaL_error(state, "run:%s is given no name of a stage or an actor", word);
    return verl_inject_bare(name);
}

// The fragment { section = { name = the table at `index` } }
static char *
s_section(lua_State *state, const char *section, const char *name, int index)
{
    lua_newtable(state);
    lua_newtable(state);
    if (index)
        lua_pushvalue(state, index);
    else
        lua_newtable(state);
    lua_setfield(state, -2, name);
    lua_setfield(state, -2, section);
    verl_script_push_toml(state, -1);
    char *text = strdup(lua_tostring(state, -1));
    lua_pop(state, 2);
    return text;
}

// run:swap(name, { key = value }): a fresh incarnation. Keys may be the stage's or its actor's.
static int
s_swap(lua_State *state)
{
    script_change_t change = { .swap = s_name(state, "swap") };
    bool keys = !lua_isnoneornil(state, 3);
    if (keys) {
        luaL_checktype(state, 3, LUA_TTABLE);
        lua_settop(state, 3);
        verl_script_push_toml(state, 3); // what cannot be written is raised while nothing is held
        lua_settop(state, 3);
    }
    char *stage = keys ? s_section(state, "stage", change.swap, 3) : strdup("");
    char *actor = keys ? s_section(state, "actor", change.swap, 3) : NULL;
    if (!stage || (keys && !actor)) {
        free(stage);
        free(actor);
        return luaL_error(state, "no memory");
    }
    change.fragments[change.ways++] = stage;
    if (actor)
        change.fragments[change.ways++] = actor;
    return s_make(state, &change);
}

// The fragment of verl-inject remove. Holds nothing when it returns NULL, with why.
static char *
s_unset(const script_t *self, const char *name, verl_error_t *error)
{
    json_t *plan = verl_script_plan(self, error);
    char *text = plan && verl_inject_section(plan, name, error) ? verl_inject_unset(plan, name) : NULL;
    json_decref(plan);
    if (!text)
        verl_error_set(error, "no memory");
    return text;
}

static int
s_remove(lua_State *state)
{
    script_change_t change = { .ways = 1 };
    verl_error_t error = { "" };
    change.fragments[0] = s_unset(verl_script_of(state), s_name(state, "remove"), &error);
    return change.fragments[0] ? s_make(state, &change) : verl_script_raise(state, &error);
}

static int
s_pause_or_resume(lua_State *state, const char *word)
{
    script_t *self = verl_script_of(state);
    verl_error_t error = { "" };
    char who[128];
    snprintf(who, sizeof who, "script %s", self->name);
    json_t *answer = verl_script_ask(
        self, json_pack("{s:s, s:s, s:s}", "do", word, "name", s_name(state, word), "who", who), false, &error);
    json_decref(answer);
    return answer ? 0 : verl_script_raise(state, &error);
}

static int
s_pause(lua_State *state)
{
    return s_pause_or_resume(state, "pause");
}

static int
s_resume(lua_State *state)
{
    return s_pause_or_resume(state, "resume");
}

// ---------------------------------------------------------------------------------------------------------------
// Looking, and saying

// run:metric(name): of the last step; run:metric(name, n): the mean of the last n. nil: no such metric.
static int
s_metric(lua_State *state)
{
    const script_t *self = verl_script_of(state);
    const char *name = luaL_checkstring(state, 2);
    int64_t steps = lua_isnoneornil(state, 3) ? 1 : s_batch(state, 3, "run:metric", 1);
    double value;
    if (verl_script_mean(self, name, self->done - steps, self->done - 1, &value))
        lua_pushnumber(state, value);
    else
        lua_pushnil(state);
    return 1;
}

// The last step that is done; -1: none is.
static int
s_step(lua_State *state)
{
    lua_pushinteger(state, verl_script_of(state)->done - 1);
    return 1;
}

// run:log(…) and print(…): the arguments from `first` on, with blanks between.
static int
s_log_from(lua_State *state, int first)
{
    int count = lua_gettop(state);
    luaL_Buffer text;
    luaL_checkstack(state, 2 * count + 10, NULL);
    luaL_buffinit(state, &text);
    for (int i = first; i <= count; i++) {
        if (i > first)
            luaL_addchar(&text, ' ');
        luaL_tolstring(state, i, NULL);
        luaL_addvalue(&text);
    }
    luaL_pushresult(&text);
    verl_script_say(verl_script_of(state), lua_tostring(state, -1));
    return 0;
}

static int
s_log(lua_State *state)
{
    return s_log_from(state, 2);
}

static int
s_print(lua_State *state)
{
    return s_log_from(state, 1);
}

// ---------------------------------------------------------------------------------------------------------------
// A script

static void
s_open_words(lua_State *state)
{
    static const luaL_Reg words[] = { { "apply", s_apply },   { "set", s_set },
                                      { "swap", s_swap },     { "remove", s_remove },
                                      { "pause", s_pause },   { "resume", s_resume },
                                      { "metric", s_metric }, { "step", s_step },
                                      { "log", s_log },       { "branch", verl_script_branch },
                                      { NULL, NULL } };
    lua_newtable(state);
    luaL_setfuncs(state, words, 0);
    lua_setglobal(state, "run");
    verl_lua_register(state, "at_step", s_at_step);
    verl_lua_register(state, "when", s_when);
    verl_lua_register(state, "every", s_every);
    verl_lua_register(state, "print", s_print);
}

int
verl_script_load(lua_State *state)
{
    const script_t *self = lua_touserdata(state, 1);
    s_open_words(state);
    verl_lua_load(state, self->file);
    lua_call(state, 0, 0);
    return 0;
}
