// jinja_parse.c: from lexemes to a tree, by recursive descent.
#include "actors/text/source.h"
#include "actors/text/jinja_impl.h"
#include <stdlib.h>
#include <string.h>

enum { ARENA_LIMIT = 64 * 1024 * 1024, DEEPEST = 200 };

typedef struct {
    verl_jinja_arena_t  *arena;
    verl_jinja_lexeme_t *at;
    int            depth;
    const char    *where;
    char          *error;
    size_t         error_size;
    bool           failed;
} s_parser_t;

static verl_jinja_node_t *s_expression(s_parser_t *self);
static verl_jinja_node_t *s_unary(s_parser_t *self);
static verl_jinja_node_t *s_body(s_parser_t *self);

// The first failure stays; NULL, so that a failing path is one line.
static void *
s_fail(s_parser_t *self, const char *what)
{
    if (!self->failed) {
        verl_jinja_string_t text = self->at->text;
        verl_text_fail(self->error, self->error_size, "%s: line %d: %s%s%.*s%s", self->where, self->at->line, what,
                       text.length ? " at '" : "", (int) (text.length < 40 ? text.length : 40), text.data,
                       text.length ? "'" : "");
    }
    self->failed = true;
    return NULL;
}

static verl_jinja_node_t *
s_node(s_parser_t *self, verl_jinja_node_kind_t kind, verl_jinja_node_t *a, verl_jinja_node_t *b)
{
    verl_jinja_node_t *node = self->failed ? NULL : verl_jinja_arena_take(self->arena, sizeof *node);
    if (!node)
        return s_fail(self, "not enough memory for the template");
    node->kind = kind;
    node->line = self->at->line;
    node->a = a;
    node->b = b;
    return node;
}

static bool
s_is(const s_parser_t *self, verl_jinja_lexeme_kind_t kind, const char *text)
{
    return self->at->kind == kind && verl_jinja_string_is(self->at->text, text);
}

// Takes the lexeme where it is this one.
static bool
s_take(s_parser_t *self, verl_jinja_lexeme_kind_t kind, const char *text)
{
    bool is = s_is(self, kind, text);
    self->at += is;
    return is;
}

static bool
s_take_operator(s_parser_t *self, const char *text)
{
    return s_take(self, TOKEN_OPERATOR, text);
}

// The same, and it must be there. The ends of tags have no text.
static bool
s_expect(s_parser_t *self, verl_jinja_lexeme_kind_t kind, const char *text, const char *missing)
{
    if (!self->failed && s_take(self, kind, text))
        return true;
    s_fail(self, missing);
    return false;
}

// Arguments up to `close`: values, some with names.
static verl_jinja_node_t *
s_arguments(s_parser_t *self, const char *close)
{
    verl_jinja_node_t *first = NULL, **last = &first;
    while (!self->failed && !s_take_operator(self, close)) {
        if (first && !s_expect(self, TOKEN_OPERATOR, ",", "a comma is missing"))
            break;
        if (s_take_operator(self, close))
            break;
        verl_jinja_node_t *argument = s_node(self, NODE_ARGUMENT, NULL, NULL);
        if (!argument)
            break;
        if (self->at->kind == TOKEN_NAME && self->at[1].kind == TOKEN_OPERATOR &&
            verl_jinja_string_is(self->at[1].text, "=")) {
            argument->text = self->at->text;
            self->at += 2;
        }
        argument->a = s_expression(self);
        *last = argument;
        last = &argument->next;
    }
    return first;
}

// {key: value, …}; the brace is taken.
static verl_jinja_node_t *
s_dict(s_parser_t *self)
{
    verl_jinja_node_t *dict = s_node(self, NODE_DICT, NULL, NULL), **last = dict ? &dict->a : NULL;
    while (last && !self->failed && !s_take_operator(self, "}")) {
        if (dict->a && !s_expect(self, TOKEN_OPERATOR, ",", "a comma is missing"))
            break;
        if (s_take_operator(self, "}"))
            break;
        for (int part = 0; part < 2 && !self->failed; part++) {
            verl_jinja_node_t *argument = s_node(self, NODE_ARGUMENT, s_expression(self), NULL);
            if (!argument || (part == 0 && !s_expect(self, TOKEN_OPERATOR, ":", "a colon is missing")))
                break;
            *last = argument;
            last = &argument->next;
        }
    }
    return dict;
}

