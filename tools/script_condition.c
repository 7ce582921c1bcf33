// script_condition.c: see script_condition.h. Parsed by descent into nodes, with a bound on how deep it nests.
#include "tools/script_condition.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define S_DEPTH 32
#define S_BYTES 4000 // of a condition

typedef enum {
    S_OR,
    S_AND,
    S_NOT,
    S_MORE,
    S_AT_LEAST,
    S_LESS,
    S_AT_MOST,
    S_SAME,
    S_OTHER,
    S_NUMBER,
    S_METRIC
} s_what_t;
typedef enum { S_FALSE, S_UNKNOWN, S_TRUE } s_truth_t;

struct verl_condition_tree {
    s_what_t what;
    double number;
    char *metric;
    bool met;                               // the metric was there
    verl_condition_tree_t *left, *right;
};

typedef struct {
    const char *text, *at;
    int depth;
    verl_error_t *error;
} s_parser_t;

static verl_condition_tree_t *s_condition(s_parser_t *self);

void
verl_condition_destroy(verl_condition_tree_t **condition_p)
{
    verl_condition_tree_t *self = *condition_p;
    *condition_p = NULL;
    if (!self)
        return;
    verl_condition_destroy(&self->left);
    verl_condition_destroy(&self->right);
    free(self->metric);
    free(self);
}

static void *
s_wrong(const s_parser_t *self, const char *wanted)
{
    size_t length = strcspn(self->at, " \t\n");
    if (*self->at)
        verl_error_set(self->error, "the condition \"%.200s\" has \"%.*s\" at character %d: %s would be right",
                       self->text, (int) (length < 40 ? length : 40), self->at, (int) (self->at - self->text) + 1,
                       wanted);
    else
        verl_error_set(self->error, "the condition \"%.200s\" ends too early: %s would be right", self->text, wanted);
    return NULL;
}

static void
s_blanks(s_parser_t *self)
{
    self->at += strspn(self->at, " \t\r\n");
}

static bool
s_in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_/.@:-+", c));
}

// The length of a word or number here.
static size_t
s_word(const s_parser_t *self)
{
    size_t length = 0;
    while (s_in_name(self->at[length]))
        length++;
    return length;
}

static bool
s_take_word(s_parser_t *self, const char *word)
{
    s_blanks(self);
    size_t length = strlen(word);
    if (s_word(self) != length || strncmp(self->at, word, length) != 0)
        return false;
    self->at += length;
    return true;
}

// Takes both sides, of which NOT has one; NULL where one is missing, or without memory.
static verl_condition_tree_t *
s_join(s_parser_t *self, s_what_t what, verl_condition_tree_t *left, verl_condition_tree_t *right)
{
    bool whole = left && (right || what == S_NOT);
    verl_condition_tree_t *tree = whole ? calloc(1, sizeof *tree) : NULL;
    if (!tree) {
        if (whole)
            verl_error_set(self->error, "no memory for a condition");
        verl_condition_destroy(&left);
        verl_condition_destroy(&right);
        return NULL;
    }
    *tree = (verl_condition_tree_t){ .what = what, .left = left, .right = right };
    return tree;
}

static verl_condition_tree_t *
s_value(s_parser_t *self)
{
    s_blanks(self);
    size_t length = s_word(self);
    if (length == 0 || length > 200)
        return s_wrong(self, "a number or the name of a metric");
    verl_condition_tree_t *tree = calloc(1, sizeof *tree);
    char *word = tree ? strndup(self->at, length) : NULL, *end;
    if (!word) {
        free(tree);
        verl_error_set(self->error, "no memory for a condition");
        return NULL;
    }
    tree->number = strtod(word, &end);
    tree->what = *end || !isfinite(tree->number) ? S_METRIC : S_NUMBER;
    tree->metric = word;
    self->at += length;
    return tree;
}

static bool
s_comparison_sign(s_parser_t *self, s_what_t *ret_what)
{
    static const struct {
        const char *sign;
        s_what_t what;
    } signs[] = {
        { ">=", S_AT_LEAST }, { "<=", S_AT_MOST }, { "==", S_SAME }, { "!=", S_OTHER },
        { "~=", S_OTHER },    { ">", S_MORE },     { "<", S_LESS },
    };
    s_blanks(self);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strncmp(self->at, signs[i].sign, strlen(signs[i].sign)) == 0) {
            self->at += strlen(signs[i].sign);
            *ret_what = signs[i].what;
            return true;
        }
    return false;
}

