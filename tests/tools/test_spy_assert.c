// Assertions: the grammar, its precedence, and what cannot be said.
#include <criterion/criterion.h>
#include <string.h>
#include "tools/spy_assert.h"

static bool
s_holds(const char *text)
{
    verl_error_t error = { "" };
    char why[500];
    verl_spy_assert_t *assertion = verl_spy_assert_parse(text, &error);
    cr_assert(assertion, "%s", error.text);
    verl_spy_facts_t facts = { .scalars = { [VERL_SPY_SCALAR_shown] = 10, [VERL_SPY_SCALAR_rate] = 2.5 } };
    for (int i = 100; i >= 1; i--)
        verl_spy_facts_add(&facts, VERL_SPY_SERIES_gap_ms, i);
    bool holds = verl_spy_assert_holds(assertion, &facts, why, sizeof why);
    verl_spy_facts_done(&facts);
    verl_spy_assert_destroy(&assertion);
    return holds;
}

Test(spy_assert, says_what_is_true)
{
    static const char *const hold[] = {
        "shown == 10",
        "dropped == 0 && lost == 0",
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "10 - 4 - 3 == 3",
        "8 / 4 / 2 == 1",
        "-shown < -9.5",
        "!dropped",
        "!(shown < 3)",
        "dropped || shown",
        "1 || 0 && 0",
        "rate >= 2.5 && rate <= 2.5",
        "max(gap_ms) == 100",
        "min(gap_ms) == 1",
        "mean(gap_ms) == 50.5",
        "sum(gap_ms) == 5050",
        "count(gap_ms) == 100",
        "median(gap_ms) == 50",
        "percentile(gap_ms, 99) == 99",
        "percentile( gap_ms , 0 ) == 1",
        "count(size) == 0",
        "shown != 9",
        "1e1 == shown",
        "2 < 3 == 1",
    };
    for (size_t i = 0; i < sizeof hold / sizeof *hold; i++)
        cr_assert(s_holds(hold[i]), "%s", hold[i]);
}

Test(spy_assert, and_what_is_not)
{
    static const char *const fail[] = { "shown == 11", "dropped", "!shown", "0 && 1", "0 || 0", "1 + 2 * 3 == 9",
                                        "max(size) < 50", "max(size) >= 50", "max(size) != 50", "max(size)",
                                        "max(size) && 1", "0 / 0" };
    for (size_t i = 0; i < sizeof fail / sizeof *fail; i++)
        cr_assert_not(s_holds(fail[i]), "%s", fail[i]);
}

Test(spy_assert, what_is_not_understood_is_refused_with_its_place)
{
    static const char *const wrong[] = { "",
                                         "shown ==",
                                         "shown = 3",
                                         "gap_ms < 3",
                                         "max(shown)",
                                         "max(gap_ms",
                                         "foo > 1",
                                         "(shown",
                                         "shown)",
                                         "percentile(gap_ms)",
                                         "percentile(gap_ms, 101)",
                                         "1 2",
                                         "max",
                                         "&& shown",
                                         "3 $ 4",
                                         "shown & dropped" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        verl_error_t error = { "" };
        cr_assert_null(verl_spy_assert_parse(wrong[i], &error), "%s", wrong[i]);
        cr_assert(strstr(error.text, "column"), "%s: %s", wrong[i], error.text);
    }
}

Test(spy_assert, nesting_is_bounded)
{
    char deep[4001], wide[4001];
    verl_error_t error = { "" };
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    cr_assert_null(verl_spy_assert_parse(deep, &error));
    for (size_t i = 0; i < 2000; i++)
        memcpy(wide + i * 2, "1+", 2);
    wide[3999] = 0;
    error.text[0] = 0;
    cr_assert_null(verl_spy_assert_parse(wide, &error));
    cr_assert(strstr(error.text, "too long"), "%s", error.text);
}

Test(spy_assert, says_why)
{
    char why[500];
    verl_spy_facts_t facts = { .scalars = { [VERL_SPY_SCALAR_dropped] = 12 } };
    verl_spy_assert_t *assertion = verl_spy_assert_parse("dropped == 0 && lost == 0", NULL);
    cr_assert_not(verl_spy_assert_holds(assertion, &facts, why, sizeof why));
    cr_assert_str_eq(why, "dropped = 12, lost = 0");
    cr_assert(verl_spy_assert_scalar(assertion, VERL_SPY_SCALAR_lost));
    cr_assert_not(verl_spy_assert_scalar(assertion, VERL_SPY_SCALAR_nan));
    verl_spy_assert_destroy(&assertion);
}