static verl_jinja_node_t *
s_word(s_parser_t *self)
{
    static const struct { const char *text; verl_jinja_node_kind_t kind; int64_t value; } words[] = {
        { "true", NODE_BOOL, 1 }, { "True", NODE_BOOL, 1 }, { "false", NODE_BOOL, 0 }, { "False", NODE_BOOL, 0 },
        { "none", NODE_NONE, 0 }, { "None", NODE_NONE, 0 },
    };
    verl_jinja_node_t *node = s_node(self, NODE_NAME, NULL, NULL);
    if (!node)
        return NULL;
    node->text = self->at->text;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (verl_jinja_string_is(node->text, words[i].text)) {
            node->kind = words[i].kind;
            node->integer = words[i].value;
        }
    self->at++;
    return node;
}

// Strings that stand side by side are one.
static verl_jinja_node_t *
s_literal(s_parser_t *self)
{
    verl_jinja_node_t *node = s_node(self, NODE_STRING, NULL, NULL);
    if (!node)
        return NULL;
    node->text = self->at++->text;
    while (self->at->kind == TOKEN_STRING) {
        verl_jinja_string_t more = self->at++->text;
        char *both = verl_jinja_arena_take(self->arena, node->text.length + more.length + 1);
        if (!both)
            return s_fail(self, "not enough memory for the template");
        memcpy(both, node->text.data, node->text.length);
        memcpy(both + node->text.length, more.data, more.length);
        node->text = (verl_jinja_string_t) { both, node->text.length + more.length };
    }
    return node;
}

static verl_jinja_node_t *
s_primary(s_parser_t *self)
{
    if (self->at->kind == TOKEN_NAME)
        return s_word(self);
    if (self->at->kind == TOKEN_STRING)
        return s_literal(self);
    if (self->at->kind == TOKEN_INT) {
        verl_jinja_node_t *node = s_node(self, NODE_INT, NULL, NULL);
        if (node)
            node->integer = self->at++->integer;
        return node;
    }
    if (s_take_operator(self, "[")) {
        verl_jinja_node_t *node = s_node(self, NODE_LIST, NULL, NULL);
        verl_jinja_node_t *items = s_arguments(self, "]");
        if (node)
            node->a = items;
        return node;
    }
    if (s_take_operator(self, "{"))
        return s_dict(self);
    if (!s_take_operator(self, "("))
        return s_fail(self, "a value is missing");
    verl_jinja_node_t *inner = s_expression(self);
    if (s_is(self, TOKEN_OPERATOR, ","))
        return s_fail(self, "tuples are not supported");
    return s_expect(self, TOKEN_OPERATOR, ")", "a parenthesis is missing") ? inner : NULL;
}

// [index] or [from:to:step]; the bracket is taken.
static verl_jinja_node_t *
s_subscript(s_parser_t *self, verl_jinja_node_t *object)
{
    verl_jinja_node_t *part[3] = { NULL, NULL, NULL };
    int colons = 0;
    while (!self->failed && !s_take_operator(self, "]")) {
        if (s_take_operator(self, ":")) {
            if (++colons > 2)
                return s_fail(self, "a slice has at most two colons");
        } else if (part[colons]) {
            return s_fail(self, "a bracket is missing");
        } else {
            part[colons] = s_expression(self);
        }
    }
    if (!colons && !part[0])
        return s_fail(self, "an index is missing");
    verl_jinja_node_t *node = s_node(self, colons ? NODE_SLICE : NODE_INDEX, object, part[0]);
    if (node) {
        node->c = part[1];
        node->d = part[2];
    }
    return node;
}

static verl_jinja_node_t *
s_postfix(s_parser_t *self, verl_jinja_node_t *node)
{
    while (!self->failed) {
        if (s_take_operator(self, ".")) {
            node = s_node(self, NODE_ATTRIBUTE, node, NULL);
            if (!node || self->at->kind != TOKEN_NAME)
                return s_fail(self, "a name is missing behind the point");
            node->text = self->at++->text;
        } else if (s_take_operator(self, "[")) {
            node = s_subscript(self, node);
        } else if (s_take_operator(self, "(")) {
            verl_jinja_node_t *arguments = s_arguments(self, ")");
            node = s_node(self, NODE_CALL, node, arguments);
        } else {
            return node;
        }
    }
    return NULL;
}

