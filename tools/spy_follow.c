// spy_follow.c: verl-spy's first trade: shows the messages of a live run, one a line, as they are sent.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/clock.h"
#include "tools/spy.h"
#include "tools/spy_follow_facts.h"
#include "tools/spy_follow_names.h"
#include "tools/spy_follow_options.h"
#include "tools/spy_follow_session.h"
#include "tools/spy_follow_show.h"

#define NAME "verl-spy"

typedef struct follow {
    const verl_spy_options_t *options;
    verl_filter_t             filter;
    uint64_t                  count;        // -n; 0: all
    verl_spy_view_t           view;
    verl_spy_tally_t          tally;
    bool                      broken;       // stdout takes no more
} follow_t;

static int
s_help(void)
{
    printf(
        "usage: verl-spy [follow] [--run DIR] [--actor A] [--stage S] [--edge A:B] [--kind K,…] [--batch N|A-B]\n"
        "                [-n COUNT] [--every K] [--stats] [--values] [--assert EXPR] [--json] [--timeout S] [--quiet]\n"
        "\n"
        "Shows the messages of a live run as they are sent: seconds, kind, sender → receiver, stage → reader, batch,\n"
        "bytes, and what is in it. What this program cannot take in time is dropped from its copy only, and counted.\n"
        "\n%s%s"
        "  --assert EXPR   exit code 1 where it does not hold at the end\n"
        "\n%s",
        verl_spy_filter_help, verl_spy_count_help, verl_spy_assert_help());
    return verl_spy_written(NAME);
}

// Returns -1 to go on, else the exit code.
static int
s_parse(int argc, char **argv, follow_t *follow)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int taken = verl_spy_filter_option(NAME, argc, argv, &i, &follow->filter);
        if (!taken)
            taken = verl_spy_count_option(NAME, argc, argv, &i, &follow->count);
        if (!taken)
            taken = verl_spy_tally_option(&follow->tally, NAME, argc, argv, &i);
        if (taken < 0)
            return 2;
        if (!taken && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0))
            return s_help();
        if (!taken)
            return verl_spy_usage(NAME, "'%s' is not understood", word);
    }
    follow->filter.first = follow->count;
    follow->filter.stats |= verl_spy_tally_needs_stats(&follow->tally);
    return -1;
}

static bool
s_on_record(void *context, const verl_trace_record_t *record)
{
    follow_t *follow = context;
    verl_spy_tally_record(&follow->tally, record);
    if (verl_spy_show(&follow->view, record)) {
        follow->broken = true;
        return false;
    }
    return !follow->count || follow->tally.shown < follow->count;
}

// What was shown is seen at once.
static bool
s_on_pause(void *context)
{
    follow_t *follow = context;
    follow->broken |= fflush(stdout) != 0;
    return !follow->broken;
}

static int
s_close(follow_t *follow, verl_spy_session_t *session, verl_spy_state_t state)
{
    verl_spy_totals_t totals;
    verl_spy_session_finish(session);
    verl_spy_session_totals(session, &totals);
    int code = verl_spy_written(NAME);
    if (!follow->options->quiet && state == VERL_SPY_RUN_ENDED)
        fprintf(stderr, "the run is over\n");
    if (!follow->options->quiet)
        verl_spy_tally_summary(&follow->tally, &totals, "shown", stderr);
    if (code == 0)
        code = verl_spy_count_missed(NAME, follow->count, follow->tally.shown);
    return verl_spy_tally_holds(&follow->tally, &totals, NAME) ? code : 1;
}

static int
s_follow(follow_t *follow)
{
    verl_error_t error = { "" };
    verl_spy_listener_t listener = { .record = s_on_record, .pause = s_on_pause, .context = follow };
    verl_spy_session_t *session = verl_spy_session_open(follow->options->run, &follow->filter, &listener, &error);
    if (!session) {
        fprintf(stderr, NAME ": %s\n", error.text);
        return 1;
    }
    if (!follow->options->quiet) {
        fprintf(stderr, "following %s\n", verl_spy_session_directory(session));
        verl_spy_filter_remark(verl_spy_session_client(session), &follow->filter, NAME, stderr);
    }
    verl_spy_state_t state = verl_spy_session_run(session, follow->options->timeout, &error);
    int code = s_close(follow, session, state);
    if (state == VERL_SPY_FAILED) {
        fprintf(stderr, NAME ": %s\n", error.text);
        code = 1;
    }
    verl_spy_session_close(&session);
    return code;
}

int
verl_spy_follow(int argc, char **argv, const verl_spy_options_t *options)
{
    follow_t *follow = calloc(1, sizeof *follow);
    if (!follow)
        return verl_spy_no_memory(NAME);
    follow->options = options;
    verl_filter_init(&follow->filter);
    int code = s_parse(argc, argv, follow);
    follow->view = (verl_spy_view_t) { .out = stdout, .json = options->json,
                                       .values = follow->filter.values != VERL_VALUES_NONE,
                                       .begin = verl_now(), .offset = verl_spy_clock_offset() };
    if (code < 0)
        code = s_follow(follow);
    verl_spy_tally_done(&follow->tally);
    free(follow);
    return code;
}
