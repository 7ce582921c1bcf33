// learns.h: a small run that learns, paced so that it can be changed, and what comes of it to the bit.
#ifndef VERL_TEST_LEARNS_H
#define VERL_TEST_LEARNS_H
#include "tools/bad.h"
#include "tools/living.h"

#define STEPS 20
#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x
// Paced by `slow`, so that a change is asked for in time.
#define LEARNS                                                                                                      \
    "[run]\nname = \"g\"\nsteps = " TEXT(STEPS) "\nsave_every = 4\nmax_in_flight = 3\n"                              \
    "[actor.policy]\nkind = \"policy\"\nmodel = \"m\"\nthreads = 1\non_failure = \"restart\"\n"                      \
    "[stage.prompts]\nkind = \"loader\"\nfiles = [\"d.jsonl\"]\ntokenizer = \"m\"\nrows = 4\n"                   \
    "on_failure = \"restart\"\n"                                                                                    \
    "[stage.generate]\nactor = \"policy\"\ndepends_on = [\"prompts\"]\nsamples = 2\nmax_new_tokens = 4\n"            \
    "[stage.reward]\nkind = \"rule-reward\"\nrule = \"random\"\ndepends_on = [\"generate\"]\n"                      \
    "on_failure = \"restart\"\n"                                                                                    \
    "[stage.slow]\nkind = \"synthetic\"\nbusy_ms = 100\ndepends_on = [\"reward\"]\non_failure = \"restart\"\n"       \
    "[stage.advantage]\nkind = \"advantage\"\nestimator = \"grpo\"\ndepends_on = [\"reward\", \"slow\"]\n"           \
    "on_failure = \"restart\"\n"                                                                                    \
    "[stage.update]\nactor = \"policy\"\ndepends_on = [\"advantage\"]\nlr = 1e-3\n"                                 \
    "[stage.rec]\nkind = \"recorder\"\nfile = \"out.jsonl\"\n"                                                    \
    "columns = [\"id\", \"response\", \"score\", \"version\"]\n"                                                 \
    "depends_on = [\"reward\"]\non_failure = \"restart\"\n"

typedef struct outcome {
    char *metrics, *recorded;
} outcome_t;

static inline outcome_t
s_outcome(run_t *run)
{
    outcome_t outcome = { run_timeless_metrics(run), run_file(run, "out.jsonl") };
    cr_assert_eq(run_lines(outcome.metrics), STEPS, "%s", run->said);
    return outcome;
}

static inline void
s_same(outcome_t a, outcome_t b)
{
    cr_assert(strcmp(a.metrics, b.metrics) == 0, "the metrics differ:\n%s\n%s", a.metrics, b.metrics);
    cr_assert(strcmp(a.recorded, b.recorded) == 0, "what was recorded differs");
    free(b.metrics);
    free(b.recorded);
}

static inline void
s_start(run_t *run)
{
    run_start_after(run, FILES, LEARNS, "");
    s_await(run);
}

static inline outcome_t
s_end_of(run_t *run)
{
    run_wait(run, 60);
    s_ended(run, 0, "");
    outcome_t outcome = s_outcome(run);
    run_done(run);
    return outcome;
}

static inline outcome_t
s_undisturbed(void)
{
    run_t run;
    s_start(&run);
    return s_end_of(&run);
}
#endif
