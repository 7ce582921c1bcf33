// test_plan.c: what a topology without mistakes becomes: columns and their makers, rows and maps, weights, batches,
// parts, devices, defaults.
#include "helper.h"
#include "runtime/topology/value.h"

Test(columns, come_straight_from_their_maker)
{
    verl_plan_t *plan = s_good(RUN GRPO);
    cr_assert_str_eq(s_maker(plan, "reward", "answer"), "prompts");
    cr_assert_str_eq(s_maker(plan, "reward", "response"), "generate");
    cr_assert_str_eq(s_maker(plan, "advantage", "group"), "generate");
    cr_assert_str_eq(s_maker(plan, "update", "response_ids"), "generate");
    cr_assert_not_null(s_edge(plan, "prompts", "reward", false));
    cr_assert_null(s_edge(plan, "prompts", "update", false));
    verl_plan_destroy(&plan);
    cr_assert_null(plan);
}

Test(columns, optional_and_absent)
{
    verl_plan_t *plan = s_good(RUN GRPO);
    cr_assert_str_eq(s_maker(plan, "generate", "prompt_ids"), "");
    verl_plan_destroy(&plan);
}

Test(columns, the_one_that_depends_on_the_other_wins)
{
    verl_plan_t *plan =
        s_good(RUN SOURCE "[stage.a]\nkind = 'synthetic'\ndepends_on = ['src']\n[stage.r]\nkind = 'recorder'\n"
                          "columns = ['payload', 'id']\ndepends_on = ['src', 'a']\n");
    cr_assert_str_eq(s_maker(plan, "r", "payload"), "a");
    cr_assert_str_eq(s_maker(plan, "r", "id"), "src");
    verl_plan_destroy(&plan);
}

Test(columns, as_and_uses)
{
    verl_plan_t *plan =
        s_good(RUN GRPO "[stage.r2]\nkind = 'rule-reward'\nas = { score = 'other' }\ndepends_on = ['generate']\n"
                        "[stage.f]\nkind = 'filter'\nuses = { score = 'other' }\ndepends_on = ['reward', 'r2']\n");
    cr_assert_str_eq(s_maker(plan, "f", "score"), "r2");
    cr_assert_str_eq(s_need(plan, "f", "score")->column, "other");
    cr_assert_str_eq(s_stage(plan, "r2")->gives_as[0], "other");
    verl_plan_destroy(&plan);
}

Test(columns, prefix)
{
    verl_plan_t *plan = s_good(RUN SOURCE "as = 'x_'\n[stage.r]\nkind = 'recorder'\ncolumns = ['x_payload']\n"
                                          "depends_on = ['src']\n");
    cr_assert_str_eq(s_maker(plan, "r", "x_payload"), "src");
    verl_plan_destroy(&plan);
}

#define AGAIN(MORE)                                                                                                  \
    RUN GRPO "[stage.early]\nkind = 'synthetic'\ndepends_on = ['prompts']\nas = { payload = 'old_logprobs' }\n"    \
             "[stage.again]\nactor = 'policy'\ndoes = 'generate'\ndepends_on = ['prompts', 'early']\nas = 'roll_'\n" MORE

Test(columns, what_is_taken_under_a_new_name_brings_along_what_its_maker_renamed_too)
{
    verl_plan_t *plan = s_good(AGAIN("[stage.p]\nkind = 'pupil'\ndepends_on = ['again']\n"
                                     "uses = { response_ids = 'roll_response_ids' }\n"));
    cr_assert_str_eq(s_maker(plan, "p", "group"), "again");
    cr_assert_str_eq(s_need(plan, "p", "group")->column, "roll_group");
    verl_plan_destroy(&plan);
    // … also where somebody before it gives such a column
    plan = s_good(AGAIN("[stage.first]\nkind = 'synthetic'\ndepends_on = ['prompts']\nas = { payload = 'group' }\n"
                        "[stage.p]\nkind = 'pupil'\ndepends_on = ['again', 'first']\n"
                        "uses = { response_ids = 'roll_response_ids' }\n"));
    cr_assert_str_eq(s_need(plan, "p", "group")->column, "roll_group");
    verl_plan_destroy(&plan);
}

