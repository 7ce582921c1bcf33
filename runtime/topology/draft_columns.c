// draft_columns.c: finds, for each column that a stage needs, the stage that makes it, and the edges that bring it.
#include <string.h>
#include "runtime/topology/draft.h"
#include "runtime/topology/grammar.h"
#include "runtime/topology/kinds.h"
#include "runtime/topology/nearest.h"

#define FIELDS_SHOWN 8

int
verl_draft_edge(verl_draft_t *draft, int index, int maker)
{
    verl_draft_stage_t *stage = &draft->stages[index];
    for (int i = 0; i < stage->in_count; i++)
        if (stage->in[i].maker == maker)
            return i;
    stage->in = verl_pool_grow(draft->pool, stage->in, stage->in_count, sizeof *stage->in);
    stage->in[stage->in_count] = (verl_draft_edge_t){ .maker = maker };
    return stage->in_count++;
}

static const verl_draft_give_t *
s_give(const verl_draft_stage_t *stage, const char *column)
{
    for (int i = 0; i < stage->gives_count; i++)
        if (strcmp(stage->gives[i].as, column) == 0)
            return &stage->gives[i];
    return NULL;
}

// Where to point at: what names the column in this stage, else what decides what is upstream.
static verl_at_t
s_at(const verl_draft_stage_t *stage, const verl_draft_need_t *need)
{
    const verl_node_t *uses = verl_node_get(verl_node_get(stage->node, "uses"), need->name);
    if (uses)
        return uses->at;
    if (need->node)
        return need->node->key_at;
    return verl_draft_at(stage->node, "depends_on", stage->at);
}

// Is `column` another name for `name`, as a prefix makes it: ref_logprobs for logprobs?
static bool
s_is_renamed(const char *column, const char *name)
{
    size_t whole = strlen(column), length = strlen(name);
    return whole > length + 1 && column[whole - length - 1] == '_' && strcmp(column + whole - length, name) == 0;
}

// A kind of this program that would give the column: "a stage `generate` of kind `policy` gives it"; renamed: under
// another name. NULL: none.
static const char *
s_giving_kind(verl_draft_t *draft, const char *column, bool renamed)
{
    const verl_kind_t *kind;
    for (int k = 0; (kind = verl_kind_at(k)); k++)
        for (int s = 0; s < verl_stage_kind_count(kind); s++)
            for (int g = 0; g < VERL_MAX_COLUMNS && kind->stages[s].gives[g]; g++) {
                verl_give_text_t give;
                verl_error_t ignored;
                if (verl_give_parse(kind->stages[s].gives[g], draft->pool, &give, &ignored) != 0 ||
                    !(renamed ? s_is_renamed(column, give.name) : strcmp(give.name, column) == 0))
                    continue;
                char shown[256];
                verl_kind_shown(kind, shown, sizeof shown);
                const char *condition = verl_condition_text(&give.condition, draft->pool), *as = "";
                if (renamed)
                    as = verl_pool_print(draft->pool, ", with `as = { %s = \"%s\" }`,", give.name, column);
                return verl_pool_print(draft->pool, "a stage that does `%s` of kind `%s`%s gives it%s%s",
                                       kind->stages[s].name, shown, as, *condition ? ", if " : "", condition);
            }
    return NULL;
}

// A stage upstream that gives the column under its plain name: `logprobs` where `ref_logprobs` is needed. NULL: none.
static const char *
s_giving_stage(verl_draft_t *draft, int index, const char *column)
{
    for (int i = 0; i < draft->stages_count; i++)
        for (int g = 0; verl_draft_is_upstream(draft, index, i) && g < draft->stages[i].gives_count; g++) {
            const verl_draft_stage_t *stage = &draft->stages[i];
            if (s_is_renamed(column, stage->gives[g].as))
                return verl_pool_print(draft->pool,
                                       "`%s` gives `%s`, so `as = { %s = \"%s\" }` in [stage.%s] would be right",
                                       stage->name, stage->gives[g].as, stage->gives[g].name, column, stage->name);
        }
    return NULL;
}

// What a stage upstream gives under another name, and could be used: `score`, as `b_score`. NULL: none does.
static const char *
s_given_otherwise(verl_draft_t *draft, int index, const verl_draft_need_t *need)
{
    for (int i = 0; i < draft->stages_count; i++)
        for (int g = 0; verl_draft_is_upstream(draft, index, i) && g < draft->stages[i].gives_count; g++) {
            const verl_draft_give_t *give = &draft->stages[i].gives[g];
            if (strcmp(give->name, need->column) == 0)
                return verl_pool_print(draft->pool, "`%s` gives it as `%s`, so `uses = { %s = \"%s\" }` in [stage.%s] "
                                       "would be right", draft->stages[i].name, give->as, need->name, give->as,
                                       draft->stages[index].name);
        }
    return NULL;
}

