// test_change.c: changes as people write them, over a topology as a run holds it: resolved.
#include "helper.h"
#include <stdio.h>
#include "runtime/topology/value.h"

#define BASE RUN SOURCE                                                    \
    "[stage.mid]\nkind = 'synthetic'\ndepends_on = ['src']\nbusy_ms = 1\n" \
    "[stage.end]\nkind = 'keeper'\ndepends_on = ['mid']\nsize = 5\n"

typedef struct hoard {
    int64_t size;
} hoard_t;

static int
s_hoard(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    (void) stage;
    (void) in;
    (void) out;
    return 0;
}

static const verl_option_t s_hoard_options[] = {
    VERL_INT(hoard_t, size, 1, 0, 100, "", "how much"),
    VERL_OPTIONS_END
};
static const verl_kind_t s_keeper = {
    .name = "keeper", .about = "has an option of its state", .state_size = sizeof(hoard_t),
    .options = s_hoard_options, .stages = { { .name = "keep", .handler = s_hoard } },
};
static const verl_kind_t *const s_keepers[] = { &s_keeper, NULL };

static verl_plan_t *
s_change(const char *base, const char *fragment, verl_topology_errors_t *errors)
{
    verl_error_t error = { "" };
    cr_assert(verl_kind_register_all(s_keepers, &error) == 0, "%s", error.text);
    verl_plan_t *before = s_good(base);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    cr_assert(verl_topology_write_resolved(before, out) == 0);
    fclose(out);
    verl_plan_t *after = verl_topology_load_change(text, size, "t.toml", fragment, strlen(fragment), "change", errors);
    s_print(errors);
    free(text);
    verl_plan_destroy(&before);
    return after;
}

static verl_plan_t *
s_changed(const char *base, const char *fragment)
{
    verl_topology_errors_t errors;
    verl_plan_t *after = s_change(base, fragment, &errors);
    cr_assert(after);
    return after;
}

static void
s_wrong(const char *fragment, const char *where, const char *words)
{
    verl_topology_errors_t errors;
    cr_assert(!s_change(BASE, fragment, &errors));
    cr_assert_eq(errors.count, 1);
    cr_assert(strncmp(errors.items[0], where, strlen(where)) == 0, "%s", errors.items[0]);
    cr_assert(strstr(errors.items[0], words), "%s", errors.items[0]);
    verl_topology_errors_done(&errors);
}

static const verl_plan_actor_t *
s_actor_named(const verl_plan_t *plan, const char *name)
{
    for (int i = 0; i < plan->actors_count; i++)
        if (strcmp(plan->actors[i].name, name) == 0)
            return &plan->actors[i];
    return NULL;
}

static double
s_busy(const verl_plan_t *plan, const char *stage)
{
    const verl_value_t *table = &s_stage(plan, stage)->options;
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->keys[i], "busy_ms") == 0)
            return (double) table->items[i].integer + table->items[i].real;
    cr_assert(0, "no busy_ms");
    return 0;
}

static int64_t
s_size(const verl_plan_t *plan)
{
    const verl_value_t *table = &s_actor_named(plan, "end")->options;
    cr_assert_str_eq(table->keys[0], "size");
    return table->items[0].integer;
}

Test(change, a_stage_with_an_actor_of_its_own_is_spoken_of_with_the_keys_of_its_actor)
{
    verl_plan_t *plan = s_changed(BASE, "[stage.mid]\nbusy_ms = 7\nreplicas = 2\ntimeout = 9\n[stage.end]\nsize = 8\n");
    cr_assert_eq(s_busy(plan, "mid"), 7);
    cr_assert_eq(s_size(plan), 8);
    cr_assert_eq(s_actor_named(plan, "mid")->replicas, 2);
    cr_assert_eq(s_stage(plan, "mid")->timeout, 9);
    verl_plan_destroy(&plan);
}

Test(change, a_stage_may_be_given_another_kind_and_leaves_the_options_of_the_old_one)
{
    verl_plan_t *plan = s_changed(GRPO RUN, "[stage.reward]\nkind = 'synthetic'\ndepends_on = ['generate']\n"
                                            "[stage.score]\nkind = 'rule-reward'\ndepends_on = ['reward']\n"
                                            "[stage.advantage]\ndepends_on = ['score']\n");
    cr_assert_str_eq(s_actor_named(plan, "reward")->kind_name, "synthetic");
    cr_assert_str_eq(s_actor_named(plan, "score")->kind_name, "rule-reward");
    verl_plan_destroy(&plan);
}

