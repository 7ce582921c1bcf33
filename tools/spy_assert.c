// spy_assert.c: see spy_assert.h. A descent by the grammar below; the tree lies in one array.
//
//     or = and { "||" and }      and = same { "&&" same }      same = less [ ("==" | "!=") less ]
//     less = sum [ ("<" | "<=" | ">" | ">=") sum ]              sum = product { ("+" | "-") product }
//     product = unary { ("*" | "/") unary }                     unary = [ "!" | "-" ] unary | value
//     value = number | variable | function "(" series [ "," number ] ")" | "(" or ")"
#include "tools/spy_assert_impl.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    const char        *text, *at;
    int                depth;
    verl_spy_assert_t *out;
    verl_error_t      *error;
} parser_t;

// --- parsing: each returns a node, or -1 --------------------------------------------------------------------------

static int s_or(parser_t *parser);

static int
s_fail(parser_t *parser, const char *what)
{
    return verl_error_set(parser->error, "--assert: %s at column %d of '%.200s'", what,
                          (int) (parser->at - parser->text) + 1, parser->text);
}

static int
s_node(parser_t *parser, const node_t *node)
{
    if (parser->out->count == NODES)
        return s_fail(parser, "the expression is too long");
    parser->out->nodes[parser->out->count] = *node;
    return parser->out->count++;
}

static bool
s_skip(parser_t *parser, const char *token)
{
    while (isspace((unsigned char) *parser->at))
        parser->at++;
    size_t length = strlen(token);
    if (strncmp(parser->at, token, length) != 0)
        return false;
    // "<" is not the beginning of "<=", "!" not that of "!=".
    if (length == 1 && strchr("<>!", token[0]) && parser->at[1] == '=')
        return false;
    parser->at += length;
    return true;
}

static int
s_index(const char *const *names, int count, const char *word, size_t length)
{
    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == length && strncmp(names[i], word, length) == 0)
            return i;
    return -1;
}

static size_t
s_word(const parser_t *parser)
{
    size_t length = 0;
    while (isalnum((unsigned char) parser->at[length]) || parser->at[length] == '_')
        length++;
    return length;
}

static int
s_number(parser_t *parser, double *ret)
{
    char *end;
    s_skip(parser, "");
    if (!isdigit((unsigned char) *parser->at) && *parser->at != '.')
        return s_fail(parser, "there should be a number");
    *ret = strtod(parser->at, &end);
    if (end == parser->at || !isfinite(*ret))
        return s_fail(parser, "there should be a number");
    parser->at = end;
    return 0;
}

static int
s_call(parser_t *parser, call_t call)
{
    node_t node = { .kind = NODE_CALL, .call = call };
    if (!s_skip(parser, "("))
        return s_fail(parser, "a function is followed by ( and a series");
    s_skip(parser, "");
    size_t length = s_word(parser);
    node.which = s_index(verl_spy_series_names, VERL_SPY_SERIES, parser->at, length);
    if (node.which < 0)
        return s_fail(parser, "there should be a series: gap_ms, age_ms, size or busy_ms");
    parser->at += length;
    if (call == CALL_percentile) {
        if (!s_skip(parser, ","))
            return s_fail(parser, "percentile(series, P) has two arguments");
        if (s_number(parser, &node.number))
            return -1;
        if (node.number > 100)
            return s_fail(parser, "a percentile is from 0 to 100");
    }
    return s_skip(parser, ")") ? s_node(parser, &node) : s_fail(parser, "there should be a )");
}

static int
s_value(parser_t *parser)
{
    node_t node = { .kind = NODE_NUMBER };
    if (s_skip(parser, "(")) {
        int inner = s_or(parser);
        return inner < 0 || s_skip(parser, ")") ? inner : s_fail(parser, "there should be a )");
    }
    if (!isalpha((unsigned char) *parser->at))
        return s_number(parser, &node.number) ? -1 : s_node(parser, &node);
    size_t length = s_word(parser);
    int call = s_index(verl_spy_call_names, CALLS, parser->at, length);
    if (call >= 0) {
        parser->at += length;
        return s_call(parser, (call_t) call);
    }
    node.kind = NODE_SCALAR;
    node.which = s_index(verl_spy_scalar_names, VERL_SPY_SCALARS, parser->at, length);
    if (node.which < 0)
        return s_fail(parser, s_index(verl_spy_series_names, VERL_SPY_SERIES, parser->at, length) >= 0
                                  ? "a series needs a function around it, such as max(gap_ms)"
                                  : "unknown name (see verl-spy follow --help)");
    parser->at += length;
    return s_node(parser, &node);
}

