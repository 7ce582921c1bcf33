// verl-spy timeline: runs of a worker do not overlap, flows have both ends, queues are never below nothing.
#include "tests/tools/views.h"
#include "tools/spy_timeline_events.h"

// --- looking at one -----------------------------------------------------------------------------------------------

typedef struct slice {
    int    pid, tid;
    double from, to;
    int    batch;
} slice_t;

typedef struct found {
    int     slices_count, flows, counters;
    slice_t slices[4096];
} found_t;

static int
s_compare(const void *a, const void *b)
{
    const slice_t *x = a, *y = b;
    return x->pid != y->pid ? x->pid - y->pid : (x->from > y->from) - (x->from < y->from);
}

// The slice that holds a moment of a thread; NULL: none.
static const slice_t *
s_slice(const found_t *found, int pid, int tid, double t)
{
    for (int i = 0; i < found->slices_count; i++)
        if (found->slices[i].pid == pid && found->slices[i].tid == tid && found->slices[i].from <= t + 1e-3 &&
            t <= found->slices[i].to + 1e-3)
            return &found->slices[i];
    return NULL;
}

static int
s_int(const json_t *event, const char *key)
{
    return (int) number(event, key);
}

static void
s_read_slices(const json_t *events, found_t *found)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (strcmp(text(event, "ph"), "X") != 0)
            continue;
        cr_assert_lt(found->slices_count, 4096);
        cr_assert_geq(number(event, "dur"), 0);
        found->slices[found->slices_count++] =
            (slice_t) { .pid = s_int(event, "pid"), .tid = s_int(event, "tid"), .from = number(event, "ts"),
                        .to = number(event, "ts") + number(event, "dur"),
                        .batch = s_int(json_object_get(event, "args"), "batch") };
    }
    qsort(found->slices, (size_t) found->slices_count, sizeof *found->slices, s_compare);
    for (int i = 1; i < found->slices_count; i++)       // a worker does one thing at a time
        cr_assert(found->slices[i].pid != found->slices[i - 1].pid ||
                  found->slices[i].from >= found->slices[i - 1].to - 1e-3, "two runs of one actor overlap");
}

// Each begin of a flow lies in a run, and its end in a later run of the same batch elsewhere.
static void
s_read_flows(const json_t *events, found_t *found)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *begin = json_array_get(events, i), *end = NULL;
        if (strcmp(text(begin, "ph"), "s") != 0)
            continue;
        int ends = 0;
        for (size_t j = 0; j < json_array_size(events); j++) {
            const json_t *other = json_array_get(events, j);
            if (strcmp(text(other, "ph"), "f") == 0 && number(other, "id") == number(begin, "id")) {
                end = other;
                ends++;
            }
        }
        cr_assert_eq(ends, 1, "a flow has %d ends", ends);
        const slice_t *from = s_slice(found, s_int(begin, "pid"), s_int(begin, "tid"), number(begin, "ts"));
        const slice_t *to = s_slice(found, s_int(end, "pid"), s_int(end, "tid"), number(end, "ts"));
        cr_assert(from && to, "an end of a flow lies in no run");
        cr_assert_eq(from->batch, to->batch);
        cr_assert_leq(number(begin, "ts"), number(end, "ts"));
        found->flows++;
    }
}

// No queue is ever below nothing, and at the end all that came was taken.
static void
s_read_counters(const json_t *events, found_t *found)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (strcmp(text(event, "ph"), "C") != 0)
            continue;
        cr_assert_geq(number(json_object_get(event, "args"), "batches"), 0);
        found->counters++;
    }
}

static void
s_look(const json_t *timeline, found_t *found)
{
    const json_t *events = json_object_get(timeline, "traceEvents");
    *found = (found_t) { 0 };
    cr_assert(json_is_array(events));
    for (size_t i = 0; i < json_array_size(events); i++)
        cr_assert(json_is_string(json_object_get(json_array_get(events, i), "ph")) &&
                  json_is_integer(json_object_get(json_array_get(events, i), "pid")));
    s_read_slices(events, found);
    s_read_flows(events, found);
    s_read_counters(events, found);
}

static json_t *
s_written(verl_timeline_t *timeline, verl_timeline_counts_t *counts)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&bytes, &size);
    json_error_t wrong;
    cr_assert_eq(verl_timeline_write(timeline, file, "a \"run\"", counts), 0);
    fclose(file);
    json_t *object = json_loadb(bytes, size, 0, &wrong);
    cr_assert(object, "%s in %s", wrong.text, bytes);
    free(bytes);
    return object;
}