Test(change, a_stage_may_need_less_than_before)
{
    verl_plan_t *plan = s_changed(RUN SOURCE "[stage.r]\nkind = 'recorder'\ncolumns = ['x', 'id']\n"
                                             "uses = { x = 'payload' }\ndepends_on = ['src']\n",
                                  "[stage.r]\ncolumns = ['x']\n");
    cr_assert_eq(s_stage(plan, "r")->needs_count, 1);
    verl_plan_destroy(&plan);
}

Test(change, a_stage_that_is_taken_away_takes_its_actor_along)
{
    verl_plan_t *plan = s_changed(BASE, "unset = ['stage.end']\n");
    cr_assert(!s_actor_named(plan, "end"));
    cr_assert_eq(plan->stages_count, 2);
    verl_plan_destroy(&plan);
}

Test(change, an_actor_goes_with_the_last_of_its_stages)
{
    verl_plan_t *plan = s_changed(BASE "[actor.two]\nkind = 'synthetic'\n"
                                       "[stage.a]\nactor = 'two'\ndepends_on = ['mid']\n"
                                       "[stage.b]\nactor = 'two'\ndepends_on = ['mid']\n", "unset = ['stage.a']\n");
    cr_assert(s_actor_named(plan, "two"));
    verl_plan_destroy(&plan);
    plan = s_changed(BASE "[actor.two]\nkind = 'synthetic'\n"
                          "[stage.a]\nactor = 'two'\ndepends_on = ['mid']\n"
                          "[stage.b]\nactor = 'two'\ndepends_on = ['mid']\n", "unset = ['stage.a', 'stage.b']\n");
    cr_assert(!s_actor_named(plan, "two"));
    verl_plan_destroy(&plan);
}

Test(change, a_stage_may_move_to_another_actor)
{
    verl_plan_t *plan = s_changed(BASE, "[stage.end]\nactor = 'mid'\n");
    cr_assert(!s_actor_named(plan, "end"));
    cr_assert_eq(s_stage(plan, "end")->actor, s_stage(plan, "mid")->actor);
    verl_plan_destroy(&plan);
}

Test(change, a_key_that_is_taken_away_has_its_default_again)
{
    verl_plan_t *plan = s_changed(BASE, "unset = ['stage.mid.busy_ms', 'stage.end.size']\n");
    cr_assert_eq(s_busy(plan, "mid"), 0);
    cr_assert_eq(s_size(plan), 1);
    verl_plan_destroy(&plan);
}

Test(change, a_stage_that_is_written_inline_is_merged_too)
{
    verl_plan_t *plan = s_changed(BASE, "stage = { mid = { busy_ms = 3 }, more = { kind = 'synthetic', "
                                        "depends_on = ['end'] } }\n");
    cr_assert_eq(s_busy(plan, "mid"), 3);
    cr_assert_eq(plan->stages_count, 4);
    verl_plan_destroy(&plan);
}

Test(change, staleness_can_be_set_and_taken_back)
{
    verl_plan_t *plan = s_changed(GRPO RUN, "[stage.generate]\nstaleness = 1\n");
    cr_assert(s_actor_named(plan, "policy.generate"));
    verl_plan_destroy(&plan);
    const char *stale = "[actor.policy]\nkind = 'policy'\n"
                        "[stage.prompts]\nkind = 'loader'\nfiles = ['/dev/null']\nrows = 4\n"
                        "[stage.generate]\nactor = 'policy'\ndepends_on = ['prompts']\nsamples = 8\nstaleness = 1\n"
                        "[stage.reward]\nkind = 'rule-reward'\ndepends_on = ['generate']\n"
                        "[stage.advantage]\nkind = 'advantage'\ndepends_on = ['reward']\n"
                        "[stage.update]\nactor = 'policy'\ndepends_on = ['advantage']\nlr = 1e-4\n" RUN;
    const char *back[] = { "stage.generate.staleness = 0\n", "unset = ['stage.generate.staleness']\n" };
    for (int i = 0; i < 2; i++) {
        plan = s_changed(stale, back[i]);
        cr_assert(!s_actor_named(plan, "policy.generate"));
        verl_plan_destroy(&plan);
    }
}

