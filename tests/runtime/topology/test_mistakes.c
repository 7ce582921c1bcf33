// test_mistakes.c: every kind of mistake in a topology, one a test: where it is reported, and in which words; and that
// it is the only thing that is reported.
#include "helper.h"

Test(syntax, value_missing)
{
    s_one_mistake("[run]\nsteps = = 1\n" SOURCE, "t.toml:2:", "TOML");
}
Test(syntax, key_twice)
{
    s_one_mistake("[run]\nsteps = 1\n steps  =  2\n" SOURCE, "t.toml:3:2:", "steps");
    s_one_mistake("[run]\nsteps = 1\n[mesh]\na = { b = 1, c.d=2, b = 3 }\n" SOURCE, "t.toml:4:21:", "'b'");
}
Test(syntax, no_bytes)
{
    s_one_mistake("", "t.toml:1:1:", "0 stages");
}
Test(syntax, zero_byte_in_string)
{
    s_one_mistake("[run]\nname = \"a\\u0000b\"\n", "t.toml:2:8: a string", "zero byte");
    s_one_mistake("[run]\n\"a\\u0000b\" = 1\n", "t.toml:2:1: a string", "zero byte");
}

Test(sections, unknown)
{
    s_one_mistake(RUN "[stages]\n" SOURCE, "t.toml:3:", "did you mean `stage`");
}
Test(sections, of_another_system)
{
    s_one_mistake(RUN "[data]\ntrain_batch_size = 8\n" SOURCE, "t.toml:4:1:",
                  "`data.train_batch_size` is the name that verl has|here it is `rows` in a stage of kind `loader`");
    s_one_mistake("trainer.save_freq = 5\n" RUN SOURCE, "t.toml:1:9:", "here it is `save_every` in [run]");
    s_one_mistake(RUN "[actor_rollout_ref.rollout]\nn = 8\n" SOURCE,
                  "t.toml:4:1:", "here it is `samples` in a stage that does `generate` of kind `policy`");
}
Test(sections, of_another_system_in_part)
{
    s_one_mistake(RUN "[trainer]\nlogger = 'x'\n" SOURCE, "t.toml:3:", "there is no section `trainer`");
}
Test(sections, stages_that_are_no_table)
{
    s_one_mistake_set(RUN SOURCE, "stage=3", "--set stage=3: ", "`stage` is an integer");
}
Test(sections, not_a_table)
{
    s_one_mistake("mesh = 3\n" RUN SOURCE, "t.toml:1:1:", "`mesh`|table");
}
Test(sections, no_stage)
{
    s_one_mistake(RUN, "t.toml:1:1:", "0 stages");
}

Test(run, wrong_type)
{
    s_one_mistake("[run]\nsteps = 'three'\n" SOURCE, "t.toml:2:", "`steps`|an integer");
}
Test(run, real_for_integer)
{
    s_one_mistake("[run]\nsteps = 3.0\n" SOURCE, "t.toml:2:", "`steps`|written 3");
}
Test(run, range)
{
    s_one_mistake("[run]\nsteps = 0\n" SOURCE, "t.toml:2:", "is 0 batches|from 1");
}
Test(run, not_a_number)
{
    s_one_mistake(RUN "drain_timeout = nan\n" SOURCE, "t.toml:3:", "from 0");
    s_one_mistake(RUN "script = 'no such.lua'\n" SOURCE, "t.toml:3:", "not there");
}
Test(run, unknown_key)
{
    s_one_mistake(RUN "sede = 1\n" SOURCE, "t.toml:3:1:", "did you mean `seed`");
}
Test(run, key_of_another_system)
{
    s_one_mistake("[run]\nmax_steps = 3\nsteps = 3\n" SOURCE, "t.toml:2:", "trl|`steps`");
}
Test(run, key_of_another_system_that_belongs_elsewhere)
{
    s_one_mistake(RUN "num_generations = 3\n" SOURCE, "t.toml:3:1:",
                  "trl has for it: here it is `samples` in a stage that does `generate` of kind `policy`");
    s_one_mistake(RUN "data.train_batch_size = 3\n" SOURCE,
                  "t.toml:3:6:", "here it is `rows` in a stage of kind `loader`");
}
Test(run, part_of_a_key)
{
    s_one_mistake(RUN "save = 1\n" SOURCE, "t.toml:3:", "did you mean `save_every`");
    s_one_mistake(RUN "inflight = 1\n" SOURCE, "t.toml:3:", "did you mean `max_in_flight`");
    s_one_mistake(RUN SOURCE "depends = []\n", "t.toml:5:", "did you mean `depends_on`");
}
Test(run, name_with_slash)
{
    s_one_mistake(RUN "name = 'a/b'\n" SOURCE, "t.toml:3:", "directory");
}
Test(run, no_steps)
{
    s_one_mistake("[run]\nseed = 1\n" SOURCE, "t.toml:1:", "steps");
}
Test(run, date)
{
    s_one_mistake(RUN "seed = 2020-01-01\n" SOURCE, "t.toml:3:", "a date");
}
Test(run, in_flight_zero)
{
    s_one_mistake(RUN "max_in_flight = 0\n" SOURCE, "t.toml:3:", "from 1");
}

