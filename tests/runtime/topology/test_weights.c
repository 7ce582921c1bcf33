// test_weights.c: whose weights stages may work with: those of one writer, and the same ones from the beginning.
#include "helper.h"

Test(weights, are_updated_by_one_stage_of_an_actor)
{
    s_one_mistake(RUN GRPO "[stage.imitate]\nactor = 'policy'\ndoes = 'update'\ndepends_on = ['advantage']\n",
                  "t.toml:23:8:", "`update` and `imitate` both update the weights of the actor `policy`");
}

Test(weights, of_two_writers_are_one_mistake_where_a_stage_may_be_behind)
{
    s_one_mistake_set(RUN GRPO "[stage.imitate]\nactor = 'policy'\ndoes = 'update'\ndepends_on = ['advantage']\n",
                      "stage.generate.staleness=1", "t.toml:23:8:", "`update` and `imitate` both");
}

Test(weights, may_be_updated_in_an_actor_for_each_writer)
{
    verl_plan_t *plan = s_good(RUN GRPO "[stage.imitate]\nkind = 'policy'\ndoes = 'update'\n"
                                         "depends_on = ['advantage']\n");
    cr_assert_neq(s_stage(plan, "imitate")->actor, s_stage(plan, "update")->actor);
    verl_plan_destroy(&plan);
}

#define ROLL(MODEL)                                                                                             \
    RUN GRPO "[actor.roll]\nkind = 'policy'\n" MODEL "[stage.again]\nactor = 'roll'\ndoes = 'generate'\n"       \
             "weights = 'update'\ndepends_on = ['prompts']\nas = 'roll_'\n"                                     \
             "[stage.behind]\nactor = 'roll'\ndoes = 'logprobs'\nweights = 'update'\ndepends_on = ['generate']\n"

Test(weights, begin_where_those_of_the_writer_begin)
{
    s_one_mistake(ROLL("model = 'other'\n"), "t.toml:25:9:",
                  "`roll` begins with model = \"other\", and `policy`, whose weights it works with, with \"tiny\": the "
                  "same in both would be right");
}

Test(weights, begin_alike_where_the_default_is_written)
{
    verl_plan_t *plan = s_good(ROLL("model = 'tiny'\n"));
    verl_plan_destroy(&plan);
}

Test(weights, that_begin_otherwise_are_told_at_the_actor_where_it_says_nothing)
{
    s_one_mistake_set(ROLL(""), "actor.policy.model=big", "t.toml:23:8:",
                      "`roll` begins with model = \"tiny\"|with \"big\"");
}

Test(weights, of_a_reader_with_a_mistake_in_it_are_told_once)
{
    s_one_mistake(ROLL("model = 3\n"), "t.toml:25:9:", "`model` is an integer");
}
