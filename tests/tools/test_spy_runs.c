// verl-spy on real runs: what it shows is what was sent, and the run does not know that it was there.
#include <criterion/criterion.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/base/clock.h"
#include "tools/bad.h"
#include "tools/run.h"

static const char s_topology[] =
    "[run]\nname = \"spied\"\nsteps = %d\nseed = 3\n"
    "[stage.source]\nkind = \"synthetic\"\nrows = 4\nbytes = 8\nbusy_ms = %s\n"
    "[stage.middle]\nkind = \"synthetic\"\ndepends_on = [\"source\"]\nbytes = 2000\nbusy_ms = 0.1\n"
    "[stage.sink]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"id\"]\ndepends_on = [\"middle\"]\n";

static const char *
s_text(int steps, const char *busy_ms)
{
    static char text[1000];
    snprintf(text, sizeof text, s_topology, steps, busy_ms);
    return text;
}

// Starts verl-spy with these words, on the run unless they are about a recording; its output goes to FOLDER/NAME.out
// and .err.
static pid_t
s_spy(const run_t *run, const char *name, const char *words)
{
    char command[1000];
    bool live = strncmp(words, "replay", 6) != 0;
    snprintf(command, sizeof command, "exec %s/bin/verl-spy %s%s%s %s >%s/%s.out 2>%s/%s.err", VERL_BINARY_DIR,
             live ? "--run " : "", live ? run->folder : "", live ? "/run" : "", words, run->folder, name, run->folder,
             name);
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    return pid;
}

static int
s_wait(pid_t pid)
{
    int status = 0;
    int64_t limit = verl_now() + 60 * SLOWER * VERL_S;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (verl_now() > limit) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            cr_assert_fail("verl-spy did not end within 60 s");
        }
        usleep(2000);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static char *
s_output(const run_t *run, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "../%s", name);
    return run_file(run, path);
}

static long
s_count(const char *remarks, const char *word)
{
    for (const char *at = remarks; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end != at && *end == ' ' && strncmp(end + 1, word, strlen(word)) == 0)
            return number;
    }
    return -1;
}

// Waits until a file of the folder has a line.
static void
s_until_line(const run_t *run, const char *name)
{
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    bool there = false;
    while (!there && verl_now() < limit) {
        char *text = s_output(run, name);
        there = strchr(text, '\n') != NULL;
        free(text);
        usleep(5000);
    }
    cr_assert(there, "%s has a line within 20 s", name);
}

// Of a channel's messages from the first one shown to the last one of the run: each was shown or is counted.
Test(spy_runs, every_message_is_shown_or_counted, .timeout = 200)
{
    run_t run;
    int steps = 3000;
    run_start(&run, s_text(steps, "0.3"), "");
    run_until_steps(&run, 1);
    pid_t spy = s_spy(&run, "spy", "--json --kind data --edge source:middle");
    s_until_line(&run, "spy.out");
    kill(spy, SIGSTOP);                     // meanwhile it takes nothing
    usleep(500000);
    kill(spy, SIGCONT);
    run_wait(&run, 120);
    cr_assert_eq(run.code, 0, "%s", run.said);
    cr_assert_eq(s_wait(spy), 0);
    char *said = s_output(&run, "spy.out"), *remarks = s_output(&run, "spy.err");
    json_t *first = json_loads(said, JSON_DISABLE_EOF_CHECK, NULL);
    int64_t from = json_integer_value(json_object_get(first, "batch"));
    long shown = s_count(remarks, "shown"), dropped = s_count(remarks, "dropped");
    cr_assert_eq(run_lines(said), shown);
    cr_assert_eq(shown + dropped, steps - from, "%ld shown, %ld dropped, from batch %" PRId64 "\n%s", shown, dropped,
                 from, remarks);
    cr_assert_gt(json_integer_value(json_object_get(first, "seq")), 0);
    json_decref(first);
    free(said);
    free(remarks);
    run_done(&run);
}

