// draft_order.c: which stage is upstream of which, cycles, and the order in which everything else is worked out.
//
// An arrow goes from a stage to those that it waits for: its dependencies, and, for an update, the stages of its actor
// that work with the weights which it replaces.
#include <string.h>
#include "runtime/topology/draft.h"

// Does an update wait for a stage, because that one works in place with the weights that it replaces?
static bool
s_waits_for_reader(const verl_draft_t *draft, int update, int reader)
{
    const verl_draft_stage_t *u = &draft->stages[update], *r = &draft->stages[reader];
    return update != reader && u->actor >= 0 && u->actor == r->actor && u->handler && r->handler &&
           u->handler->writes_weights && r->handler->reads_weights && !r->handler->writes_weights &&
           r->weights_from < 0;
}

static bool
s_depends(const verl_draft_stage_t *stage, int other)
{
    for (int i = 0; i < stage->deps_count; i++)
        if (stage->deps[i] == other)
            return true;
    return false;
}

static bool
s_waits(const verl_draft_t *draft, int stage, int other)
{
    return draft->waits[(size_t) stage * (size_t) draft->stages_count + (size_t) other];
}

static void
s_fill_waits(verl_draft_t *draft)
{
    size_t n = (size_t) draft->stages_count;
    draft->waits = verl_pool_array(draft->pool, n * n, sizeof *draft->waits);
    for (int i = 0; i < draft->stages_count; i++) {
        bool *row = draft->waits + (size_t) i * n;
        for (int d = 0; d < draft->stages[i].deps_count; d++)
            row[draft->stages[i].deps[d]] = true;
        for (int other = 0; other < draft->stages_count; other++)
            row[other] = row[other] || s_waits_for_reader(draft, i, other);
    }
}

// The shortest way from a stage back to itself, breadth first; its length, 0: there is none. path[0] waits for path[1],
// …
static int
s_cycle(verl_draft_t *draft, int start, int *path)
{
    int n = draft->stages_count, head = 0, tail = 0;
    int *queue = verl_pool_array(draft->pool, (size_t) n + 1, sizeof *queue);
    int *from = verl_pool_array(draft->pool, (size_t) n, sizeof *from);
    memset(from, -1, (size_t) n * sizeof *from);
    for (queue[tail++] = start; head < tail; head++)
        for (int next = 0; next < n; next++) {
            if (from[next] >= 0 || !s_waits(draft, queue[head], next))
                continue;
            from[next] = queue[head];
            if (next != start) {
                queue[tail++] = next;
                continue;
            }
            int length = 0;
            for (int at = queue[head]; at != start; at = from[at])
                length++;
            path[0] = start;
            int at = queue[head];
            for (int i = length; i > 0; i--, at = from[at])
                path[i] = at;
            return length + 1;
        }
    return 0;
}

static void
s_report(verl_draft_t *draft, const int *path, int length)
{
    const char *text = NULL;
    const verl_node_t *node = NULL;
    for (int i = 0; i < length; i++) {
        const verl_draft_stage_t *stage = &draft->stages[path[i]];
        int next = path[(i + 1) % length];
        bool data = s_depends(stage, next);
        text = verl_pool_print(
            draft->pool, "%s`%s` waits for `%s`%s", text ? verl_pool_print(draft->pool, "%s, ", text) : "", stage->name,
            draft->stages[next].name, data ? "" : " (which works with the weights that it replaces)");
        for (int d = 0; data && !node && d < stage->deps_count; d++)
            if (stage->deps[d] == next)
                node = stage->deps_node[d];
    }
    verl_at_t at = node ? node->at : draft->stages[path[0]].at;
    verl_problem_add(&draft->problems, at,
                     "a cycle, in which no stage could ever begin: %s: one of these taken out of "
                     "depends_on would be right",
                     text);
}

// One report for each group of stages that wait for each other.
static void
s_report_cycles(verl_draft_t *draft)
{
    int n = draft->stages_count;
    int *path = verl_pool_array(draft->pool, (size_t) n + 1, sizeof *path);
    bool *told = verl_pool_array(draft->pool, (size_t) n, sizeof *told);
    for (int i = 0; i < n; i++) {
        if (draft->stages[i].ordered || told[i])
            continue;
        int length = s_cycle(draft, i, path);
        bool fresh = length > 0;
        for (int k = 0; k < length; k++)
            fresh = fresh && !told[path[k]];
        for (int k = 0; k < length; k++)
            told[path[k]] = true;
        if (fresh)
            s_report(draft, path, length);
    }
}

// Of the stages that wait for nothing any more, always the first one in the file: one order for one file.
static void
s_sort(verl_draft_t *draft)
{
    int n = draft->stages_count;
    draft->order = verl_pool_array(draft->pool, (size_t) n, sizeof *draft->order);
    int *left = verl_pool_array(draft->pool, (size_t) n, sizeof *left);
    for (int i = 0; i < n; i++)
        for (int other = 0; other < n; other++)
            left[i] += s_waits(draft, i, other);
    for (int i = 0; i < n;) {
        if (draft->stages[i].ordered || left[i] > 0) {
            i++;
            continue;
        }
        draft->stages[i].ordered = true;
        draft->order[draft->order_count++] = i;
        for (int other = 0; other < n; other++)
            left[other] -= s_waits(draft, other, i);
        i = 0;
    }
}

static void
s_close(verl_draft_t *draft)
{
    size_t n = (size_t) draft->stages_count;
    draft->upstream = verl_pool_array(draft->pool, n * n, sizeof *draft->upstream);
    for (int k = 0; k < draft->order_count; k++) {
        const verl_draft_stage_t *stage = &draft->stages[draft->order[k]];
        bool *row = draft->upstream + (size_t) draft->order[k] * n;
        for (int d = 0; d < stage->deps_count; d++) {
            const bool *more = draft->upstream + (size_t) stage->deps[d] * n;
            row[stage->deps[d]] = true;
            for (size_t i = 0; i < n; i++)
                row[i] = row[i] || more[i];
        }
    }
}

void
verl_draft_order(verl_draft_t *draft)
{
    s_fill_waits(draft);
    s_sort(draft);
    if (draft->order_count < draft->stages_count)
        s_report_cycles(draft);
    s_close(draft);
}
