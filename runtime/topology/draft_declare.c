// draft_declare.c: what a stage needs and gives: the kind's lists, under this stage's options, and what the kind's own
// declare function says on top of them.
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/draft.h"
#include "runtime/topology/grammar.h"
#include "runtime/topology/nearest.h"
#include "runtime/topology/options.h"
#include "runtime/topology/value.h"

#define S_NAME_BYTES 255 // of a column's name, at most: what a batch and a record have

// The ids in a column belong to a space; `who` made it so.
typedef struct space {
    const char *column, *id, *who;
} space_t;

struct verl_declaration {
    verl_draft_t *draft;
    verl_draft_stage_t *stage;
    int index;
    int errors;
    int spaces_count;
    space_t *spaces;
};

static const verl_value_t *
s_state(const verl_draft_t *draft, const verl_draft_stage_t *stage)
{
    return &draft->actors[stage->actor].options;
}

const char *
verl_draft_uses(const verl_draft_stage_t *stage, const char *name)
{
    const verl_node_t *other = verl_node_get(verl_node_get(stage->node, "uses"), name);
    return other && other->type == VERL_NODE_STRING ? other->string : name;
}

bool
verl_draft_column_name(const char *name)
{
    for (const unsigned char *c = (const unsigned char *) name; *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            return false;
    return *name && strlen(name) <= S_NAME_BYTES;
}

static void
s_add_need(verl_draft_t *draft, verl_draft_stage_t *stage, const char *name, const verl_need_text_t *need,
           const verl_node_t *node)
{
    for (int i = 0; i < stage->needs_count; i++)
        if (strcmp(stage->needs[i].name, name) == 0) {
            stage->needs[i].optional = stage->needs[i].optional && need->optional;
            stage->needs[i].of = stage->needs[i].of ? stage->needs[i].of : need->of;
            return;
        }
    const verl_node_t *uses = verl_node_get(stage->node, "uses");
    stage->needs = verl_pool_grow(draft->pool, stage->needs, stage->needs_count, sizeof *stage->needs);
    stage->needs[stage->needs_count++] = (verl_draft_need_t){ .name = verl_pool_copy(draft->pool, name),
                                                              .column = verl_draft_uses(stage, name),
                                                              .optional = need->optional,
                                                              .named = verl_node_get(uses, name),
                                                              .node = node,
                                                              .of = need->of,
                                                              .maker = -1,
                                                              .edge = -1 };
}

// Where the entry of a list was written: its own place in an array, or the key of a table.
static const verl_node_t *
s_entry_node(const verl_draft_t *draft, const verl_draft_stage_t *stage, const char *option, int index)
{
    const verl_node_t *node = verl_node_get(stage->node, option);
    if (!node)
        node = verl_node_get(draft->actors[stage->actor].node, option);
    bool list = node && (node->type == VERL_NODE_ARRAY || node->type == VERL_NODE_TABLE) && index < node->count;
    return list ? node->items[index] : node;
}

// Where an option that lists columns has this one among its entries; NULL: none does.
static const verl_node_t *
s_listed_node(const verl_draft_t *draft, const verl_draft_stage_t *stage, const char *name)
{
    const verl_node_t *tables[] = { stage->node, draft->actors[stage->actor].node };
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < tables[t]->count; i++) {
            const verl_node_t *list = tables[t]->items[i];
            const char *key = tables[t]->keys[i];
            const verl_option_t *option = verl_option_find(stage->handler->options, key);
            if (!option)
                option = verl_option_find(draft->actors[stage->actor].kind->options, key);
            if (!option || (option->type != VERL_OPTION_WEIGHTS && option->type != VERL_OPTION_STRINGS))
                continue;
            for (int j = 0; j < list->count; j++) {
                const char *entry = list->type == VERL_NODE_TABLE ? list->keys[j] : list->items[j]->string;
                if (entry && strcmp(entry, name) == 0)
                    return list->items[j];
            }
        }
    return NULL;
}