// A test: `x is defined`, `x is not none`, `x is divisibleby 3`, `x is in [1, 2]`.
static verl_jinja_node_t *
s_test(s_parser_t *self, verl_jinja_node_t *value)
{
    bool negated = s_take(self, TOKEN_NAME, "not");
    verl_jinja_node_t *node = s_node(self, NODE_TEST, value, NULL);
    if (!node)
        return NULL;
    node->integer = negated;
    node->text = self->at->text;
    if (self->at->kind != TOKEN_NAME && !s_is(self, TOKEN_OPERATOR, "=="))
        return s_fail(self, "a test is missing behind 'is'");
    self->at++;
    if (s_take_operator(self, "("))
        node->b = s_arguments(self, ")");
    else if (verl_jinja_string_is(node->text, "in") || verl_jinja_string_is(node->text, "==") ||
             verl_jinja_string_is(node->text, "equalto") || verl_jinja_string_is(node->text, "eq") ||
             verl_jinja_string_is(node->text, "divisibleby"))
        node->b = s_node(self, NODE_ARGUMENT, s_unary(self), NULL);
    return node;
}

static verl_jinja_node_t *
s_filters(s_parser_t *self, verl_jinja_node_t *node)
{
    while (!self->failed) {
        if (s_take_operator(self, "|")) {
            node = s_node(self, NODE_FILTER, node, NULL);
            if (!node || self->at->kind != TOKEN_NAME)
                return s_fail(self, "a filter is missing");
            node->text = self->at++->text;
            if (s_take_operator(self, "("))
                node->b = s_arguments(self, ")");
        } else if (s_take(self, TOKEN_NAME, "is")) {
            node = s_test(self, node);
        } else {
            return node;
        }
    }
    return NULL;
}

static verl_jinja_node_t *
s_unary(s_parser_t *self)
{
    verl_jinja_node_t *node;
    if (++self->depth > DEEPEST)
        return s_fail(self, "the template is nested too deep");
    if (s_take_operator(self, "-"))
        node = s_node(self, NODE_NEGATE, s_unary(self), NULL);
    else
        node = s_filters(self, s_postfix(self, s_primary(self)));
    self->depth--;
    return node;
}

// The operators by how tightly they bind, the tightest last.
static const char *const s_operators[][7] = {
    { "==", "!=", "<", ">", "<=", ">=", NULL },
    { "+", "-", NULL },
    { "~", NULL },
    { "*", "/", "//", "%", NULL },
};
enum { LEVELS = 4 };

// Takes an operator of a level; *ret_name is its text. Level 0 has "in" and "not in" too.
static bool
s_take_level(s_parser_t *self, int level, verl_jinja_string_t *ret_name, bool *ret_negated)
{
    *ret_name = self->at->text;
    *ret_negated = level == 0 && s_is(self, TOKEN_NAME, "not") && self->at[1].kind == TOKEN_NAME
                   && verl_jinja_string_is(self->at[1].text, "in");
    if (*ret_negated)
        *ret_name = (verl_jinja_string_t) { "in", 2 };
    bool found = *ret_negated || (level == 0 && s_is(self, TOKEN_NAME, "in"));
    for (int i = 0; s_operators[level][i] && !found; i++)
        found = s_is(self, TOKEN_OPERATOR, s_operators[level][i]);
    self->at += !found ? 0 : *ret_negated ? 2 : 1;
    return found;
}

// Comparisons are chained as in Python: a < b < c is a < b and b < c.
static verl_jinja_node_t *
s_binary(s_parser_t *self, int level)
{
    if (level == LEVELS)
        return s_unary(self);
    verl_jinja_node_t *left = s_binary(self, level + 1), *chain = NULL;
    verl_jinja_string_t name;
    bool negated;
    while (!self->failed && s_take_level(self, level, &name, &negated)) {
        verl_jinja_node_t *right = s_binary(self, level + 1), *both = s_node(self, NODE_BINARY, left, right);
        if (both)
            both->text = name;
        if (negated)
            both = s_node(self, NODE_NOT, both, NULL);
        if (level == 0)
            chain = chain ? s_node(self, NODE_AND, chain, both) : both;
        left = level == 0 ? right : both;
    }
    return self->failed ? NULL : chain ? chain : left;
}

static verl_jinja_node_t *
s_not(s_parser_t *self)
{
    if (++self->depth > DEEPEST)
        return s_fail(self, "the template is nested too deep");
    verl_jinja_node_t *node =
        s_take(self, TOKEN_NAME, "not") ? s_node(self, NODE_NOT, s_not(self), NULL) : s_binary(self, 0);
    self->depth--;
    return node;
}

static verl_jinja_node_t *
s_and(s_parser_t *self)
{
    verl_jinja_node_t *node = s_not(self);
    while (!self->failed && s_take(self, TOKEN_NAME, "and")) {
        verl_jinja_node_t *right = s_not(self);
        node = s_node(self, NODE_AND, node, right);
    }
    return node;
}

