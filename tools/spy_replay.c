// spy_replay.c: verl-spy replay FILE: shows a recording as follow would have shown the run.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "runtime/base/clock.h"
#include "runtime/observe/recording.h"
#include "tools/spy.h"
#include "tools/spy_follow_facts.h"
#include "tools/spy_follow_merge.h"
#include "tools/spy_follow_options.h"
#include "tools/spy_follow_show.h"
#include "tools/spy_replay.h"

#define NAME     "verl-spy replay"
#define ALL_KINDS ((1u << VERL_TRACE_KINDS) - 1)
#define REACH_NS VERL_S                     // frames of one moment lie no further apart in a file, if none stood still

typedef struct replay {
    const verl_spy_options_t *options;
    verl_filter_t             filter;
    verl_spy_replay_to_t      to;           // --to
    uint64_t                  count, passed;
    double                    speed;        // 0: as fast as it goes
    const char               *path;
    verl_spy_merge_t         *merge;
    int64_t                   newest;       // time of any record so far
    int64_t                   begun_at, first_t;
    verl_spy_view_t           view;
    verl_spy_tally_t          tally;
    uint64_t                  unmatched;    // by the filter here
    bool                      enough, broken;
} replay_t;

static int
s_help(void)
{
    printf(
        "usage: verl-spy replay FILE [FILTER…] [-n COUNT] [--speed X] [--assert EXPR] [--json] [--quiet]\n"
        "       verl-spy replay FILE --to ACTOR [--revision N] [--values] [--assert EXPR] [--json] [--timeout S]\n"
        "                       [--quiet]\n"
        "\n"
        "Shows a recording (verl-spy record) as follow would have shown the run, at once or at X times its pace.\n"
        "With --to the recorded batches that ACTOR was sent are given to a fresh incarnation of it, alone, and what\n"
        "it gives is shown; there are no filters, -n and --speed with it. It takes a recording of all edges that\n"
        "was made with --values, and of more batches than were under way at once.\n"
        "\n%s%s"
        "  --speed X       1: as fast as it was\n"
        "  --assert EXPR   exit code 1 where it does not hold at the end\n"
        "  --to ACTOR      an actor of the recorded run\n"
        "  --revision N    with --to: batches and topology of this revision (default: the newest that sent it any)\n"
        "  --timeout S     with --to: give up when nothing has moved for S seconds (60)\n"
        "\n%s",
        verl_spy_filter_help, verl_spy_count_help, verl_spy_assert_help());
    return verl_spy_written(NAME);
}

// Returns 1 where it was an option of replay's own, 0 where not, -1 where it is wrong (said).
static int
s_own_option(replay_t *replay, int argc, char **argv, int *at)
{
    bool missing = false;
    char *end;
    const char *value, *word = argv[*at];
    if ((value = verl_spy_value(argc, argv, at, "--to", &missing))) {
        replay->to.actor = value;
    } else if ((value = verl_spy_value(argc, argv, at, "--revision", &missing))) {
        if ((replay->to.revision = verl_spy_whole(value, 1)) < 0)
            return verl_spy_usage(NAME, "--revision is a whole number from 1 on, not '%s'", value), -1;
    } else if ((value = verl_spy_value(argc, argv, at, "--speed", &missing))) {
        replay->speed = strtod(value, &end);
        if (end == value || *end || !(replay->speed > 0 && replay->speed <= 1e6))
            return verl_spy_usage(NAME, "--speed is a number above 0, at most 1e6, not '%s'", value), -1;
    } else if (missing) {
        return verl_spy_usage(NAME, "%s needs a value", word), -1;
    } else {
        return 0;
    }
    return 1;
}

// What would be passed over is refused. Returns -1 to go on, else the exit code.
static int
s_check(const replay_t *replay)
{
    const verl_filter_t *filter = &replay->filter;
    bool chosen = filter->kinds != ALL_KINDS || filter->actors.count || filter->stages.count || filter->makers.count ||
                  filter->ranges || filter->every > 1;
    if (!replay->path)
        return verl_spy_usage(NAME, "no file is named");
    if (replay->to.actor && (chosen || replay->count || replay->speed > 0))
        return verl_spy_usage(NAME, "with --to there are no filters, -n and --speed: all that the actor was sent is "
                                    "given to it, and all that it gives is shown");
    if (!replay->to.actor && (replay->to.revision || replay->options->timeout > 0))
        return verl_spy_usage(NAME, "%s belongs to --to ACTOR", replay->to.revision ? "--revision" : "--timeout");
    return -1;
}

// Returns -1 to go on, else the exit code.
static int
s_parse(int argc, char **argv, replay_t *replay)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int taken = verl_spy_filter_option(NAME, argc, argv, &i, &replay->filter);
        if (!taken)
            taken = verl_spy_count_option(NAME, argc, argv, &i, &replay->count);
        if (!taken)
            taken = verl_spy_tally_option(&replay->tally, NAME, argc, argv, &i);
        if (!taken)
            taken = s_own_option(replay, argc, argv, &i);
        if (taken < 0)
            return 2;
        if (!taken && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0))
            return s_help();
        if (!taken && (*word == '-' || replay->path))
            return verl_spy_usage(NAME, "'%s' is not understood", word);
        if (!taken)
            replay->path = word;
    }
    return s_check(replay);
}

// --- showing ------------------------------------------------------------------------------------------------------

