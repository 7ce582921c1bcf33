// kind_check.c: is a kind whole? Looked at once, when it is registered, so that nothing behind has to ask again.
#include <string.h>
#include "runtime/topology/grammar.h"
#include "runtime/topology/keys.h"
#include "runtime/topology/kinds.h"
#include "runtime/topology/options.h"

typedef struct check {
    const verl_kind_t *kind;
    verl_error_t *error;
    verl_pool_t pool;
    int rc;
} check_t;

static bool
s_reserved(const char *name)
{
    return verl_option_find(verl_actor_table, name) || verl_option_find(verl_stage_table, name);
}

static int
s_check_option(check_t *self, const verl_option_t *option, size_t size, const char *where)
{
    const char *kind = self->kind->name, *name = option->name;
    if ((unsigned) option->type > VERL_OPTION_COMMAND)
        return verl_error_set(self->error, "kind `%s`: option `%s` has a type that is not known", kind, name);
    if (s_reserved(name))
        return verl_error_set(self->error,
                              "kind `%s`: `%s` is a key of every actor or stage: another name for the option "
                              "would be right",
                              kind, name);
    if (option->offset + verl_option_bytes(option->type) > size)
        return verl_error_set(self->error, "kind `%s`: option `%s` lies outside of the %zu bytes of its %s", kind, name,
                              size, where);
    if (option->type == VERL_OPTION_CHOICE && (!option->choices || !*option->choices))
        return verl_error_set(self->error, "kind `%s`: option `%s` has nothing to choose from", kind, name);
    verl_option_fault_t fault;
    verl_value_t value;
    if (verl_option_default(option, &self->pool, NULL, &value, &fault) < 0)
        return verl_error_set(self->error, "kind `%s`: the default of option `%s` %.600s", kind, name,
                              fault.error.text);
    return 0;
}

static int
s_check_options(check_t *self, const verl_option_t *table, size_t size, const char *where)
{
    for (int i = 0; table && table[i].name; i++) {
        if (i == VERL_OPTIONS_MAX)
            return verl_error_set(self->error, "kind `%s`: an option table without VERL_OPTIONS_END", self->kind->name);
        if (s_check_option(self, &table[i], size, where) != 0)
            return -1;
        if (verl_option_find(table, table[i].name) != &table[i])
            return verl_error_set(self->error, "kind `%s`: option `%s` stands twice in a table", self->kind->name,
                                  table[i].name);
    }
    return 0;
}

static int
s_check_condition(check_t *self, const verl_stage_kind_t *stage, const verl_condition_t *condition)
{
    if (condition->comparison == VERL_ALWAYS || verl_option_find(stage->options, condition->option) ||
        verl_option_find(self->kind->options, condition->option))
        return 0;
    return verl_error_set(self->error, "kind `%s`: a column of `%s` depends on the option `%s`, which is in no table",
                          self->kind->name, stage->name, condition->option);
}

static int
s_check_need(check_t *self, const verl_stage_kind_t *stage, const char *text)
{
    verl_error_t why = { "" };
    verl_need_text_t need;
    if (verl_need_parse(text, &self->pool, &need, &why) != 0)
        return verl_error_set(self->error, "kind `%s`, stage `%s`: %.700s", self->kind->name, stage->name, why.text);
    const verl_option_t *option = need.listed ? verl_option_find(stage->options, need.name) : NULL;
    if (need.listed && !option)
        option = verl_option_find(self->kind->options, need.name);
    bool lists = option && (option->type == VERL_OPTION_STRINGS || option->type == VERL_OPTION_WEIGHTS);
    if (need.listed && !lists)
        return verl_error_set(self->error, "kind `%s`, stage `%s`: '%.100s' names no option that lists columns",
                              self->kind->name, stage->name, text);
    return s_check_condition(self, stage, &need.condition);
}

static int
s_check_columns(check_t *self, const verl_stage_kind_t *stage)
{
    for (int i = 0; i < VERL_MAX_COLUMNS && stage->needs[i]; i++)
        if (s_check_need(self, stage, stage->needs[i]) != 0)
            return -1;
    for (int i = 0; i < VERL_MAX_COLUMNS && stage->gives[i]; i++) {
        verl_error_t why = { "" };
        verl_give_text_t give;
        if (verl_give_parse(stage->gives[i], &self->pool, &give, &why) != 0)
            return verl_error_set(self->error, "kind `%s`, stage `%s`: %.700s", self->kind->name, stage->name,
                                  why.text);
        if (s_check_condition(self, stage, &give.condition) != 0)
            return -1;
    }
    return 0;
}

static int
s_check_stage(check_t *self, const verl_stage_kind_t *stage)
{
    if (!stage->handler)
        return verl_error_set(self->error, "kind `%s`: stage `%s` has no handler", self->kind->name, stage->name);
    if (verl_stage_kind_find(self->kind, stage->name) != stage)
        return verl_error_set(self->error, "kind `%s`: two stages are called `%s`", self->kind->name, stage->name);
    size_t bytes = verl_options_bytes(stage->options, stage->options_size);
    if (s_check_options(self, stage->options, bytes, "options_size") != 0)
        return -1;
    return s_check_columns(self, stage);
}

static void
s_check(void *argument)
{
    check_t *self = argument;
    const verl_kind_t *kind = self->kind;
    if (!kind->name || !*kind->name) {
        self->rc = verl_error_set(self->error, "a kind without a name: VERL_KIND gives it one");
        return;
    }
    if (verl_stage_kind_count(kind) == 0)
        self->rc = verl_error_set(self->error, "kind `%s` has no stage: one at least would be right", kind->name);
    if (self->rc == 0)
        self->rc = s_check_options(self, kind->options, verl_options_bytes(kind->options, kind->state_size), "state_size");
    for (int i = 0; i < verl_stage_kind_count(kind) && self->rc == 0; i++)
        self->rc = s_check_stage(self, &kind->stages[i]);
}

int
verl_kind_check(const verl_kind_t *kind, verl_error_t *error)
{
    check_t self = { .kind = kind, .error = error };
    if (!verl_pool_run(&self.pool, s_check, &self))
        self.rc = verl_error_set(error, "no memory to check a kind");
    verl_pool_done(&self.pool);
    return self.rc;
}