// What follows from another stage in the topology follows from it after a change, too.
Test(change, a_stage_works_on_the_batches_of_those_before_it_again)
{
    const char *thin = RUN SOURCE "[stage.mid]\nkind = 'synthetic'\ndepends_on = ['src']\nevery = 2\nbegin = 4\n"
                       "[stage.end]\nkind = 'keeper'\ndepends_on = ['mid']\ntimeout = 7\n";
    verl_plan_t *plan = s_changed(thin, "stage.mid.every = 1\nunset = ['stage.mid.begin']\n");
    cr_assert_eq(s_stage(plan, "end")->span.period, 1);
    cr_assert_eq(s_stage(plan, "end")->span.begin, 0);
    verl_plan_destroy(&plan);
    plan = s_changed(thin, "stage.end.every = 3\nactor.end.timeout = 8\n");
    cr_assert_eq(s_stage(plan, "end")->span.period, 6);
    cr_assert_eq(s_stage(plan, "end")->span.begin, 4);
    cr_assert_eq(s_stage(plan, "end")->timeout, 8);
    verl_plan_destroy(&plan);
}

Test(change, mistakes_are_told_where_the_change_was_written)
{
    s_wrong("[stage.mid]\nbussy_ms = 7\n", "change:2:", "did you mean `busy_ms`");
    s_wrong("[stage.mid]\nbusy_ms = -7\n", "change:2:", "`busy_ms`");
    s_wrong("[stage.mid]\nkind = 'synthetik'\n", "change:2:", "synthetic");
    s_wrong("[stage.mod]\nbusy_ms = 7\n", "change:1:", "did you mean `mid`");
    s_wrong("unset = ['stage.mod']\n", "change:1:", "there is no `stage.mod`");
    s_wrong("unset = 'stage.mid'\n", "change:1:", "an array of names");
    s_wrong("[stage.mid]\nevery = 'x'\n", "change:2:", "every");
}

Test(change, what_a_stage_is_said_to_do_replaces_the_function_that_it_had)
{
    const char *base = RUN SOURCE "[actor.judge]\nkind = 'script'\n"
                                  "[stage.a]\nactor = 'judge'\ndoes = 'score'\ndepends_on = ['src']\n"
                                  "[stage.b]\nkind = 'script'\ndoes = 'score'\ndepends_on = ['src']\nas = 'b_'\n";
    verl_plan_t *plan = s_changed(base, "stage.a.does = 'style'\nstage.b.does = 'style'\n");
    cr_assert_str_eq(verl_value_get(&s_stage(plan, "a")->options, "function")->string, "style");
    cr_assert_str_eq(verl_value_get(&s_stage(plan, "b")->options, "function")->string, "style");
    verl_plan_destroy(&plan);
    plan = s_changed(base, "unset = ['stage.a.function']\n");
    cr_assert_null(verl_value_get(&s_stage(plan, "a")->options, "function"));
    verl_plan_destroy(&plan);
}

#define ROLES RUN "[mesh]\nactor = 'cpu:0'\nidle = 'cpu'\n" SOURCE "mesh = 'actor'\n"

Test(change, a_stage_may_name_a_role_of_the_running_topology)
{
    verl_plan_t *plan = s_changed(ROLES, "[stage.more]\nkind = 'synthetic'\nmesh = 'actor'\ndepends_on = ['src']\n");
    cr_assert_str_eq(s_actor_named(plan, "more")->devices, "cpu:0");
    verl_plan_destroy(&plan);
}

Test(change, a_role_takes_its_actors_along)
{
    verl_plan_t *plan = s_changed(ROLES, "mesh.actor = 'cpu:1'\n");
    cr_assert_str_eq(s_actor_named(plan, "src")->devices, "cpu:1");
    verl_plan_destroy(&plan);
}

Test(change, a_run_that_lives_does_not_look_at_the_environment_again)
{
    setenv("VERL_ACTOR_GPUS", "cpu:1", 1);
    verl_plan_t *plan = s_changed(ROLES, "mesh.actor = 'cpu'\n");
    cr_assert_str_eq(s_actor_named(plan, "src")->devices, "cpu");
    verl_plan_destroy(&plan);
}

Test(change, a_run_is_told_what_it_cannot_change_with_all_other_mistakes)
{
    verl_topology_errors_t errors;
    cr_assert(!s_change(BASE, "[run]\nsteps = 20\nseed = 0\ndrain_timeout = 60\n[stage.mid]\nbussy_ms = 7\n", &errors));
    cr_assert_eq(errors.count, 2);
    cr_assert(strstr(errors.items[0], "change:2:9: [run] steps cannot change from 10 to 20 while the run lives"));
    verl_topology_errors_done(&errors);
}
