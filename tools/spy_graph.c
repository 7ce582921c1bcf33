// spy_graph.c: verl-spy graph: the running topology as text for dot or mermaid, or as a picture.
#include "tools/spy_graph.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "tools/display_text.h"
#include "tools/spy.h"
#include "tools/spy_ask.h"
#include "tools/spy_views.h"

#define NAME "verl-spy graph"

static int
s_help(void)
{
    printf("usage: verl-spy graph [dot | mermaid | svg] [--rates] [--run DIR] [--json]\n"
           "\n"
           "Writes the graph of a live run to standard output: its stages in their actors, the columns that travel "
           "from stage\n"
           "to stage, and the weights that are published (dashed).\n"
           "\n"
           "  dot         for graphviz (the default); --dot, --mermaid and --svg mean the same\n"
           "  mermaid     for documents in Markdown\n"
           "  svg         a picture, laid out here\n"
           "  --rates     with what each stage does now: batches a second over the run, and its queue\n");
    return verl_spy_written(NAME);
}

// --- what is written ----------------------------------------------------------------------------------------------

const char *
verl_graph_brings(const json_t *edge, char *text, size_t size)
{
    const json_t *columns = verl_spy_list(edge, "columns");
    size_t length = 0;
    text[0] = 0;
    if (verl_spy_flag(edge, "in_place")) {
        snprintf(text, size, "weights, in place");
        return text;
    }
    if (verl_spy_flag(edge, "weights")) {
        snprintf(text, size, "weights, staleness %.0f", verl_spy_number(edge, "staleness"));
        return text;
    }
    for (size_t i = 0; i < json_array_size(columns) && length < size; i++) {
        const char *column = json_string_value(json_array_get(columns, i));
        length += (size_t) snprintf(text + length, size - length, "%s%s", i ? ", " : "", column ? column : "?");
    }
    if (length == 0)
        snprintf(text, size, verl_spy_flag(edge, "map") ? "rows" : "done");
    return text;
}

void
verl_graph_add_in_place(json_t *plan)
{
    const json_t *stages = verl_spy_list(plan, "stages");
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *stage = json_array_get(stages, i);
        const char *writer = verl_spy_text(stage, "in_place_of");
        if (verl_spy_named(stages, writer))
            json_array_append_new(verl_spy_list(plan, "edges"),
                                  json_pack("{s:s, s:s, s:b, s:b}", "maker", writer, "reader",
                                            verl_spy_text(stage, "name"), "weights", 1, "in_place", 1));
    }
}

const char *
verl_graph_under(const json_t *stage, const json_t *status, char *text, size_t size)
{
    const char *name = verl_spy_text(stage, "name"), *actor = verl_spy_text(stage, "actor");
    const json_t *now = verl_spy_named(verl_spy_list(status, "stages"), name);
    double seconds = verl_spy_number(status, "seconds");
    double rate = seconds > 0 ? (verl_spy_number(now, "done") - verl_spy_number(status, "first")) / seconds : 0;
    char figure[32];
    if (now)
        snprintf(text, size, "%s/s, queue %.0f%s%s", verl_spy_rate(rate, figure, sizeof figure),
                 verl_spy_number(now, "queue"), strcmp(actor, name) == 0 ? "" : ", ",
                 strcmp(actor, name) == 0 ? "" : actor);
    else
        snprintf(text, size, "%s", strcmp(actor, name) == 0 ? verl_spy_text(stage, "does") : actor);
    return text;
}

// Inside quotes of dot and of mermaid; neither knows control characters, and mermaid no backslash.
static void
s_quoted(verl_buffer_t *out, const char *text, bool mermaid)
{
    verl_buffer_t shown = { 0 };
    verl_text_shown(&shown, text, 200, true);
    for (size_t i = 0; i < shown.size; i++) {
        char c = shown.data[i];
        if (c == '"')
            verl_display_text_add(out, mermaid ? "#quot;" : "\\\"");
        else if (c == '\\' && !mermaid)
            verl_display_text_add(out, "\\\\");
        else
            verl_buffer_append(out, &c, 1);
    }
    verl_buffer_done(&shown);
}

// A stage in the other places of the text: its number.
static int
s_number(const json_t *plan, const char *name)
{
    const json_t *stages = verl_spy_list(plan, "stages");
    for (size_t i = 0; i < json_array_size(stages); i++)
        if (strcmp(verl_spy_text(json_array_get(stages, i), "name"), name) == 0)
            return (int) i;
    return -1;
}

static void
s_nodes(verl_buffer_t *out, const json_t *plan, const json_t *status, const char *actor, bool mermaid)
{
    const json_t *stages = verl_spy_list(plan, "stages");
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *stage = json_array_get(stages, i);
        char under[200];
        if (strcmp(verl_spy_text(stage, "actor"), actor) != 0)
            continue;
        verl_text_format(out, mermaid ? "        s%zu[\"" : "        s%zu [label=\"", i);
        s_quoted(out, verl_spy_text(stage, "name"), mermaid);
        verl_display_text_add(out, mermaid ? "<br>" : "\\n");
        s_quoted(out, verl_graph_under(stage, status, under, sizeof under), mermaid);
        verl_display_text_add(out, mermaid ? "\"]\n" : "\"];\n");
    }
}

