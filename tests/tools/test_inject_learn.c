// test_inject_learn.c: a run that learns is changed while it does: its policy moves to another process with all its
// state, its weights become stale and fresh again, a critic comes and goes. What is learned is the same to the bit.
#include "tools/learns.h"

Test(inject_learn, a_policy_that_is_swapped_goes_on_learning_as_if_it_had_not_been, .timeout = 300)
{
    run_t run;
    outcome_t undisturbed = s_undisturbed();
    s_start(&run);
    json_int_t policy = s_actor(&run, "policy", "incarnation"), reward = s_actor(&run, "reward", "incarnation");
    said_t said = s_inject(&run, "--at 8 swap policy");
    DOES(said, "from batch 8 on: replaced policy");
    cr_assert_gt(s_actor(&run, "policy", "incarnation"), policy);
    cr_assert_eq(s_actor(&run, "reward", "incarnation"), reward);
    said = s_inject(&run, "swap policy");
    DOES(said, "replaced policy");
    s_same(undisturbed, s_end_of(&run));
    free(undisturbed.metrics);
    free(undisturbed.recorded);
}

Test(inject_learn, a_policy_that_is_swapped_for_other_weights_begins_with_them, .timeout = 300)
{
    run_t run;
    outcome_t undisturbed = s_undisturbed(), swapped[2];
    for (int i = 0; i < 2; i++) {
        s_start(&run);
        said_t said = s_inject(&run, "--at 8 swap policy init=random");
        DOES(said, "from batch 8 on: replaced policy (init=\"random\", begins anew)");
        swapped[i] = s_end_of(&run);
    }
    cr_assert(strcmp(swapped[0].metrics, undisturbed.metrics) != 0, "it goes on with the weights that it had");
    s_same(swapped[0], swapped[1]);
    free(swapped[0].metrics);
    free(swapped[0].recorded);
    free(undisturbed.metrics);
    free(undisturbed.recorded);
}

static outcome_t
s_switched(void)
{
    run_t run;
    s_start(&run);
    said_t said = s_inject(&run, "--at 8 set stage.generate.staleness=1");
    DOES(said, "from batch 8 on");
    said = s_inject(&run, "--at 14 set stage.generate.staleness=0");
    DOES(said, "from batch 14 on");
    return s_end_of(&run);
}

Test(inject_learn, weights_may_become_stale_and_fresh_again_while_it_learns, .timeout = 300)
{
    outcome_t undisturbed = s_undisturbed(), once = s_switched();
    s_same(once, s_switched());
    cr_assert(strcmp(once.metrics, undisturbed.metrics) != 0, "stale weights are not stale");
    size_t before = 0;                      // the first eight steps are untouched
    for (int line = 0; line < 8; line++)
        before += strcspn(once.metrics + before, "\n") + 1;
    cr_assert(strncmp(once.metrics, undisturbed.metrics, before) == 0);
    free(undisturbed.metrics);
    free(undisturbed.recorded);
    free(once.metrics);
    free(once.recorded);
}

static int
s_steps_with(const char *metrics, const char *key, int *ret_first)
{
    int count = 0, step = 0;
    *ret_first = -1;
    for (const char *line = metrics; *line; line = strchr(line, '\n') + 1, step++) {
        const char *at = strstr(line, key);
        if (!at || at > strchr(line, '\n'))
            continue;
        *ret_first = *ret_first < 0 ? step : *ret_first;
        count++;
    }
    return count;
}

Test(inject_learn, a_critic_comes_and_goes_and_nobody_else_is_restarted, .timeout = 300)
{
    static const char *const others[] = { "policy", "prompts", "reward", "slow", "rec" };
    run_t run;
    json_int_t before[5];
    int first;
    s_start(&run);
    for (int i = 0; i < 5; i++)
        before[i] = s_actor(&run, others[i], "incarnation");
    said_t said = s_inject(&run, "--at 8 apply - <<'END'\n"
                                 "[stage.values]\nkind = \"synthetic\"\ndepends_on = [\"generate\"]\n"
                                 "reads = [\"response_ids\"]\nas = { payload = \"values\" }\n"
                                 "[stage.advantage]\ndepends_on = [\"reward\", \"slow\", \"values\"]\nEND\n");
    DOES(said, "from batch 8 on: added values");
    said = s_inject(&run, "--at 14 apply - <<'END'\nunset = [\"stage.values\"]\n"
                          "[stage.advantage]\ndepends_on = [\"reward\", \"slow\"]\nEND\n");
    DOES(said, "from batch 14 on: removed values");
    for (int i = 0; i < 5; i++)
        cr_assert_eq(s_actor(&run, others[i], "incarnation"), before[i], "%s is another", others[i]);
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    char *metrics = run_file(&run, "metrics.jsonl");
    cr_assert_eq(s_steps_with(metrics, "\"timing_s/values\"", &first), 6);
    cr_assert_eq(first, 8);
    free(metrics);
    run_done(&run);
}

typedef enum { OLD, NEW, REWARD, DIRECTOR } role_t;

static pid_t
s_new_policy(const run_t *run, json_int_t old)
{
    int64_t limit = verl_now() + 5 * SLOWER * VERL_S;
    while (s_actor(run, "policy", "incarnation") == old && verl_now() < limit)
        usleep(500);
    return (pid_t) s_actor(run, "policy", "pid");
}

// The policy hands its state over when batch 7 is done, about 800 ms after the beginning.
static void
s_handover(role_t role, int delay, outcome_t undisturbed)
{
    run_t run;
    s_start(&run);
    json_int_t old = s_actor(&run, "policy", "incarnation");
    pid_t pid = (pid_t) s_actor(&run, role == REWARD ? "reward" : "policy", "pid");
    pid_t inject = s_begin(&run, "asked", "--at 8 swap policy");
    if (role == NEW)
        pid = s_new_policy(&run, old);
    int64_t limit = verl_now() + 30 * SLOWER * VERL_S;
    while (s_done_batches(&run) < 7)
        cr_assert(verl_now() < limit && usleep(2000) == 0);
    usleep((useconds_t) delay * 1000);
    if (role == DIRECTOR)
        s_resume(&run);
    else
        kill(pid, SIGKILL);
    s_end(&run, "asked", inject, 60);
    if (role != DIRECTOR) {
        run_wait(&run, 60);
        s_ended(&run, 0, "");
    }
    s_same(undisturbed, s_outcome(&run));
    run_done(&run);
}

static void
s_handovers(role_t role)
{
    outcome_t undisturbed = s_undisturbed();
    for (int delay = 40; delay < 200; delay += 30)
        s_handover(role, delay, undisturbed);
    free(undisturbed.metrics);
    free(undisturbed.recorded);
}

Test(inject_learn, the_old_policy_is_killed_while_it_hands_over, .timeout = 600) { s_handovers(OLD); }
Test(inject_learn, the_new_policy_is_killed_while_it_takes_over, .timeout = 600) { s_handovers(NEW); }
Test(inject_learn, a_reward_is_killed_while_the_policy_is_handed_over, .timeout = 600) { s_handovers(REWARD); }
Test(inject_learn, verl_run_is_killed_while_the_policy_is_handed_over, .timeout = 600) { s_handovers(DIRECTOR); }