static void
s_need(verl_draft_t *draft, verl_draft_stage_t *stage, const verl_need_text_t *need)
{
    const verl_value_t *state = s_state(draft, stage);
    if (!verl_condition_holds(&need->condition, &stage->options, state))
        return;
    if (!need->listed) {
        s_add_need(draft, stage, need->name, need, s_listed_node(draft, stage, need->name));
        return;
    }
    const verl_value_t *list = verl_value_get(&stage->options, need->name);
    if (!list)
        list = verl_value_get(state, need->name);
    for (int i = 0; list && i < list->count; i++) {
        const char *name = list->type == VERL_VALUE_TABLE ? list->keys[i] : list->items[i].string;
        s_add_need(draft, stage, name, need, s_entry_node(draft, stage, need->name, i));
    }
}

static void
s_give(verl_draft_t *draft, verl_draft_stage_t *stage, const verl_give_text_t *give)
{
    const verl_value_t *state = s_state(draft, stage);
    if (!verl_condition_holds(&give->condition, &stage->options, state))
        return;
    for (int i = 0; i < stage->gives_count; i++)
        if (strcmp(stage->gives[i].name, give->name) == 0)
            return;
    stage->gives = verl_pool_grow(draft->pool, stage->gives, stage->gives_count, sizeof *stage->gives);
    stage->gives[stage->gives_count++] = (verl_draft_give_t){
        .name = give->name, .as = give->name, .type = verl_give_type(give, &stage->options, state, draft->pool)
    };
}

void
verl_declare_need(verl_declaration_t *declaration, const char *column)
{
    verl_need_text_t need;
    verl_error_t error = { "" };
    if (verl_need_parse(column, declaration->draft->pool, &need, &error) != 0)
        verl_declare_error(declaration, NULL,
                           "its kind declares a need that cannot be read, %s: a kind that writes it "
                           "otherwise would be right",
                           error.text);
    else
        s_need(declaration->draft, declaration->stage, &need);
}

void
verl_declare_give(verl_declaration_t *declaration, const char *column)
{
    verl_give_text_t give;
    verl_error_t error = { "" };
    if (verl_give_parse(column, declaration->draft->pool, &give, &error) != 0)
        verl_declare_error(declaration, NULL,
                           "its kind declares a column that cannot be read, %s: a kind that writes it "
                           "otherwise would be right",
                           error.text);
    else
        s_give(declaration->draft, declaration->stage, &give);
}

void
verl_declare_space(verl_declaration_t *declaration, const char *column, const char *space, const char *who)
{
    verl_pool_t *pool = declaration->draft->pool;
    int count = declaration->spaces_count++;
    declaration->spaces = verl_pool_grow(pool, declaration->spaces, count, sizeof *declaration->spaces);
    declaration->spaces[count] = (space_t){ .column = verl_pool_copy(pool, column),
                                            .id = verl_pool_copy(pool, space),
                                            .who = verl_pool_copy(pool, who ? who : space) };
}

// Once all needs and gives are known, whatever was declared first.
static void
s_apply_space(verl_draft_stage_t *stage, const space_t *space)
{
    for (int i = 0; i < stage->needs_count; i++)
        if (strcmp(stage->needs[i].name, space->column) == 0) {
            stage->needs[i].space = space->id;
            stage->needs[i].who = space->who;
        }
    for (int i = 0; i < stage->gives_count; i++)
        if (strcmp(stage->gives[i].name, space->column) == 0) {
            stage->gives[i].space = space->id;
            stage->gives[i].who = space->who;
        }
}

void
verl_declare_batches(verl_declaration_t *declaration, int64_t batches)
{
    declaration->stage->batches = batches < 0 ? 0 : batches;
}

void
verl_declare_rows(verl_declaration_t *declaration, int64_t rows)
{
    declaration->stage->rows = rows < 0 ? 0 : rows;
}

// Is one file the other, or in it as if that were a folder?
static bool
s_collide(const char *file, const char *other)
{
    size_t length = strlen(file), size = strlen(other), less = length < size ? length : size;
    const char *longer = length < size ? other : file;
    return strncmp(file, other, less) == 0 && (length == size || longer[less] == '/');
}

