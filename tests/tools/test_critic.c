// A run in the shape of PPO gets a second critic while it goes on, which the advantage uses from one batch on, and loses
// it again: the metrics show both moments, and no other actor is started anew.
#include "tools/bad.h"
#include "tools/living.h"

#define PPO                                                                                                          \
    "[run]\nname = \"ppo\"\nsteps = 100000\nmax_in_flight = 4\n"                                                     \
    "[stage.prompts]\nkind = \"synthetic\"\nbusy_ms = 1\n"                                                           \
    "[stage.generate]\nkind = \"synthetic\"\nbusy_ms = 4\ndepends_on = [\"prompts\"]\nas = { payload = \"response\" }\n" \
    "[stage.reward]\nkind = \"synthetic\"\nbusy_ms = 1\ndepends_on = [\"generate\"]\nas = { payload = \"score\" }\n"  \
    "[stage.values]\nkind = \"synthetic\"\nbusy_ms = 2\ndepends_on = [\"generate\"]\nas = { payload = \"values\" }\n" \
    "[stage.advantage]\nkind = \"synthetic\"\ndepends_on = [\"reward\", \"values\"]\nreads = [\"score\", \"values\"]\n" \
    "as = { payload = \"advantages\" }\n"                                                                            \
    "[stage.update]\nkind = \"synthetic\"\nbusy_ms = 3\ndepends_on = [\"advantage\"]\nas = { payload = \"loss\" }\n"

#define CRITIC                                                                                                     \
    "[stage.values2]\nkind = \"synthetic\"\nbusy_ms = 2\ndepends_on = [\"generate\"]\nas = { payload = \"values2\" }\n" \
    "[stage.advantage]\ndepends_on = [\"reward\", \"values\", \"values2\"]\n"                                      \
    "reads = [\"score\", \"values\", \"values2\"]\n"

#define WITHOUT                                                                                    \
    "unset = [\"stage.values2\"]\n[stage.advantage]\ndepends_on = [\"reward\", \"values\"]\n"      \
    "reads = [\"score\", \"values\"]\n"

typedef struct span {
    int64_t from, to;                       // batches whose metrics have the second critic
} span_t;

static void
s_see(const json_t *line, int64_t number, void *context)
{
    const span_t *span = context;
    int64_t step = json_integer_value(json_object_get(line, "step"));
    cr_assert_eq(step, number);
    cr_assert_eq(json_object_get(line, "timing_s/values2") != NULL, step >= span->from && step < span->to,
                 "step %lld", (long long) step);
}

// The first batch of a change that is made by a fragment in a file.
static int64_t
s_apply(const run_t *run, const char *fragment)
{
    char path[128];
    snprintf(path, sizeof path, "%s/fragment.toml", run->folder);
    FILE *file = fopen(path, "we");
    cr_assert(file && fputs(fragment, file) >= 0 && fclose(file) == 0);
    said_t said = s_inject(run, "apply fragment.toml");
    DOES(said, "is in force from batch");
    return s_number(&said, "from batch ");
}

Test(critic, comes_into_a_running_job_and_goes_again, .timeout = 100)
{
    static const char *const others[] = { "prompts", "generate", "reward", "values", "advantage", "update" };
    json_int_t before[6];
    run_t run;
    span_t span;
    run_start(&run, PPO, "");
    s_await(&run);
    s_until_done(&run, 5);
    for (int i = 0; i < 6; i++)
        before[i] = s_actor(&run, others[i], "incarnation");
    span.from = s_apply(&run, CRITIC);
    s_until_done(&run, span.from + 20);
    cr_assert_gt(s_actor(&run, "values2", "incarnation"), 0);
    span.to = s_apply(&run, WITHOUT);
    cr_assert_gt(span.to, span.from + 20);
    s_until_done(&run, span.to + 20);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(s_actor(&run, others[i], "incarnation"), before[i], "%s was started anew", others[i]);
    cr_assert_eq(s_actor(&run, "values2", "incarnation"), 0, "the second critic is still there");
    s_interrupt(&run);
    cr_assert_gt(s_lines(&run, "metrics.jsonl", s_see, &span), span.to);
    run_done(&run);
}