Test(columns, what_is_said_of_a_column_or_made_anew_behind_it_comes_before_what_goes_with_another)
{
    verl_plan_t *plan = s_good(AGAIN("[stage.first]\nkind = 'synthetic'\ndepends_on = ['prompts']\nas = { payload = 'group' }\n"
                                     "[stage.p]\nkind = 'pupil'\ndepends_on = ['again', 'first']\n"
                                     "uses = { response_ids = 'roll_response_ids', group = 'group' }\n"));
    cr_assert_str_eq(s_maker(plan, "p", "group"), "first");
    verl_plan_destroy(&plan);
    plan = s_good(AGAIN("[stage.last]\nkind = 'synthetic'\ndepends_on = ['again']\nas = { payload = 'group' }\n"
                        "[stage.p]\nkind = 'pupil'\ndepends_on = ['again', 'last']\n"
                        "uses = { response_ids = 'roll_response_ids' }\n"));
    cr_assert_str_eq(s_maker(plan, "p", "group"), "last");
    verl_plan_destroy(&plan);
}

Test(columns, of_other_responses_are_not_taken)
{
    verl_plan_t *plan = s_good(AGAIN("[stage.p]\nkind = 'pupil'\ndepends_on = ['again', 'early']\n"
                                     "uses = { response_ids = 'roll_response_ids' }\n"));
    cr_assert_str_eq(s_maker(plan, "p", "old_logprobs"), "");
    verl_plan_destroy(&plan);
    plan = s_good(AGAIN("[stage.late]\nkind = 'synthetic'\ndepends_on = ['again']\nas = { payload = 'old_logprobs' }\n"
                        "[stage.p]\nkind = 'pupil'\ndepends_on = ['again', 'early', 'late']\n"
                        "uses = { response_ids = 'roll_response_ids' }\n"));
    cr_assert_str_eq(s_maker(plan, "p", "old_logprobs"), "late");
    verl_plan_destroy(&plan);
}

Test(columns, listed_by_weights)
{
    verl_plan_t *plan =
        s_good(RUN GRPO "[stage.r2]\nkind = 'rule-reward'\nas = { score = 'b' }\ndepends_on = ['generate']\n"
                        "[stage.a2]\nkind = 'advantage'\nscores = { score = 1, b = 0.5 }\nas = 'x_'\n"
                        "depends_on = ['reward', 'r2']\n");
    cr_assert_str_eq(s_maker(plan, "a2", "score"), "reward");
    cr_assert_str_eq(s_maker(plan, "a2", "b"), "r2");
    verl_plan_destroy(&plan);
}

Test(columns, needed_only_where_an_option_says_so)
{
    verl_plan_t *plan =
        s_good(RUN "[actor.policy]\nkind = 'policy'\n[stage.prompts]\nkind = 'loader'\nfiles = ['/dev/null']\n"
                   "[stage.generate]\nactor = 'policy'\ndepends_on = ['prompts']\n[stage.reward]\n"
                   "kind = 'rule-reward'\ndepends_on = ['generate']\n[stage.advantage]\nkind = 'advantage'\n"
                   "depends_on = ['reward']\n[stage.ref]\nkind = 'policy'\ndoes = 'logprobs'\nas = 'ref_'\n"
                   "depends_on = ['generate']\n[stage.update]\nactor = 'policy'\nkl_coef = 0.1\n"
                   "depends_on = ['advantage', 'ref']\n");
    cr_assert_str_eq(s_maker(plan, "update", "ref_logprobs"), "ref");
    verl_plan_destroy(&plan);
}

Test(columns, width_from_an_option)
{
    verl_plan_t *plan = s_good(RUN SOURCE "bytes = 5\n");
    cr_assert_str_eq(s_stage(plan, "src")->gives_type[0], "u8[n,5]");
    verl_plan_destroy(&plan);
}

Test(order, makers_stand_before_readers)
{
    verl_plan_t *plan = s_good(RUN "[stage.z]\nkind = 'synthetic'\ndepends_on = ['y']\n[stage.y]\nkind = 'synthetic'\n"
                                   "depends_on = ['x']\n[stage.x]\nkind = 'synthetic'\n");
    cr_assert_str_eq(plan->stages[0].name, "x");
    for (int e = 0; e < plan->edges_count; e++)
        cr_assert_lt(plan->edges[e].maker, plan->edges[e].reader);
    cr_assert_str_eq(plan->stages[plan->stages[2].depends[0]].name, "y");
    verl_plan_destroy(&plan);
}

