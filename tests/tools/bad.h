// bad.h: a small run of reinforcement learning that is right, to be spoiled in one place, and what has to come of that.
#ifndef VERL_TEST_BAD_H
#define VERL_TEST_BAD_H
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>
#include "tools/run.h"

// Files of the run's folder: the model m and the records d.jsonl.
#define MODEL_FILES "cp -r " VERL_SOURCE_DIR "/topologies/models/addition-1m m; "
#define RECORD      "{\"prompt\": \"1+2=\", \"answer\": \"3\"}\\n"
#define DATA_FILES  "for i in 1 2 3 4 5 6 7 8; do printf '" RECORD "'; done >d.jsonl; "
#define FILES       MODEL_FILES DATA_FILES

// ACTOR, LOADER, GENERATE, UPDATE: more lines of these sections, each with its newline. `model` is on line 6.
#define GRPO(ACTOR, LOADER, GENERATE, UPDATE)                                                                          \
    "[run]\nname = \"g\"\nsteps = 2\n"                                                                                 \
    "[actor.policy]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\n" ACTOR                                            \
    "[stage.prompts]\nkind = \"loader\"\nfiles = [\"d.jsonl\"]\ntokenizer = \"m\"\nrows = 4\nshuffle = false\n" LOADER \
    "[stage.generate]\nactor = \"policy\"\ndepends_on = [\"prompts\"]\nsamples = 2\nmax_new_tokens = 4\n" GENERATE     \
    "[stage.reward]\nkind = \"rule-reward\"\nrule = \"random\"\ndepends_on = [\"generate\"]\n"                         \
    "[stage.advantage]\nkind = \"advantage\"\nestimator = \"grpo\"\ndepends_on = [\"reward\"]\n"                       \
    "[stage.update]\nactor = \"policy\"\ndepends_on = [\"advantage\"]\nlr = 1e-4\n" UPDATE
#define RIGHT GRPO("", "", "", "")

static inline void
s_ended(run_t *run, int code, const char *words)
{
    cr_assert_eq(run->code, code, "exit %d: %s", run->code, run->said);
    cr_assert(run_said(run, words), "it does not say \"%s\": %s", words, run->said);
}

// Exit 2 with the words, and nothing was begun.
static inline void
s_refuses(const char *setup, const char *topology, const char *arguments, const char *words)
{
    run_t run;
    char path[128];
    run_start_after(&run, setup, topology, arguments);
    run_wait(&run, 30);
    s_ended(&run, 2, words);
    snprintf(path, sizeof path, "%s/run", run.folder);
    cr_assert(access(path, F_OK) != 0, "a run directory is left");
    run_done(&run);
}

// Exit 1 with the words in the last line, and nothing half-written.
static inline void
s_fails(const char *setup, const char *topology, const char *arguments, const char *words)
{
    run_t run;
    run_start_after(&run, setup, topology, arguments);
    run_wait(&run, 60);
    s_ended(&run, 1, words);
    cr_assert(run_said(&run, "verl-run: "), "%s", run.said);
    char *metrics = run_file(&run, "metrics.jsonl");
    size_t length = strlen(metrics);
    cr_assert(length == 0 || metrics[length - 1] == '\n', "half a line of metrics");
    free(metrics);
    run_done(&run);
}

// Exit 0.
static inline void
s_works(const char *setup, const char *topology, const char *arguments)
{
    run_t run;
    run_start_after(&run, setup, topology, arguments);
    run_wait(&run, 60);
    s_ended(&run, 0, "");
    run_done(&run);
}
#endif