Test(mesh, device_not_there)
{
    s_one_mistake(RUN "[mesh]\na = 'cuda:900'\n" SOURCE, "t.toml:4:", "CUDA device");
}
Test(mesh, core_not_there)
{
    s_one_mistake(RUN "[mesh]\na = 'cpu:0-1000'\n" SOURCE, "t.toml:4:", "core|at most");
}
Test(mesh, malformed)
{
    s_one_mistake(RUN "[mesh]\na = 'gpu:x'\n" SOURCE, "t.toml:4:", "no list of devices");
}
Test(mesh, twice_the_same)
{
    s_one_mistake(RUN "[mesh]\na = 'cpu:0,0'\n" SOURCE, "t.toml:4:", "twice");
}
Test(mesh, backwards)
{
    s_one_mistake(RUN "[mesh]\na = 'cpu:1-0'\n" SOURCE, "t.toml:4:", "no list");
}
Test(mesh, empty_array)
{
    s_one_mistake(RUN "[mesh]\na = []\n" SOURCE, "t.toml:4:", "empty array");
}
Test(mesh, wrong_item)
{
    s_one_mistake(RUN "[mesh]\na = ['x']\n" SOURCE, "t.toml:4:", "number of a device");
}
Test(mesh, array_means_cuda)
{
    s_one_mistake(RUN "[mesh]\na = [900]\n" SOURCE, "t.toml:4:", "cuda:900");
}
Test(mesh, unknown_role)
{
    s_one_mistake(RUN "[mesh]\nactor = 'cpu'\n" SOURCE "mesh = 'acter'\n", "t.toml:7:", "did you mean `actor`");
}

Test(mesh, environment_overrides)
{
    setenv("VERL_ACTOR_GPUS", "901", 1);
    s_one_mistake(RUN "[mesh]\nactor = 'cpu'\n" SOURCE, "t.toml:4:", "VERL_ACTOR_GPUS, which the devices|'901'");
}

Test(mesh, a_stage_is_not_told_to_take_an_array)
{
    verl_topology_errors_t errors;
    cr_assert_null(s_load(RUN SOURCE "mesh = 'cpu:x'\n", NULL, &errors));
    cr_assert_eq(errors.count, 1);
    cr_assert_null(strstr(errors.items[0], "[0, 1]"), "%s", errors.items[0]);
    verl_topology_errors_done(&errors);
}

Test(actor, no_kind)
{
    s_one_mistake(RUN "[actor.a]\nreplicas = 1\n[stage.s]\nactor = 'a'\n", "t.toml:3:", "names no kind");
}
Test(actor, unknown_kind)
{
    s_one_mistake(RUN "[actor.a]\nkind = 'polcy'\n[stage.s]\nactor = 'a'\n", "t.toml:4:", "did you mean `policy`");
}
Test(actor, without_stage)
{
    s_one_mistake(RUN SOURCE "[actor.a]\nkind = 'policy'\n", "t.toml:5:", "no stage runs");
}
Test(actor, bad_name)
{
    s_one_mistake(RUN "[actor.'a b']\nkind = 'synthetic'\n[stage.s]\nactor = 'a b'\n", "t.toml:3:", "letters, digits");
}
Test(actor, liveness_above_timeout)
{
    s_one_mistake(RUN SOURCE "timeout = 2\nliveness = 3\n", "t.toml:6:", "liveness");
}