void
verl_declare_writes(verl_declaration_t *declaration, const char *option, const char *file)
{
    verl_draft_t *draft = declaration->draft;
    for (int i = 0; i < draft->stages_count; i++)
        if (draft->stages[i].writes && s_collide(draft->stages[i].writes, file)) {
            bool same = strcmp(draft->stages[i].writes, file) == 0;
            verl_declare_error(declaration, option, "'%s' is what `%s` writes already%s: another name would be right",
                               same ? file : draft->stages[i].writes, draft->stages[i].name,
                               same ? "" : ", and one of the two would have to be a folder");
        }
    declaration->stage->writes = verl_pool_copy(draft->pool, file);
}

void
verl_declare_by_row(verl_declaration_t *declaration)
{
    declaration->stage->by_row = true;
}

void
verl_declare_maps(verl_declaration_t *declaration)
{
    declaration->stage->maps = true;
}

void
verl_declare_divides(verl_declaration_t *declaration, const char *option, int64_t rows)
{
    declaration->stage->divides_option = verl_pool_copy(declaration->draft->pool, option);
    declaration->stage->divides = rows;
}

const char *
verl_declare_stage(const verl_declaration_t *declaration)
{
    return declaration->stage->name;
}

bool
verl_declare_is_source(const verl_declaration_t *declaration)
{
    return declaration->stage->deps_count == 0;
}

bool
verl_declare_has_weights(const verl_declaration_t *declaration)
{
    return declaration->stage->weights_from >= 0 || verl_node_get(declaration->stage->node, "weights");
}

verl_at_t
verl_draft_option_at(const verl_draft_t *draft, const verl_draft_stage_t *stage, const char *option)
{
    verl_at_t at = verl_draft_at(draft->actors[stage->actor].node, option, stage->at);
    return verl_draft_at(stage->node, option, at);
}

// Where a sentence names an entry: behind a quote, or a path that it begins with. NULL: it does not.
static const char *
s_named(const char *text, const char *entry)
{
    for (const char *at = strstr(text, entry); at && *entry; at = strstr(at + 1, entry))
        if (at == text ? strchr(entry, '/') != NULL : strchr("'\"`", at[-1]) != NULL)
            return at;
    return NULL;
}

// Where an option was written; of a list, the entry that a sentence names first, by the longest name.
static verl_at_t
s_blamed(const verl_draft_t *draft, const verl_draft_stage_t *stage, const char *option, const char *text)
{
    const verl_node_t *node = verl_node_get(stage->node, option);
    const verl_value_t *value = verl_value_get(&stage->options, option);
    const char *first = NULL;
    verl_at_t at = verl_draft_option_at(draft, stage, option);
    node = node ? node : verl_node_get(draft->actors[stage->actor].node, option);
    value = value ? value : verl_value_get(s_state(draft, stage), option);
    bool list = node && value && node->type == VERL_NODE_ARRAY && value->type == VERL_VALUE_ARRAY;
    size_t longest = 0;
    for (int i = 0; list && node->count == value->count && i < node->count; i++) {
        const char *entry = value->items[i].string, *found = entry ? s_named(text, entry) : NULL;
        if (!found || (first && (found > first || (found == first && strlen(entry) < longest))))
            continue;
        first = found;
        longest = strlen(entry);
        at = node->items[i]->at;
    }
    return at;
}

void
verl_declare_error(verl_declaration_t *declaration, const char *option, const char *format, ...)
{
    verl_draft_t *draft = declaration->draft;
    const verl_draft_stage_t *stage = declaration->stage;
    va_list arguments;
    va_start(arguments, format);
    const char *text = verl_pool_vprint(draft->pool, format, arguments);
    va_end(arguments);
    verl_at_t at = option ? s_blamed(draft, stage, option, text) : stage->at;
    verl_problem_add(&draft->problems, at, "`%s`: %s", option ? option : stage->name, text);
    declaration->errors++;
}

