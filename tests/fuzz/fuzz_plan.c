// Any bytes as a plan: refused with a sentence, or a plan that can be used in every way, and that is the same bytes
// when it is written again and read.
#include "runtime/topology/describe.h"
#include "runtime/topology/topology.h"
#include "tests/runtime/topology/small_kinds.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void
s_use(const verl_plan_t *plan)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    verl_describe_plan(plan, out);
    verl_topology_write_resolved(plan, out);
    fclose(out);
    free(text);
    verl_plan_last(plan);
    for (int i = 0; i < plan->stages_count; i++) {
        int64_t k = verl_span_next(&plan->stages[i].span, plan->steps, -1);
        verl_plan_replica(plan, i, k < 0 ? 0 : k);
        verl_plan_version(plan, i, 1, plan->steps);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static int registered;
    verl_error_t error = { "" };
    if (!registered++ && verl_kind_register_all(s_kinds, &error) != 0)
        abort();
    verl_plan_t *plan = verl_plan_decode((const char *) bytes, size, &error);
    if (!plan && !error.text[0])
        abort();
    if (!plan)
        return 0;
    s_use(plan);
    size_t first_size, second_size;
    char *first = verl_plan_encode(plan, &first_size);
    verl_plan_t *back = verl_plan_decode(first, first_size, &error);
    char *second = back ? verl_plan_encode(back, &second_size) : NULL;
    if (!second || first_size != second_size || memcmp(first, second, first_size) != 0)
        abort();
    free(first);
    free(second);
    verl_plan_destroy(&back);
    verl_plan_destroy(&plan);
    return 0;
}
