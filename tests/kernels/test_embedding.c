// test_embedding.c: gathering rows, and adding gradients of repeated ids.
#include "kernels/embedding.h"
#include "kernels/numbers.h"

Test(embedding, forward_and_backward)
{
    const int32_t ids[4] = { 2, 0, 2, 1 };
    const float table[6] = { 1, 2, 3, 4, 5, 6 }, dy[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    const float gathered[8] = { 5, 6, 1, 2, 5, 6, 3, 4 }, expected[6] = { 13, 14, 7, 8, 6, 8 };
    float y[8], dtable[6] = { 10, 10, 0, 0, 0, 0 };
    verl_embedding_forward(4, 2, ids, table, y);
    cr_expect_arr_eq(y, gathered, sizeof y);
    verl_embedding_backward(4, 2, ids, dy, dtable);
    cr_expect_arr_eq(dtable, expected, sizeof expected);
}
