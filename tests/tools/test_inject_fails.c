// test_inject_fails.c: a change that cannot come into force: state that cannot be handed over, a log that cannot be
// written. It is refused with the reason, nothing of it is left, the run goes on, and the next change works.
#include <sys/resource.h>
#include <sys/stat.h>
#include "tools/living.h"

// A stage in the middle that counts its batches: what it makes of batch k is k + 1, whichever incarnation does it, as
// long as nothing of the state is lost or comes twice.
#define COUNTS                                                                                                   \
    "cat >count.lua <<'END'\n"                                                                                   \
    "needs = { \"id\" }\ngives = { \"made\" }\nlocal count = 0\n"                                                \
    "function snapshot() return count end\nfunction restore(state) count = state end\n"                          \
    "function score(batch)\n  count = count + 1\n  for i = 1, #batch.id do batch.out.made[i] = count end\nend\n" \
    "END\n"
#define COUNTED(RUN, MID)                                                                                         \
    "[run]\nname = \"counted\"\nmax_in_flight = 4\n" RUN                                                        \
    "[stage.src]\nkind = \"synthetic\"\nbusy_ms = 2\n"                                                           \
    "[stage.mid]\nkind = \"lua-state\"\nfile = \"count.lua\"\ndepends_on = [\"src\"]\n" MID                      \
    "[stage.rec]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"id\", \"made\"]\n"                     \
    "depends_on = [\"mid\"]\n"

static void
s_see_count(const json_t *line, int64_t number, void *context)
{
    s_see_in_order(line, number, context);
    cr_assert_eq(json_number_value(json_object_get(line, "made")), (double) (number + 1), "batch %lld has count %g",
                 (long long) number, json_number_value(json_object_get(line, "made")));
}

// Where something of the run lies.
static const char *
s_at(const run_t *run, const char *name, char path[200])
{
    snprintf(path, 200, "%s/run/%s", run->folder, name);
    return path;
}

static void
s_swaps(const run_t *run)
{
    said_t said = s_inject(run, "swap mid");
    DOES(said, "replaced mid");
    s_until_done(run, s_number(&said, "from batch ") + 5);
}

// An actor that was to follow it may still be on its way out.
static void
s_until_alone(const run_t *run, const char *actor, json_int_t incarnation)
{
    int64_t limit = verl_now() + 10 * SLOWER * VERL_S;
    while (s_actor(run, actor, "incarnation") != incarnation) {
        cr_assert(verl_now() < limit, "%s is not what it was", actor);
        usleep(2000);
    }
}

static void
s_ends_counted(run_t *run)
{
    s_interrupt(run);
    cr_assert_gt(s_lines(run, "out.jsonl", s_see_count, NULL), 0);
    run_done(run);
}

// --- state that is not handed over --------------------------------------------------------------------------------

Test(inject_fails, where_the_state_cannot_be_written_and_the_old_actor_goes_on, .timeout = 200)
{
    run_t run;
    char path[200];
    run_start_after(&run, COUNTS, COUNTED(FOREVER, ""), "");
    s_await(&run);
    s_until_done(&run, 5);
    json_int_t old = s_actor(&run, "mid", "incarnation");
    FILE *file = fopen(s_at(&run, "handover-2", path), "we");   // in the place of the directory
    cr_assert(file && fclose(file) == 0);
    said_t said = s_inject(&run, "swap mid");
    REFUSES(said, 1, "cannot make");
    cr_assert(strstr(said.text, "handed over its state") && strstr(said.text, "taken back"), "%s", said.text);
    s_until_done(&run, s_done_batches(&run) + 20);
    s_until_alone(&run, "mid", old);
    s_swaps(&run);
    cr_assert(access(path, F_OK) != 0, "%s is left", path);
    s_ends_counted(&run);
}