static void
s_actors(verl_buffer_t *out, const json_t *plan, const json_t *status, bool mermaid)
{
    const json_t *actors = verl_spy_list(plan, "actors");
    for (size_t i = 0; i < json_array_size(actors); i++) {
        const json_t *actor = json_array_get(actors, i);
        double replicas = verl_spy_number(actor, "replicas");
        verl_text_format(out, mermaid ? "    subgraph a%zu[\"" : "    subgraph cluster_%zu {\n        label=\"", i);
        s_quoted(out, verl_spy_text(actor, "name"), mermaid);
        verl_display_text_add(out, " (");
        s_quoted(out, verl_spy_text(actor, "kind"), mermaid);
        if (replicas > 1)
            verl_text_format(out, ", %.0f replicas", replicas);
        verl_display_text_add(out, mermaid ? ")\"]\n" : ")\";\n");
        s_nodes(out, plan, status, verl_spy_text(actor, "name"), mermaid);
        verl_display_text_add(out, mermaid ? "    end\n" : "    }\n");
    }
}

static int
s_edges(verl_buffer_t *out, const json_t *plan, bool mermaid)
{
    const json_t *edges = verl_spy_list(plan, "edges");
    for (size_t i = 0; i < json_array_size(edges); i++) {
        const json_t *edge = json_array_get(edges, i);
        char brings[400];
        bool weights = verl_spy_flag(edge, "weights");
        int from = s_number(plan, verl_spy_text(edge, "maker")), to = s_number(plan, verl_spy_text(edge, "reader"));
        if (from < 0 || to < 0)
            return -1;
        verl_text_format(out, mermaid ? weights ? "    s%d -. \"" : "    s%d -- \"" : "    s%d -> ", from);
        if (!mermaid)
            verl_text_format(out, "s%d [label=\"", to);
        s_quoted(out, verl_graph_brings(edge, brings, sizeof brings), mermaid);
        if (mermaid)
            verl_text_format(out, weights ? "\" .-> s%d\n" : "\" --> s%d\n", to);
        else
            verl_display_text_add(out, weights ? "\", style=dashed, constraint=false];\n" : "\"];\n");
    }
    return 0;
}

int
verl_graph_dot(verl_buffer_t *out, const json_t *plan, const json_t *status)
{
    verl_display_text_add(out, "digraph \"");
    s_quoted(out, verl_spy_text(plan, "run"), false);
    verl_display_text_add(out, "\" {\n    rankdir=LR;\n    node [shape=box, style=rounded];\n");
    s_actors(out, plan, status, false);
    int failed = s_edges(out, plan, false);
    verl_display_text_add(out, "}\n");
    return failed || !json_array_size(verl_spy_list(plan, "stages")) ? -1 : 0;
}

int
verl_graph_mermaid(verl_buffer_t *out, const json_t *plan, const json_t *status)
{
    verl_display_text_add(out, "flowchart LR\n");
    s_actors(out, plan, status, true);
    return s_edges(out, plan, true) || !json_array_size(verl_spy_list(plan, "stages")) ? -1 : 0;
}

// --- the command --------------------------------------------------------------------------------------------------

typedef int (*form_t)(verl_buffer_t *, const json_t *, const json_t *);

static int
s_graph(const verl_spy_options_t *options, form_t form, bool rates)
{
    verl_client_t *client = verl_spy_open(options, NAME);
    json_t *plan = client ? verl_spy_ask(client, json_pack("{s:s}", "do", "plan"), NAME) : NULL;
    json_t *status = plan && rates ? verl_spy_ask(client, json_pack("{s:s}", "do", "status"), NAME) : NULL;
    verl_buffer_t text = { 0 };
    int code = plan && (status || !rates) ? 0 : 1;
    if (code == 0 && options->json) {
        if (status)
            json_object_set(plan, "status", status);
        code = verl_spy_print_json(json_incref(plan));
    } else if (code == 0 && (verl_graph_add_in_place(plan), form(&text, plan, status))) {
        fprintf(stderr, NAME ": the run's answer is not a plan\n");
        verl_buffer_done(&text);
        code = 1;
    } else if (code == 0) {
        code = verl_spy_print(&text);
    }
    json_decref(plan);
    json_decref(status);
    verl_client_close(&client);
    return code;
}

int
verl_spy_graph(int argc, char **argv, const verl_spy_options_t *options)
{
    static const struct {
        const char *word;
        form_t      form;
    } forms[] = { { "--dot", verl_graph_dot }, { "--mermaid", verl_graph_mermaid }, { "--svg", verl_graph_svg } };
    form_t form = NULL;
    bool rates = false;
    for (int i = 1; i < argc; i++) {
        form_t found = NULL;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return s_help();
        for (size_t j = 0; j < sizeof forms / sizeof *forms; j++)
            if (strcmp(argv[i], forms[j].word) == 0 || strcmp(argv[i], forms[j].word + strlen("--")) == 0)
                found = forms[j].form;
        if (found && form)
            return verl_spy_usage(NAME, "one form at a time");
        if (found)
            form = found;
        else if (strcmp(argv[i], "--rates") == 0)
            rates = true;
        else
            return verl_spy_usage(NAME, "'%s' is not understood", argv[i]);
    }
    return s_graph(options, form ? form : verl_graph_dot, rates);
}
