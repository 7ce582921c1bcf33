// Conditions on metrics: what they mean, and what is said of those that cannot be read.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "tools/script_condition.h"

static bool
s_lookup(void *context, const char *name, double *ret_value)
{
    (void) context;
    static const struct {
        const char *name;
        double value;
    } metrics[] = {
        { "actor/ppo_kl", 0.2 }, { "val-core/addition/mean@1", 0.5 }, { "step", 7 }, { "odd", NAN }, { "not", 1 },
    };
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        if (strcmp(metrics[i].name, name) == 0) {
            *ret_value = metrics[i].value;
            return true;
        }
    return false;
}

static bool
s_true(const char *text)
{
    verl_error_t error = { "" };
    verl_condition_tree_t *condition = verl_condition_parse(text, &error);
    cr_assert(condition, "%s: %s", text, error.text);
    bool is = verl_condition_true(condition, s_lookup, NULL);
    verl_condition_destroy(&condition);
    cr_assert_null(condition);
    return is;
}

Test(condition, comparisons)
{
    cr_assert(s_true("actor/ppo_kl > 0.1") && !s_true("actor/ppo_kl > 0.2") && s_true("actor/ppo_kl >= 0.2"));
    cr_assert(s_true("0.1<actor/ppo_kl") && s_true("actor/ppo_kl <= 2e-1") && s_true("step == 7") &&
              s_true("step != 8"));
    cr_assert(s_true("val-core/addition/mean@1 < step") && s_true("actor/ppo_kl > -1"));
}

Test(condition, and_binds_stronger_than_or_and_not_strongest)
{
    cr_assert(s_true("step > 6 or step > 8 and step > 9"));
    cr_assert(!s_true("(step > 6 or step > 8) and step > 9"));
    cr_assert(s_true("not step > 9 and step > 6") && !s_true("not (step > 9 or step > 6)"));
    cr_assert(s_true("not not step > 6"));
}

Test(condition, what_is_unknown_makes_nothing_true)
{
    cr_assert(!s_true("nothing > 0") && !s_true("nothing <= 0") && !s_true("not nothing > 0") && !s_true("odd != 1"));
    cr_assert(s_true("nothing > 0 or step > 6") && !s_true("nothing > 0 and step > 6"));
    cr_assert(!s_true("not (nothing > 0 and step > 6)") && s_true("not (nothing > 0 and step > 8)"));
}

Test(condition, a_metric_that_was_never_there_is_told)
{
    static const struct {
        const char *text, *unmet;
    } cases[] = {
        { "nothing > 0", "nothing" },        { "step > 6 and (step > 8 or not never < step)", "never" },
        { "nothing > step", "nothing" },     { "step > nothing", "nothing" },
        { "odd > 1 and step > 9", NULL },    { "step > 9 or actor/ppo_kl > 1", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        verl_error_t error = { "" };
        verl_condition_tree_t *condition = verl_condition_parse(cases[i].text, &error);
        verl_condition_true(condition, s_lookup, NULL);
        const char *unmet = verl_condition_unmet(condition);
        cr_expect(cases[i].unmet ? unmet && strcmp(unmet, cases[i].unmet) == 0 : !unmet, "%s: %s", cases[i].text,
                  unmet ? unmet : "none");
        verl_condition_destroy(&condition);
    }
}

Test(condition, what_cannot_be_read_is_named_with_its_place)
{
    static const char *const texts[][2] = {
        { "", "ends too early" },
        { "step", "one of >" },
        { "step >", "ends too early" },
        { "step > 1 then", "\"then\"" },
        { "(step > 1", "`)`" },
        { "step > > 1", "character 8" },
        { "step = 1", "one of >" },
        { "and", "one of >" },
        { "step > 1 or", "ends too early" },
        { "not", "ends too early" },
        { "step > \"x\"", "a number or the name" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        verl_error_t error = { "" };
        cr_assert_null(verl_condition_parse(texts[i][0], &error), "%s", texts[i][0]);
        cr_assert(strstr(error.text, texts[i][1]), "%s: %s", texts[i][0], error.text);
    }
}

Test(condition, depth_and_length_are_bounded)
{
    char deep[3000], nots[4200];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    memset(nots, ' ', sizeof nots - 1);
    nots[sizeof nots - 1] = '\0';
    for (size_t i = 0; i + 4 < sizeof nots; i += 4)
        memcpy(nots + i, "not ", 4);
    verl_error_t error = { "" };
    cr_assert_null(verl_condition_parse(deep, &error));
    cr_assert(strstr(error.text, "nests less deep"), "%s", error.text);
    cr_assert_null(verl_condition_parse(nots, &error));
}