// Did a verl-inject say that it waits for this? Its output is in FOLDER/NAME.
static bool
s_waits(const run_t *run, const char *name, const char *words)
{
    char path[200];
    snprintf(path, sizeof path, "../%s", name);
    char *said = run_file(run, path);
    bool waits = strstr(said, words);
    free(said);
    return waits;
}

// The state of the next hand-over is written to a pipe: whoever writes it waits until somebody reads.
static void
s_make_pipe(const run_t *run, const char *handover, const char *actor)
{
    char path[200], name[300];
    cr_assert_eq(mkdir(s_at(run, handover, path), 0700), 0);
    snprintf(name, sizeof name, "%s/%s", path, actor);
    cr_assert_eq(mkdir(name, 0700), 0);
    snprintf(name, sizeof name, "%s/%s/state.lua", path, actor);
    cr_assert_eq(mkfifo(name, 0600), 0);
    cr_assert_eq(link(name, s_at(run, "pipe", path)), 0);       // by which it is found when that is removed
}

// The old one writes to a pipe that nobody reads: its time is over before the state is there. Then the writing fails.
Test(inject_fails, where_the_state_comes_late_and_the_old_actor_goes_on, .timeout = 200)
{
    run_t run;
    char path[200], text[500];
    run_start_after(&run, COUNTS, COUNTED(FOREVER, ""), "");
    s_await(&run);
    s_until_done(&run, 5);
    json_int_t old = s_actor(&run, "mid", "incarnation");
    s_make_pipe(&run, "handover-2", "mid");
    said_t said = s_inject(&run, "--timeout %d swap mid", 4 * SLOWER);
    REFUSES(said, 1, "it waited for state that is handed over");
    cr_assert(access(s_at(&run, "handover-2", path), F_OK) != 0, "%s is left", path);
    int pipe = open(s_at(&run, "pipe", path), O_RDONLY | O_CLOEXEC);
    cr_assert_geq(pipe, 0);
    while (read(pipe, text, sizeof text) > 0)
        ;
    close(pipe);
    s_until_done(&run, s_done_batches(&run) + 20);
    s_until_alone(&run, "mid", old);
    s_swaps(&run);
    s_ends_counted(&run);
}

// No batch from this one on has a permit as long as the client is there.
static verl_client_t *
s_hold(const run_t *run, json_int_t batch)
{
    char path[200];
    verl_error_t error = { "" };
    verl_client_t *client = verl_client_open(s_at(run, "", path), true, &error);
    cr_assert(client, "%s", error.text);
    json_t *request = json_pack("{s:s, s:I}", "do", "hold", "batch", batch);
    json_t *answer = verl_client_ask(client, request, 20000 * SLOWER, &error);
    cr_assert(answer && !verl_client_refusal(answer), "%s", answer ? verl_client_refusal(answer) : error.text);
    json_decref(answer);
    return client;
}

// The next change orders its save while the one before is still being written: that order is not lost with it. Nobody
// has a permit meanwhile, so that the old one has nothing else to do.
Test(inject_fails, where_the_state_comes_late_and_the_next_change_works, .timeout = 200)
{
    run_t run;
    char path[200], text[500];
    run_start_after(&run, COUNTS, COUNTED(FOREVER, ""), "");
    s_await(&run);
    json_int_t held = s_done_batches(&run) + 500;
    verl_client_t *client = s_hold(&run, held);
    s_until_done(&run, held);
    s_make_pipe(&run, "handover-2", "mid");
    said_t said = s_inject(&run, "--timeout %d swap mid", 4 * SLOWER);
    REFUSES(said, 1, "it waited for state that is handed over");
    pid_t inject = s_begin(&run, "asked", "swap mid");
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    do {                                    // until it waits for the state
        said = s_inject(&run, "list");
        cr_assert(verl_now() < limit, "%s", said.text);
    } while (!strstr(said.text, "a change by ") || !s_waits(&run, "asked", "state that is handed over"));
    int pipe = open(s_at(&run, "pipe", path), O_RDONLY | O_CLOEXEC);
    while (read(pipe, text, sizeof text) > 0)
        ;
    close(pipe);
    said = s_end(&run, "asked", inject, 30);
    DOES(said, "replaced mid");
    verl_client_close(&client);
    s_until_done(&run, held + 20);
    s_ends_counted(&run);
}

