// jinja_run.c: runs the tree of a template: statements, names, and the structure of expressions.
#include "actors/text/source.h"
#include "actors/text/jinja_impl.h"
#include "actors/text/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_LIMIT = 256 * 1024 * 1024, STEPS = 5 * 1000 * 1000, DEEPEST = 300, MOST_VARIABLES = 10000 };

static int s_body(verl_jinja_run_t *self, const verl_jinja_node_t *node);

int
verl_jinja_run_fail(verl_jinja_run_t *self, const verl_jinja_node_t *node, const char *format, ...)
{
    char what[700];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (!self->failed)
        verl_text_fail(self->error, self->error_size, "%s: line %d: %s", self->template->where, node ? node->line : 1,
                       what);
    self->failed = true;
    return -1;
}

int
verl_jinja_run_no_memory(verl_jinja_run_t *self)
{
    return verl_jinja_run_fail(self, NULL, "the template needs too much memory");
}

verl_jinja_string_t
verl_jinja_run_copy(verl_jinja_run_t *self, const char *data, size_t length)
{
    char *copy = verl_jinja_arena_take(&self->arena, length + 1);
    if (!copy)
        verl_jinja_run_no_memory(self);
    else if (length)
        memcpy(copy, data, length);
    return (verl_jinja_string_t) { copy, copy ? length : 0 };
}

verl_jinja_value_t
verl_jinja_run_list(verl_jinja_run_t *self, size_t count)
{
    verl_jinja_value_t list = { .kind = VERL_JINJA_LIST, .count = count };
    list.items = count < SIZE_MAX / 1024 ? verl_jinja_arena_take(&self->arena, (count + 1) * sizeof *list.items) : NULL;
    if (!list.items)
        verl_jinja_run_no_memory(self);
    return list;
}

static bool
s_same(verl_jinja_string_t left, verl_jinja_string_t right)
{
    return left.length == right.length && memcmp(left.data, right.data, left.length) == 0;
}

// Begins a scope, which s_leave ends with what it was given; a macro's own sees nothing of its caller's.
static verl_jinja_scope_t
s_enter(verl_jinja_run_t *self, bool macro)
{
    verl_jinja_scope_t outer = self->scope;
    if (self->scope.nested++ == 0)
        self->scope.top = self->scope.variables;
    self->scope.start = self->scope.variables;
    if (macro)
        self->scope.base = self->scope.variables;
    return outer;
}

static void
s_leave(verl_jinja_run_t *self, verl_jinja_scope_t outer)
{
    self->scope = outer;
}

static int
s_set(verl_jinja_run_t *self, verl_jinja_string_t name, verl_jinja_value_t value)
{
    for (size_t i = self->scope.variables; i-- > self->scope.start;)
        if (s_same(self->variable[i].name, name)) {
            self->variable[i].value = value;
            return 0;
        }
    if (self->scope.variables == self->variable_capacity) {
        size_t capacity = self->variable_capacity ? self->variable_capacity * 2 : 32;
        void *grown = capacity <= MOST_VARIABLES ? realloc(self->variable, capacity * sizeof *self->variable) : NULL;
        if (!grown)
            return verl_jinja_run_no_memory(self);
        self->variable = grown;
        self->variable_capacity = capacity;
    }
    self->variable[self->scope.variables].name = name;
    self->variable[self->scope.variables++].value = value;
    return 0;
}

static int
s_name(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_value_t *ret)
{
    static const char *const functions[] = { "range", "namespace", "raise_exception", "dict" };
    static const char *const refused[] = { "varargs", "kwargs" };
    for (size_t i = self->scope.variables; i-- > 0;)
        if ((i >= self->scope.base || i < self->scope.top) && s_same(self->variable[i].name, node->text)) {
            *ret = self->variable[i].value;
            return 0;
        }
    const verl_jinja_value_t *found = verl_jinja_dict_get(self->globals, node->text);
    *ret = found ? *found : (verl_jinja_value_t) { .kind = VERL_JINJA_UNDEFINED, .string = node->text };
    for (size_t i = 0; i < sizeof functions / sizeof *functions && !found; i++)
        if (verl_jinja_string_is(node->text, functions[i]))
            *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_METHOD, .string = node->text };
    for (size_t i = 0; i < sizeof refused / sizeof *refused && !found; i++)
        if (verl_jinja_string_is(node->text, refused[i]))
            return verl_jinja_run_fail(self, node, "'%s' is not supported", refused[i]);
    return 0;
}