// A small learning run: its metrics depend on every bit that went from stage to stage.
static const char s_learning[] =
    "[run]\nname = \"learning\"\nsteps = 120\nseed = 1\n"
    "[actor.policy]\nkind = \"policy\"\nmodel = \"" VERL_SOURCE_DIR "/topologies/models/addition-1m\"\nthreads = 1\n"
    "[stage.prompts]\nkind = \"loader\"\nfiles = [\"" VERL_SOURCE_DIR "/topologies/data/addition-train.jsonl\"]\n"
    "tokenizer = \"" VERL_SOURCE_DIR "/topologies/models/addition-1m\"\nrows = 8\n"
    "[stage.generate]\nactor = \"policy\"\ndepends_on = [\"prompts\"]\nsamples = 4\nmax_new_tokens = 4\n"
    "[stage.reward]\nkind = \"rule-reward\"\nrule = \"exact\"\ndepends_on = [\"generate\"]\n"
    "[stage.advantage]\nkind = \"advantage\"\nestimator = \"grpo\"\ndepends_on = [\"reward\"]\n"
    "[stage.update]\nactor = \"policy\"\ndepends_on = [\"advantage\"]\nlr = 1e-4\n";

// Under a sanitizer a spy takes seconds to start, and a step as long as ten.
#define WATCHERS (SANITIZED ? 6 : 40)
#define WATCHED  (SANITIZED ? "--steps 60" : "")

// Attaching, filtering and detaching changes no bit of what the run measures.
Test(spy_runs, a_run_that_is_watched_measures_the_same, .timeout = 200 * SLOWER)
{
    static const char *const words[] = { "-n 3 --quiet", "-n 2 --values --stats --kind all --quiet",
                                         "--timeout 0.05 --kind all --json --quiet" };
    run_t plain, watched;
    run_whole(&plain, s_learning, WATCHED);
    cr_assert_eq(plain.code, 0, "%s", plain.said);
    run_start(&watched, s_learning, WATCHED);
    run_until_steps(&watched, 1);
    int attached = 0;
    for (int i = 0; i < WATCHERS && kill(watched.pid, 0) == 0; i++) {
        char name[32], *lines;
        snprintf(name, sizeof name, "spy%d", i);
        if (s_wait(s_spy(&watched, name, words[i % 3])) != 0)
            break;                          // it is over
        snprintf(name, sizeof name, "spy%d.out", i);
        lines = s_output(&watched, name);
        attached += run_lines(lines) > 0;
        free(lines);
    }
    run_wait(&watched, 150);
    cr_assert_eq(watched.code, 0, "%s", watched.said);
    cr_assert_gt(attached, 2);
    char *of_plain = run_timeless_metrics(&plain), *of_watched = run_timeless_metrics(&watched);
    cr_assert(strstr(of_plain, "actor/"));
    cr_assert_str_eq(of_watched, of_plain);
    free(of_plain);
    free(of_watched);
    run_done(&plain);
    run_done(&watched);
}

// An actor's replicas are told apart by the names that verl-run's own log has for them, and named together by the
// actor's.
Test(spy_runs, a_replica_has_the_name_that_the_log_has_for_it, .timeout = 200)
{
    static const char *const words[] = { "--json -n 30 --kind data --actor work",
                                         "--json -n 3 --kind data --actor work.1" };
    run_t run;
    run_start(&run, "[run]\nname = \"replicas\"\nsteps = 100000\n"
                    "[stage.make]\nkind = \"synthetic\"\nrows = 2\nbusy_ms = 1\n"
                    "[stage.work]\nkind = \"synthetic\"\nreplicas = 3\ndepends_on = [\"make\"]\n", "");
    run_until_steps(&run, 3);
    char *log = run_file(&run, "run.log");
    for (int i = 0; i < 2; i++) {
        int seen[3] = { 0 };
        cr_assert_eq(s_wait(s_spy(&run, "spy", words[i])), 0);
        char *said = s_output(&run, "spy.out");
        for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n")) {
            json_t *message = json_loads(line, 0, NULL);
            const char *to = json_string_value(json_object_get(message, "to"));
            cr_assert(to && strncmp(to, "work.", 5) == 0 && to[5] >= '0' && to[5] <= '2' && to[6] == '#', "%s", line);
            cr_assert(strstr(log, to), "%s is not in run.log", to);
            seen[to[5] - '0']++;
            json_decref(message);
        }
        cr_assert_gt(seen[1], 0);
        cr_assert(i == 0 ? seen[0] && seen[2] : !seen[0] && !seen[2]);
        free(said);
    }
    free(log);
    kill(run.pid, SIGINT);
    run_wait(&run, 60);
    run_done(&run);
}