Test(order, dependency_without_a_column_has_an_edge)
{
    verl_plan_t *plan = s_good(RUN SOURCE "[stage.m]\nkind = 'synthetic'\ndepends_on = ['src']\n");
    const verl_plan_edge_t *edge = s_edge(plan, "src", "m", false);
    cr_assert_not_null(edge);
    cr_assert_eq(edge->columns_count, 0);
    cr_assert_eq(s_stage(plan, "m")->in_count, 1);
    cr_assert_eq(s_stage(plan, "src")->out_count, 1);
    verl_plan_destroy(&plan);
}

Test(rows, sources_and_their_readers)
{
    verl_plan_t *plan = s_good(RUN GRPO);
    cr_assert_eq(s_stage(plan, "prompts")->rows_of, s_stage_index(plan, "prompts"));
    cr_assert_eq(s_stage(plan, "generate")->rows_of, s_stage_index(plan, "prompts"));
    cr_assert_eq(s_stage(plan, "reward")->rows_of, s_stage_index(plan, "generate"));
    cr_assert_eq(s_stage(plan, "update")->rows_of, s_stage_index(plan, "generate"));
    verl_plan_destroy(&plan);
}

Test(rows, older_columns_are_read_through_a_map)
{
    verl_plan_t *plan = s_good(RUN GRPO);
    const verl_plan_need_t *need = s_need(plan, "reward", "answer");
    cr_assert_eq(need->maps, 1);
    cr_assert_eq(plan->edges[need->map_edges[0]].maker, s_stage_index(plan, "generate"));
    cr_assert(plan->edges[need->map_edges[0]].map);
    cr_assert_eq(s_need(plan, "reward", "response")->maps, 0);
    verl_plan_destroy(&plan);
}

Test(rows, a_chain_of_maps_gets_edges_that_carry_nothing_else)
{
    verl_plan_t *plan =
        s_good(RUN GRPO "[stage.f]\nkind = 'filter'\ndepends_on = ['reward']\n[stage.r]\nkind = 'recorder'\n"
                        "columns = ['prompt']\ndepends_on = ['f']\n");
    const verl_plan_need_t *need = s_need(plan, "r", "prompt");
    cr_assert_eq(need->maps, 2);
    cr_assert_eq(plan->edges[need->map_edges[0]].maker, s_stage_index(plan, "f"));
    cr_assert_eq(plan->edges[need->map_edges[1]].maker, s_stage_index(plan, "generate"));
    cr_assert_eq(s_edge(plan, "generate", "r", false)->columns_count, 0);
    verl_plan_destroy(&plan);
}

Test(rows, a_dependency_on_another_lineage_is_only_waited_for)
{
    verl_plan_t *plan = s_good(RUN GRPO SOURCE "[stage.r]\nkind = 'recorder'\ncolumns = ['score']\n"
                                               "depends_on = ['src', 'reward']\n");
    cr_assert_eq(s_stage(plan, "r")->rows_of, s_stage_index(plan, "generate"));
    cr_assert_not_null(s_edge(plan, "src", "r", false));
    verl_plan_destroy(&plan);
}

Test(rows, joining_sources_without_a_need_takes_the_first)
{
    verl_plan_t *plan = s_good(RUN "[stage.a]\nkind = 'synthetic'\n[stage.b]\nkind = 'synthetic'\n[stage.j]\n"
                                   "kind = 'synthetic'\ndepends_on = ['b', 'a']\n");
    cr_assert_eq(s_stage(plan, "j")->rows_of, s_stage_index(plan, "b"));
    verl_plan_destroy(&plan);
}

Test(weights, in_place_by_default)
{
    verl_plan_t *plan = s_good(RUN GRPO);
    cr_assert_eq(s_stage(plan, "generate")->weights_edge, -1);
    cr_assert_eq(s_stage(plan, "generate")->actor, s_stage(plan, "update")->actor);
    verl_plan_destroy(&plan);
}