// object.name. A name that is a method of its kind is one, also of a mapping that has such a key (as in Python).
static int
s_attribute(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *object,
            verl_jinja_string_t name, verl_jinja_value_t *ret)
{
    static const char *const methods[2][16] = {
        { "startswith", "endswith", "strip", "lstrip", "rstrip", "split", "replace", "upper", "lower", "title", "join",
          "capitalize", "find", NULL },
        { "items", "keys", "values", "get", NULL },
    };
    if (object->kind == VERL_JINJA_UNDEFINED)
        return verl_jinja_run_fail(self, node, "'%.*s' is undefined",
                                   (int) (object->string.length < 60 ? object->string.length : 60),
                                   object->string.data);
    *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_UNDEFINED, .string = name };
    int kind = object->kind == VERL_JINJA_STRING ? 0 : object->kind == VERL_JINJA_DICT ? 1 : -1;
    for (int i = 0; kind >= 0 && methods[kind][i]; i++)
        if (verl_jinja_string_is(name, methods[kind][i])) {
            verl_jinja_value_t owner = verl_jinja_run_list(self, 1);
            if (!owner.items)
                return -1;
            owner.items[0] = *object;
            *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_METHOD, .string = name, .items = owner.items };
            return 0;
        }
    const verl_jinja_value_t *found = object->kind == VERL_JINJA_DICT ? verl_jinja_dict_get(object->dict, name) : NULL;
    if (found)
        *ret = *found;
    return 0;
}

// Where each character of a string starts, with its length as the last.
static size_t *
s_characters(verl_jinja_run_t *self, verl_jinja_string_t string, size_t *ret_count)
{
    size_t *start = verl_jinja_arena_take(&self->arena, (string.length + 1) * sizeof *start), count = 0, skip;
    if (!start) {
        verl_jinja_run_no_memory(self);
        return NULL;
    }
    for (size_t at = 0; at < string.length;) {
        size_t step = verl_utf8_next((const uint8_t *) string.data + at, string.length - at, NULL, &skip);
        start[count++] = at;
        at += step ? step : skip;
    }
    start[count] = string.length;
    *ret_count = count;
    return start;
}

static int
s_index(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *object,
        const verl_jinja_value_t *index, verl_jinja_value_t *ret)
{
    *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_UNDEFINED, .string = { "an element", 10 } };
    if (index->kind == VERL_JINJA_STRING && object->kind == VERL_JINJA_DICT) {
        const verl_jinja_value_t *found = verl_jinja_dict_get(object->dict, index->string);
        *ret = found ? *found : (verl_jinja_value_t) { .kind = VERL_JINJA_UNDEFINED, .string = index->string };
        return 0;
    }
    if (object->kind == VERL_JINJA_UNDEFINED || index->kind != VERL_JINJA_INT)
        return s_attribute(self, node, object, index->kind == VERL_JINJA_STRING ? index->string : ret->string, ret);
    size_t count = object->kind == VERL_JINJA_LIST ? object->count : 0;
    size_t *start = object->kind == VERL_JINJA_STRING ? s_characters(self, object->string, &count) : NULL;
    if (self->failed)
        return -1;
    int64_t at = index->integer < 0 ? index->integer + (int64_t) count : index->integer;
    if (at < 0 || at >= (int64_t) count)
        return 0;
    *ret = start ? verl_jinja_string(object->string.data + start[at], start[at + 1] - start[at]) : object->items[at];
    return 0;
}

