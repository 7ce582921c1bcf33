// test_uses.c: `uses`: what it names has to be there, also where the need is an optional one.
#include "helper.h"
#include <stdio.h>

#define PUPIL(MORE) RUN GRPO "[stage.p]\nkind = 'pupil'\n" MORE

Test(uses, an_optional_column_that_is_mistyped)
{
    s_one_mistake(PUPIL("depends_on = ['reward']\nuses = { group = 'gruop' }\n"), "t.toml:26:18:",
                  "`p` needs the column `gruop`|did you mean `group`?");
}

Test(uses, an_optional_column_of_its_own_name_that_nobody_gives)
{
    s_one_mistake(PUPIL("depends_on = ['generate']\nuses = { old_logprobs = 'old_logprobs' }\n"), "t.toml:26:25:",
                  "`p` needs the column `old_logprobs`");
}

Test(uses, an_optional_column_that_is_made_downstream)
{
    s_one_mistake(PUPIL("depends_on = ['generate']\nuses = { group = 'advantages' }\n"), "t.toml:26:18:",
                  "`p` needs the column `advantages`|`advantage` gives it, so \"advantage\" in depends_on");
}

Test(uses, an_optional_column_of_other_rows)
{
    s_one_mistake(PUPIL("depends_on = ['generate']\nuses = { old_logprobs = 'answer' }\n"), "t.toml:26:25:",
                  "`p` needs `answer`, and `prompts` gives it, but before the `response_ids`");
}

Test(uses, an_optional_column_that_is_there)
{
    verl_plan_t *plan = s_good(PUPIL("depends_on = ['reward']\nuses = { old_logprobs = 'score' }\n"));
    cr_assert_str_eq(s_maker(plan, "p", "old_logprobs"), "reward");
    verl_plan_destroy(&plan);
}

// What only goes along with a column that is named may be missing after a change: nobody asked for it.
Test(uses, the_resolved_topology_names_what_was_named_and_not_what_goes_along)
{
    verl_plan_t *plan = s_good(RUN GRPO "[stage.again]\nactor = 'policy'\ndoes = 'generate'\ndepends_on = ['prompts']\n"
                                        "as = 'roll_'\n[stage.p]\nkind = 'pupil'\ndepends_on = ['again']\n"
                                        "uses = { response_ids = 'roll_response_ids' }\n");
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    cr_assert(verl_topology_write_resolved(plan, out) == 0 && fclose(out) == 0);
    cr_assert(strstr(text, "uses = { response_ids = \"roll_response_ids\" }\n"), "%s", text);
    free(text);
    verl_plan_destroy(&plan);
}
