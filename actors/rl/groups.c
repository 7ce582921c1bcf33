// groups.c: see groups.h.
#include "actors/rl/groups.h"
#include <stdbool.h>
#include <stdlib.h>

typedef struct {
    int64_t key, row, first;                // of its group
} s_place_t;

static int
s_by_key(const void *a, const void *b)
{
    const s_place_t *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int
s_by_first(const void *a, const void *b)
{
    const s_place_t *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static void
s_sort(s_place_t *places, const int64_t *keys, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++)
        places[row] = (s_place_t){ .key = keys[row], .row = row };
    qsort(places, (size_t) rows, sizeof *places, s_by_key);
    for (int64_t i = 0; i < rows; i++)
        places[i].first = i > 0 && places[i].key == places[i - 1].key ? places[i - 1].first : places[i].row;
    qsort(places, (size_t) rows, sizeof *places, s_by_first);
}

int
verl_groups_find(const int64_t *keys, int64_t rows, verl_groups_t *ret_groups)
{
    s_place_t *places = calloc((size_t) rows + 1, sizeof *places);
    *ret_groups = (verl_groups_t){ .order = calloc((size_t) rows + 1, sizeof *ret_groups->order),
                                   .starts = calloc((size_t) rows + 1, sizeof *ret_groups->starts) };
    bool enough = places && ret_groups->order && ret_groups->starts;
    if (enough)
        s_sort(places, keys, rows);
    for (int64_t i = 0; enough && i < rows; i++) {
        ret_groups->order[i] = places[i].row;
        if (i == 0 || places[i].first != places[i - 1].first)
            ret_groups->starts[ret_groups->count++] = i;
    }
    if (enough)
        ret_groups->starts[ret_groups->count] = rows;
    free(places);
    return enough ? 0 : -1;
}

void
verl_groups_done(verl_groups_t *groups)
{
    free(groups->order);
    free(groups->starts);
    *groups = (verl_groups_t){ 0 };
}
