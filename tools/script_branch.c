// script_branch.c: run:branch(change, n, f): a change for n steps, which is then taken back.
//
// The permit of the first batch behind the branch is held from the start, so that it has exactly n batches. What
// takes it back was worked out before it began, from the topology that was in force.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/toml.h"
#include "tools/script_impl.h"
#include "tools/script_inverse.h"

// [run] steps of a topology; INT64_MAX where it says none.
static int64_t
s_steps(const char *topology)
{
    verl_pool_t pool = { 0 };
    verl_toml_error_t ignored;
    const verl_node_t *root = verl_toml_parse(topology, strlen(topology), &pool, &ignored);
    const verl_node_t *steps = verl_node_get(verl_node_get(root, "run"), "steps");
    int64_t count = steps && steps->type == VERL_NODE_INT ? steps->integer : INT64_MAX;
    verl_pool_done(&pool);
    return count;
}

int
verl_script_let_go(script_t *self, int64_t batch, verl_error_t *error)
{
    for (const script_moment_t *moment = self->moments; moment; moment = moment->next)
        if (moment->batch == batch)
            return 0;
    for (const script_branch_t *branch = self->branches; branch; branch = branch->next)
        if (!branch->over && branch->until == batch)
            return 0;
    return verl_script_release(self, batch, error);
}

// ---------------------------------------------------------------------------------------------------------------
// Beginning

static void
s_free(script_branch_t *branch)
{
    if (branch)
        free(branch->inverse);
    free(branch);
}

// What a branch needs to know before it begins. NULL with why.
static script_branch_t *
s_prepare(script_t *self, const char *fragment, const char *place, verl_error_t *error)
{
    script_branch_t *branch = calloc(1, sizeof *branch);
    char *topology = branch ? verl_script_topology(self, error) : NULL;
    if (topology) {
        branch->inverse = verl_script_inverse(topology, fragment, error);
        branch->steps = s_steps(topology);
        snprintf(branch->place, sizeof branch->place, "%s", place);
        branch->function = LUA_NOREF;
    } else if (!branch)
        verl_error_set(error, "no memory for a branch");
    free(topology);
    if (branch && branch->inverse)
        return branch;
    s_free(branch);
    return NULL;
}

// Applies the change at the held batch `at`, with the batch behind it held too. 0; 1: a signal came before the answer,
// so that it may be in force and is to be taken back; -1.
static int
s_begin(script_t *self, script_branch_t *branch, char *fragment, int64_t at, int64_t count, verl_error_t *error)
{
    script_change_t change = { .ways = 1, .fragments = { fragment }, .at = at };
    verl_error_t ignored = { "" };
    snprintf(change.place, sizeof change.place, "%s", branch->place);
    branch->until = at + count;
    if (verl_script_hold(self, branch->until, error) != 0)
        return -1;
    verl_script_guard_begin(self, branch);
    int made = verl_script_apply(self, &change, &branch->revision, &branch->first, error);
    if (made > 0)
        return 0;
    if (made < 0 && change.asked && self->interrupted && !self->ended)
        return 1;
    verl_script_guard_over(self, branch);
    verl_script_let_go(self, branch->until, &ignored);
    return verl_error_set(error, "the branch would change nothing");
}

// NULL with why: it did not begin, or is among the branches and the script is to end.
static script_branch_t *
s_branch(script_t *self, char *fragment, int64_t count, const char *place, verl_error_t *error)
{
    verl_error_t ignored = { "" };
    script_branch_t *branch = s_prepare(self, fragment, place, error);
    int64_t at = !branch ? -1 : self->at >= 0 ? self->at : verl_script_hold_next(self, error);
    int rc = at >= 0 ? s_begin(self, branch, fragment, at, count, error) : -1;
    if (rc >= 0) {
        branch->next = self->branches;
        self->branches = branch;
    } else
        s_free(branch);
    if (at >= 0 && self->at < 0 && verl_script_let_go(self, at, rc == 0 ? error : &ignored) != 0)
        rc = rc == 0 ? 1 : rc;
    return rc == 0 ? branch : NULL;
}