Test(actor, option_of_work)
{
    s_one_mistake(RUN GRPO
                  "[actor.ref]\nkind = 'policy'\nlr = 1\n[stage.logprobs]\nactor = 'ref'\ndepends_on = ['generate']\n",
                  "t.toml:25:", "`lr`|[stage.NAME]");
}

Test(actor, unknown_state_option)
{
    s_one_mistake(RUN GRPO "[actor.a]\nkind = 'rule-reward'\nruel = 'exact'\n[stage.r2]\nactor = 'a'\n"
                           "depends_on = ['generate']\n",
                  "t.toml:25:", "did you mean `rule`");
}

Test(stage, unknown_kind)
{
    s_one_mistake(RUN SOURCE "[stage.m]\nkind = 'synthetik'\nx = 1\n", "t.toml:6:", "did you mean `synthetic`");
}
Test(stage, kind_of_wrong_type)
{
    s_one_mistake(RUN SOURCE "[stage.m]\nkind = 3\n", "t.toml:6:", "`kind`|a string");
}
Test(stage, kind_and_actor)
{
    s_one_mistake(RUN SOURCE "[stage.m]\nactor = 'src'\nkind = 'synthetic'\n", "t.toml:6:", "actor|kind");
}
Test(stage, neither)
{
    s_one_mistake(RUN SOURCE "[stage.m]\nevery = 2\n", "t.toml:5:", "neither a kind nor an actor");
}
Test(stage, not_a_table)
{
    s_one_mistake(RUN SOURCE "[stage]\nm = 3\n", "t.toml:6:", "must be a table");
}
Test(stage, unknown_actor)
{
    s_one_mistake(RUN SOURCE "[stage.m]\nactor = 'scr'\n", "t.toml:6:", "did you mean `src`");
}
Test(stage, unknown_key)
{
    s_one_mistake(RUN SOURCE "busy_mz = 1\n", "t.toml:5:1:", "did you mean `busy_ms`");
}
Test(stage, far_key)
{
    s_one_mistake(RUN SOURCE "zzzzzzzz = 1\n", "t.toml:5:1:", "no key `zzzzzzzz`|--help");
}
Test(stage, out_of_range)
{
    s_one_mistake(RUN SOURCE "busy_ms = -5\n", "t.toml:5:11:", "`busy_ms` is -5 ms|from 0");
}
Test(stage, nan_option)
{
    s_one_mistake(RUN SOURCE "busy_ms = nan\n", "t.toml:5:", "`busy_ms`|from 0");
}
Test(stage, wrong_type)
{
    s_one_mistake(RUN SOURCE "rows = [1]\n", "t.toml:5:", "`rows`|an array|an integer");
}
Test(stage, bad_name)
{
    s_one_mistake(RUN "[stage.'a.b']\nkind = 'synthetic'\n", "t.toml:3:", "letters, digits");
}
Test(stage, control_character_in_name)
{
    s_one_mistake(RUN "[stage.\"a\\u001b[2J\"]\nkind = 'synthetic'\n", "t.toml:3:", "\\x1b");
}
Test(stage, name_of_an_actor)
{
    s_one_mistake(RUN "[actor.src]\nkind = 'synthetic'\n" SOURCE "[stage.x]\nactor = 'src'\n",
                  "t.toml:6:", "[actor.src]");
}

Test(stage, choice)
{
    s_one_mistake(RUN GRPO "[stage.r]\nkind = 'rule-reward'\nrule = 'exakt'\ndepends_on = ['generate']\n",
                  "t.toml:25:", "\"exact\"|\"contains\"");
}