// One bound of a slice, as Python clamps it.
static int
s_bound(verl_jinja_run_t *self, const verl_jinja_node_t *node, int64_t otherwise, int64_t count, int64_t step,
        int64_t *ret)
{
    verl_jinja_value_t value;
    *ret = otherwise;
    if (!node)
        return 0;
    if (verl_jinja_run_value(self, node, &value))
        return -1;
    if (value.kind == VERL_JINJA_NONE)
        return 0;
    if (value.kind != VERL_JINJA_INT)
        return verl_jinja_run_fail(self, node, "the bound of a slice must be an integer");
    int64_t at = value.integer < 0 ? value.integer + count : value.integer;
    *ret = at < 0 ? (step < 0 ? -1 : 0) : at > count ? count : at;
    if (step < 0 && *ret >= count)
        *ret = count - 1;
    return 0;
}

static int
s_slice(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *object,
        verl_jinja_value_t *ret)
{
    size_t count = object->count;
    size_t *start = object->kind == VERL_JINJA_STRING ? s_characters(self, object->string, &count) : NULL;
    verl_jinja_value_t by = { .kind = VERL_JINJA_INT, .integer = 1 };
    if (!start && object->kind != VERL_JINJA_LIST)
        return verl_jinja_run_fail(self, node, "%s cannot be sliced", verl_jinja_kind_name(object));
    if (node->d && verl_jinja_run_value(self, node->d, &by))
        return -1;
    if (by.kind != VERL_JINJA_INT || by.integer == 0 || by.integer > INT32_MAX || by.integer < -INT32_MAX)
        return verl_jinja_run_fail(self, node, "the step of a slice must be an integer, and not 0");
    int64_t step = by.integer, from, to, size = (int64_t) count;
    if (s_bound(self, node->b, step > 0 ? 0 : size - 1, size, step, &from)
        || s_bound(self, node->c, step > 0 ? size : -1, size, step, &to))
        return -1;
    verl_jinja_value_t list = verl_jinja_run_list(self, count);
    verl_text_t text = { 0 };
    if (!list.items)
        return -1;
    list.count = 0;
    int rc = 0;
    for (int64_t at = from; step > 0 ? at < to : at > to; at += step) {
        if (start)
            rc = rc || verl_text_add(&text, object->string.data + start[at], start[at + 1] - start[at]);
        else
            list.items[list.count++] = object->items[at];
    }
    *ret = list;
    if (start) {
        verl_jinja_string_t copy = verl_jinja_run_copy(self, text.data, text.length);
        *ret = verl_jinja_string(copy.data, copy.length);
    }
    verl_text_done(&text);
    return rc ? verl_jinja_run_no_memory(self) : self->failed ? -1 : 0;
}

static int
s_list(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_value_t *ret)
{
    size_t count = 0;
    for (const verl_jinja_node_t *item = node->a; item; item = item->next)
        count++;
    *ret = verl_jinja_run_list(self, count);
    size_t at = 0;
    for (const verl_jinja_node_t *item = node->a; item && ret->items; item = item->next)
        if (verl_jinja_run_value(self, item->a, &ret->items[at++]))
            return -1;
    return ret->items ? 0 : -1;
}

static int
s_dict(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_value_t *ret)
{
    verl_jinja_dict_t *dict = verl_jinja_arena_take(&self->arena, sizeof *dict);
    if (!dict)
        return verl_jinja_run_no_memory(self);
    *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_DICT, .dict = dict };
    for (const verl_jinja_node_t *item = node->a; item && item->next; item = item->next->next) {
        verl_jinja_value_t key, value;
        if (verl_jinja_run_value(self, item->a, &key) || verl_jinja_run_value(self, item->next->a, &value))
            return -1;
        if (key.kind != VERL_JINJA_STRING)
            return verl_jinja_run_fail(self, node, "the key of a mapping must be a string");
        if (verl_jinja_dict_set(dict, &self->arena, key.string, value))
            return verl_jinja_run_no_memory(self);
    }
    return 0;
}