static const char *
s_nearest_column(const verl_draft_t *draft, int index, const char *column)
{
    verl_nearest_t nearest;
    verl_nearest_init(&nearest, column);
    for (int i = 0; i < draft->stages_count; i++)
        for (int g = 0; verl_draft_is_upstream(draft, index, i) && g < draft->stages[i].gives_count; g++)
            verl_nearest_offer(&nearest, draft->stages[i].gives[g].as);
    return nearest.best;
}

// The stage that makes a column which comes with another one: that one, or one upstream of it; -1: none.
static int
s_comes_from(const verl_draft_t *draft, int stage, const char *column)
{
    for (int m = 0; m < draft->stages_count; m++)
        if ((m == stage || verl_draft_is_upstream(draft, stage, m)) && s_give(&draft->stages[m], column))
            return m;
    return -1;
}

// Is a column missing only because this stage, or one upstream of it, was told to depend on one that would bring it?
static bool
s_would_come(const verl_draft_t *draft, int index, const char *column)
{
    for (int i = 0; i < draft->stages_count; i++) {
        int lacks = draft->stages[i].lacks;
        if (lacks < 0 || (i != index && !verl_draft_is_upstream(draft, index, i)))
            continue;
        if (s_comes_from(draft, lacks, column) >= 0)
            return true;
    }
    return false;
}

// How many of the columns that a stage misses would come with another one.
static int
s_brings(const verl_draft_t *draft, int index, int other)
{
    const verl_draft_stage_t *stage = &draft->stages[index];
    int count = 0;
    for (int i = 0; i < stage->needs_count; i++) {
        const verl_draft_need_t *need = &stage->needs[i];
        bool there = need->optional && !need->named;
        for (int m = 0; m < draft->stages_count && !there; m++)
            there = verl_draft_makes(draft, index, m, need->column);
        count += !there && s_comes_from(draft, other, need->column) >= 0;
    }
    return count;
}

// Has it rows of a source that another one has rows of, too? One that depends on nothing yet may have any.
static bool
s_shares_rows(const verl_draft_t *draft, int index, int other)
{
    bool shares = draft->stages[index].deps_count == 0;
    for (int i = 0; i < draft->stages_count; i++)
        shares |= draft->stages[i].deps_count == 0 && verl_draft_is_upstream(draft, index, i) &&
                  (i == other || verl_draft_is_upstream(draft, other, i));
    return shares;
}

// The stage that brings most of what another one misses, this column among it: of those that do, the first. -1: none.
static int
s_lacks(const verl_draft_t *draft, int index, const char *column)
{
    int best = -1, most = 0;
    for (int i = 0; i < draft->stages_count; i++) {
        if (i == index || verl_draft_is_upstream(draft, i, index) || s_comes_from(draft, i, column) < 0 ||
            !s_shares_rows(draft, index, i))
            continue;
        int count = s_brings(draft, index, i);
        if (count > most || (best >= 0 && count == most && verl_draft_is_upstream(draft, best, i))) {
            best = i;
            most = count;
        }
    }
    return best;
}

// The cure where a stage that is not upstream gives the column; NULL: none does.
static const char *
s_given_elsewhere(verl_draft_t *draft, int index, const char *column)
{
    verl_draft_stage_t *stage = &draft->stages[index];
    int lacks = s_lacks(draft, index, column);
    if (lacks >= 0) {
        const char *name = draft->stages[lacks].name, *maker = draft->stages[s_comes_from(draft, lacks, column)].name;
        bool itself = s_give(&draft->stages[lacks], column);
        stage->lacks = lacks;
        stage->lost = true;
        return verl_pool_print(draft->pool, "`%s` gives it, so \"%s\" in depends_on%s would be right",
                               itself ? name : maker, name, itself ? "" : ", which comes behind that,");
    }
    for (int i = 0; i < draft->stages_count; i++)
        if (verl_draft_is_upstream(draft, i, index) && s_give(&draft->stages[i], column))
            return verl_pool_print(draft->pool,
                                   "`%s` gives it, but depends on `%s`: another stage that gives it would be "
                                   "right",
                                   draft->stages[i].name, stage->name);
    return NULL;
}

