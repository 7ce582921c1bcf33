// spy_batch.c: verl-spy batch N: one batch's way through the stages, and which dependency it waits for.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tools/display_text.h"
#include "tools/spy.h"
#include "tools/spy_ask.h"
#include "tools/spy_views.h"

#define NAME     "verl-spy batch"
#define BAR      40                         // columns of the whole way
#define SETTLE_S 0.3                        // in which the run asks its actors what they do, after we asked it

static int
s_help(void)
{
    printf("usage: verl-spy batch N [--run DIR] [--json]\n"
           "\n"
           "Shows where batch N of a live run stands: when each stage worked on it, what each of the others waits for. "
           "A batch\n"
           "that is done is shown as long as it is one of the last 64.\n");
    return verl_spy_written(NAME);
}

// --- for people ---------------------------------------------------------------------------------------------------

static void
s_bar(verl_buffer_t *text, double from, double to, double whole, bool unicode)
{
    int begin = whole > 0 ? (int) floor(from / whole * BAR) : 0, end = whole > 0 ? (int) ceil(to / whole * BAR) : 0;
    begin = begin < 0 ? 0 : begin >= BAR ? BAR - 1 : begin;
    end = end <= begin ? begin + 1 : end > BAR ? BAR : end;
    for (int i = 0; i < BAR; i++)
        verl_display_text_add(text, i < begin || i >= end ? (unicode ? "·" : ".") : unicode ? "━" : "#");
}

// Each thing that is missing, behind each other: "data of stage reward; its actor, busy with …".
static void
s_missing(verl_buffer_t *text, const json_t *stage, bool unicode)
{
    const json_t *missing = verl_spy_list(stage, "missing");
    verl_display_text_add(text, "waits for ");
    for (size_t i = 0; i < json_array_size(missing); i++) {
        verl_display_text_add(text, i ? "; " : "");
        verl_text_shown(text, verl_spy_text(json_array_get(missing, i), "text"), 400, unicode);
    }
}

static void
s_stage(verl_buffer_t *text, const char *name, int widest, const json_t *stage, const json_t *step, double whole,
        bool unicode)
{
    const char *state = verl_spy_text(stage, "state");
    double to = verl_spy_number(step, "to"), from = verl_spy_number(step, "from");
    verl_display_text_add(text, "  ");
    verl_text_cell(text, name, widest, false, unicode);
    verl_display_text_add(text, "  ");
    if (strcmp(state, "running") == 0) {
        to = whole;
        from = whole - verl_spy_number(stage, "seconds");
    }
    if (step || strcmp(state, "running") == 0) {
        s_bar(text, from, to, whole, unicode);
        verl_text_format(text, "  %s%7.3f s at %.3f s", step ? "" : "running for", to - from, from > 0 ? from : 0);
    } else if (strcmp(state, "waiting") == 0) {
        s_missing(text, stage, unicode);
    } else {
        verl_display_text_add(text, "done");
    }
    verl_display_text_add(text, "\n");
}

static void
s_stages(verl_buffer_t *text, const json_t *answer, bool unicode)
{
    const json_t *way = json_object_get(answer, "way"), *steps = verl_spy_list(way, "stages");
    const json_t *stages = verl_spy_list(answer, "stages"), *list = json_array_size(stages) ? stages : steps;
    int widest = 5;
    for (size_t i = 0; i < json_array_size(list); i++) {
        int width = verl_text_width(verl_spy_text(json_array_get(list, i), "name"));
        widest = width > widest ? width : widest;
    }
    widest = widest < 32 ? widest : 32;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = verl_spy_text(json_array_get(list, i), "name");
        s_stage(text, name, widest, verl_spy_named(stages, name), verl_spy_named(steps, name),
                verl_spy_number(way, "seconds"), unicode);
    }
}

static int
s_print(const json_t *answer)
{
    verl_buffer_t text = { 0 };
    const json_t *way = json_object_get(answer, "way");
    const char *state = verl_spy_text(answer, "state");
    verl_text_format(&text, "batch %.0f of ", verl_spy_number(answer, "batch"));
    verl_text_shown(&text, verl_spy_text(answer, "run"), 60, verl_text_unicode());
    if (strcmp(state, "no permit") == 0)
        verl_text_format(&text, " has no permit yet: %s\n", verl_spy_text(answer, "why"));
    else if (strcmp(state, "done") == 0)
        verl_text_format(&text, way ? ": done, %.3f s after its permit\n"
                                    : " is done, and the run has forgotten its way: it keeps the last 64\n",
                         verl_spy_number(way, "seconds"));
    else
        verl_text_format(&text, ": under way for %.3f s\n", verl_spy_number(way, "seconds"));
    s_stages(&text, answer, verl_text_unicode());
    return verl_spy_print(&text);
}

// --- asking -------------------------------------------------------------------------------------------------------

static json_t *
s_ask(const verl_spy_options_t *options, long long batch)
{
    struct timespec settle = { .tv_nsec = (long) (SETTLE_S * 1e9) };
    verl_client_t *client = verl_spy_open(options, NAME);
    json_t *first =
               client ? verl_spy_ask(client, json_pack("{s:s, s:I}", "do", "batch", "batch", (json_int_t) batch), NAME)
                      : NULL,
           *answer = NULL;
    bool moves = first && strcmp(verl_spy_text(first, "state"), "under way") == 0;
    if (moves) {                            // what its actors do was known of a while ago
        nanosleep(&settle, NULL);
        answer = verl_spy_ask(client, json_pack("{s:s, s:I}", "do", "batch", "batch", (json_int_t) batch), NAME);
    }
    verl_client_close(&client);
    if (!moves)
        return first;
    json_decref(first);
    return answer;
}

int
verl_spy_batch(int argc, char **argv, const verl_spy_options_t *options)
{
    char *end = NULL;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return s_help();
    if (argc != 2)
        return verl_spy_usage(NAME, "it takes one word, the number of a batch");
    long long batch = strtoll(argv[1], &end, 10);
    if (end == argv[1] || *end || batch < 0 || batch > (1LL << 52))
        return verl_spy_usage(NAME, "the number of a batch is a whole number from 0 on, not '%s'", argv[1]);
    json_t *answer = s_ask(options, batch);
    if (!answer)
        return 1;
    if (options->json)
        return verl_spy_print_json(answer);
    int code = s_print(answer);
    json_decref(answer);
    return code;
}
