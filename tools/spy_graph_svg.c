// spy_graph_svg.c: a plan as a picture: stages as boxes in the colour of their actor, data from left to right, weights
// dashed.
#include <stdio.h>
#include <string.h>
#include "tools/display_text.h"
#include "tools/spy_graph.h"
#include "tools/spy_graph_layout.h"
#include "tools/spy_views.h"

#define BOX_W  170
#define BOX_H  48
#define STEP_X 290
#define STEP_Y 84
#define EDGE   30                           // of the paper

typedef struct svg {
    verl_buffer_t      *out;
    const json_t       *plan, *status;
    verl_graph_layout_t layout;
} svg_t;

// Text for XML, without what it does not allow.
static void
s_text(verl_buffer_t *out, const char *text)
{
    verl_buffer_t shown = { 0 };
    verl_text_shown(&shown, text, 60, true);
    for (size_t i = 0; i < shown.size; i++) {
        char c = shown.data[i];
        const char *written = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : NULL;
        verl_buffer_append(out, written ? written : &c, written ? strlen(written) : 1);
    }
    verl_buffer_done(&shown);
}

static double
s_x(const svg_t *self, int place)
{
    return EDGE + (double) self->layout.places[place].layer * STEP_X;
}

// The middle. Layers with fewer rows than the fullest stand in the middle of the paper.
static double
s_y(const svg_t *self, int place)
{
    const verl_graph_place_t *at = &self->layout.places[place];
    double free = (double) (self->layout.rows_most - self->layout.rows[at->layer]) / 2;
    return EDGE + 20 + BOX_H / 2.0 + (at->row + free) * STEP_Y;
}

static void
s_curve(svg_t *self, double x, double y, double to_x, double to_y)
{
    double middle = (x + to_x) / 2;
    verl_text_format(self->out, " C%.0f,%.0f %.0f,%.0f %.0f,%.0f", middle, y, middle, to_y, to_x, to_y);
}

static void
s_data(svg_t *self, const verl_graph_edge_t *edge, const char *brings)
{
    double x = s_x(self, edge->from) + BOX_W, y = s_y(self, edge->from);
    double label_x = x, label_y = y;
    verl_text_format(self->out, "<path class=\"data\" d=\"M%.0f,%.0f", x, y);
    for (int i = 0; i <= edge->count; i++) {
        int next = i < edge->count ? edge->passes[i] : edge->to;
        double to_x = s_x(self, next), to_y = s_y(self, next);
        s_curve(self, x, y, to_x - (i == edge->count ? 4 : 0), to_y);
        if (i == 0) {
            label_x = (x + to_x) / 2;
            label_y = (y + to_y) / 2 - 6;
        }
        if (i < edge->count)                // straight through the layer that it passes
            verl_text_format(self->out, " L%.0f,%.0f", to_x + BOX_W, to_y);
        x = to_x + BOX_W;
        y = to_y;
    }
    verl_display_text_add(self->out, "\" marker-end=\"url(#arrow)\"/>\n");
    verl_text_format(self->out, "<text class=\"brings\" x=\"%.0f\" y=\"%.0f\">", label_x, label_y);
    s_text(self->out, brings);
    verl_display_text_add(self->out, "</text>\n");
}

// Below everything and back.
static void
s_weights(svg_t *self, const verl_graph_edge_t *edge, const char *brings, int lane)
{
    double x = s_x(self, edge->from) + BOX_W / 2.0, y = s_y(self, edge->from) + BOX_H / 2.0;
    double to_x = s_x(self, edge->to) + BOX_W / 2.0, to_y = s_y(self, edge->to) + BOX_H / 2.0 + 4;
    double low = EDGE + 20 + self->layout.rows_most * STEP_Y + 22 * lane;
    verl_text_format(self->out,
                     "<path class=\"weights\" d=\"M%.0f,%.0f C%.0f,%.0f %.0f,%.0f %.0f,%.0f S%.0f,%.0f %.0f,%.0f\" "
                     "marker-end=\"url(#arrow)\"/>\n",
                     x, y, x, low, x, low, (x + to_x) / 2, low, to_x, low, to_x, to_y);
    verl_text_format(self->out, "<text class=\"brings\" x=\"%.0f\" y=\"%.0f\">", (x + to_x) / 2, low - 4);
    s_text(self->out, brings);
    verl_display_text_add(self->out, "</text>\n");
}

