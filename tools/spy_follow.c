// spy_follow.c: verl-spy's first trade: shows the messages of a live run, one a line, as they are sent.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/clock.h"
#include "tools/spy.h"
#include "tools/spy_assert.h"
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
    const char               *text;         // of the assertion
    verl_spy_assert_t        *assertion;
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
        "\n%s"
        "  -n COUNT        end after so many\n"
        "  --assert EXPR   exit code 1 where it does not hold at the end\n"
        "\n%s",
        verl_spy_filter_help, verl_spy_assert_help());
    return fflush(stdout) || ferror(stdout);
}

// Returns -1 to go on, else the exit code.
static int
s_parse(int argc, char **argv, follow_t *follow)
{
    verl_error_t error = { "" };
    for (int i = 1; i < argc; i++) {
        bool missing = false;
        const char *value, *word = argv[i];
        int taken = verl_spy_filter_option(NAME, argc, argv, &i, &follow->filter);
        if (taken < 0)
            return 2;
        if (taken)
            continue;
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return s_help();
        if ((value = verl_spy_value(argc, argv, &i, "-n", &missing))) {
            int64_t count = verl_spy_whole(value, 1);
            if (count < 0)
                return verl_spy_usage(NAME, "-n is a whole number from 1 on, not '%s'", value);
            follow->count = follow->filter.first = (uint64_t) count;
        } else if ((value = verl_spy_value(argc, argv, &i, "--assert", &missing))) {
            verl_spy_assert_destroy(&follow->assertion);
            follow->text = value;
            if (!(follow->assertion = verl_spy_assert_parse(value, &error)))
                return verl_spy_usage(NAME, "%s", error.text);
        } else {
            return missing ? verl_spy_usage(NAME, "%s needs a value", word)
                           : verl_spy_usage(NAME, "'%s' is not understood", word);
        }
    }
    follow->tally.assertion = follow->assertion;
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

// Until something ends it. Returns what did.
static verl_spy_state_t
s_loop(follow_t *follow, verl_spy_session_t *session, verl_error_t *error)
{
    int64_t end = follow->options->timeout > 0 ? verl_now() + (int64_t) (follow->options->timeout * 1e9) : INT64_MAX;
    while (true) {
        int64_t left = (end - verl_now()) / VERL_MS + 1;
        verl_spy_state_t state =
            verl_spy_session_step(session, left < 1000 ? (int) (left > 0 ? left : 0) : 1000, error);
        if (fflush(stdout)) {
            follow->broken = true;
            return VERL_SPY_ENOUGH;
        }
        if (state != VERL_SPY_GOES_ON || verl_now() >= end)
            return state;
    }
}

static int
s_close(follow_t *follow, verl_spy_session_t *session, verl_spy_state_t state)
{
    verl_spy_totals_t totals;
    int code = 0;
    verl_spy_session_finish(session);
    verl_spy_session_totals(session, &totals);
    if (fflush(stdout) || ferror(stdout))
        follow->broken = true;
    if (!follow->options->quiet && state == VERL_SPY_RUN_ENDED)
        fprintf(stderr, "the run is over\n");
    if (!follow->options->quiet)
        verl_spy_tally_summary(&follow->tally, &totals, "shown", stderr);
    if (state == VERL_SPY_RUN_ENDED && follow->count)
        code = 1;                           // before there were as many as were wanted
    if (follow->assertion && !verl_spy_tally_holds(&follow->tally, &totals, NAME, follow->text))
        code = 1;
    return follow->broken ? 1 : code;
}

static int
s_follow(follow_t *follow)
{
    verl_error_t error = { "" };
    verl_spy_listener_t listener = { .record = s_on_record, .context = follow };
    verl_spy_session_t *session = verl_spy_session_open(follow->options->run, &follow->filter, &listener, &error);
    if (!session) {
        fprintf(stderr, NAME ": %s\n", error.text);
        return 1;
    }
    if (!follow->options->quiet) {
        fprintf(stderr, "following %s\n", verl_spy_session_directory(session));
        verl_spy_filter_remark(verl_spy_session_client(session), &follow->filter, NAME, stderr);
    }
    verl_spy_state_t state = s_loop(follow, session, &error);
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
        return 1;
    follow->options = options;
    verl_filter_init(&follow->filter);
    int code = s_parse(argc, argv, follow);
    follow->view = (verl_spy_view_t) { .out = stdout, .json = options->json,
                                       .values = follow->filter.values != VERL_VALUES_NONE,
                                       .begin = verl_now(), .offset = verl_spy_clock_offset() };
    if (code < 0)
        code = s_follow(follow);
    verl_spy_tally_done(&follow->tally);
    verl_spy_assert_destroy(&follow->assertion);
    free(follow);
    return code;
}