// verl-run is killed while the state is handed over: what is there of it goes with the life that follows.
Test(inject_fails, and_what_a_killed_run_was_handing_over_does_not_stay, .timeout = 200)
{
    run_t run;
    char path[200];
    run_start_after(&run, COUNTS, COUNTED("steps = 1200\n", ""), "");
    s_await(&run);
    verl_client_t *client = s_hold(&run, 1000);
    s_until_done(&run, 1000);
    s_make_pipe(&run, "handover-2", "mid");
    pid_t inject = s_begin(&run, "asked", "swap mid");
    int pipe = open(s_at(&run, "pipe", path), O_RDONLY | O_CLOEXEC);     // the old one writes
    kill(run.pid, SIGKILL);
    run_wait(&run, 20);
    close(pipe);
    verl_client_close(&client);
    s_end(&run, "asked", inject, 30);
    run_resume(&run);
    run_wait(&run, 60);
    cr_assert_eq(run.code, 0, "the run cannot be resumed: %s", run.said);
    cr_assert(access(s_at(&run, "handover-2", path), F_OK) != 0, "%s is left", path);
    cr_assert_eq(s_lines(&run, "out.jsonl", s_see_count, NULL), 1200);
    run_done(&run);
}

static void
s_until_ignored(const run_t *run, int times)
{
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    for (int ignored = 0; ignored < times;) {
        char *log = run_file(run, "run.log"), *at = log;
        for (ignored = 0; (at = strstr(at, "goes on without it")); ignored++)
            at++;
        free(log);
        cr_assert(ignored >= times || (verl_now() < limit && usleep(2000) == 0), "it is not ignored");
    }
}

// A sink with state that is lost and ignored has nothing to hand over: its successor begins anew.
Test(inject_fails, not_where_the_old_actor_is_lost, .timeout = 200)
{
    run_t run;
    run_start_after(&run, COUNTS, CHAIN(FOREVER, "busy_ms = 2\n", "", "")
                    "[stage.count]\nkind = \"lua-state\"\nfile = \"count.lua\"\ndepends_on = [\"src\"]\n"
                    "on_failure = \"ignore\"\n", "");
    s_await(&run);
    s_until_done(&run, 5);
    kill((pid_t) s_actor(&run, "count", "pid"), SIGKILL);
    s_until_ignored(&run, 1);
    said_t said = s_inject(&run, "set mid.bytes=5");            // nothing of it: it stays lost
    DOES(said, "set mid.bytes=5");
    cr_assert_eq(s_actor(&run, "count", "incarnation"), 0, "a change brings it back");
    s_until_done(&run, s_number(&said, "from batch ") + 20);
    said = s_inject(&run, "--timeout %d swap count", 15 * SLOWER);
    DOES(said, "replaced count");
    s_until_done(&run, s_number(&said, "from batch ") + 20);
    json_int_t old = s_actor(&run, "count", "pid");
    cr_assert_gt(old, 0);
    s_make_pipe(&run, "handover-4", "count");                   // and where it is lost while it writes
    pid_t inject = s_begin(&run, "asked", "swap count");
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    while (!s_waits(&run, "asked", "state that is handed over"))
        cr_assert(verl_now() < limit && usleep(2000) == 0, "it does not hand over");
    kill((pid_t) old, SIGKILL);
    s_until_ignored(&run, 2);
    said = s_end(&run, "asked", inject, 30);
    DOES(said, "replaced count");
    s_until_done(&run, s_number(&said, "from batch ") + 20);
    s_interrupt(&run);
    s_each_once(&run);
    char *log = run_file(&run, "run.log");
    cr_assert(strstr(log, "begins anew"), "%s", log);
    free(log);
    run_done(&run);
}

