// spy_record.c: verl-spy record FILE: keeps the messages of a live run in a file, as they were sent.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/clock.h"
#include "runtime/base/json.h"
#include "runtime/observe/recording.h"
#include "tools/spy.h"
#include "tools/spy_follow_facts.h"
#include "tools/spy_follow_names.h"
#include "tools/spy_follow_options.h"
#include "tools/spy_follow_session.h"
#include "tools/spy_topologies.h"

#define NAME         "verl-spy record"
#define WHOLE_CREDIT (64 << 20)             // bytes of each actor under way where whole values travel

typedef struct record {
    const verl_spy_options_t *options;
    verl_filter_t             filter;
    uint64_t                  count;        // -n; 0: all
    const char               *path;
    const char               *directory;    // of the run
    verl_recording_t         *recording;
    int64_t                   newest, written;              // revisions: of which data came; whose topologies are kept
    verl_error_t              error;
    verl_spy_tally_t          tally;
    uint64_t                  bytes;        // of frames
} record_t;

static int
s_help(void)
{
    printf("usage: verl-spy record FILE [--run DIR] [FILTER…] [-n COUNT] [--values] [--timeout S] [--quiet]\n"
           "\n"
           "Keeps the messages of a live run in a file, until Ctrl-C, the end of the run, COUNT or S. All kinds are\n"
           "kept unless --kind says otherwise; with --values replay --to can feed them to an actor.\n"
           "verl-spy replay FILE shows them.\n"
           "\n%s%s",
           verl_spy_filter_help, verl_spy_count_help);
    return verl_spy_written(NAME);
}

static int
s_parse(int argc, char **argv, record_t *record)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int taken = verl_spy_filter_option(NAME, argc, argv, &i, &record->filter);
        if (!taken)
            taken = verl_spy_count_option(NAME, argc, argv, &i, &record->count);
        if (taken < 0)
            return 2;
        if (!taken && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0))
            return s_help();
        if (!taken && (*word == '-' || record->path))
            return verl_spy_usage(NAME, "'%s' is not understood", word);
        if (!taken)
            record->path = word;
    }
    record->filter.first = record->count;
    if (!record->path)
        return verl_spy_usage(NAME, "no file is named");
    if (record->filter.values == VERL_VALUES_HEAD) {
        record->filter.values = VERL_VALUES_WHOLE;
        record->filter.bytes = WHOLE_CREDIT;
    }
    return -1;
}

// --- the file -----------------------------------------------------------------------------------------------------

static int
s_write_json(record_t *record, verl_recording_kind_t kind, json_t *object, verl_error_t *error)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    int failed = text ? verl_recording_write(record->recording, kind, text, strlen(text), error)
                      : verl_error_set(error, "out of memory");
    free(text);
    json_decref(object);
    return failed;
}

static int
s_begin(record_t *record, verl_error_t *error)
{
    json_t *about = json_pack("{s:s, s:o, s:I, s:I, s:I, s:o}", "verl", VERL_VERSION, "directory",
                              verl_json_text(record->directory), "format", (json_int_t) VERL_TRACE_FORMAT, "begin",
                              (json_int_t) verl_now(), "offset", (json_int_t) verl_spy_clock_offset(), "filter",
                              verl_filter_to_json(&record->filter));
    if (s_write_json(record, VERL_RECORDING_ABOUT, about, error))
        return -1;
    return verl_spy_topologies_write(record->recording, record->directory, &record->written, error);
}

static int
s_on_frame(void *context, const char *bytes, size_t size, verl_error_t *error)
{
    record_t *record = context;
    record->bytes += size;
    return verl_recording_write(record->recording, VERL_RECORDING_FRAME, bytes, size, error);
}

static bool
s_on_record(void *context, const verl_trace_record_t *traced)
{
    record_t *record = context;
    if ((traced->kind == VERL_TRACE_DATA || traced->kind == VERL_TRACE_WEIGHTS) &&
        traced->message.revision > record->newest)
        record->newest = traced->message.revision;
    verl_spy_tally_record(&record->tally, traced);
    return !record->count || record->tally.shown < record->count;
}

// The topology of a revision whose first messages came is in the run's directory by now.
static bool
s_on_pause(void *context)
{
    record_t *record = context;
    int64_t newest = record->newest;
    if (newest <= record->written)
        return true;
    if (verl_spy_topologies_write(record->recording, record->directory, &record->written, &record->error))
        return false;
    if (record->written < newest)
        record->written = newest;           // it has none: it is not asked again
    return true;
}

static int
s_end(record_t *record, const verl_spy_totals_t *totals, verl_error_t *error)
{
    const verl_trace_counts_t *counts = &totals->counts;
    json_t *closing = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "parties", (json_int_t) totals->parties, "seen",
                                (json_int_t) counts->seen, "matched", (json_int_t) counts->matched, "sent",
                                (json_int_t) counts->sent, "dropped", (json_int_t) counts->dropped, "came",
                                (json_int_t) totals->came);
    int failed = s_write_json(record, VERL_RECORDING_CLOSING, closing, error);
    return verl_recording_close(&record->recording, error) || failed ? -1 : 0;
}

// --- following ----------------------------------------------------------------------------------------------------

static int
s_record(record_t *record, verl_error_t *error)
{
    verl_spy_listener_t listener = { .record = s_on_record, .frame = s_on_frame, .pause = s_on_pause,
                                      .context = record };
    verl_spy_session_t *session = verl_spy_session_open(record->options->run, &record->filter, &listener, error);
    verl_spy_totals_t totals;
    if (!session)
        return -1;
    record->directory = verl_spy_session_directory(session);
    record->recording = verl_recording_create(record->path, error);
    if (!record->recording || s_begin(record, error)) {
        verl_spy_session_close(&session);
        return -1;
    }
    if (!record->options->quiet) {
        fprintf(stderr, "recording %s in %s\n", record->directory, record->path);
        verl_spy_filter_remark(verl_spy_session_client(session), &record->filter, NAME, stderr);
    }
    verl_spy_state_t state = verl_spy_session_run(session, record->options->timeout, error);
    if (state != VERL_SPY_FAILED)
        verl_spy_session_finish(session);
    bool whole = state != VERL_SPY_FAILED && s_on_pause(record) && !error->text[0];
    verl_spy_session_totals(session, &totals);
    verl_spy_session_close(&session);
    if (!whole || s_end(record, &totals, error))
        return -1;
    if (!record->options->quiet)
        verl_spy_tally_summary(&record->tally, &totals, "recorded", stderr);
    return 0;
}

int
verl_spy_record(int argc, char **argv, const verl_spy_options_t *options)
{
    record_t *record = calloc(1, sizeof *record);
    if (!record)
        return verl_spy_no_memory(NAME);
    record->options = options;
    verl_filter_init(&record->filter);
    record->filter.kinds = (1u << VERL_TRACE_KINDS) - 1;
    int code = s_parse(argc, argv, record);
    if (code < 0) {
        code = s_record(record, &record->error) ? 1 : verl_spy_count_missed(NAME, record->count, record->tally.shown);
        if (record->error.text[0])
            fprintf(stderr, NAME ": %s\n", record->error.text);
    }
    verl_recording_close(&record->recording, NULL);
    verl_spy_tally_done(&record->tally);
    free(record);
    return code;
}