Test(weights, staleness_gives_an_actor_of_its_own)
{
    verl_topology_errors_t errors;
    verl_plan_t *plan = s_load(RUN GRPO, "stage.generate.staleness=2", &errors);
    cr_assert_not_null(plan);
    const verl_plan_stage_t *generate = s_stage(plan, "generate");
    const verl_plan_actor_t *actor = &plan->actors[generate->actor];
    cr_assert_str_eq(actor->name, "policy.generate");
    cr_assert_str_eq(actor->kind_name, "policy");
    cr_assert_eq(actor->options.count, 1);
    const verl_plan_edge_t *edge = &plan->edges[generate->weights_edge];
    cr_assert(edge->weights);
    cr_assert_eq(edge->staleness, 2);
    cr_assert_eq(edge->maker, s_stage_index(plan, "update"));
    cr_assert_eq(edge->reader, s_stage_index(plan, "generate"));
    verl_plan_destroy(&plan);
}

Test(weights, an_actor_of_its_own_may_have_its_own_keys)
{
    verl_plan_t *plan = s_good(RUN GRPO "[stage.l]\nactor = 'policy'\ndoes = 'logprobs'\nstaleness = 1\nreplicas = 3\n"
                                        "place = 'thread'\ndepends_on = ['generate']\n");
    const verl_plan_actor_t *actor = &plan->actors[s_stage(plan, "l")->actor];
    cr_assert_str_eq(actor->name, "policy.l");
    cr_assert_eq(actor->replicas, 3);
    cr_assert_eq(actor->place, VERL_PLACE_THREAD);
    cr_assert_eq(plan->actors[s_stage(plan, "update")->actor].replicas, 1);
    verl_plan_destroy(&plan);
}

Test(weights, of_another_actor_with_staleness_zero)
{
    verl_plan_t *plan = s_good(RUN GRPO "[stage.l]\nkind = 'policy'\ndoes = 'logprobs'\nweights = 'update'\n"
                                        "depends_on = ['generate']\n");
    const verl_plan_edge_t *edge = &plan->edges[s_stage(plan, "l")->weights_edge];
    cr_assert_eq(edge->staleness, 0);
    cr_assert_str_eq(plan->actors[s_stage(plan, "l")->actor].name, "l");
    verl_plan_destroy(&plan);
}

Test(weights, staleness_of_one_stage_leaves_no_cycle)
{
    verl_plan_t *plan = s_good(RUN GRPO "[stage.logprobs]\nactor = 'policy'\nstaleness = 1\n"
                                        "depends_on = ['update', 'generate']\n");
    cr_assert_geq(s_stage(plan, "logprobs")->weights_edge, 0);
    verl_plan_destroy(&plan);
}

Test(weights, a_reference_keeps_what_it_began_with_and_may_be_replicated)
{
    verl_plan_t *plan = s_good(RUN GRPO "[stage.ref]\nkind = 'policy'\ndoes = 'logprobs'\nreplicas = 2\n"
                                        "depends_on = ['generate']\n");
    cr_assert_eq(s_stage(plan, "ref")->weights_edge, -1);
    verl_plan_destroy(&plan);
}

Test(versions, the_last_update_before)
{
    verl_plan_t *plan = s_good(RUN GRPO);
    int update = s_stage_index(plan, "update");
    cr_assert_eq(verl_plan_version(plan, update, 0, 0), -1);
    cr_assert_eq(verl_plan_version(plan, update, 0, 1), 0);
    cr_assert_eq(verl_plan_version(plan, update, 2, 2), -1);
    cr_assert_eq(verl_plan_version(plan, update, 2, 5), 2);
    cr_assert_eq(verl_plan_version(plan, update, 0, 10), 9);
    verl_plan_destroy(&plan);
}

Test(spans, of_a_held_out_set)
{
    verl_plan_t *plan =
        s_good(RUN SOURCE "every = 4\n[stage.m]\nkind = 'synthetic'\ndepends_on = ['src']\n[stage.train]\n"
                          "kind = 'synthetic'\n");
    verl_span_t span = s_stage(plan, "m")->span;
    cr_assert_eq(span.period, 4);
    cr_assert(span.closing);
    cr_assert(!s_stage(plan, "train")->span.closing);
    int64_t expected[] = { 0, 4, 8, 10, -1 }, k = -1;
    for (int i = 0; i < 5; i++)
        cr_assert_eq(k = verl_span_next(&span, plan->steps, k), expected[i]);
    cr_assert_eq(verl_plan_last(plan), 10);
    verl_plan_destroy(&plan);
}

