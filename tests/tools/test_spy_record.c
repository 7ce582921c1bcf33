// A recording of a run of which every message is known, and what replay shows of it and says of it.
#include "runtime/observe/recording.h"
#include "runtime/tensor/batch.h"
#include "runtime/wire/pack.h"
#include "tools/spy_world.h"

// Records `messages` messages of the run in $RUN/file, then ends it.
static void
s_record(world_t *world, const char *options, int messages)
{
    spy_t spy;
    char words[300];
    snprintf(words, sizeof words, "record $RUN/file --run $RUN %s", options);
    spy_follow(&spy, world, words);
    atomic_store(&world->wanted, messages);
    WORLD_UNTIL(atomic_load(&world->sent) == messages, 20);
    kill(spy.pid, SIGINT);
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 0, "%s", spy.remarks);
    cr_assert_geq(spy_count(&spy, "recorded"), messages, "%s", spy.remarks);
    spy_done(&spy);
}

static void
s_replay(spy_t *spy, world_t *world, const char *options)
{
    char words[300];
    snprintf(words, sizeof words, "replay $RUN/file %s", options);
    spy_start(spy, world, words);
    spy_wait(spy, 30);
}

Test(spy_record, replay_shows_what_was_recorded)
{
    world_t *world = world_open();
    spy_t spy;
    s_record(world, "--kind data", 500);
    world_stop(world);
    s_replay(&spy, world, "--assert 'shown == 500 && dropped == 0 && lost == 0'");
    cr_assert_eq(spy.code, 0, "%s", spy.remarks);
    cr_assert_eq(spy_lines(spy.said), 500);
    cr_assert(strstr(spy.said, "score f32[2] 8…8.5 mean 8.25"));
    spy_done(&spy);
    world_close(world);
}

Test(spy_record, replay_filters_what_was_recorded)
{
    world_t *world = world_open();
    spy_t spy;
    s_record(world, "", 300);               // runs of handlers too
    s_replay(&spy, world, "--batch 10-19 --kind data --json");
    cr_assert_eq(spy.code, 0, "%s", spy.remarks);
    cr_assert_eq(spy_lines(spy.said), 10);
    cr_assert_eq(spy_count(&spy, "filtered"), 590);
    spy_done(&spy);
    s_replay(&spy, world, "-n 7 --quiet");
    cr_assert_eq(spy_lines(spy.said), 7);
    spy_done(&spy);
    world_close(world);
}

Test(spy_record, a_recording_of_a_killed_recorder_is_shown_as_far_as_it_goes)
{
    world_t *world = world_open();
    spy_t spy;
    char path[100];
    s_record(world, "--kind data", 400);
    snprintf(path, sizeof path, "%s/file", world->directory);
    FILE *file = fopen(path, "r");
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    fclose(file);
    cr_assert_eq(truncate(path, size - 200), 0);
    s_replay(&spy, world, "");
    cr_assert_eq(spy.code, 0);
    cr_assert(strstr(spy.remarks, "cut short"), "%s", spy.remarks);
    cr_assert_gt(spy_lines(spy.said), 10);
    spy_done(&spy);
    world_close(world);
}

Test(spy_record, speed_keeps_the_pace)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "record $RUN/file --run $RUN --kind data");
    atomic_store(&world->wanted, 1);
    usleep(600000);
    atomic_store(&world->wanted, 2);
    WORLD_UNTIL(atomic_load(&world->sent) == 2, 20);
    kill(spy.pid, SIGINT);
    spy_wait(&spy, 20);
    spy_done(&spy);
    int64_t begin = verl_now();
    s_replay(&spy, world, "--speed 2");
    cr_assert_eq(spy_lines(spy.said), 2);
    cr_assert_gt(verl_now() - begin, 250 * VERL_MS);
    spy_done(&spy);
    world_close(world);
}

Test(spy_record, what_cannot_be_is_said_in_a_sentence)
{
    world_t *world = world_open();
    spy_t spy;
    s_record(world, "", 20);
    spy_start(&spy, world, "record $RUN/file --run $RUN");
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 1);
    cr_assert(strstr(spy.remarks, "is there already"), "%s", spy.remarks);
    WORLD_UNTIL(atomic_load(&world->traces) == 0, 5);
    spy_done(&spy);
    s_replay(&spy, world, "--to reader");
    cr_assert_eq(spy.code, 1);
    cr_assert(strstr(spy.remarks, "has no topology"), "%s", spy.remarks);
    spy_done(&spy);
    spy_start(&spy, world, "replay $RUN/lock");
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 1);
    cr_assert(strstr(spy.remarks, "is no recording"), "%s", spy.remarks);
    spy_done(&spy);
    spy_start(&spy, world, "replay");
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 2);
    spy_done(&spy);
    world_close(world);
}

// What is counted is the same whether the counts are told or not.
Test(spy_record, an_assertion_comes_to_the_same_with_quiet)
{
    static const char *const options[] = { "", "--quiet" };
    world_t *world = world_open();
    spy_t spy;
    char words[200];
    s_record(world, "", 300);               // runs of handlers too
    world_stop(world);
    for (size_t i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "--batch 10-19 --kind data --assert 'filtered == 590 && lost == 0' %s",
                 options[i]);
        s_replay(&spy, world, words);
        cr_assert_eq(spy.code, 0, "%s", spy.remarks);
        spy_done(&spy);
    }
    world_close(world);
}