static int
s_call(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_value_t *ret)
{
    verl_jinja_value_t callee;
    if (verl_jinja_run_value(self, node->a, &callee))
        return -1;
    if (callee.kind == VERL_JINJA_MACRO)
        return verl_jinja_run_macro(self, node, callee.macro, ret);
    if (callee.kind == VERL_JINJA_METHOD)
        return verl_jinja_run_method(self, node, &callee, ret);
    verl_jinja_string_t name = node->a->text;
    return verl_jinja_run_fail(self, node, "the function '%.*s' is not supported",
                               (int) (name.length < 60 ? name.length : 60), name.data ? name.data : "");
}

// and, or, if-else: what is not needed is not evaluated.
static int
s_lazy(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_value_t *ret)
{
    if (verl_jinja_run_value(self, node->a, ret))
        return -1;
    bool holds = verl_jinja_true(ret);
    if (node->kind == NODE_CHOICE) {
        const verl_jinja_node_t *chosen = holds ? node->b : node->c;
        *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_UNDEFINED };
        return chosen ? verl_jinja_run_value(self, chosen, ret) : 0;
    }
    return holds == (node->kind == NODE_AND) ? verl_jinja_run_value(self, node->b, ret) : 0;
}

static int
s_operate(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_value_t *ret)
{
    verl_jinja_value_t left, right;
    bool holds;
    if (verl_jinja_run_value(self, node->a, &left))
        return -1;
    switch (node->kind) {
    case NODE_ATTRIBUTE: return s_attribute(self, node, &left, node->text, ret);
    case NODE_SLICE:     return s_slice(self, node, &left, ret);
    case NODE_FILTER:    return verl_jinja_run_filter(self, node, &left, ret);
    case NODE_NOT:
        *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_BOOL, .integer = !verl_jinja_true(&left) };
        return 0;
    case NODE_NEGATE:
        *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_INT, .integer = -left.integer };
        return left.kind == VERL_JINJA_INT
                   ? 0
                   : verl_jinja_run_fail(self, node, "%s has no negative", verl_jinja_kind_name(&left));
    case NODE_TEST:
        if (verl_jinja_run_test(self, node, &left, &holds))
            return -1;
        *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_BOOL, .integer = holds != (node->integer != 0) };
        return 0;
    default:
        if (verl_jinja_run_value(self, node->b, &right))
            return -1;
        return node->kind == NODE_INDEX ? s_index(self, node, &left, &right, ret)
                                        : verl_jinja_run_binary(self, node, &left, &right, ret);
    }
}

static int
s_value(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_value_t *ret)
{
    switch (node->kind) {
    case NODE_NAME: return s_name(self, node, ret);
    case NODE_STRING:
        *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_STRING, .string = node->text };
        return 0;
    case NODE_INT: case NODE_BOOL: case NODE_NONE:
        *ret = (verl_jinja_value_t){ .kind = node->kind == NODE_INT    ? VERL_JINJA_INT
                                             : node->kind == NODE_BOOL ? VERL_JINJA_BOOL
                                                                       : VERL_JINJA_NONE,
                                     .integer = node->integer };
        return 0;
    case NODE_LIST: return s_list(self, node, ret);
    case NODE_DICT: return s_dict(self, node, ret);
    case NODE_CALL: return s_call(self, node, ret);
    case NODE_AND: case NODE_OR: case NODE_CHOICE: return s_lazy(self, node, ret);
    default: return s_operate(self, node, ret);
    }
}

int
verl_jinja_run_value(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_value_t *ret)
{
    *ret = (verl_jinja_value_t) { .kind = VERL_JINJA_UNDEFINED };
    if (!node || self->failed)
        return verl_jinja_run_fail(self, node, "an expression is missing");
    if (--self->steps < 0)
        return verl_jinja_run_fail(self, node, "the template takes too long");
    if (++self->depth > DEEPEST)
        return verl_jinja_run_fail(self, node, "the template is nested too deep");
    int rc = s_value(self, node, ret);
    self->depth--;
    return rc;
}

