// spy_assert_value.c: what an assertion comes to; see spy_assert.h.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/spy_assert_impl.h"

const char *const verl_spy_call_names[CALLS] = {
#define X(name) #name,
    VERL_SPY_CALL_MAP(X)
#undef X
};
const char *const verl_spy_scalar_names[VERL_SPY_SCALARS] = {
#define X(name, about) #name,
    VERL_SPY_SCALAR_MAP(X)
#undef X
};
const char *const verl_spy_series_names[VERL_SPY_SERIES] = {
#define X(name, about) #name,
    VERL_SPY_SERIES_MAP(X)
#undef X
};

// --- facts --------------------------------------------------------------------------------------------------------

int
verl_spy_facts_add(verl_spy_facts_t *facts, verl_spy_series_t series, double value)
{
    size_t room = facts->series[series].room;
    if (facts->series[series].count == room) {
        room = room ? room * 2 : 1024;
        double *grown = realloc(facts->series[series].values, room * sizeof *grown);
        if (!grown)
            return -1;
        facts->series[series].values = grown;
        facts->series[series].room = room;
    }
    facts->series[series].values[facts->series[series].count++] = value;
    return 0;
}

void
verl_spy_facts_done(verl_spy_facts_t *facts)
{
    for (int i = 0; i < VERL_SPY_SERIES; i++)
        free(facts->series[i].values);
    memset(facts, 0, sizeof *facts);
}

// --- evaluation ---------------------------------------------------------------------------------------------------

static int
s_compare(const void *a, const void *b)
{
    double left = *(const double *) a, right = *(const double *) b;
    return (left > right) - (left < right);
}

static double
s_call_value(const node_t *node, const verl_spy_facts_t *facts)
{
    const double *values = facts->series[node->which].values;
    size_t count = facts->series[node->which].count;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    if (node->call == CALL_count || node->call == CALL_sum)
        return node->call == CALL_count ? (double) count : sum;
    if (!count)
        return (double) NAN;
    double share = node->call == CALL_percentile ? node->number / 100 : node->call == CALL_median ? 0.5
                   : node->call == CALL_max      ? 1                                              : 0;
    // The least value that so many are not above (nearest rank).
    size_t rank = (size_t) ceil(share * (double) count);
    return node->call == CALL_mean ? sum / (double) count : values[rank ? rank - 1 : 0];
}

static double
s_binary_value(const char *operator, double left, double right)
{
    switch (operator[0]) {
    case '+': return left + right;
    case '-': return left - right;
    case '*': return left * right;
    case '/': return left / right;
    case '<': return operator[1] ? left <= right : left < right;
    case '>': return operator[1] ? left >= right : left > right;
    case '=': return left == right;
    case '!': return left < right || left > right;
    case '&': return left != 0 && right != 0 && !isnan(left) && !isnan(right);
    default: return (left != 0 && !isnan(left)) || (right != 0 && !isnan(right));
    }
}

static double
s_evaluate(const verl_spy_assert_t *assertion, int index, const verl_spy_facts_t *facts)
{
    const node_t *node = &assertion->nodes[index];
    double left;
    switch (node->kind) {
    case NODE_NUMBER: return node->number;
    case NODE_SCALAR: return facts->scalars[node->which];
    case NODE_CALL: return s_call_value(node, facts);
    case NODE_UNARY:
        left = s_evaluate(assertion, node->left, facts);
        return node->operator[0] == '-' ? -left : left == 0 ? 1 : 0;
    default:
        return s_binary_value(node->operator, s_evaluate(assertion, node->left, facts),
                              s_evaluate(assertion, node->right, facts));
    }
}

static void
s_explain(const verl_spy_assert_t *assertion, const verl_spy_facts_t *facts, char *why, size_t size)
{
    size_t length = 0;
    why[0] = 0;
    for (int i = 0; i < assertion->count && length < size; i++) {
        const node_t *node = &assertion->nodes[i];
        const char *comma = length ? ", " : "";
        int put = 0;
        if (node->kind == NODE_SCALAR)
            put = snprintf(why + length, size - length, "%s%s = %.6g", comma, verl_spy_scalar_names[node->which],
                           facts->scalars[node->which]);
        else if (node->kind == NODE_CALL && node->call == CALL_percentile)
            put = snprintf(why + length, size - length, "%spercentile(%s, %.6g) = %.6g", comma,
                           verl_spy_series_names[node->which], node->number, s_call_value(node, facts));
        else if (node->kind == NODE_CALL)
            put = snprintf(why + length, size - length, "%s%s(%s) = %.6g", comma, verl_spy_call_names[node->call],
                           verl_spy_series_names[node->which], s_call_value(node, facts));
        length += put > 0 ? (size_t) put : 0;
    }
}

bool
verl_spy_assert_holds(const verl_spy_assert_t *assertion, verl_spy_facts_t *facts, char *why, size_t size)
{
    for (int i = 0; i < VERL_SPY_SERIES; i++)
        if (facts->series[i].count)
            qsort(facts->series[i].values, facts->series[i].count, sizeof(double), s_compare);
    s_explain(assertion, facts, why, size);
    double value = s_evaluate(assertion, assertion->root, facts);
    return value != 0 && !isnan(value);
}

const char *
verl_spy_assert_help(void)
{
    return "An assertion is an expression with numbers, + - * /, comparisons, ! && || and parentheses over\n"
#define X(name, about) "  " #name ": " about "\n"
           VERL_SPY_SCALAR_MAP(X)
           "and min, max, mean, sum, count, median, percentile(SERIES, P) of the series\n"
           VERL_SPY_SERIES_MAP(X)
#undef X
           "What cannot be said, such as the greatest of nothing, makes a comparison false.\n";
}