Test(stage, unknown_does)
{
    s_one_mistake(RUN SOURCE "does = 'wrok'\n", "t.toml:5:", "did you mean `work`");
}
Test(stage, does_and_function_that_differ)
{
    s_one_mistake(RUN SOURCE "[stage.s]\nkind = 'script'\ndoes = 'style'\nfunction = 'score'\ndepends_on = ['src']\n",
                  "t.toml:7:8:", "`does` is \"style\" and `function` is \"score\"");
}
Test(stage, does_not_said)
{
    s_one_mistake(RUN SOURCE "[stage.m]\nkind = 'critic'\n", "t.toml:5:", "\"values\", \"update\"");
}
Test(stage, missing_option)
{
    s_one_mistake(RUN "[stage.l]\nkind = 'loader'\n", "t.toml:3:", "has no `files`");
}
Test(stage, mistyped_required_option)
{
    s_one_mistake(RUN "[stage.l]\nkind = 'loader'\nfile = ['/dev/null']\n", "t.toml:5:", "`files`");
}
Test(stage, string_for_list)
{
    s_one_mistake(RUN SOURCE "[stage.m]\nkind = 'synthetic'\ndepends_on = 'src'\n", "t.toml:7:", "[\"src\"]");
}
Test(stage, missing_file)
{
    s_one_mistake(RUN "[stage.l]\nkind = 'loader'\nfiles = ['no-such.jsonl']\n",
                  "t.toml:5:10:", "no-such.jsonl|/no-such.jsonl");
}
Test(stage, what_the_kind_says)
{
    s_one_mistake(RUN "[stage.l]\nkind = 'loader'\nfiles = []\n", "t.toml:5:", "`files`: no file is named");
}
Test(stage, file_for_a_kind)
{
    s_one_mistake(RUN "[stage.l]\nkind = 'my.script'\n", "t.toml:4:", "kind = \"script\" and file = \"my.script\"");
}
Test(stage, kind_that_its_keys_tell)
{
    s_one_mistake(RUN SOURCE "[stage.r]\ncolumns = ['id']\nfile = 'x'\ndepends_on = ['src']\n",
                  "t.toml:5:", "names neither a kind nor an actor: `kind = \"recorder\"`");
}
Test(stage, shared_object_not_there)
{
    s_one_mistake(RUN "[stage.l]\nkind = 'no-such.so'\n", "t.toml:4:", "no-such.so");
}

Test(stage, key_of_another_system)
{
    s_one_mistake(RUN "[stage.l]\nkind = 'loader'\nfiles = ['/dev/null']\ntrain_batch_size = 3\n",
                  "t.toml:6:", "verl|`rows`");
}

Test(stage, state_option_of_shared_actor)
{
    s_one_mistake(RUN GRPO "model = 'x'\n", "t.toml:23:", "`model`|[actor.policy]");
}

Test(stage, option_of_another_handler)
{
    s_one_mistake(RUN GRPO "samples = 2\n", "t.toml:23:", "`samples`|`generate`");
}

Test(depends, unknown)
{
    s_one_mistake(RUN SOURCE "[stage.m]\nkind = 'synthetic'\ndepends_on = ['scr']\n",
                  "t.toml:7:15:", "did you mean `src`");
}
Test(depends, twice)
{
    s_one_mistake(RUN SOURCE "[stage.m]\nkind = 'synthetic'\ndepends_on = ['src', 'src']\n", "t.toml:7:", "twice");
}
Test(depends, on_itself)
{
    s_one_mistake(RUN SOURCE "depends_on = ['src']\n", "t.toml:5:", "cycle");
}
Test(depends, source_only)
{
    s_one_mistake(RUN SOURCE "[stage.l]\nkind = 'loader'\nfiles = ['/dev/null']\ndepends_on = ['src']\n",
                  "t.toml:8:", "a source");
}

Test(depends, source_within_a_cycle)
{
    s_one_mistake(RUN "[stage.l]\nkind = 'loader'\nfiles = ['/dev/null']\ndepends_on = ['a']\n"
                      "[stage.a]\nkind = 'synthetic'\ndepends_on = ['l']\n",
                  "t.toml:6:", "`l` is a source");
}
Test(depends, cycle_names_its_stages)
{
    s_one_mistake(RUN SOURCE "depends_on = ['b']\n[stage.a]\nkind = 'synthetic'\ndepends_on = ['src']\n"
                             "[stage.b]\nkind = 'synthetic'\ndepends_on = ['a']\n",
                  "t.toml:5:", "`src` waits for `b`|`b` waits for `a`");
}