// --- by hand ------------------------------------------------------------------------------------------------------

static void
s_add_run(verl_timeline_t *timeline, const char *party, const char *stage, int64_t batch, int64_t part, int64_t parts,
          int64_t begin, int64_t end)
{
    static verl_trace_record_t record;
    record = (verl_trace_record_t) { .kind = VERL_TRACE_RAN, .t = end, .begin = begin, .end = end,
                                     .message = { .revision = 1, .batch = batch, .part = part, .parts = parts } };
    snprintf(record.from, sizeof record.from, "%s", party);
    snprintf(record.stage, sizeof record.stage, "%s", stage);
    cr_assert(verl_timeline_add(timeline, &record));
}

static void
s_add_message(verl_timeline_t *timeline, const char *from, const char *stage, const char *to, const char *reader,
              int64_t batch, int64_t part, int64_t parts, int64_t t)
{
    static verl_trace_record_t record;
    record = (verl_trace_record_t) { .kind = VERL_TRACE_DATA, .t = t,
                                     .message = { .revision = 1, .batch = batch, .part = part, .parts = parts } };
    snprintf(record.from, sizeof record.from, "%s", from);
    snprintf(record.stage, sizeof record.stage, "%s", stage);
    snprintf(record.to, sizeof record.to, "%s", to);
    snprintf(record.reader, sizeof record.reader, "%s", reader);
    cr_assert(verl_timeline_add(timeline, &record));
}

Test(timeline, a_flow_leads_from_the_run_that_sent_to_the_run_that_took)
{
    static found_t found;
    verl_timeline_counts_t counts;
    verl_timeline_t *timeline = verl_timeline_new();
    for (int64_t k = 0; k < 10; k++) {
        s_add_run(timeline, "a#2", "make", k, 0, 1, 1000000 + k * 100000, 1000000 + k * 100000 + 50000);
        s_add_message(timeline, "a#2", "make", "b#3", "read", k, 0, 1, 1000000 + k * 100000 + 49000);
        s_add_run(timeline, "b#3", "read", k, 0, 1, 1000000 + k * 100000 + 60000, 1000000 + k * 100000 + 130000);
    }
    json_t *object = s_written(timeline, &counts);
    s_look(object, &found);
    cr_expect_eq(found.slices_count, 20);
    cr_expect_eq(found.flows, 10);
    cr_expect_eq(found.counters, 20);
    cr_expect_eq(counts.open, 0);
    json_decref(object);
    verl_timeline_destroy(&timeline);
}

Test(timeline, parts_flow_to_the_part_that_took_them_or_to_the_whole_batch)
{
    static found_t found;
    verl_timeline_counts_t counts;
    verl_timeline_t *timeline = verl_timeline_new();
    for (int64_t part = 0; part < 3; part++) {
        s_add_run(timeline, "a#2", "make", 0, part, 3, part * 1000000, part * 1000000 + 500000);
        s_add_message(timeline, "a#2", "make", "b#3", "by_part", 0, part, 3, part * 1000000 + 400000);
        s_add_message(timeline, "a#2", "make", "c#4", "whole", 0, part, 3, part * 1000000 + 400000);
        s_add_run(timeline, "b#3", "by_part", 0, part, 3, part * 1000000 + 600000, part * 1000000 + 700000);
    }
    s_add_run(timeline, "c#4", "whole", 0, 0, 1, 5000000, 6000000);
    json_t *object = s_written(timeline, &counts);
    s_look(object, &found);
    cr_expect_eq(found.flows, 6);
    json_decref(object);
    verl_timeline_destroy(&timeline);
}

Test(timeline, what_lacks_an_end_is_counted_and_left_out)
{
    static found_t found;
    verl_timeline_counts_t counts;
    verl_timeline_t *timeline = verl_timeline_new();
    s_add_run(timeline, "a#2", "make", 4, 0, 1, 1000, 2000);
    s_add_message(timeline, "a#2", "make", "b#3", "read", 4, 0, 1, 1500);        // its reader was not seen
    s_add_message(timeline, "a#2", "make", "b#3", "read", 3, 0, 1, 500);         // nor its maker
    json_t *object = s_written(timeline, &counts);
    s_look(object, &found);
    cr_expect_eq(found.flows, 0);
    cr_expect_eq(counts.open, 2);
    cr_expect_eq(found.counters, 0);
    json_decref(object);
    verl_timeline_destroy(&timeline);
}