int
verl_script_branch(lua_State *state)
{
    script_t *self = verl_script_of(state);
    verl_error_t error = { "" };
    char place[96];
    lua_Integer count = luaL_checkinteger(state, 3);
    if (count < 1 || count > INT64_C(1000000000))
        return luaL_error(state, "run:branch is given %I steps: 1 or more would be right", count);
    lua_settop(state, 4);
    if (!lua_isnil(state, 4))
        luaL_checktype(state, 4, LUA_TFUNCTION);
    int function = lua_isnil(state, 4) ? LUA_NOREF : luaL_ref(state, LUA_REGISTRYINDEX);
    verl_script_place(state, place, sizeof place);
    char *fragment = verl_script_fragment(state, 2);
    script_branch_t *branch = s_branch(self, fragment, count, place, &error);
    free(fragment);
    if (!branch)
        return verl_script_raise(state, &error);
    branch->function = function;
    lua_pushinteger(state, branch->revision);
    lua_pushinteger(state, branch->first);
    return 2;
}

// ---------------------------------------------------------------------------------------------------------------
// Ending

// at -1: as soon as it can be.
static int
s_take_back(script_t *self, const script_branch_t *branch, int64_t at, verl_error_t *error)
{
    script_change_t change = { .ways = 1, .fragments = { branch->inverse }, .at = at };
    int64_t revision, first;
    verl_error_t why = { "" };
    snprintf(change.place, sizeof change.place, "%s (taken back)", branch->place);
    if (verl_script_apply(self, &change, &revision, &first, &why) >= 0)
        return 0;
    return verl_error_set(error, "the branch made at %s is not taken back: %s", branch->place, why.text);
}

static void
s_push_result(lua_State *state, void *argument)
{
    const script_branch_t *branch = argument;
    const script_t *self = verl_script_of(state);
    int64_t count = branch->until - branch->first, oldest = verl_script_oldest(self);
    int64_t before = branch->first - count > oldest ? branch->first - count : oldest;
    lua_newtable(state);
    lua_pushinteger(state, branch->first);
    lua_setfield(state, -2, "first");
    lua_pushinteger(state, branch->until - 1);
    lua_setfield(state, -2, "last");
    lua_pushinteger(state, count);
    lua_setfield(state, -2, "steps");
    lua_pushinteger(state, branch->revision);
    lua_setfield(state, -2, "revision");
    verl_script_push_means(state, self, branch->first, branch->until - 1);
    lua_setfield(state, -2, "metrics");
    verl_script_push_means(state, self, before, branch->first - 1);
    lua_setfield(state, -2, "before");
    lua_pushinteger(state, branch->first > before ? branch->first - before : 0);
    lua_setfield(state, -2, "before_steps");
}

script_branch_t *
verl_script_branch_due(script_t *self)
{
    script_branch_t *due = NULL;
    for (script_branch_t *branch = self->branches; branch; branch = branch->next)
        if (!branch->over && branch->until <= self->done && (!due || branch->until < due->until))
            due = branch;
    return due;
}

int
verl_script_branch_end(script_t *self, script_branch_t *branch, verl_error_t *error)
{
    verl_error_t why = { "" };
    int rc = s_take_back(self, branch, branch->until, &why);
    branch->over = true;
    verl_script_guard_over(self, branch);
    if (rc != 0 && branch->until < branch->steps && !self->ended) // else the run ended with it
        return verl_error_set(error, "%s", why.text);
    if (rc != 0 && branch->steps == 0) // of an earlier life, which ended before it began
        verl_script_say(self, why.text);
    self->at = rc == 0 ? branch->until : -1;
    rc = branch->function == LUA_NOREF ? 0 : verl_script_call(self, branch->function, s_push_result, branch, error);
    self->at = -1;
    return verl_script_let_go(self, branch->until, rc == 0 ? error : &why) == 0 || self->ended ? rc : -1;
}

void
verl_script_take_all_back(script_t *self)
{
    while (self->branches) {
        script_branch_t *branch = self->branches;
        verl_error_t error = { "" };
        char text[1400];
        if (!branch->over && !self->ended) {
            if (s_take_back(self, branch, -1, &error) == 0)
                snprintf(text, sizeof text, "the branch made at %s is taken back", branch->place);
            else
                snprintf(text, sizeof text, "%s", error.text);
            verl_script_guard_over(self, branch);
            verl_script_say(self, text);
        }
        self->branches = branch->next;
        s_free(branch);
    }
}
