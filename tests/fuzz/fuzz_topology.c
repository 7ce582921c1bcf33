// Any bytes as a topology: refused with sentences, or a plan that goes over the wire and back as the same bytes, and
// that is the same plan again when it is written out in full and read.
#include "runtime/topology/describe.h"
#include "runtime/topology/topology.h"
#include "tests/runtime/topology/small_kinds.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void
s_forget_places(verl_plan_t *plan)
{
    for (int i = 0; i < plan->actors_count; i++)
        plan->actors[i].line = plan->actors[i].column = 0;
    for (int i = 0; i < plan->stages_count; i++)
        plan->stages[i].line = plan->stages[i].column = 0;
}

static void
s_check_same(const verl_plan_t *a, const verl_plan_t *b)
{
    size_t size_a, size_b;
    char *one = verl_plan_encode(a, &size_a), *other = verl_plan_encode(b, &size_b);
    if (!one || !other || size_a != size_b || memcmp(one, other, size_a) != 0)
        abort();
    free(one);
    free(other);
}

static void
s_check_wire(const verl_plan_t *plan)
{
    size_t size;
    verl_error_t error = { "" };
    char *bytes = verl_plan_encode(plan, &size);
    verl_plan_t *back = verl_plan_decode(bytes, size, &error);
    if (!back)
        abort();
    s_check_same(plan, back);
    verl_plan_destroy(&back);
    free(bytes);
}

static void
s_check_resolved(verl_plan_t *plan)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (verl_topology_write_resolved(plan, out) != 0)
        abort();
    fclose(out);
    verl_topology_errors_t errors;
    verl_plan_t *back = verl_topology_load_text(text, size, "t.toml", NULL, 0, &errors);
    if (!back)
        abort();
    s_forget_places(plan);
    s_forget_places(back);
    s_check_same(plan, back);
    verl_plan_destroy(&back);
    free(text);
}

static void
s_check_described(const verl_plan_t *plan)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (verl_describe_plan(plan, out) != 0)
        abort();
    fclose(out);
    free(text);
    for (int i = 0; i < plan->stages_count; i++)
        if (verl_span_next(&plan->stages[i].span, plan->steps, -1) < 0)
            abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static int registered;
    verl_error_t error = { "" };
    if (!registered++ && verl_kind_register_all(s_kinds, &error) != 0)
        abort();
    verl_topology_errors_t errors;
    verl_plan_t *plan = verl_topology_load_text((const char *) bytes, size, "t.toml", NULL, 0, &errors);
    if (!plan && (errors.count == 0 || !strchr(errors.items[0], ':')))
        abort();
    verl_topology_errors_done(&errors);
    if (!plan)
        return 0;
    s_check_wire(plan);
    s_check_described(plan);
    s_check_resolved(plan);
    verl_plan_destroy(&plan);
    return 0;
}