Test(timeline, one_of_nothing_is_valid)
{
    static found_t found;
    verl_timeline_counts_t counts;
    verl_timeline_t *timeline = verl_timeline_new();
    json_t *object = s_written(timeline, &counts);
    s_look(object, &found);
    cr_expect_eq(counts.runs, 0);
    json_decref(object);
    verl_timeline_destroy(&timeline);
}

// --- of a run -----------------------------------------------------------------------------------------------------

Test(timeline, of_a_live_run_holds_its_stages_and_flows)
{
    static found_t found;
    run_t run;
    char path[128];
    json_error_t wrong;
    run_start(
        &run,
        "[run]\nname = \"seen\"\nsteps = 1000000\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 5\n"
        "[stage.b]\nkind = \"synthetic\"\nbusy_ms = 10\nreplicas = 2\ndepends_on = [\"a\"]\nreads = [\"payload\"]\n"
        "[stage.c]\nkind = \"synthetic\"\nbusy_ms = 1\ndepends_on = [\"a\", \"b\"]\nreads = [\"payload\", \"id\"]\n",
        "");
    run_until_steps(&run, 10);
    shown_t shown = show(&run, "timeline out.json --seconds 1.5 --run run");
    cr_assert_eq(shown.code, 0, "%s", shown.said);
    snprintf(path, sizeof path, "%s/out.json", run.folder);
    json_t *object = json_load_file(path, 0, &wrong);
    cr_assert(object, "%s", wrong.text);
    s_look(object, &found);
    cr_expect_geq(found.slices_count, 10);
    cr_expect_geq(found.flows, 10);
    cr_expect_geq(found.counters, 4);
    json_decref(object);
    shown_done(&shown);
    run_cut(&run);
}

Test(timeline, of_a_recording_is_that_of_the_run)
{
    static found_t found;
    run_t run;
    char path[128];
    json_error_t wrong;
    run_start(&run, "[run]\nname = \"kept\"\nsteps = 1000000\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 5\n"
              "[stage.b]\nkind = \"synthetic\"\nbusy_ms = 5\ndepends_on = [\"a\"]\nreads = [\"payload\"]\n", "");
    run_until_steps(&run, 5);
    shown_t shown = show(&run, "record kept.rec --kind data,ran -n 200 --run run");
    cr_assert_eq(shown.code, 0, "%s", shown.said);
    shown_done(&shown);
    shown = show(&run, "timeline out.json --from kept.rec");
    cr_assert_eq(shown.code, 0, "%s", shown.said);
    shown_done(&shown);
    snprintf(path, sizeof path, "%s/out.json", run.folder);
    json_t *object = json_load_file(path, 0, &wrong);
    cr_assert(object, "%s", wrong.text);
    s_look(object, &found);
    cr_expect_geq(found.slices_count, 50);
    cr_expect_geq(found.flows, 20);
    json_decref(object);
    run_cut(&run);
}

Test(timeline, refuses_wrong_words_and_files_that_are_no_recordings)
{
    run_t run;
    run_whole(&run, "[run]\nname = \"short\"\nsteps = 2\n[stage.a]\nkind = \"synthetic\"\n", "");
    const char *const wrong[] = { "timeline", "timeline a b", "timeline a --seconds 0", "timeline a --seconds",
                                  "timeline --x" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        shown_t shown = show(&run, wrong[i]);
        cr_expect_eq(shown.code, 2, "%s", wrong[i]);
        shown_done(&shown);
    }
    shown_t shown = show(&run, "timeline out.json --from run/run.log");
    cr_expect_eq(shown.code, 1);
    cr_expect(strlen(shown.said) > 10);
    shown_done(&shown);
    shown = show(&run, "timeline out.json --run run");
    cr_expect_eq(shown.code, 1);
    shown_done(&shown);
    shown = show(&run, "--version >/dev/null; ls out.json");
    cr_expect_str_eq(shown.out, "", "a file that nothing was written to is not left");
    shown_done(&shown);
    shown = show(&run, "timeline /nowhere/out.json --run run");
    cr_expect(strstr(shown.said, "cannot write /nowhere/out.json: "), "it is said first: %s", shown.said);
    shown_done(&shown);
    shown = show(&run, "--run '' top");
    cr_expect_eq(shown.code, 2);
    cr_expect(strstr(shown.said, "--run names no directory"), "%s", shown.said);
    shown_done(&shown);
    run_done(&run);
}
