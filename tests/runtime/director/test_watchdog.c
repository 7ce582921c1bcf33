// test_watchdog.c: who is given up, and who is not.
#include "tests/tools/living.h"

// Four replicas work for 2.3 to 2.7 s a batch, and are asked every 0.75 s: at a third of the batches the last answer
// before the end is one from which a guess would go beyond the 3 s.
Test(watchdog, a_handler_that_ends_in_time_is_not_given_up_for_what_was_known_of_it_before, .timeout = 100)
{
    run_t run;
    run_start(&run, CHAIN("steps = 16\n", "", "busy_ms = 2300\njitter_ms = 400\nreplicas = 4\ntimeout = 3\n", ""), "");
    run_wait(&run, 60);
    cr_assert_eq(run.code, 0, "exit %d: %s", run.code, run.said);
    run_done(&run);
}

// As far as is known it does what it did when it last answered.
Test(watchdog, a_handler_that_hangs_is_given_up_within_its_timeout_and_a_quarter, .timeout = 100)
{
    run_t run;
    run_start(&run, CHAIN("steps = 16\n", "", "hang_at = 3\ntimeout = 0.75\n", ""), "");
    run_wait(&run, 20);
    cr_assert_eq(run.code, 1, "exit %d: %s", run.code, run.said);
    cr_expect(run_said(&run, "stage `mid` of `mid#"), "%s", run.said);
    cr_expect(run_said(&run, "batch 3 for more than 0.75 s (timeout)"), "%s", run.said);
    run_done(&run);
}

// Its mailbox may be silent for ever (liveness = 0, for debuggers); its handler may not.
Test(watchdog, a_process_that_is_stopped_in_a_handler_is_given_up_though_its_mailbox_may_be_silent, .timeout = 100)
{
    run_t run;
    run_start(&run, CHAIN("steps = 100\n", "", "hang_at = 3\ntimeout = 2\nliveness = 0\n", ""), "");
    s_await(&run);
    run_until_steps(&run, 3);
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    for (bool runs = false; !runs;) {       // the director knows that it is in its handler
        json_t *status = s_status(&run), *actor;
        size_t i;
        json_array_foreach(json_object_get(status, "actors"), i, actor)
            runs |= json_object_get(actor, "running") != NULL &&
                    json_integer_value(json_object_get(json_object_get(actor, "running"), "batch")) == 3;
        json_decref(status);
        cr_assert(verl_now() < limit);
        usleep(10000);
    }
    cr_assert_eq(kill((pid_t) s_actor(&run, "mid", "pid"), SIGSTOP), 0);
    run_wait(&run, 30);
    cr_assert_eq(run.code, 1, "exit %d: %s", run.code, run.said);
    cr_expect(run_said(&run, "(timeout)"), "%s", run.said);
    run_done(&run);
}