Test(spans, meet_where_all_dependencies_do)
{
    verl_plan_t *plan =
        s_good("[run]\nsteps = 100\n" SOURCE "every = 4\n[stage.b]\nkind = 'synthetic'\nevery = 6\nbegin = 5\n"
               "[stage.m]\nkind = 'synthetic'\ndepends_on = ['src', 'b']\nevery = 5\n");
    verl_span_t span = s_stage(plan, "m")->span;
    cr_assert_eq(span.period, 60);
    cr_assert_eq(span.begin, 5);
    cr_assert(span.closing);
    cr_assert_eq(verl_span_next(&span, 100, -1), 60);
    verl_plan_destroy(&plan);
}

Test(spans, thinned_without_closing)
{
    verl_plan_t *plan = s_good(RUN SOURCE "[stage.m]\nkind = 'synthetic'\ndepends_on = ['src']\nevery = 5\n");
    cr_assert(!s_stage(plan, "m")->span.closing);
    cr_assert_eq(verl_plan_last(plan), 9);
    verl_plan_destroy(&plan);
}

Test(spans, next_previous_and_ordinal_agree)
{
    const verl_span_t spans[] = { { 1, 0, false }, { 3, 0, true }, { 4, 5, false }, { 7, 100, true }, { 5, 5, true } };
    for (size_t s = 0; s < sizeof spans / sizeof *spans; s++) {
        int64_t ordinal = 0, before = -1;
        for (int64_t k = 0; k <= 22; k++) {
            cr_assert_eq(verl_span_ordinal(&spans[s], 20, k), ordinal);
            cr_assert_eq(verl_span_previous(&spans[s], 20, k), before);
            if (!verl_span_has(&spans[s], 20, k))
                continue;
            cr_assert_eq(verl_span_next(&spans[s], 20, before), k);
            cr_assert_eq(verl_span_next(&spans[s], 20, k - 1), k);
            before = k;
            ordinal++;
        }
        cr_assert_eq(verl_span_next(&spans[s], 20, before), -1);
    }
}

Test(steps, a_source_that_ends_ends_the_run)
{
    verl_plan_t *plan = s_good("[run]\nsteps = 1000\n[stage.l]\nkind = 'loader'\nfiles = ['/dev/null']\nepochs = 2\n");
    cr_assert_eq(plan->steps, 20);
    verl_plan_destroy(&plan);
}

Test(steps, may_be_absent_where_a_source_ends)
{
    verl_plan_t *plan = s_good("[stage.l]\nkind = 'loader'\nfiles = ['/dev/null']\nepochs = 3\n");
    cr_assert_eq(plan->steps, 30);
    cr_assert_str_eq(plan->name, "t");
    verl_plan_destroy(&plan);
}

Test(steps, a_thinned_source_lasts_longer)
{
    verl_plan_t *plan =
        s_good("[run]\nsteps = 1000\n[stage.l]\nkind = 'loader'\nfiles = ['/dev/null']\nepochs = 1\nevery = 5\n");
    cr_assert_eq(plan->steps, 45);
    const verl_span_t *span = &plan->stages[0].span;
    cr_assert_eq(verl_span_ordinal(span, plan->steps, plan->steps + 1), 10);
    verl_plan_destroy(&plan);
}

Test(parts, are_cut_once_and_followed_by_row)
{
    verl_topology_errors_t errors;
    verl_plan_t *plan = s_load(RUN GRPO, "stage.generate.parts=4", &errors);
    cr_assert_not_null(plan);
    int generate = s_stage_index(plan, "generate");
    cr_assert_eq(s_stage(plan, "generate")->parts, 4);
    cr_assert_eq(s_stage(plan, "generate")->parts_of, generate);
    cr_assert(!s_stage(plan, "generate")->by_part);
    cr_assert(s_stage(plan, "reward")->by_part);
    cr_assert_eq(s_stage(plan, "reward")->parts_of, generate);
    cr_assert(!s_stage(plan, "advantage")->by_part);
    cr_assert_eq(s_stage(plan, "advantage")->parts_of, -1);
    verl_plan_destroy(&plan);
}

Test(replicas, take_batches_in_turn)
{
    verl_plan_t *plan = s_good(RUN SOURCE "every = 2\nreplicas = 3\n");
    const int64_t expected[][2] = { { 0, 0 }, { 2, 1 }, { 4, 2 }, { 6, 0 } };
    for (int i = 0; i < 4; i++)
        cr_assert_eq(verl_plan_replica(plan, 0, expected[i][0]), expected[i][1]);
    verl_plan_destroy(&plan);
}