static int
s_unary(parser_t *parser)
{
    node_t node = { .kind = NODE_UNARY };
    if (parser->depth == DEPTH)
        return s_fail(parser, "the expression is nested too deeply");
    if (s_skip(parser, "!"))
        node.operator[0] = '!';
    else if (s_skip(parser, "-"))
        node.operator[0] = '-';
    parser->depth++;
    node.left = node.operator[0] ? s_unary(parser) : s_value(parser);
    parser->depth--;
    return node.left < 0 || !node.operator[0] ? node.left : s_node(parser, &node);
}

// left { operator right }, or at most one of them.
static int
s_chain(parser_t *parser, const char *const *operators, bool many, int (*operand)(parser_t *))
{
    int left = operand(parser);
    bool more = true;
    while (left >= 0 && more) {
        more = false;
        for (int i = 0; operators[i] && !more; i++) {
            if (!s_skip(parser, operators[i]))
                continue;
            node_t node = { .kind = NODE_BINARY, .left = left };
            snprintf(node.operator, sizeof node.operator, "%s", operators[i]);
            node.right = operand(parser);
            left = node.right < 0 ? -1 : s_node(parser, &node);
            more = true;
        }
        more &= many;
    }
    return left;
}

static int
s_product(parser_t *parser)
{
    static const char *const operators[] = { "*", "/", NULL };
    return s_chain(parser, operators, true, s_unary);
}

static int
s_sum(parser_t *parser)
{
    static const char *const operators[] = { "+", "-", NULL };
    return s_chain(parser, operators, true, s_product);
}

static int
s_less(parser_t *parser)
{
    static const char *const operators[] = { "<=", ">=", "<", ">", NULL };
    return s_chain(parser, operators, false, s_sum);
}

static int
s_same(parser_t *parser)
{
    static const char *const operators[] = { "==", "!=", NULL };
    return s_chain(parser, operators, false, s_less);
}

static int
s_and(parser_t *parser)
{
    static const char *const operators[] = { "&&", NULL };
    return s_chain(parser, operators, true, s_same);
}

static int
s_or(parser_t *parser)
{
    static const char *const operators[] = { "||", NULL };
    return s_chain(parser, operators, true, s_and);
}

verl_spy_assert_t *
verl_spy_assert_parse(const char *text, verl_error_t *error)
{
    verl_spy_assert_t *assertion = calloc(1, sizeof *assertion);
    if (!assertion) {
        verl_error_set(error, "out of memory");
        return NULL;
    }
    parser_t parser = { .text = text, .at = text, .out = assertion, .error = error };
    assertion->root = s_or(&parser);
    if (assertion->root >= 0) {
        s_skip(&parser, "");
        if (*parser.at)
            assertion->root = s_fail(&parser, "not understood");
    }
    if (assertion->root < 0)
        verl_spy_assert_destroy(&assertion);
    return assertion;
}

void
verl_spy_assert_destroy(verl_spy_assert_t **assertion_p)
{
    free(*assertion_p);
    *assertion_p = NULL;
}

bool
verl_spy_assert_series(const verl_spy_assert_t *assertion, verl_spy_series_t series)
{
    for (int i = 0; assertion && i < assertion->count; i++)
        if (assertion->nodes[i].kind == NODE_CALL && assertion->nodes[i].which == (int) series)
            return true;
    return false;
}

bool
verl_spy_assert_scalar(const verl_spy_assert_t *assertion, verl_spy_scalar_t scalar)
{
    for (int i = 0; assertion && i < assertion->count; i++)
        if (assertion->nodes[i].kind == NODE_SCALAR && assertion->nodes[i].which == (int) scalar)
            return true;
    return false;
}
