// spy_timeline.c: verl-spy timeline FILE: some seconds of a live run, or a recording, as a timeline for a viewer.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/clock.h"
#include "runtime/observe/recording.h"
#include "tools/spy.h"
#include "tools/spy_follow_session.h"
#include "tools/spy_timeline_events.h"

#define NAME "verl-spy timeline"

typedef struct request {
    const verl_spy_options_t *options;
    const char               *file, *recording;
    double                    seconds;
    FILE                     *out;
    bool                      made;         // the file was not there before
    verl_timeline_t          *timeline;
    char                      title[4100];  // where the run is
} request_t;

static int
s_help(void)
{
    printf(
        "usage: verl-spy timeline FILE [--seconds S] [--from RECORDING] [--run DIR] [--quiet]\n"
        "\n"
        "Writes a timeline of a live run to FILE, in the trace event format: open it at https://ui.perfetto.dev or in\n"
        "chrome://tracing. Its processes are the actors, its threads their stages; arrows lead from the batch that "
        "sent\n"
        "data to the one that took it; counters show how many batches wait for a stage.\n"
        "\n"
        "  --seconds S        look for so long (5)\n"
        "  --from RECORDING   instead of a live run: what `verl-spy record` wrote (data and ran of it)\n");
    return verl_spy_written(NAME);
}

static bool
s_on_record(void *context, const verl_trace_record_t *record)
{
    request_t *self = context;
    return verl_timeline_add(self->timeline, record);
}

// --- from a live run ----------------------------------------------------------------------------------------------

static int
s_live(request_t *self)
{
    verl_filter_t filter;
    verl_error_t error = { "" };
    verl_spy_totals_t totals;
    verl_spy_listener_t listener = { .record = s_on_record, .context = self };
    verl_filter_init(&filter);
    filter.kinds = (UINT32_C(1) << VERL_TRACE_DATA) | (UINT32_C(1) << VERL_TRACE_RAN);
    verl_spy_session_t *session = verl_spy_session_open(self->options->run, &filter, &listener, &error);
    if (!session) {
        fprintf(stderr, NAME ": %s\n", error.text);
        return 1;
    }
    snprintf(self->title, sizeof self->title, "%s", verl_spy_session_directory(session));
    verl_spy_state_t state = verl_spy_session_run(session, self->seconds, &error);
    verl_spy_session_finish(session);
    verl_spy_session_totals(session, &totals);
    if (state == VERL_SPY_FAILED)
        fprintf(stderr, NAME ": %s\n", error.text);
    if (!self->options->quiet && totals.counts.dropped > 0)
        fprintf(stderr, NAME ": %" PRIu64 " records were dropped: there were more than this program could take\n",
                totals.counts.dropped);
    verl_spy_session_close(&session);
    return state == VERL_SPY_FAILED;
}

// --- from a recording ---------------------------------------------------------------------------------------------

static int
s_frame(request_t *self, const char *bytes, size_t size, verl_error_t *error)
{
    verl_reader_t reader;
    verl_trace_head_t head;
    verl_trace_record_t *record = malloc(sizeof *record);
    verl_reader_init(&reader, bytes, size);
    int failed = record ? verl_trace_read_head(&reader, &head, error) : verl_error_set(error, "out of memory");
    while (!failed && verl_reader_left(&reader) > 0) {
        failed = verl_trace_read_record(&reader, record, error);
        if (!failed && !verl_timeline_add(self->timeline, record))
            break;
    }
    free(record);
    return failed;
}

static int
s_recorded(request_t *self)
{
    verl_error_t error = { "" };
    verl_recording_t *recording = verl_recording_open(self->recording, &error);
    verl_recording_kind_t kind = VERL_RECORDING_END;
    const char *bytes;
    size_t size;
    int failed = !recording;
    snprintf(self->title, sizeof self->title, "%s", self->recording);
    while (!failed && (kind = verl_recording_read(recording, &bytes, &size, &error)) != VERL_RECORDING_END)
        failed = kind == VERL_RECORDING_FRAME && s_frame(self, bytes, size, &error);
    verl_recording_close(&recording, NULL);
    if (failed || error.text[0])
        fprintf(stderr, NAME ": %s\n", error.text);
    return failed;
}

// --- the command --------------------------------------------------------------------------------------------------

static int
s_cannot_write(const request_t *self)
{
    fprintf(stderr, NAME ": cannot write %s: %s\n", self->file, strerror(errno));
    return 1;
}

// Before anything is looked at, so that nobody waits for what cannot be written. What the file holds stays until then.
static int
s_open(request_t *self)
{
    int fd = open(self->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    self->made = fd >= 0;
    if (fd < 0 && errno == EEXIST)
        fd = open(self->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    self->out = fd >= 0 ? fdopen(fd, "w") : NULL;
    return self->out ? 0 : s_cannot_write(self);
}

static int
s_write(request_t *self)
{
    verl_timeline_counts_t counts;
    if (ftruncate(fileno(self->out), 0) && errno != EINVAL)     // a pipe has no size
        return s_cannot_write(self);
    int failed = verl_timeline_write(self->timeline, self->out, self->title, &counts);
    failed |= fclose(self->out);
    self->out = NULL;
    if (failed)
        return s_cannot_write(self);
    if (counts.runs == 0) {
        fprintf(stderr, NAME ": no handler ran while it was looked at: %s has nothing to show\n", self->file);
        return 1;
    }
    if (!self->options->quiet)
        fprintf(stderr,
                "%s: %" PRId64 " runs of handlers, %" PRId64 " messages, %" PRId64 " of them with both ends%s; open "
                "it at https://ui.perfetto.dev\n",
                self->file, counts.runs, counts.messages, counts.flows,
                counts.full ? " (there was more than is kept)" : "");
    return 0;
}

// Returns -1 to go on, else the exit code.
static int
s_parse(int argc, char **argv, request_t *self)
{
    for (int i = 1; i < argc; i++) {
        bool missing = false;
        const char *value, *word = argv[i];
        char *end;
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return s_help();
        if ((value = verl_spy_value(argc, argv, &i, "--seconds", &missing))) {
            self->seconds = strtod(value, &end);
            if (end == value || *end || !(self->seconds > 0 && self->seconds <= 86400))
                return verl_spy_usage(NAME, "--seconds is a number above 0, at most 86400, not '%s'", value);
        } else if ((value = verl_spy_value(argc, argv, &i, "--from", &missing))) {
            self->recording = value;
        } else if (missing) {
            return verl_spy_usage(NAME, "%s needs a value", word);
        } else if (word[0] == '-' || self->file) {
            return verl_spy_usage(NAME, "'%s' is not understood", word);
        } else {
            self->file = word;
        }
    }
    return self->file ? -1 : verl_spy_usage(NAME, "it takes the name of a file to write");
}

int
verl_spy_timeline(int argc, char **argv, const verl_spy_options_t *options)
{
    request_t *self = calloc(1, sizeof *self);
    int code = 1;
    if (!self)
        return verl_spy_no_memory(NAME);
    self->options = options;
    self->seconds = 5;
    code = s_parse(argc, argv, self);
    if (code < 0 && !(self->timeline = verl_timeline_new()))
        code = verl_spy_no_memory(NAME);
    if (code < 0 && s_open(self))
        code = 1;
    if (code < 0) {
        code = self->recording ? s_recorded(self) : s_live(self);
        if (code && self->made)
            unlink(self->file);
        code = code ? code : s_write(self);
    }
    if (self->out)
        fclose(self->out);
    verl_timeline_destroy(&self->timeline);
    free(self);
    return code;
}