Test(in_flight, keeps_every_stage_busy)
{
    verl_plan_t *plan = s_good(RUN SOURCE);
    cr_assert_eq(plan->max_in_flight, 2);
    verl_plan_destroy(&plan);
    plan = s_good(RUN SOURCE "[stage.m]\nkind = 'synthetic'\nreplicas = 4\ndepends_on = ['src']\n");
    cr_assert_eq(plan->max_in_flight, 10);
    verl_plan_destroy(&plan);
    plan = s_good("[run]\nsteps = 3\nmax_in_flight = 1\n" SOURCE);
    cr_assert_eq(plan->max_in_flight, 1);
    verl_plan_destroy(&plan);
}

Test(devices, roles_and_environment)
{
    setenv("VERL_MY_ROLE_GPUS", "cpu:0", 1);
    verl_plan_t *plan =
        s_good(RUN "[mesh]\nmy-role = 'cuda:900'\nother = 'cpu'\n" SOURCE "mesh = 'my-role'\n[stage.b]\n"
                   "kind = 'synthetic'\nmesh = 'other'\n[stage.c]\nkind = 'synthetic'\nmesh = 'cpu:0'\n");
    cr_assert_str_eq(plan->actors[s_stage(plan, "src")->actor].devices, "cpu:0");
    cr_assert_str_eq(plan->actors[s_stage(plan, "b")->actor].devices, "cpu");
    cr_assert_str_eq(plan->actors[s_stage(plan, "c")->actor].devices, "cpu:0");
    verl_plan_destroy(&plan);
}

Test(actors, keys_and_defaults)
{
    verl_plan_t *plan = s_good(RUN SOURCE "timeout = 7\non_failure = 'stop'\n[stage.b]\nkind = 'synthetic'\n");
    const verl_plan_actor_t *actor = &plan->actors[s_stage(plan, "src")->actor];
    cr_assert_float_eq(actor->timeout, 7, 0);
    cr_assert_float_eq(s_stage(plan, "src")->timeout, 7, 0);
    cr_assert_eq(actor->on_failure, VERL_ON_FAILURE_STOP);
    actor = &plan->actors[s_stage(plan, "b")->actor];
    cr_assert_float_eq(actor->timeout, 1800, 0);
    cr_assert_float_eq(actor->liveness, 5, 0);
    cr_assert_eq(actor->place, VERL_PLACE_PROCESS);
    verl_plan_destroy(&plan);
}

Test(actors, a_stage_may_run_in_the_actor_of_another)
{
    verl_plan_t *plan = s_good(RUN SOURCE "[stage.b]\nactor = 'src'\ntimeout = 3\ndepends_on = ['src']\n");
    cr_assert_eq(s_stage(plan, "b")->actor, s_stage(plan, "src")->actor);
    cr_assert_eq(plan->actors_count, 1);
    cr_assert_float_eq(s_stage(plan, "b")->timeout, 3, 0);
    cr_assert_float_eq(s_stage(plan, "src")->timeout, 1800, 0);
    verl_plan_destroy(&plan);
}

Test(sets, override_and_add)
{
    s_register();
    static const char *const sets[] = { "run.steps=7", "stage.src.busy_ms=2.5", "run.name=bare-word",
                                        "stage.new.kind=synthetic" };
    verl_topology_errors_t errors;
    verl_plan_t *plan = verl_topology_load_text(RUN SOURCE, strlen(RUN SOURCE), "t.toml", sets, 4, &errors);
    s_print(&errors);
    cr_assert_not_null(plan);
    cr_assert_eq(plan->steps, 7);
    cr_assert_str_eq(plan->name, "bare-word");
    cr_assert_eq(plan->stages_count, 2);
    verl_plan_destroy(&plan);
}

Test(sets, an_inline_table_replaces_and_a_dotted_key_adds)
{
    verl_topology_errors_t errors;
    const char *text = RUN SOURCE "as = { payload = 'p', id = 'i' }\n";
    verl_plan_t *plan = s_load(text, "stage.src.as={ payload = 'q' }", &errors);
    cr_assert_str_eq(plan->stages[0].gives_as[0], "q");
    cr_assert_str_eq(plan->stages[0].gives_as[1], "id");
    verl_plan_destroy(&plan);
    plan = s_load(text, "stage.src.as.payload=q", &errors);
    cr_assert_str_eq(plan->stages[0].gives_as[0], "q");
    cr_assert_str_eq(plan->stages[0].gives_as[1], "i");
    verl_plan_destroy(&plan);
}

