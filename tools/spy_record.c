// spy_record.c: verl-spy record FILE: keeps the messages of a live run in a file, as they were sent.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "runtime/base/clock.h"
#include "runtime/observe/recording.h"
#include "tools/spy.h"
#include "tools/spy_follow_facts.h"
#include "tools/spy_follow_names.h"
#include "tools/spy_follow_options.h"
#include "tools/spy_follow_session.h"

#define NAME          "verl-spy record"
#define WHOLE_CREDIT  (64 << 20)            // bytes of each actor under way where whole values travel
#define TOPOLOGY_MOST (64 << 20)            // bytes of a topology file that is kept

typedef struct record {
    const verl_spy_options_t *options;
    verl_filter_t             filter;
    uint64_t                  count;        // -n; 0: all
    const char               *path;
    verl_recording_t         *recording;
    verl_spy_tally_t          tally;
    uint64_t                  bytes;        // of frames
} record_t;

static int
s_help(void)
{
    printf("usage: verl-spy record FILE [--run DIR] [FILTER…] [-n COUNT] [--values] [--timeout S] [--quiet]\n"
           "\n"
           "Keeps the messages of a live run in a file, until Ctrl-C, the end of the run, COUNT or S. All kinds are\n"
           "kept unless --kind says otherwise; with --values all columns with all their bytes, so that replay --to\n"
           "can feed them to an actor. verl-spy replay FILE shows them.\n"
           "\n%s",
           verl_spy_filter_help);
    return fflush(stdout) || ferror(stdout);
}

static int
s_parse(int argc, char **argv, record_t *record)
{
    for (int i = 1; i < argc; i++) {
        bool missing = false;
        const char *value, *word = argv[i];
        int taken = verl_spy_filter_option(NAME, argc, argv, &i, &record->filter);
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
            record->count = record->filter.first = (uint64_t) count;
        } else if (missing || *word == '-' || record->path) {
            return missing ? verl_spy_usage(NAME, "%s needs a value", word)
                           : verl_spy_usage(NAME, "'%s' is not understood", word);
        } else {
            record->path = word;
        }
    }
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

// The topology as the run resolved it, where it can be read: replay --to starts an actor from it.
static int
s_write_topology(record_t *record, const char *directory, verl_error_t *error)
{
    char path[4200];
    struct stat status;
    snprintf(path, sizeof path, "%s/topology.toml", directory);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    bool known = fstat(fileno(file), &status) == 0 && status.st_size > 0 && status.st_size <= TOPOLOGY_MOST;
    size_t size = known ? (size_t) status.st_size : 0;
    char *text = malloc(size + 1);
    int failed = 0;
    if (text && size && fread(text, size, 1, file) == 1)
        failed = verl_recording_write(record->recording, VERL_RECORDING_TOPOLOGY, text, size, error);
    free(text);
    fclose(file);
    return failed;
}

static int
s_begin(record_t *record, const char *directory, verl_error_t *error)
{
    json_t *about = json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "verl", VERL_VERSION, "directory", directory, "format",
                              (json_int_t) VERL_TRACE_FORMAT, "begin", (json_int_t) verl_now(), "offset",
                              (json_int_t) verl_spy_clock_offset(), "filter", verl_filter_to_json(&record->filter));
    if (s_write_json(record, VERL_RECORDING_ABOUT, about, error))
        return -1;
    return s_write_topology(record, directory, error);
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
    verl_spy_tally_record(&record->tally, traced);
    return !record->count || record->tally.shown < record->count;
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

static verl_spy_state_t
s_loop(record_t *record, verl_spy_session_t *session, verl_error_t *error)
{
    int64_t end = record->options->timeout > 0 ? verl_now() + (int64_t) (record->options->timeout * 1e9) : INT64_MAX;
    verl_spy_state_t state;
    do {
        int64_t left = (end - verl_now()) / VERL_MS + 1;
        state = verl_spy_session_step(session, left < 1000 ? (int) (left > 0 ? left : 0) : 1000, error);
    } while (state == VERL_SPY_GOES_ON && verl_now() < end);
    return state;
}

static int
s_record(record_t *record, verl_error_t *error)
{
    verl_spy_listener_t listener = { .record = s_on_record, .frame = s_on_frame, .context = record };
    verl_spy_session_t *session = verl_spy_session_open(record->options->run, &record->filter, &listener, error);
    verl_spy_totals_t totals;
    if (!session)
        return -1;
    record->recording = verl_recording_create(record->path, error);
    if (!record->recording || s_begin(record, verl_spy_session_directory(session), error)) {
        verl_spy_session_close(&session);
        return -1;
    }
    if (!record->options->quiet) {
        fprintf(stderr, "recording %s in %s\n", verl_spy_session_directory(session), record->path);
        verl_spy_filter_remark(verl_spy_session_client(session), &record->filter, NAME, stderr);
    }
    verl_spy_state_t state = s_loop(record, session, error);
    if (state != VERL_SPY_FAILED)
        verl_spy_session_finish(session);
    verl_spy_session_totals(session, &totals);
    verl_spy_session_close(&session);
    if (state == VERL_SPY_FAILED || s_end(record, &totals, error))
        return -1;
    if (!record->options->quiet)
        verl_spy_tally_summary(&record->tally, &totals, "recorded", stderr);
    return state == VERL_SPY_RUN_ENDED && record->count
               ? verl_error_set(error, "the run was over before there were so many")
               : 0;
}

int
verl_spy_record(int argc, char **argv, const verl_spy_options_t *options)
{
    record_t *record = calloc(1, sizeof *record);
    verl_error_t error = { "" };
    if (!record)
        return 1;
    record->options = options;
    verl_filter_init(&record->filter);
    record->filter.kinds = (1u << VERL_TRACE_KINDS) - 1;
    int code = s_parse(argc, argv, record);
    if (code < 0) {
        code = s_record(record, &error) ? 1 : 0;
        if (code)
            fprintf(stderr, NAME ": %s\n", error.text);
    }
    verl_recording_close(&record->recording, NULL);
    verl_spy_tally_done(&record->tally);
    free(record);
    return code;
}