static verl_jinja_node_t *
s_or(s_parser_t *self)
{
    verl_jinja_node_t *node = s_and(self);
    while (!self->failed && s_take(self, TOKEN_NAME, "or")) {
        verl_jinja_node_t *right = s_and(self);
        node = s_node(self, NODE_OR, node, right);
    }
    return node;
}

static verl_jinja_node_t *
s_expression(s_parser_t *self)
{
    if (++self->depth > DEEPEST)
        return s_fail(self, "the template is nested too deep");
    verl_jinja_node_t *node = s_or(self);
    while (!self->failed && s_take(self, TOKEN_NAME, "if")) {
        verl_jinja_node_t *choice = s_node(self, NODE_CHOICE, NULL, node);
        if (!choice)
            return NULL;
        choice->a = s_or(self);
        choice->c = s_take(self, TOKEN_NAME, "else") ? s_expression(self) : NULL;
        node = choice;
    }
    self->depth--;
    return node;
}

static void
s_end_tag(s_parser_t *self)
{
    s_expect(self, TOKEN_BLOCK_END, "", "the tag should end");
}

// Takes "{% name %}" where it is there.
static bool
s_take_tag(s_parser_t *self, const char *name)
{
    if (self->failed || self->at->kind != TOKEN_BLOCK || self->at[1].kind != TOKEN_NAME
        || !verl_jinja_string_is(self->at[1].text, name))
        return false;
    self->at += 2;
    return true;
}

static void
s_end_block(s_parser_t *self, const char *name, const char *missing)
{
    if (self->failed)
        return;
    if (s_take_tag(self, name))
        s_end_tag(self);
    else
        s_fail(self, missing);
}

// if and elif, behind the word.
static verl_jinja_node_t *
s_if(s_parser_t *self)
{
    if (++self->depth > DEEPEST)
        return s_fail(self, "the template is nested too deep");
    verl_jinja_node_t *node = s_node(self, NODE_IF, NULL, NULL);
    if (!node)
        return NULL;
    node->a = s_expression(self);
    s_end_tag(self);
    node->b = s_body(self);
    if (s_take_tag(self, "elif")) {
        node->c = s_if(self);
    } else {
        if (s_take_tag(self, "else")) {
            s_end_tag(self);
            node->c = s_body(self);
        }
        s_end_block(self, "endif", "an endif is missing");
    }
    self->depth--;
    return node;
}

static verl_jinja_node_t *
s_for(s_parser_t *self)
{
    verl_jinja_node_t *node = s_node(self, NODE_FOR, NULL, NULL);
    if (!node || self->at->kind != TOKEN_NAME)
        return s_fail(self, "a name is missing behind 'for'");
    node->text = self->at++->text;
    if (s_take_operator(self, ",")) {
        if (self->at->kind != TOKEN_NAME)
            return s_fail(self, "a second name is missing behind 'for'");
        node->more = self->at++->text;
    }
    if (!s_expect(self, TOKEN_NAME, "in", "'in' is missing"))
        return NULL;
    node->a = s_or(self);
    node->d = s_take(self, TOKEN_NAME, "if") ? s_expression(self) : NULL;
    if (s_is(self, TOKEN_NAME, "recursive"))
        return s_fail(self, "a recursive loop is not supported");
    s_end_tag(self);
    node->b = s_body(self);
    if (s_take_tag(self, "else")) {
        s_end_tag(self);
        node->c = s_body(self);
    }
    s_end_block(self, "endfor", "an endfor is missing");
    return node;
}

static verl_jinja_node_t *
s_set(s_parser_t *self)
{
    if (self->at->kind != TOKEN_NAME)
        return s_fail(self, "a name is missing behind 'set'");
    verl_jinja_node_t *target = s_word(self);
    if (s_take_operator(self, ".")) {
        target = s_node(self, NODE_ATTRIBUTE, target, NULL);
        if (!target || self->at->kind != TOKEN_NAME)
            return s_fail(self, "a name is missing behind the point");
        target->text = self->at++->text;
    }
    bool value = s_take_operator(self, "=");
    verl_jinja_node_t *node = s_node(self, value ? NODE_SET : NODE_SET_BLOCK, target, NULL);
    if (!node)
        return NULL;
    node->b = value ? s_expression(self) : NULL;
    s_end_tag(self);
    if (!value) {
        node->b = s_body(self);
        s_end_block(self, "endset", "an endset is missing");
    }
    return node;
}