Test(change, merges_a_fragment_and_takes_away)
{
    s_register();
    const char *text = RUN SOURCE "busy_ms = 3\n[stage.b]\nkind = 'synthetic'\ndepends_on = ['src']\n";
    const char *fragment =
        "unset = ['stage.b', 'stage.src.busy_ms']\n[stage.c]\nkind = 'synthetic'\ndepends_on = ['src']\n";
    verl_topology_errors_t errors;
    verl_plan_t *plan =
        verl_topology_load_change(text, strlen(text), "t.toml", fragment, strlen(fragment), "f.toml", &errors);
    s_print(&errors);
    cr_assert_not_null(plan);
    cr_assert_eq(plan->stages_count, 2);
    cr_assert_str_eq(plan->stages[1].name, "c");
    verl_plan_destroy(&plan);
    fragment = "unset = ['stage.x']\n[stage.src]\nbusy_ms = -1\n";
    plan = verl_topology_load_change(text, strlen(text), "t.toml", fragment, strlen(fragment), "f.toml", &errors);
    cr_assert_null(plan);
    cr_assert_eq(errors.count, 2);
    cr_assert(strncmp(errors.items[0], "f.toml:1:", 9) == 0);
    cr_assert(strncmp(errors.items[1], "f.toml:3:", 9) == 0);
    verl_topology_errors_done(&errors);
}

Test(plan, a_stage_does_a_function_of_its_kind)
{
    verl_plan_t *plan = s_good(RUN SOURCE "[actor.judge]\nkind = 'script'\n"
                                          "[stage.score]\nactor = 'judge'\ndepends_on = ['src']\n"
                                          "[stage.style]\nactor = 'judge'\ndoes = 'score'\ndepends_on = ['src']\n"
                                          "[stage.plain]\nactor = 'judge'\ndoes = 'call'\ndepends_on = ['src']\n");
    const verl_value_t *function = verl_value_get(&s_stage(plan, "style")->options, "function");
    cr_assert(function);
    cr_assert_str_eq(function->string, "score");
    cr_assert_str_eq(s_stage(plan, "style")->does, "call");
    cr_assert_null(verl_value_get(&s_stage(plan, "plain")->options, "function"));
    verl_plan_destroy(&plan);
}

Test(plan, a_column_may_be_called_whatever_a_field_of_a_record_is)
{
    verl_plan_t *plan = s_good(RUN SOURCE "as = { payload = 'a b: é' }\n[stage.r]\nkind = 'recorder'\n"
                                          "columns = ['x']\nuses = { x = 'a b: é' }\ndepends_on = ['src']\n");
    cr_assert_str_eq(s_maker(plan, "r", "x"), "src");
    verl_plan_destroy(&plan);
}

Test(plan, rows_that_nobody_can_know_before_may_be_divided_by_anything)
{
    verl_plan_t *plan = s_good(RUN GRPO "mini_batch = 16\n");
    verl_plan_destroy(&plan);
    plan = s_good(RUN "[actor.policy]\nkind = 'policy'\n"
                      "[stage.prompts]\nkind = 'loader'\nfiles = ['/dev/null']\nrows = 4\n"
                      "[stage.generate]\nactor = 'policy'\ndepends_on = ['prompts']\nsamples = 8\n"
                      "[stage.reward]\nkind = 'rule-reward'\ndepends_on = ['generate']\n"
                      "[stage.filter]\nkind = 'filter'\ndepends_on = ['reward']\n"
                      "[stage.advantage]\nkind = 'advantage'\ndepends_on = ['filter']\n"
                      "[stage.update]\nactor = 'policy'\ndepends_on = ['advantage']\nmini_batch = 5\n");
    verl_plan_destroy(&plan);
}

Test(plan, the_environment_counts_when_a_run_begins_and_may_have_blanks)
{
    const char *text = RUN "[mesh]\nactor = 'cpu'\n" SOURCE "mesh = 'actor'\n";
    setenv("VERL_ACTOR_GPUS", "cpu: 0 , 1", 1);
    verl_plan_t *plan = s_good(text);
    cr_assert_str_eq(plan->actors[0].devices, "cpu:0-1");
    verl_plan_destroy(&plan);
}
