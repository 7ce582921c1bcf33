// verl-spy graph: the forms of a plan, and that the picture is well laid out.
#include "tests/tools/views.h"
#include "tools/spy_graph.h"
#include "tools/spy_graph_layout.h"

static json_t *
s_plan(const char *stages, const char *edges)
{
    json_error_t wrong;
    json_t *stage_list = json_loads(stages, 0, &wrong), *edge_list = json_loads(edges, 0, &wrong),
           *actors = json_array();
    cr_assert(stage_list && edge_list, "%s", wrong.text);
    for (size_t i = 0; i < json_array_size(stage_list); i++) {
        json_t *stage = json_array_get(stage_list, i);
        json_object_set(stage, "actor", json_object_get(stage, "name"));
        json_array_append_new(
            actors, json_pack("{s:O, s:s, s:i}", "name", json_object_get(stage, "name"), "kind", "k", "replicas", 1));
    }
    return json_pack("{s:s, s:i, s:o, s:o, s:o}", "run", "x", "revision", 1, "stages", stage_list, "edges", edge_list,
                     "actors", actors);
}

static json_t *
s_policy_plan(void)
{
    return s_plan(
        "[{\"name\": \"prompts\"}, {\"name\": \"generate\"}, {\"name\": \"reward\"}, {\"name\": \"reference\"}, "
        "{\"name\": \"advantage\"}, {\"name\": \"update\"}]",
        "[{\"maker\": \"prompts\", \"reader\": \"generate\", \"columns\": [\"prompt\"]},"
        " {\"maker\": \"generate\", \"reader\": \"reward\", \"columns\": [\"response\"]},"
        " {\"maker\": \"generate\", \"reader\": \"reference\", \"columns\": [\"response\"]},"
        " {\"maker\": \"reward\", \"reader\": \"advantage\", \"columns\": [\"score\"]},"
        " {\"maker\": \"reference\", \"reader\": \"advantage\", \"columns\": []},"
        " {\"maker\": \"advantage\", \"reader\": \"update\", \"columns\": [\"advantages\"]},"
        " {\"maker\": \"prompts\", \"reader\": \"update\", \"columns\": [\"images\"]},"
        " {\"maker\": \"update\", \"reader\": \"generate\", \"columns\": [], \"weights\": true, \"staleness\": 1}]");
}

Test(layout, data_goes_from_left_to_right_and_passes_every_layer_between)
{
    verl_graph_layout_t layout;
    json_t *plan = s_policy_plan();
    cr_assert_eq(verl_graph_layout(&layout, plan), 0);
    cr_expect_eq(layout.layers_count, 5);
    for (int i = 0; i < layout.edges_count - 1; i++) {          // the last brings weights
        const verl_graph_edge_t *edge = &layout.edges[i];
        int layer = layout.places[edge->from].layer;
        for (int j = 0; j < edge->count; j++)
            cr_expect_eq(layout.places[edge->passes[j]].layer, ++layer);
        cr_expect_eq(layout.places[edge->to].layer, layer + 1);
    }
    cr_expect_eq(layout.edges[6].count, 3);
    cr_expect_eq(layout.edges[7].count, 0);
    verl_graph_done(&layout);
    json_decref(plan);
}

Test(layout, no_two_places_of_a_layer_share_a_row)
{
    verl_graph_layout_t layout;
    json_t *plan = s_policy_plan();
    cr_assert_eq(verl_graph_layout(&layout, plan), 0);
    for (int i = 0; i < layout.places_count; i++)
        for (int j = 0; j < i; j++)
            cr_expect(layout.places[i].layer != layout.places[j].layer || layout.places[i].row != layout.places[j].row);
    for (int i = 0; i < layout.places_count; i++)
        cr_expect(layout.places[i].row >= 0 && layout.places[i].row < layout.rows[layout.places[i].layer]);
    verl_graph_done(&layout);
    json_decref(plan);
}

Test(layout, edges_that_make_a_ring_or_name_nobody_do_no_harm)
{
    verl_graph_layout_t layout;
    json_t *ring = s_plan("[{\"name\": \"a\"}, {\"name\": \"b\"}]",
                          "[{\"maker\": \"a\", \"reader\": \"b\"}, {\"maker\": \"b\", \"reader\": \"a\"}]");
    verl_graph_layout(&layout, ring);
    verl_graph_done(&layout);
    json_t *nobody = s_plan("[{\"name\": \"a\"}]", "[{\"maker\": \"a\", \"reader\": \"z\"}]");
    cr_expect_neq(verl_graph_layout(&layout, nobody), 0);
    verl_graph_done(&layout);
    json_t *none = json_object();
    cr_expect_neq(verl_graph_layout(&layout, none), 0);
    verl_graph_done(&layout);
    json_decref(ring);
    json_decref(nobody);
    json_decref(none);
}

// Every tag is closed by its own, and what stands between is text. Returns the number of elements.
static int
s_check_xml(const char *at)
{
    char open[64][32];
    int depth = 0, elements = 0;
    while (*at) {
        cr_assert(*at != '>', "a stray >");
        if (*at != '<') {
            if (*at == '&')
                cr_assert(strncmp(at, "&amp;", 5) == 0 || strncmp(at, "&lt;", 4) == 0 || strncmp(at, "&gt;", 4) == 0 ||
                          strncmp(at, "&quot;", 6) == 0, "a stray &");
            at++;
            continue;
        }
        const char *end = strchr(at, '>');
        cr_assert(end);
        size_t name = strcspn(at + 1, " />");
        if (at[1] == '/') {
            size_t length = (size_t) (end - at - 2);
            depth--;
            cr_assert(depth >= 0 && strlen(open[depth]) == length && strncmp(open[depth], at + 2, length) == 0);
        } else if (end[-1] != '/') {
            cr_assert_lt(depth, 64);
            snprintf(open[depth++], sizeof open[0], "%.*s", (int) name, at + 1);
        }
        elements += at[1] != '/';
        at = end + 1;
    }
    cr_assert_eq(depth, 0);
    return elements;
}