// An actor is killed while a change waits, and its successor cannot prepare. Whether it had the table of the change
// first, which is then taken back, or another: it is restarted again, and works when it can.
Test(inject_fails, where_an_actor_that_is_restarted_cannot_prepare, .timeout = 200)
{
    run_t run;
    char from[200], to[200];
    run_start_after(&run, "printf 'needs = { \"id\" }\ngives = { \"made\" }\nfunction score(batch) '"
                          "'for i = 1, #batch.id do batch.out.made[i] = 1 end end\n' >one.lua",
                    "[run]\nname = \"herd\"\n" FOREVER "[stage.src]\nkind = \"synthetic\"\nbusy_ms = 2\n"
                    "[stage.mid]\nkind = \"lua\"\nfile = \"one.lua\"\ndepends_on = [\"src\"]\n"
                    "on_failure = \"restart\"\n"
                    "[stage.rec]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"id\", \"made\"]\n"
                    "depends_on = [\"mid\"]\n", "");
    s_await(&run);
    s_until_done(&run, 5);
    pid_t inject = s_begin(&run, "asked", "--at 90000000 set src.busy_ms=1");
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    while (!s_waits(&run, "asked", "batch 90000000"))           // all have the new table
        cr_assert(verl_now() < limit && usleep(2000) == 0, "the change does not wait");
    snprintf(from, sizeof from, "%s/one.lua", run.folder);
    snprintf(to, sizeof to, "%s/away.lua", run.folder);
    cr_assert_eq(rename(from, to), 0);
    kill((pid_t) s_actor(&run, "mid", "pid"), SIGKILL);
    for (bool failed = false; !failed;) {
        char *log = run_file(&run, "run.log");
        failed = strstr(log, "was being prepared");
        free(log);
        cr_assert(failed || (verl_now() < limit && usleep(1000) == 0), "its successor does not fail");
    }
    cr_assert_eq(rename(to, from), 0);
    s_until_done(&run, s_done_batches(&run) + 20);
    kill(inject, SIGINT);
    said_t said = s_end(&run, "asked", inject, 30);
    cr_assert(said.code == 130 || strstr(said.text, "one.lua"), "exit %d: %s", said.code, said.text);
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

// --- the log of the cut -------------------------------------------------------------------------------------------

static off_t
s_size(const run_t *run, const char *name)
{
    struct stat info;
    char path[200];
    cr_assert_eq(stat(s_at(run, name, path), &info), 0);
    return info.st_size;
}

// Lines of a kind in run.log, each of which has to be whole.
typedef struct count {
    const char *event;
    int         lines;
    json_int_t  revision;                   // of the last one
} count_t;

static void
s_see_event(const json_t *line, int64_t number, void *context)
{
    count_t *count = context;
    (void) number;
    if (strcmp(json_string_value(json_object_get(line, "event")), count->event) != 0)
        return;
    count->lines++;
    count->revision = json_integer_value(json_object_get(line, "revision"));
    if (strcmp(count->event, "cut") == 0)
        cr_assert(json_is_string(json_object_get(line, "fragment")), "a cut without its change");
}

// The log is full, as on a disk without room, from the moment on at which all is ready for the change.
Test(inject_fails, where_the_cut_cannot_be_logged_and_it_never_was, .timeout = 200)
{
    run_t run;
    char path[200];
    run_start_after(&run, "trap '' XFSZ", CHAIN(FOREVER, "busy_ms = 5\n", "", ""), "");
    s_await(&run);
    s_until_done(&run, 5);
    said_t said = s_inject(&run, "pause src");                  // no metrics are written meanwhile
    DOES(said, "src is paused");
    do                                                          // the log is the longest file that it writes
        s_inject(&run, "apply - <<'END'\n[stage.mid]\n%0*d = 1\nEND\n", 2000, 1);
    while (s_size(&run, "run.log") < s_size(&run, "metrics.jsonl") + 20000);
    struct rlimit limit = { (rlim_t) s_size(&run, "run.log") + 40, RLIM_INFINITY };
    struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
    cr_assert_eq(prlimit(run.pid, RLIMIT_FSIZE, &limit, NULL), 0);
    said = s_inject(&run, "set mid.bytes=5");
    REFUSES(said, 1, "cannot write");
    cr_assert(strstr(said.text, "run.log"), "%s", said.text);
    cr_assert(access(s_at(&run, "topology-2.toml", path), F_OK) != 0, "%s is left", path);
    cr_assert_eq(prlimit(run.pid, RLIMIT_FSIZE, &none, NULL), 0);
    said = s_inject(&run, "set mid.bytes=3");
    DOES(said, "revision 3 is in force");
    said_t again = s_inject(&run, "resume src");
    DOES(again, "src goes on");
    s_until_done(&run, s_number(&said, "from batch ") + 10);
    s_interrupt(&run);
    s_each_once(&run);
    count_t count = { .event = "cut" };
    s_lines(&run, "run.log", s_see_event, &count);
    cr_assert(count.lines == 1 && count.revision == 3, "%d cuts, the last of revision %lld", count.lines,
              (long long) count.revision);
    run_done(&run);
}

// It is ready when the last batch has its permit.
Test(inject_fails, where_no_batch_is_left_that_could_follow_it, .timeout = 100)
{
    run_t run;
    run_start(&run,
              "[run]\nname = \"late\"\nsteps = 40\nsave_every = 5\nmax_in_flight = 8\n"
              "[stage.a]\nkind = \"synthetic\"\n"
              "[stage.b]\nkind = \"synthetic\"\nbusy_ms = 100\ndepends_on = [\"a\"]\nas = { payload = \"b\" }\n"
              "[stage.c]\nkind = \"synthetic\"\nload_ms = 1200\ndepends_on = [\"b\"]\nas = { payload = \"c\" }\n",
              "");
    run_until_steps(&run, 22);
    said_t said = s_inject(&run, "swap c");
    cr_assert_eq(said.code, 1, "%s", said.text);
    s_resume(&run);
    char *log = run_file(&run, "run.log");
    cr_assert(!strstr(log, "\"cut\""), "%s", log);
    free(log);
    run_done(&run);
}

// Who asks has a long name, cut off in the middle of a letter: the log says what was changed all the same.
Test(inject_fails, not_for_the_name_of_who_asks, .timeout = 100)
{
    run_t run;
    char path[200], who[140];
    verl_error_t error = { "" };
    memset(who, 'a', 126);
    snprintf(who + 126, sizeof who - 126, "\xc3\xa9\xc3\xa9");
    run_start(&run, CHAIN(FOREVER, "busy_ms = 2\n", "", ""), "");
    s_await(&run);
    verl_client_t *client = verl_client_open(s_at(&run, "", path), true, &error);
    cr_assert(client, "%s", error.text);
    json_t *answer = verl_client_ask(client, json_pack("{s:s, s:s, s:s, s:s}", "do", "apply", "fragment",
                                                       "[stage.mid]\nbytes = 5\n", "path", "x", "who", who),
                                     20000 * SLOWER, &error);
    while (answer && verl_client_more(answer)) {
        json_decref(answer);
        answer = verl_client_next(client, 20000 * SLOWER, &error);
    }
    cr_assert(answer && !verl_client_refusal(answer), "%s", answer ? verl_client_refusal(answer) : error.text);
    json_decref(answer);
    verl_client_close(&client);
    s_interrupt(&run);
    count_t count = { .event = "cut" };
    s_lines(&run, "run.log", s_see_event, &count);
    cr_assert_eq(count.lines, 1);
    run_done(&run);
}
