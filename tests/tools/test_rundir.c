// test_rundir.c: the directory of a run: whose it is, what is said of one that lives or is gone.
#include "tools/rundir.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tools/run.h"

static const char s_endless[] = "[run]\nname = \"endless\"\nsteps = 100000000\n"
                                "[stage.src]\nkind = \"synthetic\"\nbusy_ms = 5\n";

static char *
s_folder(void)
{
    static char folder[64];
    snprintf(folder, sizeof folder, "/tmp/verl-test-XXXXXX");
    cr_assert(mkdtemp(folder));
    cr_assert_eq(chmod(folder, 0755), 0);
    return folder;
}

static int
s_mode(const char *path)
{
    struct stat status = { 0 };
    cr_assert_eq(stat(path, &status), 0);
    return (int) (status.st_mode & 0777);
}

static void
s_remove(const char *folder)
{
    char command[200];
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}

Test(rundir, an_empty_directory_becomes_the_runs_own)
{
    verl_rundir_t rundir;
    verl_error_t error = { "" };
    char *folder = s_folder();
    cr_assert_eq(verl_rundir_open(&rundir, folder, "name", &error), 0, "%s", error.text);
    cr_expect_eq(s_mode(folder), 0700, "%o", (unsigned) s_mode(folder));
    verl_rundir_close(&rundir);
    s_remove(folder);
}

Test(rundir, a_directory_with_other_things_in_it_keeps_its_mode)
{
    verl_rundir_t rundir;
    verl_error_t error = { "" };
    char *folder = s_folder(), path[100];
    snprintf(path, sizeof path, "%s/mine", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    cr_assert_eq(verl_rundir_open(&rundir, folder, "name", &error), 0, "%s", error.text);
    cr_expect_eq(s_mode(folder), 0755, "%o", (unsigned) s_mode(folder));
    verl_rundir_close(&rundir);
    s_remove(folder);
}

Test(rundir, to_resume_a_run_that_lives_says_who_lives_and_how_to_end_it)
{
    run_t run;
    char path[100], words[100];
    verl_rundir_t again;
    verl_error_t error = { "" };
    run_start(&run, s_endless, "");
    run_until_steps(&run, 1);
    snprintf(path, sizeof path, "%s/run", run.folder);
    snprintf(words, sizeof words, "lives (process %d)", (int) run.pid);
    cr_expect_eq(verl_rundir_reopen(&again, path, &error), -1);
    verl_rundir_close(&again);
    cr_expect(strstr(error.text, words) && strstr(error.text, "kill -INT"), "%s", error.text);
    cr_expect(!strstr(error.text, "--run-dir"), "%s", error.text);
    kill(run.pid, SIGINT);
    run_wait(&run, 30);
    run_done(&run);
}

Test(rundir, a_run_whose_directory_is_removed_fails_and_names_no_file_of_it)
{
    run_t run;
    char command[200];
    run_start(&run, s_endless, "");
    run_until_steps(&run, 1);
    snprintf(command, sizeof command, "mv %s/run %s/gone", run.folder, run.folder);
    cr_assert_eq(system(command), 0);
    kill(run.pid, SIGINT);
    run_wait(&run, 30);
    cr_expect_eq(run.code, 1, "exit %d: %s", run.code, run.said);
    cr_expect(run_said(&run, "/run") && !run_said(&run, "metrics.jsonl"), "%s", run.said);
    run_done(&run);
}

Test(rundir, one_that_is_removed_is_noticed)
{
    verl_rundir_t rundir;
    verl_error_t error = { "" };
    char *folder = s_folder();
    cr_assert_eq(verl_rundir_open(&rundir, folder, "name", &error), 0, "%s", error.text);
    cr_expect_eq(verl_rundir_check(&rundir, &error), 0, "%s", error.text);
    s_remove(folder);
    cr_expect_eq(verl_rundir_check(&rundir, &error), -1);
    cr_expect(strstr(error.text, "was removed while the run went on"), "%s", error.text);
    verl_rundir_close(&rundir);
}