static char *
s_text(int (*form)(verl_buffer_t *, const json_t *, const json_t *), const json_t *plan)
{
    verl_buffer_t buffer = { 0 };
    cr_assert_eq(form(&buffer, plan, NULL), 0);
    cr_assert_eq(verl_buffer_append(&buffer, "", 1), 0);
    return buffer.data;
}

Test(graph, a_picture_is_well_formed_whatever_stages_are_called)
{
    json_t *plan = s_plan("[{\"name\": \"a<b>&\\\"c\\\"\"}, {\"name\": \"\\u001b[31mred\"}]",
                          "[{\"maker\": \"a<b>&\\\"c\\\"\", \"reader\": \"\\u001b[31mred\", \"columns\": [\"<x>\"]}]");
    char *svg = s_text(verl_graph_svg, plan);
    cr_expect_geq(s_check_xml(svg), 10);
    cr_expect(strstr(svg, "&lt;x&gt;") && !strchr(svg, '\x1b'));
    free(svg);
    json_decref(plan);
}

Test(graph, dot_and_mermaid_quote_what_they_must)
{
    json_t *plan = s_plan("[{\"name\": \"a\\\"b\\\\\"}]", "[]");
    char *dot = s_text(verl_graph_dot, plan), *mermaid = s_text(verl_graph_mermaid, plan);
    cr_expect(strstr(dot, "a\\\"b\\\\"), "%s", dot);
    cr_expect(strstr(mermaid, "a#quot;b"), "%s", mermaid);
    free(dot);
    free(mermaid);
    json_decref(plan);
}

Test(graph, weights_in_place_are_drawn_like_those_that_are_published)
{
    json_t *plan =
        s_plan("[{\"name\": \"generate\", \"in_place_of\": \"update\"}, {\"name\": \"update\", \"in_place_of\": null}]",
               "[{\"maker\": \"generate\", \"reader\": \"update\", \"columns\": [\"x\"]}]");
    verl_graph_add_in_place(plan);
    char *dot = s_text(verl_graph_dot, plan), *svg = s_text(verl_graph_svg, plan);
    cr_expect(strstr(dot, "s1 -> s0 [label=\"weights, in place\", style=dashed"), "%s", dot);
    cr_expect(strstr(svg, "class=\"weights\"") && s_check_xml(svg) > 10);
    free(dot);
    free(svg);
    json_decref(plan);
}

Test(graph, writes_each_form_of_a_live_run)
{
    run_t run;
    run_start(&run,
              "[run]\nname = \"drawn\"\nsteps = 1000000\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 5\n[stage.b]\n"
              "kind = \"synthetic\"\nbusy_ms = 5\nreplicas = 2\ndepends_on = [\"a\"]\nreads = [\"payload\"]\n",
              "");
    run_until_steps(&run, 5);
    shown_t shown = show(&run, "graph --run run");
    cr_expect(shown.code == 0 && strncmp(shown.out, "digraph \"drawn\" {", 17) == 0 &&
                  strstr(shown.out, "2 replicas") && strstr(shown.out, "s0 -> s1 [label=\"payload\"];"),
              "%s%s", shown.out, shown.said);
    shown_done(&shown);
    shown = show(&run, "graph --mermaid --rates --run run");
    cr_expect(shown.code == 0 && strncmp(shown.out, "flowchart LR\n", 13) == 0 && strstr(shown.out, "/s, queue"),
              "%s%s", shown.out, shown.said);
    shown_done(&shown);
    shown = show(&run, "graph --svg --run run");
    cr_expect(shown.code == 0 && s_check_xml(shown.out) > 5, "%s", shown.said);
    shown_done(&shown);
    json_t *plan = show_json(&run, "graph --json --run run");
    cr_expect_eq(number(named(plan, "actors", "b"), "replicas"), 2);
    cr_expect(!json_object_get(plan, "id"), "what numbers the conversation is no part of the plan");
    json_decref(plan);
    shown = show(&run, "graph --svg --dot --run run");
    cr_expect_eq(shown.code, 2);
    shown_done(&shown);
    run_cut(&run);
}

// As the subcommands are: dot, mermaid, svg.
Test(graph, a_form_may_be_a_word)
{
    run_t run;
    run_start(&run, "[run]\nname = \"drawn\"\nsteps = 1000000\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 5\n", "");
    run_until_steps(&run, 5);
    shown_t shown = show(&run, "graph mermaid --run run");
    cr_expect(shown.code == 0 && strncmp(shown.out, "flowchart LR\n", 13) == 0, "%s%s", shown.out, shown.said);
    shown_done(&shown);
    shown = show(&run, "graph --run run svg");
    cr_expect(shown.code == 0 && s_check_xml(shown.out) > 2, "%s", shown.said);
    shown_done(&shown);
    shown = show(&run, "graph png --run run");
    cr_expect(shown.code == 2 && strstr(shown.said, "'png' is not understood"), "%s", shown.said);
    shown_done(&shown);
    run_cut(&run);
}
