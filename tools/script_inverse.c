// script_inverse.c: see script_inverse.h. Works on two trees of TOML, in a pool that is freed at once.
#include "tools/script_inverse.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/toml.h"
#include "runtime/topology/value.h"

typedef struct {
    const char *topology, *fragment;
    verl_pool_t pool;
    verl_error_t *error;
    verl_node_t *before, *change;
    verl_node_t *unset; // an array of paths
    verl_node_t *back;  // what is set again
} s_inverse_t;

static verl_node_t *
s_parse(s_inverse_t *self, const char *text, const char *what)
{
    verl_toml_error_t why;
    verl_node_t *root = verl_toml_parse(text, strlen(text), &self->pool, &why);
    if (!root)
        verl_error_set(self->error, "%s is no TOML: line %d: %s", what, why.line, why.text);
    return root;
}

// The table under a key, made where there is none.
static verl_node_t *
s_table(s_inverse_t *self, verl_node_t *in, const char *key)
{
    verl_node_t *table = verl_node_get(in, key);
    if (!table) {
        table = verl_node_table(&self->pool);
        verl_node_put(&self->pool, in, verl_pool_copy(&self->pool, key), table);
    }
    return table;
}

static void
s_unset(s_inverse_t *self, const char *section, const char *name, const char *key)
{
    verl_node_t *path = verl_pool_alloc(&self->pool, sizeof *path);
    path->type = VERL_NODE_STRING;
    path->string = verl_pool_print(&self->pool, "%s.%s%s%s", section, name, key ? "." : "", key ? key : "");
    self->unset->items = verl_pool_grow(&self->pool, self->unset->items, self->unset->count, sizeof path);
    self->unset->items[self->unset->count++] = path;
}

static void
s_set(s_inverse_t *self, const char *section, const char *name, const char *key, verl_node_t *value)
{
    verl_node_t *table = s_table(self, self->back, section);
    if (name)
        table = s_table(self, table, name);
    verl_node_put(&self->pool, table, verl_pool_copy(&self->pool, key), value);
}

static verl_node_t *
s_before(const s_inverse_t *self, const char *section, const char *name)
{
    return verl_node_get(verl_node_get(self->before, section), name);
}

// The actor that a stage runs in, as the topology before has it; NULL: the one of its own name.
static const char *
s_actor_of(const s_inverse_t *self, const char *stage)
{
    const verl_node_t *actor = verl_node_get(s_before(self, "stage", stage), "actor");
    return actor && actor->type == VERL_NODE_STRING ? actor->string : stage;
}

// The value that a key had: in its own table, and of a stage also in that of its actor, where options of state may
// stand in either.
static verl_node_t *
s_value(const s_inverse_t *self, const char *section, const char *name, const char *key)
{
    verl_node_t *value = verl_node_get(s_before(self, section, name), key);
    if (!value && strcmp(section, "stage") == 0)
        value = verl_node_get(s_before(self, "actor", s_actor_of(self, name)), key);
    return value;
}

// One [actor.NAME] or [stage.NAME] of the change.
static void
s_take_back(s_inverse_t *self, const char *section, const char *name, const verl_node_t *keys)
{
    if (!s_before(self, section, name) && !(strcmp(section, "actor") == 0 && s_before(self, "stage", name))) {
        s_unset(self, section, name, NULL);
        return;
    }
    for (int i = 0; i < keys->count; i++) {
        verl_node_t *value = s_value(self, section, name, keys->keys[i]);
        if (value)
            s_set(self, section, name, keys->keys[i], value);
        else
            s_unset(self, section, name, keys->keys[i]);
    }
}

static void
s_take_back_section(s_inverse_t *self, const char *section)
{
    const verl_node_t *names = verl_node_get(self->change, section);
    for (int i = 0; names && names->type == VERL_NODE_TABLE && i < names->count; i++)
        if (names->items[i]->type == VERL_NODE_TABLE)
            s_take_back(self, section, names->keys[i], names->items[i]);
}

static void
s_take_back_plain(s_inverse_t *self, const char *section)
{
    const verl_node_t *keys = verl_node_get(self->change, section);
    for (int i = 0; keys && keys->type == VERL_NODE_TABLE && i < keys->count; i++) {
        verl_node_t *value = verl_node_get(verl_node_get(self->before, section), keys->keys[i]);
        if (value)
            s_set(self, section, NULL, keys->keys[i], value);
        else
            s_unset(self, section, keys->keys[i], NULL);
    }
}

// ---------------------------------------------------------------------------------------------------------------
// What the change took away