Test(depends, cycle_through_weights)
{
    s_one_mistake(RUN GRPO "[stage.logprobs]\nactor = 'policy'\ndepends_on = ['update', 'generate']\n",
                  "t.toml:25:", "cycle|`logprobs`|weights that it replaces");
}

Test(depends, two_cycles_are_two_mistakes)
{
    verl_topology_errors_t errors;
    cr_assert_null(s_load(RUN "[stage.a]\nkind = 'synthetic'\ndepends_on = ['b']\n[stage.b]\nkind = 'synthetic'\n"
                              "depends_on = ['a']\n[stage.c]\nkind = 'synthetic'\ndepends_on = ['c']\n",
                          NULL, &errors));
    cr_assert_eq(errors.count, 2);
    verl_topology_errors_done(&errors);
}

Test(columns, of_other_responses)
{
    s_one_mistake(RUN GRPO "[stage.early]\nkind = 'synthetic'\ndepends_on = ['prompts']\nas = { payload = 'marks' }\n"
                           "[stage.again]\nactor = 'policy'\ndoes = 'generate'\ndepends_on = ['early']\nas = 'roll_'\n"
                           "[stage.p]\nkind = 'pupil'\nstrict = true\ndepends_on = ['again', 'early']\n"
                           "uses = { response_ids = 'roll_response_ids' }\n",
                  "t.toml:35:14:", "`p` needs `marks`, and `early` gives it, but before the `roll_response_ids`");
}
Test(columns, missing_that_a_kind_gives)
{
    s_one_mistake(RUN GRPO "[stage.filter]\nkind = 'filter'\ndepends_on = ['prompts']\n",
                  "t.toml:25:", "`filter` needs the column `score`|`reward` gives it");
}

Test(columns, missing_that_no_stage_gives)
{
    s_one_mistake(RUN SOURCE "[stage.f]\nkind = 'filter'\ndepends_on = ['src']\n",
                  "t.toml:7:", "kind `rule-reward` gives it");
}

Test(columns, missing_that_nothing_gives)
{
    s_one_mistake(RUN SOURCE "[stage.r]\nkind = 'recorder'\ncolumns = ['zzzz']\ndepends_on = ['src']\n",
                  "t.toml:7:12:", "zzzz");
}

Test(columns, mistyped_in_a_list)
{
    s_one_mistake(RUN SOURCE "[stage.r]\nkind = 'recorder'\ncolumns = ['paylod']\ndepends_on = ['src']\n",
                  "t.toml:7:", "did you mean `payload`");
}

Test(columns, missing_without_any_dependency)
{
    s_one_mistake(RUN "[stage.v]\nkind = 'critic'\ndoes = 'update'\n", "t.toml:3:", "`values`");
}

Test(columns, need_that_an_option_makes)
{
    s_one_mistake(RUN GRPO "kl_coef = 0.1\n", "t.toml:21:", "`ref_logprobs`");
}

Test(columns, missing_that_a_kind_gives_under_another_name)
{
    s_one_mistake(
        RUN GRPO "kl_coef = 0.1\n", "t.toml:21:",
        "a stage that does `logprobs` of kind `policy`|with `as = { logprobs = \"ref_logprobs\" }`, gives it");
}

Test(columns, missing_that_a_stage_gives_under_its_plain_name)
{
    s_one_mistake_set(RUN GRPO "kl_coef = 0.1\n[actor.b]\nkind = 'policy'\n"
                               "[stage.logprobs]\nactor = 'b'\ndepends_on = ['generate']\n",
                      "stage.update.depends_on=[\"advantage\", \"logprobs\"]", "--set stage.update.depends_on",
                      "`logprobs` gives `logprobs`, so `as = { logprobs = \"ref_logprobs\" }` in [stage.logprobs]");
}

