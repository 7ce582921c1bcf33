// spy_assert_impl.h: an assertion as a tree in one array, for the two files that make it and reckon with it.
#ifndef VERL_SPY_ASSERT_IMPL_H
#define VERL_SPY_ASSERT_IMPL_H
#include "tools/spy_assert.h"

enum { NODES = 256, DEPTH = 64 };

#define VERL_SPY_CALL_MAP(X) X(min) X(max) X(mean) X(sum) X(count) X(median) X(percentile)

typedef enum { NODE_NUMBER, NODE_SCALAR, NODE_CALL, NODE_UNARY, NODE_BINARY } node_kind_t;
typedef enum {
#define X(name) CALL_##name,
    VERL_SPY_CALL_MAP(X)
#undef X
    CALLS
} call_t;

typedef struct node {
    node_kind_t kind;
    double      number;                     // NUMBER; the second argument of percentile
    int         which;                      // scalar, series
    call_t      call;
    char        operator[3];
    int         left, right;                // nodes
} node_t;

struct verl_spy_assert {
    int    count, root;
    node_t nodes[NODES];
};

// What is written for a scalar, a series, a function.
extern const char *const verl_spy_scalar_names[VERL_SPY_SCALARS];
extern const char *const verl_spy_series_names[VERL_SPY_SERIES];
extern const char *const verl_spy_call_names[CALLS];
#endif
