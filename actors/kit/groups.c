// groups.c: see groups.h.
#include "actors/kit/groups.h"
#include <stdlib.h>

int64_t *
verl_groups_keys(verl_stage_t *stage, const verl_column_t *column)
{
    bool wide = column->dtype == VERL_I64, integers = wide || column->dtype == VERL_I32 || column->dtype == VERL_U8;
    if (column->ragged || column->width != 1 || !integers) {
        verl_fail(stage, "column %s is not one integer a row", column->name);
        return NULL;
    }
    int64_t *keys = calloc((size_t) column->rows + 1, sizeof *keys);
    if (!keys)
        verl_fail(stage, "no memory for the groups of %lld rows", (long long) column->rows);
    for (int64_t row = 0; keys && row < column->rows; row++) {
        const void *at = verl_column_at(column, row);
        keys[row] = wide ? *(const int64_t *) at
                    : column->dtype == VERL_I32 ? *(const int32_t *) at
                                                : *(const uint8_t *) at;
    }
    return keys;
}
