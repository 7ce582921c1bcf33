// Deaths and signals at any moment: a reason, whole checkpoints, and nothing left.
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "tools/bad.h"
#include "tools/crash.h"

#define CHAIN                                                                                        \
    "[run]\nname = \"chain\"\nsteps = 1000000\n"                                                     \
    "[stage.a]\nkind = \"synthetic\"\nbusy_ms = 1\nbytes = 100000\n"                                 \
    "[stage.b]\nkind = \"synthetic\"\nbusy_ms = 1\ndepends_on = [\"a\"]\nas = { payload = \"b\" }\n" \
    "[stage.c]\nkind = \"synthetic\"\ndepends_on = [\"a\", \"b\"]\nas = { payload = \"c\" }\n"
#define SAVES "--steps 100000 --set run.save_every=1 --set run.keep=2"

static unsigned s_state = 12345;

// Microseconds, below `most`: other ones at each call, the same in each run of the tests.
static useconds_t
s_moment(unsigned most)
{
    s_state = s_state * 1103515245u + 12345u;
    return (useconds_t) ((s_state >> 8) % most);
}

// Waits for a process beside verl-run; the index'th of them, or 0.
static pid_t
s_victim(const run_t *run, unsigned index)
{
    pid_t all[16];
    int count = 0;
    for (int tries = 0; tries < 500 && count == 0; tries++) {
        count = run_processes(run, all, 16);
        count = count > 16 ? 16 : count;
        if (count == 0)
            usleep(2000);
    }
    return count > 0 ? all[index % (unsigned) count] : 0;
}

// Every checkpoint that has a name is whole: its manifest and its model load. Returns their number. No other is left,
// unless verl-run was killed.
static int
s_check_checkpoints(const run_t *run, bool killed)
{
    char path[400], command[3000];
    int count = 0;
    snprintf(path, sizeof path, "%s/run/checkpoints", run->folder);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        bool unfinished = strstr(entry->d_name, ".tmp");
        cr_assert(!unfinished || killed, "%s is left", entry->d_name);
        if (strncmp(entry->d_name, "step-", 5) != 0 || unfinished)
            continue;
        snprintf(
            command, sizeof command,
            "test -s %s/%.60s/manifest.json && { test ! -d %s/%.60s/policy/model || cd %s && %s/bin/verl-run --quiet "
            "--run-dir %s/again-%.60s --steps 1 --set 'actor.policy.model=\"%s/%.60s/policy/model\"' topology.toml "
            ">/dev/null 2>&1; }",
            path, entry->d_name, path, entry->d_name, run->folder, VERL_BINARY_DIR, run->folder, entry->d_name, path,
            entry->d_name);
        cr_assert_eq(system(command), 0, "%s is not whole", entry->d_name);
        count++;
    }
    if (directory)
        closedir(directory);
    return count;
}

static void
s_until_logged(const run_t *run, const char *words)
{
    for (bool there = false; !there; usleep(2000)) {
        char *log = run_file(run, "run.log");
        there = strstr(log, words);
        free(log);
    }
}

static void
s_check_metrics(const run_t *run)
{
    char *metrics = run_file(run, "metrics.jsonl"), start[40];
    int64_t step = 0;
    for (char *line = metrics, *end; *line; line = end + 1, step++) {
        end = strchr(line, '\n');
        cr_assert(end, "half a line of metrics: %s", line);
        snprintf(start, sizeof start, "{\"step\":%lld,", (long long) step);
        cr_assert(strncmp(line, start, strlen(start)) == 0 && end[-1] == '}', "line %lld of metrics: %.*s",
                  (long long) step, (int) (end - line), line);
    }
    free(metrics);
}

// --- death --------------------------------------------------------------------------------------------------------

Test(kill, of_an_actor_at_any_moment_is_reported)
{
    for (unsigned i = 0; i < 6; i++) {
        run_t run;
        run_start(&run, CHAIN, "");
        usleep(s_moment(400000));
        pid_t victim = s_victim(&run, i);
        cr_assert(victim > 0 && kill(victim, SIGKILL) == 0);
        run_wait(&run, 5);
        s_ended(&run, 1, "was killed by signal 9 (SIGKILL)");
        s_check_metrics(&run);
        run_done(&run);
    }
}