// Runs a body with its output caught, as a string.
static int
s_capture(verl_jinja_run_t *self, const verl_jinja_node_t *body, verl_jinja_value_t *ret)
{
    verl_text_t text = { 0 }, *outer = self->out;
    self->out = &text;
    int rc = s_body(self, body);
    self->out = outer;
    verl_jinja_string_t copy = verl_jinja_run_copy(self, text.data, text.length);
    *ret = verl_jinja_string(copy.data, copy.length);
    verl_text_done(&text);
    return rc || self->failed ? -1 : 0;
}

// Runs a body in a scope of its own.
static int
s_inside(verl_jinja_run_t *self, const verl_jinja_node_t *body)
{
    verl_jinja_scope_t outer = s_enter(self, false);
    int rc = s_body(self, body);
    s_leave(self, outer);
    return rc;
}

enum { MOST_PARAMETERS = 16 };

typedef struct {
    verl_jinja_value_t value[MOST_PARAMETERS];
    bool               given[MOST_PARAMETERS];
} s_given_t;

// Evaluates one argument of a macro into the place of its parameter; *place counts those without a name.
static int
s_macro_argument(verl_jinja_run_t *self, const verl_jinja_node_t *macro, const verl_jinja_node_t *argument,
                 size_t *place, s_given_t *ret)
{
    const verl_jinja_node_t *parameter = macro->a;
    size_t index = 0;
    bool named = argument->text.length > 0;
    while (parameter && (named ? !s_same(parameter->text, argument->text) : index != *place)) {
        parameter = parameter->next;
        index++;
    }
    if (!parameter || index >= MOST_PARAMETERS || ret->given[index])
        return verl_jinja_run_fail(self, argument, "the macro '%.*s' does not take these arguments",
                                   (int) (macro->text.length < 60 ? macro->text.length : 60), macro->text.data);
    *place += !named;
    ret->given[index] = true;
    return verl_jinja_run_value(self, argument->a, &ret->value[index]);
}

// Sets the parameters of a macro in its scope; what an argument is by default may name those before it.
static int
s_set_parameters(verl_jinja_run_t *self, const verl_jinja_node_t *macro, const s_given_t *given)
{
    size_t index = 0;
    for (const verl_jinja_node_t *parameter = macro->a; parameter; parameter = parameter->next, index++) {
        if (index >= MOST_PARAMETERS)
            return verl_jinja_run_fail(self, macro, "a macro with more than %d parameters is not supported",
                                       MOST_PARAMETERS);
        verl_jinja_value_t value = { .kind = VERL_JINJA_UNDEFINED, .string = parameter->text };
        if (given->given[index])
            value = given->value[index];
        else if (parameter->a && verl_jinja_run_value(self, parameter->a, &value))
            return -1;
        if (s_set(self, parameter->text, value))
            return -1;
    }
    return 0;
}

int
verl_jinja_run_macro(verl_jinja_run_t *self, const verl_jinja_node_t *call, const verl_jinja_node_t *macro,
                     verl_jinja_value_t *ret)
{
    s_given_t given = { 0 };
    size_t place = 0;
    if (++self->depth > DEEPEST)
        return verl_jinja_run_fail(self, call, "the macros are nested too deep");
    for (const verl_jinja_node_t *argument = call->b; argument; argument = argument->next)
        if (s_macro_argument(self, macro, argument, &place, &given))
            return -1;
    verl_jinja_scope_t outer = s_enter(self, true);
    int rc = s_set_parameters(self, macro, &given) || s_capture(self, macro->b, ret);
    s_leave(self, outer);
    self->depth--;
    return rc ? -1 : 0;
}