// What there is in its place: the fields of the records that its rows come from. NULL: none are known.
static const char *
s_fields(verl_draft_t *draft, int index, const verl_draft_need_t *need)
{
    for (int i = 0; i < draft->stages_count; i++) {
        const verl_draft_stage_t *source = &draft->stages[i];
        const char *list = "";
        if (source->deps_count > 0 || !verl_draft_is_upstream(draft, index, i))
            continue;
        for (int g = 0; g < source->gives_count && g < FIELDS_SHOWN; g++)
            list = verl_pool_print(draft->pool, "%s%s`%s`", list, g ? ", " : "", source->gives[g].as);
        if (*list)
            return verl_pool_print(draft->pool, "`%s` gives %s%s: `uses = { %s = \"…\" }` with one of these, or a stage or "
                                   "field that gives it, would be right", source->name, list,
                                   source->gives_count > FIELDS_SHOWN ? ", …" : "", need->name);
    }
    return NULL;
}

static void
s_report_missing(verl_draft_t *draft, int index, const verl_draft_need_t *need)
{
    const verl_draft_stage_t *stage = &draft->stages[index];
    if (s_would_come(draft, index, need->column))
        return;
    const char *cure = s_given_otherwise(draft, index, need), *near = s_nearest_column(draft, index, need->column);
    if (!cure && near && (need->node || need->named))
        cure = verl_pool_print(draft->pool, "did you mean `%s`?", near);
    if (!cure)
        cure = s_given_elsewhere(draft, index, need->column);
    if (!cure)
        cure = s_giving_kind(draft, need->column, false);
    if (!cure)
        cure = s_giving_stage(draft, index, need->column);
    if (!cure)
        cure = s_giving_kind(draft, need->column, true);
    if (!cure && near)
        cure = verl_pool_print(draft->pool, "`uses = { %s = \"%s\" }` may be meant", need->name, near);
    if (!cure)
        cure = s_fields(draft, index, need);
    if (!cure)
        cure = "a stage that gives it, or a record's field of this name, would be right";
    verl_problem_add(&draft->problems, s_at(stage, need),
                     "`%s` needs the column `%s`, which nothing upstream of it gives: "
                     "%s",
                     stage->name, need->column, cure);
}

static void
s_report_two(verl_draft_t *draft, const verl_draft_stage_t *stage, const verl_draft_need_t *need, int a, int b)
{
    const char *one = draft->stages[a].name, *other = draft->stages[b].name, *column = need->column;
    verl_problem_add(
        &draft->problems, s_at(stage, need),
        "the column `%s`, which `%s` needs, is made by `%s` and by `%s`, and "
        "neither depends on the other: `as = { %s = \"%s_%s\" }` in [stage.%s], or `uses = { %s = \"…\" }` here, "
        "would be right",
        column, stage->name, one, other, s_give(&draft->stages[b], column)->name, column, other, other, need->name);
}

bool
verl_draft_makes(const verl_draft_t *draft, int index, int maker, const char *column)
{
    return verl_draft_is_upstream(draft, index, maker) && s_give(&draft->stages[maker], column);
}


// The first other maker that one does not depend on; -1: it depends on all others, and wins.
static int
s_rival(const verl_draft_t *draft, int index, int maker, const char *column)
{
    for (int i = 0; i < draft->stages_count; i++)
        if (i != maker && verl_draft_makes(draft, index, i, column) && !verl_draft_is_upstream(draft, maker, i))
            return i;
    return -1;
}

bool
verl_draft_is_before(const verl_draft_t *draft, int index, int maker, const char *column)
{
    for (int i = 0; i < draft->stages_count; i++)
        if (verl_draft_makes(draft, index, i, column) && s_rival(draft, index, i, column) < 0)
            return i != maker && verl_draft_is_upstream(draft, i, maker);
    return false;
}

// Of all upstream that make the column, the one that depends on the others; -1: none, or reported.
static int
s_maker(verl_draft_t *draft, int index, const verl_draft_need_t *need, bool *ret_told)
{
    int last = -1;
    for (int i = 0; i < draft->stages_count; i++) {
        if (!verl_draft_makes(draft, index, i, need->column))
            continue;
        if (s_rival(draft, index, i, need->column) < 0)
            return i;
        if (last < 0 || verl_draft_is_upstream(draft, i, last))
            last = i;
    }
    if (last >= 0) {
        int rival = s_rival(draft, index, last, need->column);
        s_report_two(draft, &draft->stages[index], need, last < rival ? last : rival, last < rival ? rival : last);
        *ret_told = true;
    }
    return -1;
}

static void
s_check_space(verl_draft_t *draft, const verl_draft_stage_t *stage, const verl_draft_need_t *need)
{
    const verl_draft_give_t *give = s_give(&draft->stages[need->maker], need->column);
    if (!need->space || !give->space || strcmp(need->space, give->space) == 0)
        return;
    verl_problem_add(&draft->problems, s_at(stage, need),
                     "`%s` reads the ids in `%s` with '%s', but `%s` made them with '%s', "
                     "which numbers differently: the same in both would be right",
                     stage->name, need->column, need->who, draft->stages[need->maker].name, give->who);
}