Test(columns, mistyped_in_a_list_that_the_kind_reads_itself)
{
    s_one_mistake(RUN SOURCE "[stage.s]\nkind = 'script'\nreads = ['id', 'paylod']\ndepends_on = ['src']\n",
                  "t.toml:7:16:", "did you mean `payload`");
}

Test(columns, two_makers)
{
    s_one_mistake(RUN GRPO
                  "[stage.reward2]\nkind = 'rule-reward'\ndepends_on = ['generate']\n[stage.f]\nkind = 'filter'\n"
                  "depends_on = ['reward', 'reward2']\n",
                  "t.toml:28:", "`reward`|`reward2`|as = {|uses = {");
}

Test(columns, as_of_nothing_given)
{
    s_one_mistake(RUN SOURCE "as = { paylod = 'x' }\n", "t.toml:5:8:", "did you mean `payload`");
}
Test(columns, as_of_a_wrong_type)
{
    s_one_mistake(RUN SOURCE "as = 3\n", "t.toml:5:", "`as` is an integer");
}
Test(columns, as_one_name_for_two)
{
    s_one_mistake(RUN SOURCE "as = { payload = 'id' }\n", "t.toml:5:", "one name, `id`");
}
Test(columns, as_no_name)
{
    s_one_mistake(RUN SOURCE "as = { payload = \"a\\tb\" }\n", "t.toml:5:", "no name of a column");
    s_one_mistake(RUN SOURCE "as = { payload = '' }\n", "t.toml:5:", "no name of a column");
}
Test(columns, uses_of_nothing_needed)
{
    s_one_mistake(RUN SOURCE "uses = { scroe = 'x' }\n", "t.toml:5:", "needs no column");
}

Test(columns, uses_what_is_not_there)
{
    s_one_mistake(RUN GRPO "[stage.f]\nkind = 'filter'\nuses = { score = 'scroe' }\ndepends_on = ['reward']\n",
                  "t.toml:25:", "did you mean `score`");
}

Test(columns, tokenizers_disagree)
{
    s_one_mistake_set(RUN GRPO, "stage.prompts.tokenizer=other", "t.toml:11:", "'tiny'|'other'|numbers differently");
}

Test(rows, branches_that_share_none)
{
    s_one_mistake(RUN GRPO
                  "[stage.l2]\nkind = 'loader'\nfiles = ['/dev/null']\nas = 'b_'\n[stage.r]\nkind = 'recorder'\n"
                  "columns = ['b_answer', 'response']\ndepends_on = ['l2', 'generate']\n",
                  "t.toml:30:", "`l2`|`generate`|share none");
}

Test(rows, two_filters_of_one_column)
{
    s_one_mistake(
        RUN GRPO
        "[stage.f1]\nkind = 'filter'\ndepends_on = ['reward']\n[stage.f2]\nkind = 'filter'\n"
        "depends_on = ['reward']\n[stage.r]\nkind = 'recorder'\ncolumns = ['answer']\ndepends_on = ['f1', 'f2']\n",
        "t.toml:32:", "`f1`|`f2`|share none");
}

Test(rows, maps_without_rows)
{
    s_one_mistake(RUN "[stage.f]\nkind = 'filter'\n", "t.toml:3:", "depends_on would be right");
}

Test(weights, staleness_without_writer)
{
    s_one_mistake(RUN GRPO "[actor.ref]\nkind = 'policy'\n[stage.logprobs]\nactor = 'ref'\nstaleness = 1\n"
                           "depends_on = ['generate']\n",
                  "t.toml:27:", "no stage of the actor `ref` updates");
}

Test(weights, of_a_stage_without)
{
    s_one_mistake(RUN SOURCE "staleness = 1\n", "t.toml:5:", "works without weights");
}
Test(weights, of_the_writer)
{
    s_one_mistake(RUN GRPO "staleness = 1\n", "t.toml:23:", "updates the weights itself");
}

Test(weights, of_an_unknown_stage)
{
    s_one_mistake_set(RUN GRPO, "stage.generate.weights=updat",
                      "--set stage.generate.weights=updat:", "did you mean `update`");
}