static int
s_edges(svg_t *self)
{
    const json_t *edges = verl_spy_list(self->plan, "edges");
    int lanes = 0;
    for (int i = 0; i < self->layout.edges_count; i++) {
        char brings[200];
        const json_t *edge = json_array_get(edges, (size_t) i);
        verl_graph_brings(edge, brings, sizeof brings);
        if (verl_spy_flag(edge, "weights"))
            s_weights(self, &self->layout.edges[i], brings, ++lanes);
        else
            s_data(self, &self->layout.edges[i], brings);
    }
    return lanes;
}

static void
s_stage(svg_t *self, int index)
{
    static const char *const colours[] = { "#dbe9f6", "#e3f1dc", "#fbe6d3", "#efdff0", "#fdf3cc", "#d8efee", "#f7d9dc",
                                           "#e6e6e6" };
    const json_t *stage = json_array_get(verl_spy_list(self->plan, "stages"), (size_t) index);
    const json_t *actors = verl_spy_list(self->plan, "actors");
    char under[200];
    size_t actor = 0;
    while (actor < json_array_size(actors) && strcmp(verl_spy_text(json_array_get(actors, actor), "name"),
                                                     verl_spy_text(stage, "actor")) != 0)
        actor++;
    double x = s_x(self, index), y = s_y(self, index);
    verl_text_format(self->out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"8\" fill=\"%s\"/>\n", x,
                     y - BOX_H / 2.0, BOX_W, BOX_H, colours[actor % (sizeof colours / sizeof *colours)]);
    verl_text_format(self->out, "<text class=\"name\" x=\"%.0f\" y=\"%.0f\">", x + BOX_W / 2.0, y - 3);
    s_text(self->out, verl_spy_text(stage, "name"));
    verl_text_format(self->out, "</text>\n<text class=\"under\" x=\"%.0f\" y=\"%.0f\">", x + BOX_W / 2.0, y + 14);
    s_text(self->out, verl_graph_under(stage, self->status, under, sizeof under));
    verl_display_text_add(self->out, "</text>\n");
}

static void
s_head(svg_t *self)
{
    int lanes = 0;
    const json_t *edges = verl_spy_list(self->plan, "edges");
    for (size_t i = 0; i < json_array_size(edges); i++)
        lanes += verl_spy_flag(json_array_get(edges, i), "weights");
    int width = 2 * EDGE + (self->layout.layers_count - 1) * STEP_X + BOX_W;
    int height = 2 * EDGE + 20 + self->layout.rows_most * STEP_Y + 22 * lanes;
    verl_text_format(self->out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                     "font-family=\"sans-serif\">\n",
                     width, height, width, height);
    verl_display_text_add(self->out,
        "<style>rect{stroke:#555}path{fill:none;stroke:#555}.weights{stroke-dasharray:6 4}text{text-anchor:middle}"
        ".name{font-size:14px;font-weight:bold}.under,.brings{font-size:11px;fill:#444}</style>\n"
        "<defs><marker id=\"arrow\" markerWidth=\"8\" markerHeight=\"8\" refX=\"6\" refY=\"3\" orient=\"auto\">"
        "<path d=\"M0,0 L6,3 L0,6\"/></marker></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\" "
        "style=\"stroke:none\"/>\n");
    verl_text_format(self->out, "<text class=\"name\" x=\"%d\" y=\"22\" style=\"text-anchor:start\">", EDGE);
    s_text(self->out, verl_spy_text(self->plan, "run"));
    verl_text_format(self->out, " (revision %.0f)</text>\n", verl_spy_number(self->plan, "revision"));
}

int
verl_graph_svg(verl_buffer_t *out, const json_t *plan, const json_t *status)
{
    svg_t self = { .out = out, .plan = plan, .status = status };
    int failed = verl_graph_layout(&self.layout, plan);
    if (!failed) {
        s_head(&self);
        s_edges(&self);
        for (int i = 0; i < self.layout.stages_count; i++)
            s_stage(&self, i);
        verl_display_text_add(out, "</svg>\n");
    }
    verl_graph_done(&self.layout);
    return failed;
}
