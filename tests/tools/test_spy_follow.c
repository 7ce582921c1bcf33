// verl-spy follows a run of which every message is known: what it shows, what it counts, how it ends.
#include "tools/spy_world.h"
#include <jansson.h>

Test(spy_follow, shows_each_message_and_counts_exactly)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "--run $RUN");
    atomic_store(&world->wanted, 1000);
    WORLD_UNTIL(atomic_load(&world->sent) == 1000, 20);
    world_stop(world);
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 0);
    cr_assert_eq(spy_lines(spy.said), 1000);
    cr_assert_eq(spy_count(&spy, "shown"), 1000);
    cr_assert_eq(spy_count(&spy, "filtered"), 0);
    cr_assert_eq(spy_count(&spy, "dropped"), 0);
    cr_assert(strstr(spy.said, "maker#2 → reader#3"));
    cr_assert(strstr(spy.said, "make → read"));
    cr_assert(strstr(spy.said, "prompt text[2] \"two plus\\ntwo?\""), "%.300s", spy.said);
    cr_assert(strstr(spy.said, "score f32[2] 8…8.5 mean 8.25"));
    cr_assert(strstr(spy.said, "score f32[2] all 9 NaN 1"));
    cr_assert(strstr(spy.remarks, "the run is over"));
    spy_done(&spy);
    world_close(world);
}

Test(spy_follow, a_count_may_be_joined_to_its_letter)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "--run $RUN -n3");
    atomic_store(&world->wanted, 1000);
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 0, "%s", spy.remarks);
    cr_assert_eq(spy_lines(spy.said), 3);
    spy_done(&spy);
    world_close(world);
}

Test(spy_follow, json_has_what_the_design_names)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "--run $RUN --json -n 3 --values --quiet");
    atomic_store(&world->wanted, 50);
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 0, "%s", spy.remarks);
    cr_assert_eq(spy_lines(spy.said), 3);
    cr_assert_str_eq(spy.remarks, "");
    json_t *line = json_loads(strstr(spy.said, "\n") + 1, JSON_DISABLE_EOF_CHECK, NULL);
    cr_assert(line);
    json_t *columns = json_object_get(line, "columns"), *score = json_object_get(columns, "score");
    cr_assert_str_eq(json_string_value(json_object_get(line, "kind")), "data");
    cr_assert_str_eq(json_string_value(json_object_get(line, "from")), "maker#2");
    cr_assert_str_eq(json_string_value(json_object_get(line, "to")), "reader#3");
    cr_assert_str_eq(json_string_value(json_object_get(line, "stage")), "make");
    cr_assert_str_eq(json_string_value(json_object_get(line, "reader")), "read");
    cr_assert_eq(json_integer_value(json_object_get(line, "batch")), 1);
    cr_assert_eq(json_integer_value(json_object_get(line, "seq")), 2);
    cr_assert_eq(json_integer_value(json_object_get(line, "revision")), 1);
    cr_assert_gt(json_integer_value(json_object_get(line, "bytes")), 20);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age = (int64_t) now.tv_sec * VERL_S - json_integer_value(json_object_get(line, "t"));
    cr_assert(age > -2 * VERL_S && age < 60 * VERL_S, "t is not of this minute");
    cr_assert_str_eq(json_string_value(json_object_get(score, "dtype")), "f32");
    cr_assert_str_eq(json_string_value(json_object_get(score, "route")), "inline");
    cr_assert_eq(json_integer_value(json_array_get(json_object_get(score, "shape"), 0)), 2);
    cr_assert_float_eq(json_number_value(json_object_get(score, "max")), 1.5, 1e-9);
    cr_assert_float_eq(json_number_value(json_array_get(json_object_get(score, "head"), 1)), 1.5, 1e-9);
    json_t *prompt = json_object_get(columns, "prompt");
    cr_assert_str_eq(json_string_value(json_array_get(json_object_get(prompt, "head"), 1)), "é");
    json_decref(line);
    spy_done(&spy);
    world_close(world);
}

// Each line has the promised keys, null where a record has none.
Test(spy_follow, json_has_the_same_keys_for_every_kind)
{
    static const char *const keys[] = { "t", "from", "to", "kind", "stage", "batch", "revision", "seq", "bytes" };
    world_t *world = world_open();
    spy_t spy;
    int kinds = 0;
    spy_follow(&spy, world, "--run $RUN --json --kind data,ran -n 20 --quiet");
    atomic_store(&world->wanted, 50);
    spy_wait(&spy, 20);
    cr_assert_eq(spy_lines(spy.said), 20);
    for (char *line = spy.said; *line; line = strchr(line, '\n') + 1) {
        json_t *object = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        bool ran = strcmp(json_string_value(json_object_get(object, "kind")), "ran") == 0;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            cr_assert(json_object_get(object, keys[i]), "%s is not in %.300s", keys[i], line);
        cr_assert_eq(json_is_null(json_object_get(object, "to")), ran);
        cr_assert_eq(json_is_null(json_object_get(object, "seq")), ran);
        kinds |= ran ? 1 : 2;
        json_decref(object);
    }
    cr_assert_eq(kinds, 3);
    spy_done(&spy);
    world_close(world);
}

Test(spy_follow, filters_where_the_messages_are_sent)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "--run $RUN --kind data,ran --stage make --batch 100-109 --batch 7");
    atomic_store(&world->wanted, 400);
    WORLD_UNTIL(atomic_load(&world->sent) == 400, 20);
    kill(spy.pid, SIGINT);
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 0);
    cr_assert_eq(spy_lines(spy.said), 11);
    cr_assert_eq(spy_count(&spy, "filtered"), 400 - 11 + 400, "%s", spy.remarks);
    cr_assert_eq(spy_count(&spy, "dropped"), 0);
    spy_done(&spy);
    world_close(world);
}