Test(weights, of_a_stage_that_updates_none)
{
    s_one_mistake_set(RUN GRPO, "stage.generate.weights=reward",
                      "--set stage.generate.weights=reward:", "updates no weights");
}

Test(weights, of_another_kind)
{
    s_one_mistake(RUN GRPO "[stage.values]\nkind = 'critic'\nweights = 'update'\ndepends_on = ['generate']\n",
                  "t.toml:25:", "`critic`|`policy`|a kind to itself");
}

Test(weights, not_published_by_the_kind)
{
    s_one_mistake(RUN GRPO
                  "[actor.c]\nkind = 'critic'\n[stage.values]\nactor = 'c'\nstaleness = 1\ndepends_on = ['generate']\n"
                  "[stage.learn]\nactor = 'c'\ndoes = 'update'\ndepends_on = ['values']\n",
                  "t.toml:27:", "does not publish");
}

Test(weights, two_stalenesses_in_one_actor)
{
    s_one_mistake(RUN GRPO "[actor.b]\nkind = 'policy'\n[stage.g2]\nactor = 'b'\ndoes = 'generate'\nas = 'g_'\n"
                           "weights = 'update'\ndepends_on = ['prompts']\n"
                           "[stage.l2]\nactor = 'b'\ndoes = 'logprobs'\ndepends_on = ['generate']\n",
                  "t.toml:29:", "`g2` and `l2`");
}

Test(spans, begin_behind_the_end)
{
    s_one_mistake(RUN SOURCE "begin = 10\n", "t.toml:5:", "works on no batch");
}
Test(spans, every_zero)
{
    s_one_mistake(RUN SOURCE "every = 0\n", "t.toml:5:", "from 1");
}

Test(spans, periods_that_meet_too_late)
{
    s_one_mistake(RUN SOURCE "begin = 1\n[stage.a]\nkind = 'synthetic'\ndepends_on = ['src']\nevery = 3\n[stage.b]\n"
                             "kind = 'synthetic'\ndepends_on = ['src']\nevery = 4\n[stage.m]\nkind = 'synthetic'\n"
                             "depends_on = ['a', 'b']\n",
                  "t.toml:16:", "`m` works on no batch|12");
}

Test(spans, wrong_steps_are_one_mistake_where_a_source_ends)
{
    s_one_mistake("[stage.l]\nkind = 'loader'\nfiles = ['/dev/null']\nepochs = 1\n[run]\nsteps = -1\n",
                  "t.toml:6:", "steps");
}

Test(limits, replicas_of_what_keeps_state)
{
    s_one_mistake(RUN GRPO "[stage.r]\nkind = 'recorder'\ncolumns = ['score']\nreplicas = 2\ndepends_on = ['reward']\n",
                  "t.toml:26:", "keeps state");
}

Test(limits, replicas_of_what_learns)
{
    s_one_mistake_set(RUN GRPO, "actor.policy.replicas=2", "--set actor.policy.replicas=2:", "keeps state");
}

Test(limits, parts_of_a_source)
{
    s_one_mistake(RUN SOURCE "parts = 2\n", "t.toml:5:", "a source");
}
Test(limits, parts_cut_twice)
{
    s_one_mistake(RUN SOURCE "[stage.a]\nkind = 'synthetic'\nparts = 2\ndepends_on = ['src']\n"
                             "[stage.b]\nkind = 'synthetic'\nparts = 2\ndepends_on = ['a']\n",
                  "t.toml:11:", "`a` has cut already");
}

Test(limits, parts_of_rows_that_were_made_of_others)
{
    s_one_mistake_set(RUN GRPO, "stage.reward.parts=3", "--set stage.reward.parts=3:",
                      "`reward` is given rows that `generate` made of others|`parts` in `generate` would be right");
    s_one_mistake(RUN GRPO "[stage.f]\nkind = 'filter'\ndepends_on = ['reward']\n"
                           "[stage.again]\nkind = 'rule-reward'\ndepends_on = ['f']\nas = 'b_'\nparts = 2\n",
                  "t.toml:30:", "`parts` in `generate` would be right");
}

Test(limits, parts_of_whole_batches)
{
    s_one_mistake(RUN GRPO "parts = 2\n", "t.toml:23:", "whole batches");
}