Test(kill, of_verl_run_at_any_moment_leaves_nothing)
{
    for (int i = 0; i < 8; i++) {
        run_t run;
        run_start(&run, CHAIN, "");
        usleep(s_moment(300000));
        kill(run.pid, SIGKILL);
        run_wait(&run, 5);
        cr_assert_eq(run.code, 128 + SIGKILL);
        s_check_metrics(&run);
        run_done(&run); // no process
    }
}

Test(kill, of_verl_run_while_it_saves_leaves_whole_checkpoints)
{
    int whole = 0;
    for (int i = 0; i < 5; i++) {
        run_t run;
        run_start_after(&run, FILES, RIGHT, SAVES);
        run_until_steps(&run, 2);
        usleep(s_moment(200000));
        kill(run.pid, SIGKILL);
        run_wait(&run, 5);
        whole += s_check_checkpoints(&run, true);
        s_check_metrics(&run);
        run_done(&run);
    }
    cr_assert(whole >= 5, "%d checkpoints", whole);
}

Test(kill, of_an_actor_while_it_saves_leaves_whole_checkpoints)
{
    for (unsigned i = 0; i < 4; i++) {
        run_t run;
        run_start_after(&run, FILES, RIGHT, SAVES);
        run_until_steps(&run, 2);
        usleep(s_moment(200000));
        pid_t victim = s_victim(&run, i);
        cr_assert(victim > 0 && kill(victim, SIGKILL) == 0);
        run_wait(&run, 5);
        s_ended(&run, 1, "SIGKILL");
        cr_assert(s_check_checkpoints(&run, false) > 0);
        run_done(&run);
    }
}

Test(kill, by_a_crash_of_its_own_is_not_silent)
{
    run_t run;
    run_start(&run, CHAIN, "");
    run_until_steps(&run, 3);
    kill(run.pid, SIGABRT);
    run_wait(&run, 10);
    cr_assert_eq(run.code, 128 + SIGABRT, "exit %d: %s", run.code, run.said);
    cr_assert(!VERL_CRASH_SPEAKS || run_said(&run, "verl-run: crashed by SIGABRT in its thread verl-run"), "%s", run.said);
    s_check_metrics(&run);
    run_done(&run);
}

// --- silence ------------------------------------------------------------------------------------------------------

Test(kill, not_but_a_stopped_actor_is_named)
{
    run_t run;
    run_start(&run, CHAIN, "--set stage.a.liveness=1 --set stage.b.liveness=1 --set stage.c.liveness=1");
    run_until_steps(&run, 3);
    kill(s_victim(&run, 1), SIGSTOP);
    run_wait(&run, 10);
    s_ended(&run, 1, "does not answer");
    run_done(&run);
}

Test(kill, not_but_a_run_that_was_stopped_for_a_while_blames_nobody)
{
    run_t run;
    run_start(&run, CHAIN, "--steps 300 --set stage.a.liveness=1 --set stage.b.liveness=1 --set stage.c.liveness=1");
    run_until_steps(&run, 3);
    kill(run.pid, SIGSTOP);
    usleep(1700000);
    kill(run.pid, SIGCONT);
    run_wait(&run, 20);
    s_ended(&run, 0, "");
    run_done(&run);
}

Test(kill, not_but_an_actor_that_never_begins_is_named)
{
    run_t run;
    run_start_after(&run,
                    "mkdir bin; cp " VERL_BINARY_DIR "/bin/verl-run bin\n"
                    "printf '#!/bin/sh\\nexec sleep 100\\n' >bin/verl-actor; chmod +x bin/verl-actor\n"
                    "exec bin/verl-run --run-dir other topology.toml >said 2>&1",
                    CHAIN, "");
    run_wait(&run, 16);
    s_ended(&run, 1, "does not begin: its process");
    run_done(&run);
}

// --- signals ------------------------------------------------------------------------------------------------------