bool
verl_declare_has_upstream(const verl_declaration_t *declaration, const char *column)
{
    verl_draft_t *draft = declaration->draft;
    const verl_draft_stage_t *stage = declaration->stage;
    verl_need_text_t need;
    verl_error_t ignored;
    if (verl_need_parse(column, draft->pool, &need, &ignored) != 0)
        return false;
    const char *name = verl_draft_uses(stage, need.name), *of = need.of ? verl_draft_uses(stage, need.of) : NULL;
    for (int i = 0; i < draft->stages_count; i++)
        if (verl_draft_makes(draft, declaration->index, i, name) &&
            !(of && verl_draft_is_before(draft, declaration->index, i, of)))
            return true;
    return false;
}

// The kind looks at the structs that its handlers will get. If memory runs out meanwhile they are lost, and so is the
// run.
static void
s_ask(verl_draft_t *draft, verl_draft_stage_t *stage, int index)
{
    const verl_draft_actor_t *actor = &draft->actors[stage->actor];
    const verl_stage_kind_t *handler = stage->handler;
    void *state = verl_pool_alloc(draft->pool, verl_options_bytes(actor->kind->options, actor->kind->state_size));
    void *options = verl_pool_alloc(draft->pool, verl_options_bytes(handler->options, handler->options_size));
    verl_error_t error = { "" };
    verl_declaration_t declaration = { .draft = draft, .stage = stage, .index = index };
    if (verl_options_fill(actor->kind->options, &actor->options, state, &error) != 0)
        verl_declare_error(&declaration, NULL, "%s", error.text);
    else {
        if (verl_options_fill(stage->handler->options, &stage->options, options, &error) != 0)
            verl_declare_error(&declaration, NULL, "%s", error.text);
        else if (stage->handler->declare(&declaration, state, options) != 0 && declaration.errors == 0)
            verl_declare_error(&declaration, NULL, "its kind refuses these options without saying why");
        verl_options_done(stage->handler->options, options);
    }
    verl_options_done(actor->kind->options, state);
    for (int i = 0; i < declaration.spaces_count; i++)
        s_apply_space(stage, &declaration.spaces[i]);
    stage->unsure = stage->unsure || declaration.errors > 0;
}

static bool
s_gives(const verl_draft_stage_t *stage, const char *name)
{
    for (int i = 0; i < stage->gives_count; i++)
        if (strcmp(stage->gives[i].name, name) == 0)
            return true;
    return false;
}

static void
s_unknown_column(verl_draft_t *draft, const verl_draft_stage_t *stage, const verl_node_t *entry, const char *key,
                 const char *name)
{
    bool as = strcmp(key, "as") == 0;
    verl_nearest_t nearest;
    verl_nearest_init(&nearest, name);
    const char *list = NULL;
    for (int i = 0; i < (as ? stage->gives_count : stage->needs_count); i++) {
        const char *known = as ? stage->gives[i].name : stage->needs[i].name;
        verl_nearest_offer(&nearest, known);
        list = verl_pool_print(draft->pool, "%s%s`%s`", list ? list : "", list ? ", " : "", known);
    }
    const char *verb = as ? "gives" : "needs";
    if (nearest.best)
        verl_problem_add(&draft->problems, entry->key_at, "`%s` %s no column `%s`: did you mean `%s`?", stage->name,
                         verb, name, nearest.best);
    else
        verl_problem_add(&draft->problems, entry->key_at, "`%s` %s no column `%s`: it %s %s", stage->name, verb, name,
                         verb, list ? list : "none at all, so leaving this out would be right");
}

static bool
s_check_name(verl_draft_t *draft, const verl_node_t *value, const char *key)
{
    if (value->type == VERL_NODE_STRING && verl_draft_column_name(value->string))
        return true;
    verl_problem_add(
        &draft->problems, value->at,
        "`%s` has %s in it that is no name of a column: a string of 1 to %d bytes, with no control character "
        "among them, would be right",
        key, verl_node_type_name(value->type), S_NAME_BYTES);
    return false;
}