Test(limits, a_mini_batch_that_does_not_divide_a_batch)
{
    s_one_mistake(RUN GRPO "mini_batch = 20\n", "t.toml:23:14:",
                  "is 20, and the 32 rows of a batch (4 of `prompts` × 8 of `generate`) do not divide|16 or 32");
    s_one_mistake(RUN GRPO "mini_batch = 100\n", "t.toml:23:14:", "at a time: 32 would be right");
}

Test(limits, a_batch_that_no_memory_holds)
{
    s_one_mistake(RUN SOURCE "bytes = 4294967296\nrows = 16777216\n"
                             "[stage.r]\nkind = 'recorder'\ncolumns = ['payload']\ndepends_on = ['src']\n",
                  "t.toml:5:9:", "a batch of `src` for `r` is 16777216 rows of 4 GiB, and this machine has|fewer rows");
}

Test(limits, skipping_what_may_have_learned)
{
    s_one_mistake(RUN GRPO "on_error = 'skip'\n", "t.toml:23:12:",
                  "`update` updates weights|changed them already|on_error = \"stop\" would be right");
}

Test(limits, ignore_with_readers)
{
    s_one_mistake(RUN SOURCE "on_failure = 'ignore'\n[stage.m]\nkind = 'synthetic'\ndepends_on = ['src']\n",
                  "t.toml:5:", "`m` depends on `src`");
}

Test(limits, what_cannot_be_kept_is_not_promised)
{
    s_one_mistake(RUN SOURCE "on_failure = 'restart'\nplace = 'thread'\n", "t.toml:5:", "is a thread of verl-run");
}

Test(sets, no_equals)
{
    s_one_mistake_set(RUN SOURCE, "run.steps", "--set run.steps: ", "KEY=VALUE");
}
Test(sets, no_key)
{
    s_one_mistake_set(RUN SOURCE, "=3", "--set =3: ", "KEY=VALUE");
}
Test(sets, malformed_key)
{
    s_one_mistake_set(RUN SOURCE, "a b=3", "--set a b=3: ", "would be right");
}
Test(sets, malformed_value)
{
    s_one_mistake_set(RUN SOURCE, "run.steps=[1", "--set run.steps=[1: ", "would be right");
}
Test(sets, number_that_nothing_holds)
{
    s_one_mistake_set(RUN SOURCE, "run.seed=99999999999999999999", "--set run.seed=99999999999999999999: ", "64 bits");
}
Test(sets, unknown_key)
{
    s_one_mistake_set(RUN SOURCE, "run.stepz=3", "--set run.stepz=3: ", "did you mean `steps`");
}
Test(sets, unknown_stage)
{
    s_one_mistake_set(RUN SOURCE, "stage.scr.rows=3", "--set stage.scr.rows=3: ", "did you mean `src`");
}
Test(sets, bare_word_of_wrong_type)
{
    s_one_mistake_set(RUN SOURCE, "run.steps=many", "--set run.steps=many: ", "\"many\"|an integer");
}
Test(sets, newline)
{
    s_one_mistake_set(RUN SOURCE, "run.steps=1\nseed = 2", "--set run.steps=1?seed", "KEY=VALUE");
}

Test(report, all_at_once_in_the_order_of_the_file)
{
    verl_topology_errors_t errors;
    cr_assert_null(s_load("[run]\nsteps = 0\n[mesh]\na = 'x'\n" SOURCE "busy_mz = 1\n[stage.m]\nkind = 'nope'\n"
                          "depends_on = ['scr']\n[stage.f]\nkind = 'filter'\ndepends_on = ['src']\n",
                          NULL, &errors));
    s_print(&errors);
    static const char *const where[] = { "t.toml:2:", "t.toml:4:", "t.toml:7:", "t.toml:9:", "t.toml:10:" };
    cr_assert_eq(errors.count, 5);
    for (int i = 0; i < 5; i++)
        cr_assert(strncmp(errors.items[i], where[i], strlen(where[i])) == 0, "%s", errors.items[i]);
    verl_topology_errors_done(&errors);
}
