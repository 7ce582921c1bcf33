// script_history.c: the metrics of the last steps, as a script asks for them.
#include <lauxlib.h>
#include <string.h>
#include "tools/script_impl.h"

void
verl_script_remember(script_t *self, const json_t *line)
{
    int64_t step = json_integer_value(json_object_get(line, "step"));
    int slot = (int) (step % SCRIPT_HISTORY);
    if (step < 0)
        return;
    json_decref(self->history[slot]);
    self->history[slot] = json_incref((json_t *) line);
    self->done = step + 1;
    if (self->history_count < SCRIPT_HISTORY)
        self->history_count++;
}

int64_t
verl_script_oldest(const script_t *self)
{
    return self->done - self->history_count;
}

// A number, or a truth as one.
static bool
s_number(const json_t *value, double *ret_value)
{
    *ret_value = json_is_true(value) ? 1 : json_number_value(value);
    return json_is_number(value) || json_is_boolean(value);
}

static const json_t *
s_line(const script_t *self, int64_t step)
{
    if (step < verl_script_oldest(self) || step >= self->done || step < 0)
        return NULL;
    const json_t *line = self->history[step % SCRIPT_HISTORY];
    return json_integer_value(json_object_get(line, "step")) == step ? line : NULL;
}

bool
verl_script_metric(void *script, const char *name, double *ret_value)
{
    const script_t *self = script;
    return s_number(json_object_get(s_line(self, self->done - 1), name), ret_value);
}

bool
verl_script_mean(const script_t *self, const char *name, int64_t first, int64_t last, double *ret_value)
{
    double sum = 0, value;
    int64_t count = 0, oldest = verl_script_oldest(self);
    for (int64_t step = first < oldest ? oldest : first; step <= last; step++)
        if (s_number(json_object_get(s_line(self, step), name), &value)) {
            sum += value;
            count++;
        }
    *ret_value = count ? sum / (double) count : 0;
    return count > 0;
}

void
verl_script_push_means(lua_State *state, const script_t *self, int64_t first, int64_t last)
{
    int64_t oldest = verl_script_oldest(self);
    lua_newtable(state);
    for (int64_t step = first < oldest ? oldest : first; step <= last; step++) {
        const char *name;
        json_t *value;
        json_object_foreach((json_t *) s_line(self, step), name, value)
        {
            double mean;
            lua_pushstring(state, name);
            if (strcmp(name, "step") != 0 && lua_rawget(state, -2) == LUA_TNIL &&
                verl_script_mean(self, name, first, last, &mean)) {
                lua_pushstring(state, name);
                lua_pushnumber(state, mean);
                lua_rawset(state, -4);
            }
            lua_pop(state, 1);
        }
    }
}