static int
s_loop_variable(verl_jinja_run_t *self, const verl_jinja_value_t *list, size_t at)
{
    verl_jinja_dict_t *loop = verl_jinja_arena_take(&self->arena, sizeof *loop);
    const struct { const char *name; verl_jinja_kind_t kind; int64_t value;
    } members[] = {
        { "index", VERL_JINJA_INT, (int64_t) at + 1 },
        { "index0", VERL_JINJA_INT, (int64_t) at },
        { "first", VERL_JINJA_BOOL, at == 0 },
        { "last", VERL_JINJA_BOOL, at + 1 == list->count },
        { "length", VERL_JINJA_INT, (int64_t) list->count },
        { "revindex", VERL_JINJA_INT, (int64_t) (list->count - at) },
        { "revindex0", VERL_JINJA_INT, (int64_t) (list->count - at) - 1 },
        { "depth", VERL_JINJA_INT, 1 },     // of recursive loops, which there are none of
        { "depth0", VERL_JINJA_INT, 0 },
    };
    int rc = loop ? 0 : -1;
    for (size_t i = 0; i < sizeof members / sizeof *members && !rc; i++) {
        verl_jinja_value_t value = { .kind = members[i].kind, .integer = members[i].value };
        rc = verl_jinja_dict_set(loop, &self->arena, (verl_jinja_string_t){ members[i].name, strlen(members[i].name) },
                                 value);
    }
    if (!rc && at > 0)
        rc = verl_jinja_dict_set(loop, &self->arena, (verl_jinja_string_t) { "previtem", 8 }, list->items[at - 1]);
    if (!rc && at + 1 < list->count)
        rc = verl_jinja_dict_set(loop, &self->arena, (verl_jinja_string_t) { "nextitem", 8 }, list->items[at + 1]);
    if (rc)
        return verl_jinja_run_no_memory(self);
    return s_set(self, (verl_jinja_string_t){ "loop", 4 },
                 (verl_jinja_value_t){ .kind = VERL_JINJA_DICT, .dict = loop });
}

// Gives the loop's names their values, in a fresh scope.
static int
s_bind(verl_jinja_run_t *self, const verl_jinja_node_t *node, const verl_jinja_value_t *item)
{
    if (!node->more.length)
        return s_set(self, node->text, *item);
    if (item->kind != VERL_JINJA_LIST || item->count != 2)
        return verl_jinja_run_fail(self, node, "a loop over two names needs pairs");
    return s_set(self, node->text, item->items[0]) || s_set(self, node->more, item->items[1]) ? -1 : 0;
}

// What a loop goes over, as a list; those for which the condition does not hold are taken out.
static int
s_iterate(verl_jinja_run_t *self, const verl_jinja_node_t *node, verl_jinja_value_t *list)
{
    verl_jinja_value_t over;
    if (verl_jinja_run_value(self, node->a, &over))
        return -1;
    if (over.kind != VERL_JINJA_LIST && over.kind != VERL_JINJA_DICT && over.kind != VERL_JINJA_UNDEFINED)
        return verl_jinja_run_fail(self, node, "a loop cannot go over %s", verl_jinja_kind_name(&over));
    size_t count = over.kind == VERL_JINJA_DICT ? over.dict->count : over.count, kept = 0;
    *list = verl_jinja_run_list(self, count);
    for (size_t i = 0; i < count && list->items; i++) {
        verl_jinja_value_t item = over.kind == VERL_JINJA_DICT
                                      ? verl_jinja_string(over.dict->keys[i].data, over.dict->keys[i].length)
                                      : over.items[i];
        verl_jinja_value_t holds = { .kind = VERL_JINJA_BOOL, .integer = 1 };
        if (node->d) {
            verl_jinja_scope_t outer = s_enter(self, false);
            int rc = s_bind(self, node, &item) || verl_jinja_run_value(self, node->d, &holds);
            s_leave(self, outer);
            if (rc)
                return -1;
        }
        if (verl_jinja_true(&holds))
            list->items[kept++] = item;
    }
    list->count = kept;
    return list->items ? 0 : -1;
}

