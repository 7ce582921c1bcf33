// test_inject_kill.c: whoever is killed at whatever step of a change, each batch is recorded once, in order; the change
// is in force or leaves no trace; and the next one works.
#include "tools/living.h"

#define TIMES 4                             // kills in one run: an actor may crash five times a minute

#define RESTARTED "on_failure = \"restart\"\n"
#define LONG_CHAIN                                                                                       \
    "[run]\nname = \"chain\"\n" FOREVER "save_every = 100\n"                                             \
    "[stage.src]\nkind = \"synthetic\"\n" RESTARTED                                                      \
    "busy_ms = 0.5\n"                                                                                    \
    "[stage.mid]\nkind = \"synthetic\"\ndepends_on = [\"src\"]\nreads = [\"payload\"]\n" RESTARTED       \
    "[stage.down]\nkind = \"synthetic\"\ndepends_on = [\"mid\"]\nreads = [\"payload\"]\n" RESTARTED      \
    "[stage.rec]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"id\", \"payload\"]\n"          \
    "depends_on = [\"down\"]\n" RESTARTED

typedef enum { OLD, NEW, UPSTREAM, DOWNSTREAM, RECORDER, INJECT } role_t;
static const char *const s_names[] = { "mid", "mid", "src", "down", "rec", "" };

// The process that is to be killed; a new one when it is there.
static pid_t
s_victim(const run_t *run, role_t role, json_int_t old, pid_t inject)
{
    if (role == INJECT)
        return inject;
    int64_t limit = verl_now() + VERL_S;
    while (role == NEW && s_actor(run, "mid", "incarnation") == old && verl_now() < limit)
        usleep(500);
    return (pid_t) s_actor(run, s_names[role], "pid");
}

static long long
s_revision(const run_t *run)
{
    said_t said = s_inject(run, "--json list");
    cr_assert_eq(said.code, 0, "%s", said.text);
    json_t *list = json_loads(said.text, 0, NULL), *revisions = json_object_get(list, "revisions");
    long long revision = json_integer_value(json_object_get(json_array_get(revisions, json_array_size(revisions) - 1),
                                                            "revision"));
    json_decref(list);
    return revision;
}

// A change under which somebody dies. `delay`: ms between asking, or the new one's start, and the death.
static void
s_one(const run_t *run, role_t role, int delay, const char *change)
{
    json_int_t old = s_actor(run, "mid", "incarnation");
    long long before = s_revision(run);
    pid_t old_pid = (pid_t) s_actor(run, "mid", "pid"), inject = s_begin(run, "told", change);
    pid_t victim = role == OLD ? old_pid : s_victim(run, role, old, inject);
    usleep((useconds_t) delay * 1000);
    kill(victim, SIGKILL);
    said_t said = s_end(run, "told", inject, 60);
    if (role == INJECT && said.code == 137) {
        cr_assert_leq(s_revision(run), before + 1);
    } else if (said.code == 0) {
        cr_assert(strstr(said.text, "is in force"), "%s", said.text);
        cr_assert_eq(s_revision(run), s_number(&said, "revision "));
    } else {
        cr_assert(said.code == 1 && strstr(said.text, "taken back"), "exit %d: %s", said.code, said.text);
        cr_assert_eq(s_revision(run), before);
    }
    s_until_done(run, s_done_batches(run) + 50);
}