Test(spy_record, fewer_messages_than_wanted_is_exit_code_1)
{
    world_t *world = world_open();
    spy_t spy;
    s_record(world, "--kind data", 10);
    s_replay(&spy, world, "-n 11");
    cr_assert_eq(spy.code, 1);
    cr_assert(strstr(spy.remarks, "there were 10 messages, not the 11 of -n"), "%s", spy.remarks);
    spy_done(&spy);
    s_replay(&spy, world, "-n 10");
    cr_assert_eq(spy.code, 0, "%s", spy.remarks);
    spy_done(&spy);
    s_replay(&spy, world, "-n 4 --assert 'lost == 0 && shown == 4'");
    cr_assert_eq(spy.code, 0, "%s", spy.remarks);
    spy_done(&spy);
    world_close(world);
}

// A message of a column of 1000 numbers that lie in shared memory; of which its sender told so many NaNs, or nothing.
static void
s_write_far_column(const char *path, int64_t nans)
{
    verl_buffer_t frame = { 0 }, body = { 0 }, about = { 0 };
    verl_trace_head_t head = { .party = "a#2", .trace = 1, .number = 1, .last = true, .counts = { 1, 1, 1, 0 } };
    verl_pack_array(&body, 5);
    verl_pack_int(&body, VERL_BATCH_FORMAT);
    verl_pack_int(&body, 1000);
    verl_pack_int(&body, 0);
    verl_pack_nil(&body);
    verl_pack_array(&body, 1);
    verl_pack_array(&body, 6);
    verl_pack_cstr(&body, "score");
    verl_pack_cstr(&body, "f32");
    verl_pack_bool(&body, false);
    verl_pack_int(&body, 1);
    verl_pack_int(&body, 1000);
    verl_pack_array(&body, 3);
    verl_pack_uint(&body, 7);
    verl_pack_uint(&body, 0);
    verl_pack_uint(&body, 4000);
    verl_summary_t summary = { .elements = 1000, .numbers = 1000, .nans = nans, .min = 1, .max = 2, .mean = 1.5 };
    verl_trace_write_about(&about, "score", &summary, "", 0);
    verl_message_t header = { .seq = 1, .revision = 1, .batch = 4, .parts = 1, .body = body.data,
                              .body_size = body.size };
    verl_trace_message_t message = { .kind = VERL_TRACE_DATA, .t = 5, .from = "a#2", .to = "b#3", .stage = "s",
                                     .reader = "r", .message = &header, .body = body.data, .body_size = body.size,
                                     .about = nans >= 0 ? &about : NULL, .about_count = nans >= 0 };
    verl_trace_write_head(&frame, &head);
    verl_trace_write_message(&frame, &message);
    verl_recording_t *recording = verl_recording_create(path, NULL);
    cr_assert(recording && !frame.failed);
    cr_assert_eq(verl_recording_write(recording, VERL_RECORDING_FRAME, frame.data, frame.size, NULL), 0);
    cr_assert_eq(verl_recording_close(&recording, NULL), 0);
    verl_buffer_done(&frame);
    verl_buffer_done(&body);
    verl_buffer_done(&about);
}

// That there are no NaNs cannot be said of columns that nobody looked at.
Test(spy_record, nan_is_unknown_where_columns_were_not_looked_at)
{
    static const struct { int64_t nans; const char *assertion; int code; const char *said; } cases[] = {
        { 0, "nan == 0", 0, "" },
        { 3, "nan == 3", 0, "" },
        { -1, "nan == 0", 1, "nan is not known: the numbers of 1 columns did not come" },
        { -1, "nan > 0", 1, "nan is not known" },
        { -1, "shown == 1", 0, "" },
    };
    world_t *world = world_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[120], words[200];
        spy_t spy;
        snprintf(path, sizeof path, "%s/far%zu", world->directory, i);
        s_write_far_column(path, cases[i].nans);
        snprintf(words, sizeof words, "replay %s --quiet --assert '%s'", path, cases[i].assertion);
        spy_start(&spy, world, words);
        spy_wait(&spy, 20);
        cr_assert_eq(spy.code, cases[i].code, "%s: %s", cases[i].assertion, spy.remarks);
        cr_assert(strstr(spy.remarks, cases[i].said), "%s: %s", cases[i].assertion, spy.remarks);
        spy_done(&spy);
    }
    world_close(world);
}

// Never exit code 1 without a word: a full disk, in each way in which a command writes.
Test(spy_record, output_that_cannot_be_written_is_said)
{
    static const char *const words[] = { "--version", "--help", "top --help", "replay --help", "replay $RUN/file",
                                         "replay $RUN/file --json" };
    world_t *world = world_open();
    s_record(world, "--kind data", 100);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char command[400], path[120];
        snprintf(command, sizeof command, "RUN=%s; %s/bin/verl-spy %s >/dev/full 2>$RUN/said", world->directory,
                 VERL_BINARY_DIR, words[i]);
        int status = system(command);
        snprintf(path, sizeof path, "%s/said", world->directory);
        char *said = spy_file(path);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%s: status %x", words[i], (unsigned) status);
        cr_assert(strstr(said, "cannot write to standard output"), "%s: %s", words[i], said);
        free(said);
    }
    world_close(world);
}