static verl_jinja_node_t *
s_macro(s_parser_t *self)
{
    verl_jinja_node_t *node = s_node(self, NODE_MACRO, NULL, NULL);
    if (!node || self->at->kind != TOKEN_NAME)
        return s_fail(self, "a name is missing behind 'macro'");
    node->text = self->at++->text;
    if (!s_expect(self, TOKEN_OPERATOR, "(", "a parenthesis is missing"))
        return NULL;
    node->a = s_arguments(self, ")");
    s_end_tag(self);
    node->b = s_body(self);
    s_end_block(self, "endmacro", "an endmacro is missing");
    for (verl_jinja_node_t *parameter = node->a; parameter; parameter = parameter->next) {
        if (parameter->text.length)
            continue;
        if (!parameter->a || parameter->a->kind != NODE_NAME)
            return s_fail(self, "a parameter of a macro must be a name");
        parameter->text = parameter->a->text;
        parameter->a = NULL;
    }
    return node;
}

// A part that is marked for training masks.
static verl_jinja_node_t *
s_generation(s_parser_t *self)
{
    s_end_tag(self);
    verl_jinja_node_t *body = s_body(self);
    s_end_block(self, "endgeneration", "an endgeneration is missing");
    return s_node(self, NODE_SCOPE, body, NULL);
}

// One statement; its tag is open and self->at is at its name.
static verl_jinja_node_t *
s_statement(s_parser_t *self)
{
    if (s_take(self, TOKEN_NAME, "if"))
        return s_if(self);
    if (s_take(self, TOKEN_NAME, "for"))
        return s_for(self);
    if (s_take(self, TOKEN_NAME, "set"))
        return s_set(self);
    if (s_take(self, TOKEN_NAME, "macro"))
        return s_macro(self);
    if (s_take(self, TOKEN_NAME, "generation"))
        return s_generation(self);
    verl_jinja_node_t *node = NULL;
    if (s_take(self, TOKEN_NAME, "break"))
        node = s_node(self, NODE_BREAK, NULL, NULL);
    else if (s_take(self, TOKEN_NAME, "continue"))
        node = s_node(self, NODE_CONTINUE, NULL, NULL);
    else
        return s_fail(self, "this statement is not supported");
    s_end_tag(self);
    return node;
}

// Whether the next tag ends the body.
static bool
s_ends_body(const s_parser_t *self)
{
    static const char *const ends[] = { "elif", "else", "endif", "endfor", "endset", "endmacro", "endgeneration" };
    if (self->at->kind == TOKEN_END)
        return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && self->at->kind == TOKEN_BLOCK; i++)
        if (self->at[1].kind == TOKEN_NAME && verl_jinja_string_is(self->at[1].text, ends[i]))
            return true;
    return false;
}

static verl_jinja_node_t *
s_body(s_parser_t *self)
{
    verl_jinja_node_t *first = NULL, **last = &first;
    if (++self->depth > DEEPEST)
        return s_fail(self, "the template is nested too deep");
    while (!self->failed && !s_ends_body(self)) {
        verl_jinja_node_t *node = NULL;
        if (self->at->kind == TOKEN_TEXT) {
            node = s_node(self, NODE_TEXT, NULL, NULL);
            if (node)
                node->text = self->at->text;
            self->at++;
        } else if (self->at->kind == TOKEN_OUT) {
            self->at++;
            node = s_node(self, NODE_OUT, s_expression(self), NULL);
            s_expect(self, TOKEN_OUT_END, "", "the tag should end");
        } else {
            self->at++;
            node = s_statement(self);
        }
        if (!node)
            break;
        *last = node;
        last = &node->next;
    }
    self->depth--;
    return first;
}

verl_jinja_t *
verl_jinja_parse(const char *text, size_t length, const char *where, char *error, size_t error_size)
{
    verl_jinja_t *self = calloc(1, sizeof *self);
    s_parser_t parser = { .where = where, .error = error, .error_size = error_size };
    if (self)
        self->arena.limit = ARENA_LIMIT;
    if (!self || !(self->where = strdup(where))) {
        verl_text_fail(error, error_size, "%s: not enough memory", where);
        verl_jinja_destroy(&self);
        return NULL;
    }
    parser.arena = &self->arena;
    if (verl_jinja_lex(&self->arena, text, length, where, &parser.at, error, error_size)) {
        verl_jinja_destroy(&self);
        return NULL;
    }
    self->body = s_body(&parser);
    if (!parser.failed && parser.at->kind != TOKEN_END)
        s_fail(&parser, "this tag ends nothing");
    if (parser.failed)
        verl_jinja_destroy(&self);
    return self;
}

void
verl_jinja_destroy(verl_jinja_t **self_p)
{
    if (*self_p) {
        verl_jinja_arena_done(&(*self_p)->arena);
        free((*self_p)->where);
        free(*self_p);
    }
    *self_p = NULL;
}
