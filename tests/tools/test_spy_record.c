// A recording of a run of which every message is known, and what replay shows of it.
#include "tools/spy_world.h"

// Records `messages` messages of the run in $RUN/file, then ends it.
static void
s_record(world_t *world, const char *options, int messages)
{
    spy_t spy;
    char words[300];
    snprintf(words, sizeof words, "record $RUN/file --run $RUN %s", options);
    spy_start(&spy, world, words);
    WORLD_UNTIL(atomic_load(&world->traces) > 0, 10);
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
    spy_start(&spy, world, "record $RUN/file --run $RUN --kind data");
    WORLD_UNTIL(atomic_load(&world->traces) > 0, 10);
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