// Until the record's moment has come, `speed` times as fast as it was.
static void
s_pace(replay_t *replay, int64_t t)
{
    if (replay->speed <= 0)
        return;
    if (!replay->begun_at) {
        replay->begun_at = verl_now();
        replay->first_t = t;
    }
    int64_t due = replay->begun_at + (int64_t) ((double) (t - replay->first_t) / replay->speed);
    struct timespec until = { .tv_sec = due / VERL_S, .tv_nsec = due % VERL_S };
    if (due > verl_now()) {
        fflush(stdout);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
            ;
    }
}

static void
s_on_record(replay_t *replay, const verl_trace_record_t *record)
{
    verl_filter_message_t message = { record->kind, record->from, record->kind == VERL_TRACE_RAN ? NULL : record->to,
                                      *record->stage ? record->stage : NULL, *record->reader ? record->reader : NULL,
                                      record->message.batch };
    if (!verl_filter_matches(&replay->filter, &message) || replay->passed++ % replay->filter.every) {
        replay->unmatched++;
        return;
    }
    s_pace(replay, record->t);
    verl_spy_tally_record(&replay->tally, record);
    replay->broken |= verl_spy_show(&replay->view, record) != 0;
    replay->enough = replay->broken || (replay->count && replay->tally.shown >= replay->count);
}

static void
s_hand_over(replay_t *replay, int64_t until)
{
    const verl_trace_record_t *record;
    while (!replay->enough && (record = verl_spy_merge_next(replay->merge, until))) {
        s_on_record(replay, record);
        verl_spy_merge_pop(replay->merge);
    }
}

// --- reading ------------------------------------------------------------------------------------------------------

static void
s_on_about(replay_t *replay, const char *bytes, size_t size)
{
    json_t *about = json_loadb(bytes, size, 0, NULL);
    replay->view.begin = json_integer_value(json_object_get(about, "begin"));
    replay->view.offset = json_integer_value(json_object_get(about, "offset"));
    json_decref(about);
}

static void
s_on_frame(replay_t *replay, const char *bytes, size_t size)
{
    verl_reader_t reader;
    verl_trace_head_t head;
    verl_trace_record_t *last = malloc(sizeof *last);
    verl_reader_init(&reader, bytes, size);
    // An actor's frames are told apart by its label, which no other incarnation has.
    if (!last || verl_trace_read_head(&reader, &head, NULL) ||
        verl_spy_merge_add(replay->merge, head.party, strnlen(head.party, 255), bytes, size)) {
        free(last);
        return;
    }
    while (verl_reader_left(&reader) && verl_trace_read_record(&reader, last, NULL) == 0)
        if (last->t > replay->newest)
            replay->newest = last->t;
    free(last);
    s_hand_over(replay, replay->newest - REACH_NS);
}

static int
s_read(replay_t *replay, verl_error_t *error)
{
    const char *bytes;
    size_t size;
    verl_recording_kind_t kind;
    verl_recording_t *recording = verl_recording_open(replay->path, error);
    if (!recording)
        return -1;
    while (!replay->enough && (kind = verl_recording_read(recording, &bytes, &size, error)) != VERL_RECORDING_END) {
        if (kind == VERL_RECORDING_ABOUT)
            s_on_about(replay, bytes, size);
        else if (kind == VERL_RECORDING_FRAME)
            s_on_frame(replay, bytes, size);
    }
    s_hand_over(replay, INT64_MAX);
    verl_recording_close(&recording, NULL);
    return 0;
}

static int
s_replay(replay_t *replay)
{
    verl_error_t error = { "" };
    verl_spy_totals_t totals;
    if (s_read(replay, &error)) {
        fprintf(stderr, NAME ": %s\n", error.text);
        return 1;
    }
    int code = verl_spy_written(NAME);
    verl_spy_merge_totals(replay->merge, &totals);
    // What was filtered when it was recorded, and here.
    totals.counts.seen += replay->unmatched;
    totals.came -= replay->enough ? 0 : replay->unmatched;
    totals.counts.sent -= replay->unmatched < totals.counts.sent ? replay->unmatched : totals.counts.sent;
    if (replay->enough && totals.counts.sent > totals.came)
        totals.counts.sent = totals.came;   // the rest was not read
    if (error.text[0] && !replay->options->quiet)
        fprintf(stderr, NAME ": %s; what is whole was shown\n", error.text);
    if (!replay->options->quiet)
        verl_spy_tally_summary(&replay->tally, &totals, "shown", stderr);
    if (code == 0)
        code = verl_spy_count_missed(NAME, replay->count, replay->tally.shown);
    return verl_spy_tally_holds(&replay->tally, &totals, NAME) ? code : 1;
}

int
verl_spy_replay(int argc, char **argv, const verl_spy_options_t *options)
{
    replay_t *replay = calloc(1, sizeof *replay);
    if (!replay)
        return verl_spy_no_memory(NAME);
    replay->options = options;
    verl_filter_init(&replay->filter);
    replay->filter.kinds = ALL_KINDS;
    int code = s_parse(argc, argv, replay);
    replay->view = (verl_spy_view_t) { .out = stdout, .json = options->json,
                                       .values = replay->filter.values != VERL_VALUES_NONE };
    replay->to.view = &replay->view;
    replay->to.path = replay->path;
    replay->to.quiet = options->quiet;
    replay->to.timeout = options->timeout;
    replay->to.tally = &replay->tally;
    replay->merge = verl_spy_merge_new(UINT64_MAX / 8, UINT64_MAX / 8);
    if (code < 0 && !replay->merge)
        code = verl_spy_no_memory(NAME);
    if (code < 0)
        code = replay->to.actor ? verl_spy_replay_to(&replay->to) : s_replay(replay);
    verl_spy_merge_destroy(&replay->merge);
    verl_spy_tally_done(&replay->tally);
    free(replay);
    return code;
}