Test(spy_runs, a_killed_spy_ends_its_trace, .timeout = 200)
{
    run_t run;
    run_start(&run, s_text(100000, "1"), "");
    run_until_steps(&run, 1);
    pid_t killed = s_spy(&run, "killed", "");
    s_until_line(&run, "killed.out");
    pid_t other = s_spy(&run, "other", "--kind order --json");
    s_until_line(&run, "other.out");
    kill(killed, SIGKILL);
    s_wait(killed);
    bool told = false;
    for (int64_t limit = verl_now() + 10 * SLOWER * VERL_S; !told && verl_now() < limit; usleep(5000)) {
        char *said = s_output(&run, "other.out");
        told = strstr(said, "\"untrace\"") != NULL;
        free(said);
    }
    cr_assert(told, "the actors are told that a trace is over within 10 s of its follower's death");
    kill(other, SIGINT);
    cr_assert_eq(s_wait(other), 0);
    kill(run.pid, SIGINT);
    run_wait(&run, 60);
    run_done(&run);
}

// One actor of a recorded run, alone, gives again what it gave: the same bytes.
Test(spy_runs, a_recording_is_replayed_into_one_actor, .timeout = 200)
{
    run_t run;
    char words[200];
    run_start(&run, s_text(300, "3"), "");
    run_until_steps(&run, 1);
    snprintf(words, sizeof words, "record %s/file --values --kind data", run.folder);
    pid_t spy = s_spy(&run, "spy", words);
    run_wait(&run, 120);
    cr_assert_eq(s_wait(spy), 0);
    snprintf(words, sizeof words, "replay %s/file --to middle --json --values", run.folder);
    int code = s_wait(s_spy(&run, "again", words));
    char *remarks = s_output(&run, "again.err"), *said = s_output(&run, "again.out");
    cr_assert_eq(code, 0, "%s", remarks);
    long fed = s_count(remarks, "messages fed");
    cr_assert_gt(fed, 10, "%s", remarks);
    cr_assert_eq(run_lines(said), fed, "one message in, one out\n%s", remarks);
    cr_assert(!strstr(remarks, "keeps state"), "%s", remarks);
    free(remarks);
    free(said);
    snprintf(words, sizeof words, "replay %s/file --to nobody", run.folder);
    cr_assert_eq(s_wait(s_spy(&run, "nobody", words)), 1);
    run_done(&run);
}

// One that saved its state in the run, at batches that it is fed, saves none here. Whatever its weights generate has one
// token, as what was recorded.
Test(spy_runs, a_recording_is_replayed_into_one_actor_that_learns, .timeout = 200)
{
    run_t run;
    char words[200];
    run_start_after(&run, FILES, RIGHT, "--steps 60 --set run.save_every=2 --set run.keep=1 "
                    "--set stage.generate.max_new_tokens=1");
    run_until_steps(&run, 1);
    snprintf(words, sizeof words, "record %s/file --values --kind data", run.folder);
    pid_t spy = s_spy(&run, "spy", words);
    run_wait(&run, 120);
    cr_assert_eq(s_wait(spy), 0);
    snprintf(words, sizeof words, "replay %s/file --to policy", run.folder);
    int code = s_wait(s_spy(&run, "again", words));
    char *remarks = s_output(&run, "again.err");
    cr_assert_eq(code, 0, "%s", remarks);
    cr_assert_gt(s_count(remarks, "messages fed"), 10, "%s", remarks);
    cr_assert(strstr(remarks, "policy keeps state, and begins without what it had before batch "), "%s", remarks);
    free(remarks);
    run_done(&run);
}

// Two stages, of which the second gives what the third reads.
static const char s_changing[] =
    "[run]\nname = \"changing\"\nsteps = %d\n"
    "[stage.source]\nkind = \"synthetic\"\nrows = 4\nbytes = 8\nbusy_ms = 2\n"
    "[stage.middle]\nkind = \"synthetic\"\ndepends_on = [\"source\"]\nbytes = 2000\nbusy_ms = %s\n"
    "[stage.sink]\nkind = \"synthetic\"\ndepends_on = [\"middle\"]\nreads = [\"payload\"]\n";

static const char *
s_changing_text(int steps, const char *busy_ms)
{
    static char text[1000];
    snprintf(text, sizeof text, s_changing, steps, busy_ms);
    return text;
}

static void
s_until_size(const char *path, off_t size)
{
    struct stat status = { 0 };
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    while ((stat(path, &status) || status.st_size < size) && verl_now() < limit)
        usleep(5000);
    cr_assert_geq(status.st_size, size, "%s has %lld bytes within 20 s", path, (long long) size);
}