// The next name in "stage.y.key"; false at its end.
static bool
s_next_part(s_inverse_t *self, const char **at, const char **ret_key)
{
    size_t length = strcspn(*at, ".");
    *ret_key = verl_pool_copy_n(&self->pool, *at, length);
    bool more = **at != '\0';
    *at += length + ((*at)[length] == '.');
    return more;
}

static void
s_bring_table(s_inverse_t *self, const char *section, const char *name)
{
    const verl_node_t *table = s_before(self, section, name);
    for (int i = 0; table && table->type == VERL_NODE_TABLE && i < table->count; i++)
        s_set(self, section, name, table->keys[i], table->items[i]);
}

static void
s_bring_back(s_inverse_t *self, const char *path)
{
    const char *at = path, *section = "", *name = "", *key = "";
    if (!s_next_part(self, &at, &section) || !s_next_part(self, &at, &name))
        return;
    if (s_next_part(self, &at, &key)) {
        verl_node_t *value = s_value(self, section, name, key);
        if (value)
            s_set(self, section, name, key, value);
        return;
    }
    s_bring_table(self, section, name);
    // a stage's own actor went with it
    if (strcmp(section, "stage") == 0 && strcmp(s_actor_of(self, name), name) == 0)
        s_bring_table(self, "actor", name);
}

static void
s_bring_all_back(s_inverse_t *self)
{
    const verl_node_t *paths = verl_node_get(self->change, "unset");
    for (int i = 0; paths && paths->type == VERL_NODE_ARRAY && i < paths->count; i++)
        if (paths->items[i]->type == VERL_NODE_STRING)
            s_bring_back(self, paths->items[i]->string);
}

// ---------------------------------------------------------------------------------------------------------------
// Writing

static void
s_print_pairs(s_inverse_t *self, FILE *out, const verl_node_t *table)
{
    for (int i = 0; i < table->count; i++) {
        verl_value_t value = verl_value_from_node(&self->pool, table->items[i]);
        verl_value_print_key(out, table->keys[i]);
        fputs(" = ", out);
        verl_value_print(out, &value);
        fputc('\n', out);
    }
}

static void
s_print(s_inverse_t *self, FILE *out)
{
    if (self->unset->count > 0) {
        verl_value_t paths = verl_value_from_node(&self->pool, self->unset);
        fputs("unset = ", out);
        verl_value_print(out, &paths);
        fputc('\n', out);
    }
    for (int i = 0; i < self->back->count; i++) {
        const char *section = self->back->keys[i];
        const verl_node_t *table = self->back->items[i];
        bool named = strcmp(section, "actor") == 0 || strcmp(section, "stage") == 0;
        if (!named)
            fprintf(out, "[%s]\n", section);
        if (!named)
            s_print_pairs(self, out, table);
        for (int k = 0; named && k < table->count; k++) {
            fprintf(out, "[%s.", section);
            verl_value_print_key(out, table->keys[k]);
            fputs("]\n", out);
            s_print_pairs(self, out, table->items[k]);
        }
    }
}

static void
s_work(void *argument)
{
    s_inverse_t *self = argument;
    self->before = s_parse(self, self->topology, "the topology of the run");
    self->change = self->before ? s_parse(self, self->fragment, "the change") : NULL;
    if (!self->change)
        return;
    self->unset = verl_pool_alloc(&self->pool, sizeof *self->unset);
    self->unset->type = VERL_NODE_ARRAY;
    self->back = verl_node_table(&self->pool);
    s_take_back_plain(self, "run");
    s_take_back_plain(self, "mesh");
    s_take_back_section(self, "actor");
    s_take_back_section(self, "stage");
    s_bring_all_back(self);
}

typedef struct {
    s_inverse_t *inverse;
    FILE *out;
} s_printing_t;

static void
s_print_work(void *argument)
{
    s_printing_t *printing = argument;
    s_print(printing->inverse, printing->out);
}

char *
verl_script_inverse(const char *topology, const char *fragment, verl_error_t *error)
{
    s_inverse_t self = { .topology = topology, .fragment = fragment, .error = error };
    char *text = NULL;
    size_t size;
    verl_error_t none = { "" };
    self.error = &none;
    bool done = verl_pool_run(&self.pool, s_work, &self);
    if (done && self.back) {
        s_printing_t printing = { &self, open_memstream(&text, &size) };
        done = printing.out && verl_pool_run(&self.pool, s_print_work, &printing);
        done = printing.out && fclose(printing.out) == 0 && done;
    }
    verl_pool_done(&self.pool);
    if (done && text)
        return text;
    free(text);
    verl_error_set(error, "%s", none.text[0] ? none.text : "no memory to work out how a change is taken back");
    return NULL;
}