// A stopped spy holds nobody up, and is told its exact loss when it goes on.
Test(spy_follow, a_stopped_spy_is_told_its_exact_loss)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "--run $RUN --json");
    atomic_store(&world->wanted, 1000);
    WORLD_UNTIL(atomic_load(&world->sent) == 1000, 20);
    kill(spy.pid, SIGSTOP);
    atomic_store(&world->wanted, 60000);
    WORLD_UNTIL(atomic_load(&world->sent) == 60000, 60);
    kill(spy.pid, SIGCONT);
    atomic_store(&world->wanted, 60100);
    WORLD_UNTIL(atomic_load(&world->sent) == 60100, 20);
    kill(spy.pid, SIGINT);
    spy_wait(&spy, 30);
    long shown = spy_count(&spy, "shown"), dropped = spy_count(&spy, "dropped");
    cr_assert_eq(spy_lines(spy.said), shown);
    cr_assert_gt(dropped, 0, "%s", spy.remarks);
    cr_assert_eq(shown + dropped, atomic_load(&world->seen), "%ld shown, %ld dropped, %ld seen", shown, dropped,
                 (long) atomic_load(&world->seen));
    cr_assert(strstr(spy.remarks, "most of maker#2"));
    spy_done(&spy);
    world_close(world);
}

Test(spy_follow, a_killed_spy_ends_its_trace)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "--run $RUN");
    kill(spy.pid, SIGKILL);
    WORLD_UNTIL(atomic_load(&world->traces) == 0, 5);
    spy_wait(&spy, 5);
    spy_done(&spy);
    world_close(world);
}

Test(spy_follow, follows_many_messages_a_second)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "--run $RUN --json --assert 'lost == 0 && rate > 1000 && batches == shown'");
    for (int i = 0; i < 20; i++) {          // 10,000 a second, for a second
        atomic_fetch_add(&world->wanted, 500);
        usleep(50000);
    }
    WORLD_UNTIL(atomic_load(&world->sent) == 10000, 20);
    kill(spy.pid, SIGTERM);
    spy_wait(&spy, 30);
    cr_assert_eq(spy.code, 0, "%s", spy.remarks);
    cr_assert_eq(spy_count(&spy, "shown") + spy_count(&spy, "dropped"), 10000);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    cr_assert_eq(spy_count(&spy, "dropped"), 0);
#endif
    spy_done(&spy);
    world_close(world);
}

Test(spy_follow, an_assertion_that_does_not_hold_is_exit_code_1)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "--run $RUN --quiet -n 20 --assert 'nan == 0 && max(size) < 1000'");
    atomic_store(&world->wanted, 30);
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 1);
    cr_assert(strstr(spy.remarks, "assertion failed") && strstr(spy.remarks, "nan = 2"), "%s", spy.remarks);
    spy_done(&spy);
    world_close(world);
}

Test(spy_follow, a_run_that_ends_too_early_is_exit_code_1)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "--run $RUN -n 20");
    atomic_store(&world->wanted, 5);
    WORLD_UNTIL(atomic_load(&world->sent) == 5, 20);
    world_stop(world);
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 1);
    cr_assert_eq(spy_lines(spy.said), 5);
    spy_done(&spy);
    world_close(world);
}

Test(spy_follow, fewer_messages_than_wanted_when_its_time_is_over_is_exit_code_1)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "--run $RUN -n 20 --timeout 0.5");
    atomic_store(&world->wanted, 5);
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 1);
    cr_assert(strstr(spy.remarks, "not the 20 of -n"), "%s", spy.remarks);
    spy_done(&spy);
    spy_follow(&spy, world, "record $RUN/few --run $RUN -n 20 --timeout 0.5 --kind data");
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 1);
    cr_assert(strstr(spy.remarks, "not the 20 of -n"), "%s", spy.remarks);
    spy_done(&spy);
    world_close(world);
}

Test(spy_follow, timeout_ends_it)
{
    world_t *world = world_open();
    spy_t spy;
    spy_follow(&spy, world, "--run $RUN --timeout 0.3");
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 0);
    cr_assert_eq(spy_count(&spy, "shown"), 0);
    spy_done(&spy);
    world_close(world);
}

Test(spy_follow, wrong_usage_is_exit_code_2_and_no_run_is_1)
{
    world_t *world = world_open();
    const char *const wrong[] = { "--kind nothing", "--batch 9-3", "--edge ab", "-n 0", "--every x", "--assert 'max('",
                                  "--assert gap_ms", "something", "--actor", "--timeout 0", "report --timeout 3",
                                  "batch 1 --timeout 3", "graph --timeout 3", "timeline x --timeout 3",
                                  "timeline x --json", "record x --json", "replay x --run $RUN", "replay x --timeout 3",
                                  "replay x --revision 2", "replay x --to a -n 3", "replay x --to a --speed 2",
                                  "replay x --to a --batch 3", "replay x --to a --kind data" };
    spy_t spy;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        spy_start(&spy, world, wrong[i]);
        spy_wait(&spy, 20);
        cr_assert_eq(spy.code, 2, "%s: %d %s", wrong[i], spy.code, spy.remarks);
        cr_assert_eq(spy_lines(spy.remarks), 1, "%s: %s", wrong[i], spy.remarks);
        spy_done(&spy);
    }
    spy_start(&spy, world, "--run $RUN/nothing");
    spy_wait(&spy, 20);
    cr_assert_eq(spy.code, 1);
    cr_assert_eq(spy_lines(spy.remarks), 1);
    spy_done(&spy);
    world_close(world);
}