Test(kill, by_a_signal_drains_at_any_moment)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    for (int i = 0; i < 6; i++) {
        run_t run;
        run_start(&run, CHAIN, "");
        while (s_victim(&run, 0) == 0)
            ;
        usleep(s_moment(300000));
        kill(run.pid, signals[i % 3]);
        run_wait(&run, 5);
        cr_assert_eq(run.code, 130, "exit %d: %s", run.code, run.said);
        s_check_metrics(&run);
        run_done(&run);
    }
}

Test(kill, by_a_signal_saves)
{
    for (int i = 0; i < 3; i++) {
        run_t run;
        run_start_after(&run, FILES, RIGHT, i == 1 ? "--steps 100000" : SAVES);
        run_until_steps(&run, 1 + i);
        usleep(s_moment(100000));
        kill(run.pid, SIGINT);
        run_wait(&run, SANITIZED ? 120 : 15);
        cr_assert_eq(run.code, 130, "exit %d: %s", run.code, run.said);
        cr_assert(!run_said(&run, "verl-run: "), "%s", run.said);
        cr_assert(s_check_checkpoints(&run, false) >= 1);
        run_done(&run);
    }
}

Test(kill, by_a_second_signal_ends_at_once)
{
    for (int i = 0; i < 3; i++) {
        run_t run;
        run_start_after(&run, FILES, RIGHT, SAVES " --set stage.reward.rule=exact");
        run_until_steps(&run, 2);
        kill(run.pid, SIGINT);
        s_until_logged(&run, "\"signal\"");   // two at once would be one
        usleep(s_moment(50000));
        kill(run.pid, SIGINT);
        run_wait(&run, 5);
        cr_assert_eq(run.code, 130, "exit %d: %s", run.code, run.said);
        s_check_checkpoints(&run, false);
        run_done(&run);
    }
}

// What was under way was not finished: a run that was interrupted, and failed.
Test(kill, by_a_signal_ends_a_hang_in_time)
{
    run_t run;
    run_start(&run, CHAIN, "--set stage.b.hang_at=3 --set run.drain_timeout=0.5");
    run_until_steps(&run, 3);
    usleep(100000);
    kill(run.pid, SIGINT);
    run_wait(&run, 5);
    cr_assert_eq(run.code, 1);
    cr_assert(run_said(&run, "drain_timeout") && run_said(&run, "failed after"), "%s", run.said);
    run_done(&run);
}

// …, and who holds it up is named.
Test(kill, by_a_signal_names_the_stage_that_hangs_its_batch_and_who_waits)
{
    run_t run;
    run_start(&run, CHAIN, "--set stage.b.hang_at=3 --set run.drain_timeout=0.5");
    run_until_steps(&run, 3);
    kill(run.pid, SIGINT);
    run_wait(&run, 5);
    cr_assert_eq(run.code, 1, "exit %d: %s", run.code, run.said);
    cr_expect(run_said(&run, "(drain_timeout): stage `b` of `b#"), "%s", run.said);
    cr_expect(run_said(&run, "has worked on batch 3 for "), "%s", run.said);
    cr_expect(run_said(&run, "(waiting for it: c)"), "%s", run.said);
    run_done(&run);
}

Test(kill, of_the_shell_does_not_end_a_run_in_the_background)
{
    run_t run;
    run_start_after(&run,
                    "(" VERL_BINARY_DIR "/bin/verl-run --quiet --steps 50 --run-dir run topology.toml >said 2>&1; "
                    "echo $? >code.tmp; mv code.tmp code) & sleep 0.05; kill -9 $$",
                    CHAIN, "");
    run_wait(&run, 5);
    cr_assert_eq(run.code, 128 + SIGKILL);
    char *code = NULL, path[128];
    for (int tries = 0; tries < 1000; tries++) {
        snprintf(path, sizeof path, "%s/code", run.folder);
        if (access(path, R_OK) == 0)
            break;
        usleep(10000);
    }
    code = run_file(&run, "../code");
    cr_assert_str_eq(code, "0\n");
    free(code);
    char *metrics = run_file(&run, "metrics.jsonl");
    cr_assert_eq(run_lines(metrics), 50);
    free(metrics);
    run_done(&run);
}
