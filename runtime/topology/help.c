// help.c: --kinds and --help KIND, from the same tables that topologies are checked against. See describe.h.
#include <string.h>
#include "runtime/topology/describe.h"
#include "runtime/topology/keys.h"
#include "runtime/topology/kinds.h"
#include "runtime/topology/options.h"

int
verl_describe_kinds(FILE *out)
{
    const verl_kind_t *kind;
    size_t width = 0;
    for (int i = 0; (kind = verl_kind_at(i)); i++)
        width = strlen(kind->name) > width ? strlen(kind->name) : width;
    for (int i = 0; (kind = verl_kind_at(i)); i++) {
        char shown[256];
        fprintf(out, "%-*s  %s", (int) width, verl_kind_shown(kind, shown, sizeof shown),
                kind->about ? kind->about : "");
        int stages = verl_stage_kind_count(kind);
        for (int s = 0; s < stages && stages > 1; s++)
            fprintf(out, "%s%s%s", s ? ", " : " (stages: ", kind->stages[s].name, s == stages - 1 ? ")" : "");
        fputc('\n', out);
    }
    return ferror(out) ? -1 : 0;
}

static void
s_range(FILE *out, const verl_option_t *option)
{
    bool number = option->type == VERL_OPTION_INT || option->type == VERL_OPTION_REAL;
    if (number && !(option->min == 0 && option->max == 0))
        fprintf(out, ", from %.15g to %.15g", option->min, option->max);
    if (number && option->unit && *option->unit)
        fprintf(out, " %s", option->unit);
    if (option->type == VERL_OPTION_CHOICE)
        for (const char *at = option->choices; *at;) {
            size_t size = strcspn(at, "|");
            fprintf(out, "%s\"%.*s\"", at == option->choices ? ": " : " or ", (int) size, at);
            at += size + (at[size] == '|');
        }
}

static void
s_default(FILE *out, const verl_option_t *option)
{
    bool text =
        option->type == VERL_OPTION_STRING || option->type == VERL_OPTION_CHOICE || option->type == VERL_OPTION_PATH;
    if (option->fallback)
        fprintf(out, text ? "; default \"%s\"" : "; default %s", option->fallback);
    else
        fputs(option->optional ? "; may be absent" : "; must be given", out);
    if (option->must_exist)
        fputs("; must exist", out);
}

// "verl:data.train_batch_size trl:…" as "in verl data.train_batch_size, in trl …".
static void
s_also(FILE *out, const verl_option_t *option)
{
    for (const char *at = option->also; at && *at;) {
        size_t length = strcspn(at, " "), name = strcspn(at, ":");
        if (name < length)
            fprintf(out, "%sin %.*s: %.*s", at == option->also ? "      " : ", ", (int) name, at,
                    (int) (length - name - 1), at + name + 1);
        at += length;
        at += strspn(at, " ");
    }
    if (option->also && *option->also)
        fputc('\n', out);
}

static void
s_options(FILE *out, const verl_option_t *table)
{
    for (const verl_option_t *option = table; option && option->name; option++) {
        fprintf(out, "  %s (%s", option->name, verl_option_type_name(option->type));
        s_range(out, option);
        s_default(out, option);
        fprintf(out, ")\n      %s\n", option->about ? option->about : "");
        s_also(out, option);
    }
}

static void
s_columns(FILE *out, const char *verb, const char *const *columns)
{
    for (int i = 0; i < VERL_MAX_COLUMNS && columns[i]; i++)
        if (columns[i][0] == '*')
            fprintf(out, "  %s the columns that its option `%s` names\n", verb, columns[i] + 1);
        else
            fprintf(out, "  %s %s\n", verb, columns[i]);
}

static void
s_stage(FILE *out, const verl_stage_kind_t *stage)
{
    fprintf(out, "\nstage %s", stage->name);
    if (stage->about && *stage->about)
        fprintf(out, ": %s", stage->about);
    fputc('\n', out);
    s_columns(out, "needs", stage->needs);
    s_columns(out, "gives", stage->gives);
    if (stage->declare)
        fputs("  and columns that follow from its options and data\n", out);
    if (stage->source_only)
        fputs("  is a source: depends on nothing\n", out);
    if (stage->maps)
        fputs("  makes new rows of those that it is given\n", out);
    if (stage->by_row)
        fputs("  works row by row: part by part, where its batch comes in parts\n", out);
    if (stage->reads_weights)
        fputs("  works with weights: may say `weights` and `staleness`\n", out);
    if (stage->writes_weights)
        fputs("  updates the weights\n", out);
    if (stage->options && stage->options->name)
        fputs("options of the stage\n", out);
    s_options(out, stage->options);
}

// The keys that all kinds have in common.
static const verl_option_t *
s_common(const char *name, const char **ret_about)
{
    static const struct {
        const char *name, *about;
        const verl_option_t *table;
    } all[] = { { "run", "[run]: the run as a whole", verl_run_table },
                { "actor", "[actor.NAME]: keys of every actor, also in a stage that names a kind", verl_actor_table },
                { "stage", "[stage.NAME]: keys of every stage", verl_stage_table } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0) {
            *ret_about = all[i].about;
            return all[i].table;
        }
    return NULL;
}

int
verl_describe_help(const char *name, FILE *out, verl_error_t *error)
{
    const char *about;
    const verl_option_t *common = s_common(name, &about);
    if (common) {
        fprintf(out, "%s\n\n", about);
        s_options(out, common);
        return ferror(out) ? verl_error_set(error, "cannot write the help") : 0;
    }
    const verl_kind_t *kind = verl_kind_find(name, error);
    if (!kind)
        return -1;
    char shown[256];
    fprintf(out, "%s: %s\n", verl_kind_shown(kind, shown, sizeof shown), kind->about ? kind->about : "");
    if (kind->keeps_state)
        fputs("keeps state: is saved in checkpoints\n", out);
    if (kind->options && kind->options->name)
        fputs("\noptions of the state, in [actor.NAME] or in a stage that names the kind\n", out);
    s_options(out, kind->options);
    for (int i = 0; i < verl_stage_kind_count(kind); i++)
        s_stage(out, &kind->stages[i]);
    fputs("\n`verl-run --help actor` and `--help stage` list the keys that every kind has.\n", out);
    return ferror(out) ? verl_error_set(error, "cannot write the help") : 0;
}
