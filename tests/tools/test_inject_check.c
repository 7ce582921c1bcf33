// test_inject_check.c: a change is checked beside the run, which does not wait for it.
#include <sys/stat.h>
#include "tools/living.h"

#define SLOW CHAIN(FOREVER, "busy_ms = 2\n", "busy_ms = 1\n", "")

// A program that says nothing until it may go on, and then that it cannot. It is named by three stages.
static void
s_write(const run_t *run)
{
    char path[160];
    snprintf(path, sizeof path, "%s/slow.sh", run->folder);
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fprintf(file, "echo x >>%s/asked\nwhile ! test -e %s/go; do sleep 0.02; done\nexit 3\n", run->folder, run->folder);
    fclose(file);
    snprintf(path, sizeof path, "%s/change.toml", run->folder);
    cr_assert((file = fopen(path, "we")));
    for (int i = 0; i < 3; i++)
        fprintf(file, "[stage.slow%d]\nkind = \"command\"\ndepends_on = [\"mid\"]\ncommand = [\"sh\", \"%s/slow.sh\"]\n",
                i, run->folder);
    fclose(file);
}

static off_t
s_asked(const run_t *run)
{
    char path[128];
    struct stat status;
    snprintf(path, sizeof path, "%s/asked", run->folder);
    return stat(path, &status) == 0 ? status.st_size : 0;
}

static void
s_let_go(const run_t *run)
{
    char path[128];
    snprintf(path, sizeof path, "%s/go", run->folder);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static pid_t
s_begin_change(const run_t *run, const char *words)
{
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    pid_t pid = s_begin(run, "changed", words);
    while (s_asked(run) == 0) {
        cr_assert(verl_now() < limit, "the program was not asked");
        usleep(2000);
    }
    return pid;
}

Test(inject_check, a_program_that_hangs_when_it_is_asked_does_not_stop_the_run_and_is_asked_once, .timeout = 100)
{
    run_t run;
    run_start(&run, SLOW, "");
    s_await(&run);
    s_write(&run);
    pid_t pid = s_begin_change(&run, "apply change.toml");
    s_until_done(&run, s_done_batches(&run) + 50);
    cr_assert_eq(waitpid(pid, NULL, WNOHANG), 0, "the change did not wait for the program");
    s_let_go(&run);
    said_t said = s_end(&run, "changed", pid, 30);
    REFUSES(said, 1, "ended with status 3");
    cr_expect_eq(s_asked(&run), 2, "it was asked %d times", (int) s_asked(&run) / 2);
    said = s_inject(&run, "swap mid");
    DOES(said, "replaced mid");
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

Test(inject_check, the_batch_that_a_change_is_for_waits_for_its_check, .timeout = 100)
{
    run_t run;
    run_start(&run, SLOW, "");
    s_await(&run);
    s_write(&run);
    long long at = (long long) s_done_batches(&run) + 300;
    char words[100];
    snprintf(words, sizeof words, "--at %lld apply change.toml", at);
    pid_t pid = s_begin_change(&run, words);
    s_until_done(&run, at);
    cr_expect_eq(s_done_batches(&run), at, "a batch began that the change is for");
    s_let_go(&run);
    said_t said = s_end(&run, "changed", pid, 30);
    REFUSES(said, 1, "ended with status 3");
    s_until_done(&run, at + 10);            // refused, it holds nothing
    s_interrupt(&run);
    run_done(&run);
}

// What verl-run ends with while a program is asked that never answers; nothing of it is left.
static void
s_end_by(int signal, int code)
{
    run_t run;
    run_start(&run, SLOW, "");
    s_await(&run);
    s_write(&run);
    pid_t pid = s_begin_change(&run, "apply change.toml");
    kill(run.pid, signal);
    run_wait(&run, 8);                      // less than the program may take
    cr_assert_eq(run.code, code, "exit %d: %s", run.code, run.said);
    cr_expect_neq(s_end(&run, "changed", pid, 30).code, 0);
    run_done(&run);
}

Test(inject_check, a_run_that_is_interrupted_does_not_wait_for_a_program_that_hangs, .timeout = 100)
{
    s_end_by(SIGINT, 130);
}

Test(inject_check, a_program_that_is_asked_dies_with_the_run, .timeout = 100)
{
    s_end_by(SIGKILL, 128 + SIGKILL);
}

Test(inject_check, a_run_that_ends_while_a_change_is_checked_refuses_it_and_leaves_nothing, .timeout = 100)
{
    run_t run;
    run_start(&run, SLOW, "");
    s_await(&run);
    s_write(&run);
    pid_t pid = s_begin_change(&run, "apply change.toml");
    kill(run.pid, SIGINT);
    s_let_go(&run);
    run_wait(&run, 60);
    cr_assert_eq(run.code, 130, "exit %d: %s", run.code, run.said);
    said_t said = s_end(&run, "changed", pid, 30);
    cr_expect_eq(said.code, 1, "%s", said.text);
    run_done(&run);
}