static void
s_carry(verl_draft_t *draft, verl_draft_stage_t *stage, verl_draft_need_t *need)
{
    verl_draft_edge_t *edge = &stage->in[need->edge];
    for (int i = 0; i < edge->columns_count; i++)
        if (strcmp(edge->columns[i], need->column) == 0)
            return;
    edge->columns = verl_pool_grow(draft->pool, edge->columns, edge->columns_count, sizeof *edge->columns);
    edge->columns[edge->columns_count++] = need->column;
}

// Does a stage that depends on `maker` make the column for this one?
static bool
s_is_made_behind(const verl_draft_t *draft, int index, const char *column, int maker)
{
    for (int m = 0; m < draft->stages_count; m++)
        if (verl_draft_is_upstream(draft, index, m) && verl_draft_is_upstream(draft, m, maker) &&
            s_give(&draft->stages[m], column))
            return true;
    return false;
}

// Where the topology says that a column is taken under a new name, what else its maker gives goes with it: of `generate`
// with as = "roll_", not roll_response_ids alone, but also roll_temperature, whoever made a temperature before it. NULL:
// nothing does, or `uses` says which one it is.
static const char *
s_companion(const verl_draft_t *draft, int index, const verl_draft_need_t *need)
{
    const verl_draft_stage_t *stage = &draft->stages[index];
    for (int i = 0; !need->named && i < stage->needs_count; i++) {
        const verl_draft_need_t *other = &stage->needs[i];
        for (int m = 0; m < draft->stages_count && strcmp(other->name, other->column) != 0; m++) {
            const verl_draft_stage_t *maker = &draft->stages[m];
            const verl_draft_give_t *given = s_give(maker, other->column);
            if (!verl_draft_is_upstream(draft, index, m) || !given || strcmp(given->name, other->name) != 0 ||
                s_rival(draft, index, m, other->column) >= 0)
                continue;
            for (int g = 0; g < maker->gives_count; g++)
                if (strcmp(maker->gives[g].name, need->name) == 0)
                    return s_is_made_behind(draft, index, need->column, m) ? NULL : maker->gives[g].as;
        }
    }
    return NULL;
}

static void
s_report_others(verl_draft_t *draft, const verl_draft_stage_t *stage, const verl_draft_need_t *need, const char *of)
{
    const char *maker = draft->stages[need->maker].name;
    verl_problem_add(&draft->problems, s_at(stage, need),
                     "`%s` needs `%s`, and `%s` gives it, but before the `%s` that `%s` works with was made: it belongs "
                     "to others; a stage behind that one which gives it would be right",
                     stage->name, need->column, maker, of, stage->name);
}

// Which stage makes a column for this one; -1: none. What is wrong with it is reported.
static int
s_find(verl_draft_t *draft, int index, verl_draft_need_t *need)
{
    verl_draft_stage_t *stage = &draft->stages[index];
    bool told = false, optional = need->optional && !need->named;
    const char *companion = strcmp(need->name, need->column) == 0 ? s_companion(draft, index, need) : NULL;
    if (companion)
        need->column = companion;
    need->maker = s_maker(draft, index, need, &told);
    stage->lost = stage->lost || told;
    const char *of = need->of ? verl_draft_uses(stage, need->of) : NULL;
    if (need->maker >= 0 && of && verl_draft_is_before(draft, index, need->maker, of)) {
        if (!optional)
            s_report_others(draft, stage, need, of);
        need->maker = -1;
    } else if (need->maker < 0 && !optional && !stage->clouded && !told) {
        s_report_missing(draft, index, need);
    }
    return need->maker;
}

static void
s_resolve(verl_draft_t *draft, int index)
{
    verl_draft_stage_t *stage = &draft->stages[index];
    for (int d = 0; d < stage->deps_count; d++)
        verl_draft_edge(draft, index, stage->deps[d]);
    for (int i = 0; i < stage->needs_count; i++) {
        verl_draft_need_t *need = &stage->needs[i];
        if (s_find(draft, index, need) < 0)
            continue;
        need->edge = verl_draft_edge(draft, index, need->maker);
        s_carry(draft, stage, need);
        s_check_space(draft, stage, need);
    }
    verl_draft_rows(draft, index);
}

void
verl_draft_columns(verl_draft_t *draft)
{
    for (int i = 0; i < draft->order_count; i++)
        verl_draft_declare(draft, draft->order[i]);
    for (int i = 0; i < draft->order_count; i++)
        s_resolve(draft, draft->order[i]);
}
