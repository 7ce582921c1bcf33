// draft_rows.c: rows. Each source opens a space of rows, and so does each stage that makes new rows of those it is
// given; a space is named by the stage that opened it.
//
// Invariant: the space that a stage is given is that of one of its in-edges; from there, maps lead outwards through the
// spaces that it came from, to each column that the stage needs.
#include "runtime/topology/draft.h"
#include "runtime/topology/value.h"

int
verl_draft_space(const verl_draft_t *draft, int stage)
{
    const verl_draft_stage_t *self = &draft->stages[stage];
    bool opens = self->deps_count == 0 || self->rows_of < 0 || self->maps;
    return opens ? stage : self->rows_of;
}

// The space that a space was made from; -1: it is a source's.
static int
s_outer(const verl_draft_t *draft, int space)
{
    const verl_draft_stage_t *self = &draft->stages[space];
    return self->deps_count == 0 || self->rows_of == space ? -1 : self->rows_of;
}

static bool
s_within(const verl_draft_t *draft, int inner, int outer)
{
    for (int at = inner; at >= 0; at = s_outer(draft, at))
        if (at == outer)
            return true;
    return false;
}

// The newer of two spaces of one lineage; -1 where neither comes from the other.
static int
s_newer(const verl_draft_t *draft, int a, int b)
{
    return s_within(draft, a, b) ? a : s_within(draft, b, a) ? b : -1;
}

static void
s_report(verl_draft_t *draft, verl_draft_stage_t *stage, int a, int b)
{
    if (stage->clouded || stage->lost)
        return;
    stage->lost = true;
    verl_at_t at = verl_draft_at(stage->node, "depends_on", stage->at);
    const char *one = draft->stages[a].name, *other = draft->stages[b].name;
    verl_problem_add(&draft->problems, at,
                     "`%s` cannot have the rows of both `%s` and `%s`, which share none: `%s` has those "
                     "that `%s` made, and `%s` those that `%s` made, so depending on one of them would be right",
                     stage->name, one, other, one, draft->stages[verl_draft_space(draft, a)].name, other,
                     draft->stages[verl_draft_space(draft, b)].name);
}

// The newest space of the columns that are needed; -1: none is, or they share no rows, which is reported.
static int
s_space_of_needs(verl_draft_t *draft, verl_draft_stage_t *stage)
{
    int space = -1, whose = -1;
    for (int i = 0; i < stage->needs_count; i++) {
        int maker = stage->needs[i].maker;
        if (maker < 0)
            continue;
        int its = verl_draft_space(draft, maker);
        int newer = space < 0 ? its : s_newer(draft, space, its);
        if (newer < 0) {
            s_report(draft, stage, whose, maker);
            return -1;
        }
        whose = newer == its && newer != space ? maker : whose;
        space = newer;
    }
    return space;
}

// The stage's rows: the newest of what it needs and of what it waits for. A dependency on another lineage is waited for
// and no more.
static int
s_rows_of(verl_draft_t *draft, verl_draft_stage_t *stage)
{
    int needed = s_space_of_needs(draft, stage), space = needed, whose = -1;
    for (int d = 0; d < stage->deps_count; d++) {
        int its = verl_draft_space(draft, stage->deps[d]);
        if (space < 0) {
            space = its;
            whose = stage->deps[d];
            continue;
        }
        int newer = s_newer(draft, space, its);
        bool ours = needed >= 0 && s_newer(draft, needed, its) >= 0;
        if (newer < 0 && ours)
            s_report(draft, stage, whose, stage->deps[d]);
        else if (newer >= 0 && newer != space) {
            space = newer;
            whose = stage->deps[d];
        }
    }
    return space;
}

static void
s_map(verl_draft_t *draft, int index, verl_draft_need_t *need)
{
    verl_draft_stage_t *stage = &draft->stages[index];
    int target = verl_draft_space(draft, need->maker);
    for (int at = stage->rows_of; at >= 0 && at != target; at = s_outer(draft, at)) {
        int edge = verl_draft_edge(draft, index, at);
        stage->in[edge].map = true;
        need->map_edges = verl_pool_grow(draft->pool, need->map_edges, need->maps, sizeof *need->map_edges);
        need->map_edges[need->maps++] = edge;
    }
}

void
verl_draft_rows(verl_draft_t *draft, int index)
{
    verl_draft_stage_t *stage = &draft->stages[index];
    for (int d = 0; d < stage->deps_count; d++)
        stage->lost = stage->lost || draft->stages[stage->deps[d]].lost;
    stage->rows_of = stage->deps_count == 0 ? index : s_rows_of(draft, stage);
    for (int i = 0; i < stage->needs_count && !stage->lost; i++)
        if (stage->needs[i].maker >= 0)
            s_map(draft, index, &stage->needs[i]);
}

// A number of rows that an option of a stage or of its actor says; -1: none does.
static int64_t
s_option(const verl_draft_t *draft, const verl_draft_stage_t *stage, const char *name)
{
    const verl_value_t *value = verl_value_get(&stage->options, name);
    if (!value && stage->actor >= 0)
        value = verl_value_get(&draft->actors[stage->actor].options, name);
    return value && value->type == VERL_VALUE_INT && value->integer > 0 ? value->integer : -1;
}

verl_draft_count_t
verl_draft_count(const verl_draft_t *draft, const verl_draft_stage_t *stage)
{
    const verl_draft_count_t unknown = { .rows = -1 };
    verl_draft_count_t count = { .rows = 1, .together = 1, .text = "" };
    if (stage->lost || stage->clouded)
        return unknown;
    for (int at = stage->rows_of, inner = -1; at >= 0 && at != inner; inner = at, at = s_outer(draft, at)) {
        const verl_draft_stage_t *maker = &draft->stages[at];
        bool source = s_outer(draft, at) < 0;
        int64_t rows = s_option(draft, maker, source ? "rows" : "samples");
        rows = source && rows < 0 && maker->rows > 0 ? maker->rows : rows;
        if (rows < 0 || count.rows > INT64_C(1000000000000000) / rows)
            return unknown;
        count.rows *= rows;
        count.together = inner < 0 && !source ? rows : count.together;
        count.text = verl_pool_print(draft->pool, "%lld of `%s`%s%s", (long long) rows, maker->name,
                                     *count.text ? " × " : "", count.text);
    }
    return count;
}
