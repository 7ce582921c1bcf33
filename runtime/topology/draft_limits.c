// draft_limits.c: what goes together: parts, rows at a time, replicas, and what an error or a failure may do.
#include <stdio.h>
#include <string.h>
#include "runtime/base/machine.h"
#include "runtime/topology/describe.h"
#include "runtime/topology/draft.h"
#include "runtime/topology/kinds.h"

#define S_LOOKS 1000000 // for a number that would be right

// A stage runs part by part where everything that it is given of its own rows comes in the same parts, and the rest
// whole. Returns the stage that cuts them; -1: it waits for the whole batch.
static int
s_cut_of(const verl_draft_t *draft, const verl_draft_stage_t *stage)
{
    int cut = -1;
    for (int i = 0; i < stage->in_count; i++) {
        int maker = stage->in[i].maker, parts_of = draft->stages[maker].parts_of;
        bool same_rows = verl_draft_space(draft, maker) == stage->rows_of;
        if (same_rows && (parts_of < 0 || (cut >= 0 && cut != parts_of)))
            return -1;
        if (!same_rows && parts_of >= 0)
            return -1;
        if (same_rows)
            cut = parts_of;
    }
    return cut;
}

// The first stage that made the rows, of others, that a stage is given, or those that they were made of; -1: they are a
// source's.
static int
s_made_by(const verl_draft_t *draft, const verl_draft_stage_t *stage)
{
    int made = -1;
    for (int at = stage->rows_of; at >= 0 && draft->stages[at].maps && at != made; at = draft->stages[at].rows_of)
        made = at;
    return made;
}

// Rows that were made of one follow each other, and a cut between them would part a group.
static void
s_check_made(verl_draft_t *draft, const verl_draft_stage_t *stage, verl_at_t at)
{
    int made = s_made_by(draft, stage);
    if (made < 0 || stage->lost)
        return;
    const char *name = draft->stages[made].name, *right = "no parts";
    if (draft->stages[made].by_row)
        right = verl_pool_print(draft->pool, "`parts` in `%s`", name);
    verl_problem_add(&draft->problems, at,
                     "`%s` is given rows that `%s` made of others, and those of one would come into different parts: %s "
                     "would be right",
                     stage->name, name, right);
}

static void
s_parts(verl_draft_t *draft, int index)
{
    verl_draft_stage_t *stage = &draft->stages[index];
    bool cuts = stage->keys.parts > 1;
    int cut = stage->deps_count > 0 && stage->by_row ? s_cut_of(draft, stage) : -1;
    stage->by_part = cut >= 0;
    stage->parts_of = cuts ? index : cut;
    verl_at_t at = verl_draft_at(stage->node, "parts", stage->at);
    if (!cuts || !stage->handler)
        return;
    if (stage->deps_count == 0)
        verl_problem_add(&draft->problems, at,
                         "`%s` is a source, and a batch is cut by a stage that is given one: `parts` in "
                         "a stage behind it would be right",
                         stage->name);
    else if (!stage->by_row)
        verl_problem_add(&draft->problems, at,
                         "`%s` does `%s`, which works on whole batches: `parts` is for a stage that works "
                         "row by row",
                         stage->name, stage->handler->name);
    else if (cut >= 0)
        verl_problem_add(&draft->problems, at,
                         "`%s` is given batches that `%s` has cut already: `parts` there only would be "
                         "right",
                         stage->name, draft->stages[cut].name);
    else
        s_check_made(draft, stage, at);
}

// The nearest number that divides the rows of a batch and keeps together what was made of one, from `from` on, down or
// up; 0: none is near.
static int64_t
s_divisor(const verl_draft_count_t *count, int64_t from, int64_t step)
{
    for (int64_t at = from, looks = 0; at > 0 && at <= count->rows && looks < S_LOOKS; at += step, looks++)
        if (count->rows % at == 0)
            return at;
    return 0;
}

// Mini-batches that do not divide a batch would be of different sizes; nor may they once each is filled up to what was
// made of one row.
static void
s_check_divides(verl_draft_t *draft, const verl_draft_stage_t *stage)
{
    int64_t rows = stage->divides;
    verl_draft_count_t count =
        stage->divides_option && rows > 0 ? verl_draft_count(draft, stage) : (verl_draft_count_t){ .rows = -1 };
    if (count.rows < 0 ||
        (count.rows % rows == 0 && count.rows % ((rows + count.together - 1) / count.together * count.together) == 0))
        return;
    int64_t step = count.together, most = rows < count.rows ? rows / step * step : count.rows;
    int64_t down = s_divisor(&count, most, -step), up = s_divisor(&count, most + step, step);
    const char *right = verl_pool_print(draft->pool, "%lld", (long long) (down ? down : up ? up : count.rows));
    if (down && up)
        right = verl_pool_print(draft->pool, "%s or %lld", right, (long long) up);
    verl_problem_add(&draft->problems, verl_draft_option_at(draft, stage, stage->divides_option),
                     "`%s` is %lld, and the %lld rows of a batch (%s) do not divide into so many at a time: %s would be "
                     "right", stage->divides_option, (long long) rows, (long long) count.rows, count.text, right);
}