static void
s_as_table(verl_draft_t *draft, verl_draft_stage_t *stage, const verl_node_t *as)
{
    for (int i = 0; i < as->count; i++) {
        if (!s_check_name(draft, as->items[i], "as"))
            continue;
        if (!s_gives(stage, as->keys[i]) && !stage->unsure)
            s_unknown_column(draft, stage, as->items[i], "as", as->keys[i]);
        for (int g = 0; g < stage->gives_count; g++)
            if (strcmp(stage->gives[g].name, as->keys[i]) == 0)
                stage->gives[g].as = as->items[i]->string;
    }
}

static void
s_as(verl_draft_t *draft, verl_draft_stage_t *stage)
{
    const verl_node_t *as = verl_node_get(stage->node, "as");
    if (!as)
        return;
    if (as->type == VERL_NODE_TABLE)
        s_as_table(draft, stage, as);
    else if (as->type == VERL_NODE_STRING && s_check_name(draft, as, "as"))
        for (int g = 0; g < stage->gives_count; g++)
            stage->gives[g].as = verl_pool_print(draft->pool, "%s%s", as->string, stage->gives[g].name);
    else if (as->type != VERL_NODE_STRING)
        verl_problem_add(&draft->problems, as->at,
                         "`as` is %s: a table, { score = \"score_length\" }, or a prefix for all, "
                         "\"greedy_\", would be right",
                         verl_node_type_name(as->type));
    for (int a = 0; a < stage->gives_count; a++)
        for (int b = 0; b < a; b++)
            if (strcmp(stage->gives[a].as, stage->gives[b].as) == 0)
                verl_problem_add(&draft->problems, as->at,
                                 "`as` makes one name, `%s`, of `%s` and `%s`: two names would be "
                                 "right",
                                 stage->gives[a].as, stage->gives[b].name, stage->gives[a].name);
}

static void
s_check_uses(verl_draft_t *draft, const verl_draft_stage_t *stage)
{
    const verl_node_t *uses = verl_node_get(stage->node, "uses");
    if (uses && uses->type != VERL_NODE_TABLE)
        verl_problem_add(&draft->problems, uses->at,
                         "`uses` is %s: a table, { score = \"score_length\" }, would be right",
                         verl_node_type_name(uses->type));
    for (int i = 0; uses && uses->type == VERL_NODE_TABLE && i < uses->count; i++) {
        bool needed = false;
        for (int n = 0; n < stage->needs_count; n++)
            needed = needed || strcmp(stage->needs[n].name, uses->keys[i]) == 0;
        if (s_check_name(draft, uses->items[i], "uses") && !needed && !stage->unsure)
            s_unknown_column(draft, stage, uses->items[i], "uses", uses->keys[i]);
    }
}

void
verl_draft_declare(verl_draft_t *draft, int index)
{
    verl_draft_stage_t *stage = &draft->stages[index];
    verl_error_t ignored; // the kind's lists were read when it was registered
    const verl_stage_kind_t *handler = stage->handler;
    for (int i = 0; handler && i < VERL_MAX_COLUMNS && handler->needs[i]; i++) {
        verl_need_text_t need;
        if (verl_need_parse(handler->needs[i], draft->pool, &need, &ignored) == 0)
            s_need(draft, stage, &need);
    }
    for (int i = 0; handler && i < VERL_MAX_COLUMNS && handler->gives[i]; i++) {
        verl_give_text_t give;
        if (verl_give_parse(handler->gives[i], draft->pool, &give, &ignored) == 0)
            s_give(draft, stage, &give);
    }
    if (handler && handler->declare && !stage->unsure)
        s_ask(draft, stage, index);
    s_as(draft, stage);
    s_check_uses(draft, stage);
    stage->clouded = stage->unsure;
    for (int d = 0; d < stage->deps_count; d++)
        stage->clouded = stage->clouded || draft->stages[stage->deps[d]].clouded;
}