static void __attribute__((format(printf, 2, 0)))
s_kill(role_t role, const char *change)
{
    run_t run;
    run_start(&run, LONG_CHAIN, "");
    s_await(&run);
    s_until_done(&run, 150);
    for (int i = 0; i < TIMES; i++) {
        char words[100];
        snprintf(words, sizeof words, change, i + 1);
        s_one(&run, role, i * (role == NEW ? 4 : 12), words);
    }
    said_t said = s_inject(&run, "swap mid");
    DOES(said, "replaced mid");
    s_until_done(&run, s_number(&said, "from batch ") + 20);
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

#define SWAP "swap mid bytes=%d"
#define SET  "set mid.bytes=%d"
#define KILLED(name_, role_)                                                                                       \
    Test(inject_kill, name_##_is_killed_while_the_middle_is_swapped, .timeout = 600) { s_kill(role_, SWAP); }       \
    Test(inject_kill, name_##_is_killed_while_a_value_is_set, .timeout = 600) { s_kill(role_, SET); }

KILLED(the_old_one, OLD)
KILLED(upstream, UPSTREAM)
KILLED(downstream, DOWNSTREAM)
KILLED(the_recorder, RECORDER)
KILLED(verl_inject, INJECT)

Test(inject_kill, the_new_one_is_killed_while_the_middle_is_swapped, .timeout = 600)
{
    s_kill(NEW, SWAP);
}

// The change waits for a batch that is far away: who dies meanwhile does not end it.
Test(inject_kill, a_change_that_waits_for_its_batch_outlives_a_restart, .timeout = 600)
{
    run_t run;
    char words[64];
    run_start(&run, LONG_CHAIN, "");
    s_await(&run);
    s_until_done(&run, 50);
    json_int_t batch = s_done_batches(&run) + 3000;
    snprintf(words, sizeof words, "--at %lld swap mid", (long long) batch);
    pid_t inject = s_begin(&run, "told", words);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = { "src", "down", "mid" };
        json_t *status = s_status(&run), *actor;
        json_int_t oldest = INT64_MAX, pid = 0;
        size_t k;
        json_array_foreach(json_object_get(status, "actors"), k, actor)
            if (strcmp(json_string_value(json_object_get(actor, "name")), names[i]) == 0 &&
                json_integer_value(json_object_get(actor, "incarnation")) < oldest) {
                oldest = json_integer_value(json_object_get(actor, "incarnation"));
                pid = json_integer_value(json_object_get(actor, "pid"));
            }
        json_decref(status);
        kill((pid_t) pid, SIGKILL);
        s_until_done(&run, s_done_batches(&run) + 50);
    }
    said_t said = s_end(&run, "told", inject, 120);
    DOES(said, "is in force from batch ");
    cr_assert_eq(s_number(&said, "from batch "), batch, "%s", said.text);
    s_until_done(&run, batch + 50);
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

// Several revisions have batches under way, some of them done: who is started again begins where the first that is not
// done is, whichever revision that is of.
Test(inject_kill, a_recorder_that_is_started_again_amid_revisions_keeps_what_it_has, .timeout = 600)
{
    run_t run;
    run_start(&run, LONG_CHAIN, "--set run.max_in_flight=16 --set stage.lag.kind=synthetic --set stage.lag.busy_ms=20 "
              "--set 'stage.lag.depends_on=[\"mid\"]'");     // keeps revisions alive that the recorder is done with
    s_await(&run);
    s_until_done(&run, 20);
    for (int i = 0; i < TIMES; i++) {
        for (int j = 0; j < 4; j++) {
            said_t said = s_inject(&run, "set down.bytes=%d", 1 + i * 4 + j);
            DOES(said, "is in force");
            s_until_done(&run, s_done_batches(&run) + 2);
        }
        kill((pid_t) s_actor(&run, "rec", "pid"), SIGKILL);
        s_until_done(&run, s_done_batches(&run) + 20);
    }
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

// The file goes from recorder to recorder in the order of the batches, whoever of them is killed.
Test(inject_kill, a_recorder_that_is_replaced_has_the_file_until_its_batches_are_done, .timeout = 600)
{
    run_t run;
    run_start(&run, LONG_CHAIN, "");
    s_await(&run);
    for (int i = 0; i < 3; i++) {
        s_until_done(&run, s_done_batches(&run) + 20);
        pid_t old = (pid_t) s_actor(&run, "rec", "pid");
        kill(old, SIGSTOP);
        said_t said = s_inject(&run, "swap rec");
        kill(old, SIGKILL);
        DOES(said, "replaced rec");
        s_until_done(&run, s_number(&said, "from batch ") + 20);
    }
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

// What the old one reports while the new one is seated, the new one does not do again, and loses nothing of it.
Test(inject_kill, a_recorder_that_is_replaced_at_once_loses_no_batch, .timeout = 600)
{
    run_t run;
    run_start(&run, LONG_CHAIN, "");
    s_await(&run);
    s_until_done(&run, 20);
    for (int i = 0; i < 30; i++) {
        said_t said = s_inject(&run, "--now swap rec");
        DOES(said, "replaced rec");
        s_until_done(&run, s_number(&said, "from batch ") + 2);
    }
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}
