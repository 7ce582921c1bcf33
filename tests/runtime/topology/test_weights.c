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
    verl_plan_t *plan = s_good(RUN GRPO "[stage.imitate]\nkind = 'policy'\ndoes = 'update'\ndepends_on = ['advantage']\n");
    cr_assert_neq(s_stage(plan, "imitate")->actor, s_stage(plan, "update")->actor);
    verl_plan_destroy(&plan);
}