static verl_condition_tree_t *
s_comparison(s_parser_t *self)
{
    s_what_t what;
    verl_condition_tree_t *left = s_value(self);
    if (!left)
        return NULL;
    if (!s_comparison_sign(self, &what)) {
        verl_condition_destroy(&left);
        return s_wrong(self, "one of > >= < <= == !=");
    }
    return s_join(self, what, left, s_value(self));
}

static verl_condition_tree_t *
s_one(s_parser_t *self)
{
    verl_condition_tree_t *tree = NULL;
    if (++self->depth > S_DEPTH) {
        s_wrong(self, "a condition that nests less deep");
    } else if (s_take_word(self, "not")) {
        tree = s_join(self, S_NOT, s_one(self), NULL);
    } else if (*self->at == '(') {
        self->at++;
        tree = s_condition(self);
        s_blanks(self);
        if (tree && *self->at != ')') {
            verl_condition_destroy(&tree);
            s_wrong(self, "`)`");
        }
        self->at += tree != NULL;
    } else {
        tree = s_comparison(self);
    }
    self->depth--;
    return tree;
}

static verl_condition_tree_t *
s_both(s_parser_t *self)
{
    verl_condition_tree_t *tree = s_one(self);
    while (tree && s_take_word(self, "and"))
        tree = s_join(self, S_AND, tree, s_one(self));
    return tree;
}

static verl_condition_tree_t *
s_condition(s_parser_t *self)
{
    verl_condition_tree_t *tree = s_both(self);
    while (tree && s_take_word(self, "or"))
        tree = s_join(self, S_OR, tree, s_both(self));
    return tree;
}

verl_condition_tree_t *
verl_condition_parse(const char *text, verl_error_t *error)
{
    s_parser_t self = { .text = text, .at = text, .error = error };
    if (strlen(text) > S_BYTES) {
        verl_error_set(error, "a condition has more than %d characters", S_BYTES);
        return NULL;
    }
    verl_condition_tree_t *tree = s_condition(&self);
    s_blanks(&self);
    if (tree && *self.at) {
        s_wrong(&self, "`and`, `or` or nothing more");
        verl_condition_destroy(&tree);
    }
    return tree;
}

// ---------------------------------------------------------------------------------------------------------------
// Truth

static s_truth_t
s_compare(verl_condition_tree_t *self, verl_metric_lookup_t lookup, void *context)
{
    double values[2];
    bool unknown = false;
    verl_condition_tree_t *const sides[] = { self->left, self->right };
    for (int i = 0; i < 2; i++) {
        values[i] = sides[i]->number;
        bool there = sides[i]->what != S_METRIC || lookup(context, sides[i]->metric, &values[i]);
        sides[i]->met |= there;
        unknown |= !there || isnan(values[i]);
    }
    if (unknown)
        return S_UNKNOWN;
    switch (self->what) {
    case S_MORE:
        return values[0] > values[1] ? S_TRUE : S_FALSE;
    case S_AT_LEAST:
        return values[0] >= values[1] ? S_TRUE : S_FALSE;
    case S_LESS:
        return values[0] < values[1] ? S_TRUE : S_FALSE;
    case S_AT_MOST:
        return values[0] <= values[1] ? S_TRUE : S_FALSE;
    case S_SAME:
        return values[0] == values[1] ? S_TRUE : S_FALSE;
    default:
        return values[0] != values[1] ? S_TRUE : S_FALSE;
    }
}

static s_truth_t
s_truth(verl_condition_tree_t *self, verl_metric_lookup_t lookup, void *context)
{
    if (self->what > S_NOT)
        return s_compare(self, lookup, context);
    s_truth_t left = s_truth(self->left, lookup, context);
    if (self->what == S_NOT)
        return left == S_UNKNOWN ? S_UNKNOWN : left == S_TRUE ? S_FALSE : S_TRUE;
    s_truth_t right = s_truth(self->right, lookup, context);
    bool least = self->what == S_AND;
    return (left < right) == least ? left : right;
}

bool
verl_condition_true(verl_condition_tree_t *self, verl_metric_lookup_t lookup, void *context)
{
    return s_truth(self, lookup, context) == S_TRUE;
}

const char *
verl_condition_unmet(const verl_condition_tree_t *self)
{
    if (!self || self->what == S_METRIC)
        return self && !self->met ? self->metric : NULL;
    const char *name = verl_condition_unmet(self->left);
    return name ? name : verl_condition_unmet(self->right);
}