// Of what the replay of a revision gave: the bytes of the first message's column.
static int64_t
s_payload(const char *said)
{
    json_t *first = json_loads(said, JSON_DISABLE_EOF_CHECK, NULL);
    int64_t bytes = json_integer_value(
        json_object_get(json_object_get(json_object_get(first, "columns"), "payload"), "bytes"));
    json_decref(first);
    return bytes;
}

// A run that is changed while it is recorded: an actor gets the batches of one revision, by the topology of that one.
Test(spy_runs, a_recording_of_two_revisions_is_replayed_by_the_topology_of_either, .timeout = 200)
{
    static const struct { const char *option; int64_t bytes; const char *said; } cases[] = {
        { "", 4 * 3000, "of revision 2," }, { "--revision 2", 4 * 3000, "of revision 2," },
        { "--revision 1", 4 * 2000, "of revision 1," },
    };
    run_t run;
    char words[300], command[600], path[100];
    run_start(&run, s_changing_text(100000, "2"), "");
    run_until_steps(&run, 1);
    snprintf(path, sizeof path, "%s/file", run.folder);
    snprintf(words, sizeof words, "record %s --values --kind data", path);
    pid_t spy = s_spy(&run, "spy", words);
    s_until_size(path, 30000);
    snprintf(command, sizeof command, "%s/bin/verl-inject --run %s/run set stage.middle.bytes=3000 >/dev/null 2>&1",
             VERL_BINARY_DIR, run.folder);
    cr_assert_eq(system(command), 0);       // it answers when the change is in force
    struct stat status;
    cr_assert_eq(stat(path, &status), 0);
    s_until_size(path, status.st_size + 400000);
    kill(spy, SIGINT);
    cr_assert_eq(s_wait(spy), 0);
    kill(run.pid, SIGINT);
    run_wait(&run, 60);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(words, sizeof words, "replay %s --to middle --json %s --assert 'shown > 0'", path, cases[i].option);
        int code = s_wait(s_spy(&run, "again", words));
        char *remarks = s_output(&run, "again.err"), *said = s_output(&run, "again.out");
        cr_assert_eq(code, 0, "%s: %s", cases[i].option, remarks);
        cr_assert(strstr(remarks, cases[i].said), "%s: %s", cases[i].option, remarks);
        cr_assert_eq(s_payload(said), cases[i].bytes, "%s: %.400s", cases[i].option, said);
        free(remarks);
        free(said);
    }
    snprintf(words, sizeof words, "replay %s --to middle --assert 'shown == 0'", path);
    cr_assert_eq(s_wait(s_spy(&run, "assert", words)), 1);
    snprintf(words, sizeof words, "replay %s --to middle --revision 9", path);
    cr_assert_eq(s_wait(s_spy(&run, "none", words)), 1);
    char *remarks = s_output(&run, "none.err");
    cr_assert(strstr(remarks, "no topology of revision 9"), "%s", remarks);
    free(remarks);
    run_done(&run);
}

// Whatever ends a replay, its folder goes with it; and it is made where temporary files are wanted.
Test(spy_runs, a_replay_that_is_hung_up_leaves_nothing, .timeout = 200)
{
    run_t run;
    char words[300], path[100];
    run_start(&run, s_changing_text(40, "100"), "");
    run_until_steps(&run, 1);
    snprintf(words, sizeof words, "record %s/file --values --kind data", run.folder);
    pid_t spy = s_spy(&run, "spy", words);
    run_wait(&run, 120);
    cr_assert_eq(s_wait(spy), 0);
    snprintf(path, sizeof path, "%s/temporary", run.folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert_eq(setenv("TMPDIR", path, 1), 0);
    snprintf(words, sizeof words, "replay %s/file --to middle", run.folder);
    pid_t again = s_spy(&run, "again", words);
    unsetenv("TMPDIR");
    s_until_line(&run, "again.out");
    struct stat status;
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_gt(status.st_nlink, 2, "its folder is there");
    kill(again, SIGHUP);
    cr_assert_eq(s_wait(again), 1);
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(status.st_nlink, 2, "its folder is gone");
    char *remarks = s_output(&run, "again.err");
    cr_assert(strstr(remarks, "interrupted"), "%s", remarks);
    free(remarks);
    run_done(&run);
}