static int
s_for(verl_jinja_run_t *self, const verl_jinja_node_t *node)
{
    verl_jinja_value_t list = { 0 };
    if (s_iterate(self, node, &list))
        return -1;
    if (list.count == 0)
        return s_inside(self, node->c);
    int rc = 0;
    for (size_t i = 0; i < list.count && !rc; i++) {
        verl_jinja_scope_t outer = s_enter(self, false);
        rc = s_bind(self, node, &list.items[i]) || s_loop_variable(self, &list, i) || s_body(self, node->b);
        s_leave(self, outer);
        bool stop = self->flow == FLOW_BREAK;
        self->flow = FLOW_ON;
        if (stop)
            break;
    }
    return rc ? -1 : 0;
}

static int
s_assign(verl_jinja_run_t *self, const verl_jinja_node_t *node)
{
    verl_jinja_value_t value, object;
    verl_jinja_scope_t outer = self->scope;
    if (node->kind == NODE_SET_BLOCK)
        outer = s_enter(self, false);
    int rc = node->kind == NODE_SET ? verl_jinja_run_value(self, node->b, &value) : s_capture(self, node->b, &value);
    s_leave(self, outer);
    if (rc)
        return -1;
    if (node->a->kind == NODE_NAME)
        return s_set(self, node->a->text, value);
    if (node->a->kind != NODE_ATTRIBUTE || verl_jinja_run_value(self, node->a->a, &object))
        return verl_jinja_run_fail(self, node, "only a name or an attribute of a namespace can be set");
    if (object.kind != VERL_JINJA_DICT)
        return verl_jinja_run_fail(self, node, "only a namespace has attributes that can be set, %s has none",
                             verl_jinja_kind_name(&object));
    return verl_jinja_dict_set(object.dict, &self->arena, node->a->text, value) ? verl_jinja_run_no_memory(self) : 0;
}

static int
s_statement(verl_jinja_run_t *self, const verl_jinja_node_t *node)
{
    verl_jinja_value_t value;
    switch (node->kind) {
    case NODE_TEXT:
        return verl_text_add(self->out, node->text.data ? node->text.data : "", node->text.length)
                   ? verl_jinja_run_no_memory(self) : 0;
    case NODE_OUT:
        if (verl_jinja_run_value(self, node->a, &value))
            return -1;
        return verl_jinja_write(self->out, &value, false, 0) ? verl_jinja_run_no_memory(self) : 0;
    case NODE_IF:
        if (verl_jinja_run_value(self, node->a, &value))
            return -1;
        return s_body(self, verl_jinja_true(&value) ? node->b : node->c);
    case NODE_FOR:
        return s_for(self, node);
    case NODE_SET: case NODE_SET_BLOCK:
        return s_assign(self, node);
    case NODE_SCOPE:
        return s_inside(self, node->a);
    case NODE_MACRO:
        if (self->scope.nested)
            return verl_jinja_run_fail(self, node, "a macro inside a loop, a macro or a set is not supported");
        return s_set(self, node->text, (verl_jinja_value_t) { .kind = VERL_JINJA_MACRO, .macro = node });
    default:
        self->flow = node->kind == NODE_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
        return 0;
    }
}

static int
s_body(verl_jinja_run_t *self, const verl_jinja_node_t *node)
{
    if (++self->depth > DEEPEST)
        return verl_jinja_run_fail(self, node, "the template is nested too deep");
    for (; node && self->flow == FLOW_ON; node = node->next) {
        if (--self->steps < 0)
            return verl_jinja_run_fail(self, node, "the template takes too long");
        if (s_statement(self, node))
            return -1;
    }
    self->depth--;
    return 0;
}

int
verl_jinja_run(const verl_jinja_t *self, const verl_jinja_dict_t *variables, verl_text_t *out, char *error,
                  size_t error_size)
{
    verl_jinja_run_t run = { .template = self,
                             .globals = variables,
                             .arena.limit = ARENA_LIMIT,
                             .steps = STEPS,
                             .out = out,
                             .error = error,
                             .error_size = error_size };
    size_t before = out->length;
    int rc = s_body(&run, self->body);
    if (rc)
        out->length = before;
    verl_jinja_arena_done(&run.arena);
    free(run.variable);
    return rc ? -1 : 0;
}