// What is sure to be there at once: rows that options count, of columns whose width is fixed, and no parts.
static void
s_check_memory(verl_draft_t *draft, const verl_draft_stage_t *reader, const verl_draft_edge_t *edge, double memory)
{
    const double gib = 1 << 30;
    const verl_draft_stage_t *maker = &draft->stages[edge->maker];
    double row = 0;
    for (int c = 0; c < edge->columns_count; c++)
        for (int g = 0; g < maker->gives_count; g++)
            if (strcmp(maker->gives[g].as, edge->columns[c]) == 0 && maker->gives[g].type)
                row += verl_describe_row_bytes(maker->gives[g].type, 0);
    int64_t rows = row > 0 && !maker->maps && maker->parts_of < 0 ? verl_draft_count(draft, maker).rows : -1;
    if ((double) rows * row <= memory)
        return;
    verl_at_t at = verl_draft_option_at(draft, maker, "rows");
    verl_problem_add(&draft->problems, verl_draft_at(maker->node, "bytes", at),
                     "a batch of `%s` for `%s` is %lld rows of %.4g GiB, and this machine has %.4g GiB of memory: fewer "
                     "rows, or shorter ones, would be right", maker->name, reader->name, (long long) rows, row / gib,
                     memory / gib);
}

// An update that fails in a later mini-batch has learned from the earlier ones.
static void
s_check_skips(verl_draft_t *draft, const verl_draft_stage_t *stage)
{
    if (stage->keys.on_error == VERL_ON_ERROR_SKIP && stage->handler && stage->handler->writes_weights)
        verl_problem_add(&draft->problems, verl_draft_at(stage->node, "on_error", stage->at),
                         "`%s` updates weights, and a batch on which it fails may have changed them already: "
                         "on_error = \"stop\" would be right",
                         stage->name);
}

static bool
s_writes_in(const verl_draft_t *draft, int actor)
{
    for (int i = 0; i < draft->stages_count; i++)
        if (draft->stages[i].actor == actor && draft->stages[i].handler && draft->stages[i].handler->writes_weights)
            return true;
    return false;
}

// What a kind keeps is its weights, where it has a stage that updates them: an actor without that stage keeps nothing.
static bool
s_keeps_state(const verl_draft_t *draft, int actor)
{
    const verl_kind_t *kind = draft->actors[actor].kind;
    if (!kind || !kind->keeps_state)
        return false;
    bool weights = false;
    for (int i = 0; i < verl_stage_kind_count(kind); i++)
        weights = weights || kind->stages[i].writes_weights;
    return !weights || s_writes_in(draft, actor);
}

static void
s_check_replicas(verl_draft_t *draft, int index)
{
    const verl_draft_actor_t *actor = &draft->actors[index];
    if (actor->keys.replicas <= 1 || actor->stages == 0 || !s_keeps_state(draft, index))
        return;
    char shown[256];
    verl_problem_add(&draft->problems, verl_draft_at(actor->node, "replicas", actor->at),
                     "`%s` has %lld replicas, and its "
                     "kind `%s` keeps state, which they could not share: `replicas = 1` would be right",
                     actor->name, (long long) actor->keys.replicas, verl_kind_shown(actor->kind, shown, sizeof shown));
}

// A stage that waits for what this stage gives: for its data or its weights; -1: none.
static int
s_reader_of(const verl_draft_t *draft, int stage)
{
    for (int i = 0; i < draft->stages_count; i++) {
        if (draft->stages[i].weights_from == stage)
            return i;
        for (int d = 0; d < draft->stages[i].deps_count; d++)
            if (draft->stages[i].deps[d] == stage)
                return i;
    }
    return -1;
}

// A stage that waits for something of this actor; -1: none. *ret_maker is what it waits for.
static int
s_reader_of_actor(const verl_draft_t *draft, int index, int *ret_maker)
{
    for (int i = 0; i < draft->stages_count; i++) {
        int reader = draft->stages[i].actor == index ? s_reader_of(draft, i) : -1;
        *ret_maker = i;
        if (reader >= 0)
            return reader;
    }
    return -1;
}

// What on_failure promises has to be possible.
static void
s_check_failure(verl_draft_t *draft, int index)
{
    const verl_draft_actor_t *actor = &draft->actors[index];
    int maker, reader = s_reader_of_actor(draft, index, &maker);
    if (actor->keys.on_failure == VERL_ON_FAILURE_IGNORE && reader >= 0)
        verl_problem_add(&draft->problems, verl_draft_at(actor->node, "on_failure", actor->at),
                         "the failure of `%s` cannot be "
                         "ignored, since `%s` depends on `%s`: \"stop\" would be right",
                         actor->name, draft->stages[reader].name, draft->stages[maker].name);
    if (actor->keys.on_failure == VERL_ON_FAILURE_RESTART && actor->keys.place == VERL_PLACE_THREAD)
        verl_problem_add(&draft->problems, verl_draft_at(actor->node, "on_failure", actor->at),
                         "`%s` is a thread of verl-run, which cannot be started again alone: `place = \"process\"` would "
                         "be right",
                         actor->name);
}

void
verl_draft_limits(verl_draft_t *draft)
{
    for (int i = 0; i < draft->order_count; i++)
        s_parts(draft, draft->order[i]);
    for (int i = 0; i < draft->order_count; i++)
        s_check_divides(draft, &draft->stages[draft->order[i]]);
    double memory = (double) verl_machine_memory_swap();
    for (int i = 0; i < draft->stages_count; i++)
        for (int e = 0; e < draft->stages[i].in_count; e++)
            s_check_memory(draft, &draft->stages[i], &draft->stages[i].in[e], memory);
    for (int i = 0; i < draft->stages_count; i++)
        s_check_skips(draft, &draft->stages[i]);
    for (int i = 0; i < draft->actors_count; i++) {
        s_check_replicas(draft, i);
        s_check_failure(draft, i);
    }
}
