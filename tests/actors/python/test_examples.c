// The examples in Python that we ship run as they are, and say the same as what they stand beside.
#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>
#include "actors/python/python.h"
#include "tools/run.h"

// Three steps of a shipped topology, whose stage runs actors/PROGRAM in a Python that has what it needs.
static void
s_three_steps(run_t *run, const char *name, const char *stage, const char *program)
{
    char setup[600], command[1200];
    const char *python = python_or_skip();
    char folder[] = "/tmp/verl-shipped-XXXXXX";
    cr_assert(mkdtemp(folder));
    *run = (run_t) { 0 };
    snprintf(run->folder, sizeof run->folder, "%s", folder);
    snprintf(run->mark, sizeof run->mark, "no process has this: %s", folder);
    snprintf(setup, sizeof setup, "stage.%s.command=[\"%s\",\"actors/%s\"]", stage, python, program);
    snprintf(command, sizeof command, "'%s/bin/verl-run' --quiet --steps 3 --run-dir %s/run --set '%s' topologies/%s",
             VERL_BINARY_DIR, folder, setup, name);
    cr_assert_eq(python_run(command), 0);
}

// A metric of each step, behind each other.
static void
s_metrics(const run_t *run, const char *name, double values[3])
{
    char *text = run_file(run, "metrics.jsonl");
    int count = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *object = json_loads(line, 0, NULL);
        const json_t *value = json_object_get(object, name);
        cr_assert(json_is_number(value) && count < 3, "%s: %s", name, line);
        values[count++] = json_number_value(value);
        json_decref(object);
    }
    cr_assert_eq(count, 3);
    free(text);
}

// One scores in Python, the other with the rule in C: the same seed, so the same rewards as long as they agree.
Test(python_examples, a_reward_in_python_is_the_rule_that_it_writes_out)
{
    run_t python, rule;
    double scores[3], others[3], exact[3], losses[3], other_losses[3];
    s_three_steps(&python, "python-reward.toml", "reward", "reward.py");
    s_three_steps(&rule, "python-logprobs.toml", "confidence", "confidence.py");
    s_metrics(&python, "critic/rewards/mean", scores);
    s_metrics(&python, "reward/exact", exact);
    s_metrics(&rule, "critic/rewards/mean", others);
    s_metrics(&python, "actor/pg_loss", losses);
    s_metrics(&rule, "actor/pg_loss", other_losses);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(scores[i], others[i]);
        cr_assert_eq(scores[i], exact[i]);
        cr_assert_eq(losses[i], other_losses[i]);
    }
    run_done(&python);
    run_done(&rule);
}

Test(python_examples, a_stage_that_reads_logprobs_gives_their_figures)
{
    run_t run;
    double entropy[3], sure[3], least[3];
    s_three_steps(&run, "python-logprobs.toml", "confidence", "confidence.py");
    s_metrics(&run, "rollout/entropy", entropy);
    s_metrics(&run, "rollout/sure", sure);
    s_metrics(&run, "rollout/logprob/min", least);
    for (int i = 0; i < 3; i++) {
        cr_assert(entropy[i] > 0 && entropy[i] < 5, "%g", entropy[i]);
        cr_assert(sure[i] > 0 && sure[i] < 1, "%g", sure[i]);
        cr_assert(least[i] < -entropy[i], "%g", least[i]);
    }
    char *log = run_file(&run, "run.log");
    cr_assert(strstr(log, "the least likely response is row"));
    free(log);
    run_done(&run);
}
