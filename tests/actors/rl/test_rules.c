// Reward rules: what is right, wrong, empty, at the edge, and what means harm.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "actors/rl/rules.h"

static char s_error[512];

static verl_rule_t *
s_make(const char *name, const char *pattern)
{
    verl_rule_options_t options = verl_rule_defaults();
    options.pattern = pattern;
    cr_assert(verl_rule_find(name), "no rule %s", name);
    verl_rule_t *rule = verl_rule_new(verl_rule_find(name), &options, s_error, sizeof s_error);
    cr_assert(rule, "%s", s_error);
    return rule;
}

static verl_rule_result_t
s_judge(const verl_rule_t *rule, const char *response, const char *answer)
{
    verl_rule_input_t input = { response, strlen(response), answer, strlen(answer), 3, 7 };
    verl_rule_result_t result;
    cr_assert_eq(verl_rule_judge(rule, &input, &result, s_error, sizeof s_error), 0, "%s", s_error);
    return result;
}

// A response, the answer, the score that is due.
typedef struct probe {
    const char *response, *answer;
    double score;
} probe_t;

static void
s_check(const char *name, const char *pattern, const probe_t *probes, size_t count)
{
    verl_rule_t *rule = s_make(name, pattern);
    for (size_t i = 0; i < count; i++) {
        double found = (double) s_judge(rule, probes[i].response, probes[i].answer).score;
        cr_assert_float_eq(found, probes[i].score, 0, "%s: \"%s\" for \"%s\" is %g", name, probes[i].response,
                           probes[i].answer, found);
    }
    verl_rule_destroy(&rule);
    cr_assert_null(rule);
}

#define CHECK(name, pattern, ...)                                            \
    do {                                                                     \
        const probe_t probes_[] = { __VA_ARGS__ };                           \
        s_check(name, pattern, probes_, sizeof probes_ / sizeof probes_[0]); \
    } while (0)

Test(rules, exact)
{
    CHECK("exact", NULL, { "85", "85", 1 }, { " 85\n", "85", 1 }, { "85", " 85 ", 1 }, { "8 5", "85", 0 },
          { "850", "85", 0 }, { "", "85", 0 }, { "", "", 1 }, { "85", "", 0 }, { "Paris", "paris", 0 });
    verl_rule_options_t options = verl_rule_defaults();
    options.trim = false;
    verl_rule_t *rule = verl_rule_new(verl_rule_find("exact"), &options, s_error, sizeof s_error);
    cr_assert_eq(s_judge(rule, "85 ", "85").score, 0);
    cr_assert_eq(s_judge(rule, "85", "85").score, 1);
    verl_rule_destroy(&rule);
}

Test(rules, missing_texts_are_empty)
{
    for (size_t i = 0; verl_rule_at(i); i++) {
        verl_rule_t *rule = s_make(verl_rule_name(verl_rule_at(i)), "x");
        verl_rule_result_t result;
        verl_rule_input_t input = { 0 };
        cr_assert_eq(verl_rule_judge(rule, &input, &result, s_error, sizeof s_error), 0);
        verl_rule_destroy(&rule);
    }
}

Test(rules, gsm8k_strict)
{
    CHECK("gsm8k", NULL, { "so\n#### 72", "72", 1 }, { "#### 1,234", "1234", 1 }, { "####72", "72", 0 },
          { "#### $72", "72", 0 }, { "#### 72.", "72", 0 }, { "#### 72.0", "72", 0 }, { "#### 5 no #### 72", "72", 1 },
          { "#### 72 no #### 5", "72", 0 }, { "#### -3", "-3", 1 }, { "#### -", "-", 0 }, { "", "72", 0 },
          { "72", "72", 0 }, { "#### 72 apples", "72", 1 }, { "#### \xc3\xa9", "72", 0 }, { "####", "", 0 },
          { "#### ", "", 0 });
}

Test(rules, gsm8k_looks_at_the_last_300_characters)
{
    // 7 characters of answer and a filler of characters of one and of two bytes.
    verl_rule_t *rule = s_make("gsm8k", NULL);
    const char *fillers[] = { "x", "\xc3\xa9" };
    for (int f = 0; f < 2; f++) {
        char text[1024] = "#### 72";
        for (int i = 0; i < 293; i++)
            strcat(text, fillers[f]);
        cr_assert_eq(s_judge(rule, text, "72").score, 1, "at exactly 300");
        strcat(text, fillers[f]);
        cr_assert_eq(s_judge(rule, text, "72").score, 0, "at 301");
        for (int i = 0; i < 6; i++)
            strcat(text, fillers[f]);
        cr_assert_eq(s_judge(rule, text, "72").score, 0, "at 307");
    }
    verl_rule_destroy(&rule);
}

Test(rules, gsm8k_flexible)
{
    CHECK("gsm8k_flexible", NULL, { "1,234", "1234", 0 }, { "72", "72", 1 }, { "####72", "72", 1 },
          { "#### 72.", "72", 0 }, { "it is 5 or 72", "72", 1 }, { "72 . . .", "72", 1 }, { "-3", "-3", 1 },
          { ".", ".", 0 }, { "", "", 0 }, { "no number", "72", 0 });
}

Test(rules, format_score_is_for_answers_in_the_right_form)
{
    verl_rule_options_t options = verl_rule_defaults();
    options.format_score = 0.1;
    verl_rule_t *rule = verl_rule_new(verl_rule_find("gsm8k"), &options, s_error, sizeof s_error);
    verl_rule_result_t wrong = s_judge(rule, "#### 5", "72"), none = s_judge(rule, "5", "72"),
                       right = s_judge(rule, "#### 72", "72");
    cr_assert(wrong.score == 0.1f && wrong.format == 1 && wrong.correct == 0);
    cr_assert(none.score == 0 && none.format == 0 && none.correct == 0);
    cr_assert(right.score == 1 && right.format == 1 && right.correct == 1);
    verl_rule_destroy(&rule);
}

Test(rules, math)
{
    CHECK("math", NULL, { "\\boxed{42}", "42", 1 }, { "\\boxed{\\frac12}", "\\frac{1}{2}", 1 },
          { "\\boxed{0.5}", "\\frac{1}{2}", 1 }, { "\\boxed{1/2}", "\\frac{1}{2}", 1 }, { "\\boxed{x=5}", "5", 1 },
          { "\\boxed{50\\%}", "50", 1 }, { "\\boxed{ 3 }", "3", 1 }, { "\\boxed{1} then \\boxed{2}", "2", 1 },
          { "\\boxed{1} then \\boxed{2}", "1", 0 }, { "\\boxed{90^\\circ}", "90", 1 },
          { "\\boxed{\\dfrac{3}{4}}", "\\frac{3}{4}", 1 }, { "\\boxed{.5}", "0.5", 1 },
          { "\\boxed{\\sqrt3}", "\\sqrt{3}", 1 }, { "42", "42", 0 }, { "\\boxed{3", "3", 0 },
          { "\\boxed{1,000}", "1000", 0 }, { "\\fbox{9}", "9", 0 });
}

Test(rules, math_notation)
{
    CHECK("math", NULL, { "\\boxed 7$ is it", "7", 1 }, { "\\boxed{\\left(1,\\!2\\right)}", "(1,2)", 1 },
          { "\\boxed{5\\text{ cm}}", "5", 1 }, { "\\boxed{\\$5}", "5", 1 },
          { "\\boxed{\\frac1{72}}", "\\frac{1}{72}", 1 }, { "\\boxed{-3/4}", "\\frac{-3}{4}", 1 },
          { "\\boxed{a/b}", "a/b", 1 }, { "\\boxed{03/4}", "\\frac{03}{4}", 0 },
          { "\\boxed{\\frac{a}{\\sqrt{2}}}", "\\frac{a}{\\sqrt2}", 1 }, { "\\boxed{\\frac}", "\\frac", 1 },
          { "\\boxed{\\frac}", "x", 0 }, { "\\boxed{\\sqrt}", "\\sqrt", 1 }, { "\\boxed{\\frac3}", "3", 0 },
          { "\\boxed{}", "", 1 }, { "\\boxed{}}", "", 1 }, { "\\boxed", "", 0 }, { "", "", 0 },
          { "\\boxed{long=5}", "5", 0 },
          { "\\boxed{\\frac\xc3\xa9"
            "2}",
            "\\frac{\xc3\xa9}{2}", 1 },
          { "\\boxed{1\\text{ a}\\text{ b}}", "1", 0 }, { "\\boxed{\n1 \\\\ 2}", "1\\2", 1 });
}

Test(rules, dapo)
{
    CHECK("dapo", NULL, { "Answer: 42 dollars", "42", 1 }, { "42", "42", -1 }, { "Answer: 1,000", "1000", 1 },
          { "answer : 5\nANSWER: $42$", "42", 1 }, { "Answer: 5", "42", -1 }, { "Answer: x = 42", "42", 1 },
          { "", "42", -1 }, { "Answer: \\frac12", "\\frac{1}{2}", 1 }, { "Answer: \\boxed{42}", "42", 1 },
          { "Answer: $\\boxed{\\frac{1}{2}}$", "\\frac{1}{2}", 1 }, { "The answer: the answer: 5", "5", -1 },
          { "it is \\boxed{42}", "42", 1 }, { "it is \\boxed{4}", "42", -1 }, { "Answer:", "", -1 },
          { "Answer: the area", "the area", 1 }, { "Answer: 42.", "42", 1 }, { "Answer: \\text{yes}", "yes", 1 },
          { "\\boxed{", "", -1 }, { "\\boxed{42", "4", -1 }, { "Answer: \\text{", "\\text{", 1 });
}

Test(rules, dapo_takes_an_article_from_a_word_and_leaves_a_variable)
{
    CHECK("dapo", NULL, { "Answer: a dog", "dog", 1 }, { "Answer: dog", "an dog", 1 }, { "Answer: an 8", "8", 1 },
          { "Answer: \\text{a square root}", "root", 1 }, { "Answer: 2", "2a", -1 }, { "Answer: 2a", "2a", 1 },
          { "Answer: +b", "a+b", -1 }, { "Answer: + b", "a + b", -1 }, { "Answer: an", "a", -1 },
          { "Answer: a", "a", 1 }, { "Answer: $a$", "a", 1 }, { "Answer: x^2", "a x^2", -1 },
          { "Answer: ax^2", "a x^2", 1 }, { "Answer: 2 + a", "2+", -1 }, { "Answer: banana split", "banan split", -1 },
          { "Answer: \\pi", "a \\pi", -1 }, { "Answer: a $5 bill", "5 bill", 1 });
}

Test(rules, dapo_texts_of_which_nothing_is_left_are_equal_only_as_they_stand)
{
    CHECK("dapo", NULL, { "Answer: \\$", "a", -1 }, { "Answer: \\$", "", -1 }, { "Answer: dollars", "km", -1 },
          { "Answer: dollars", "", -1 }, { "Answer: dollars", "dollars", 1 }, { "Answer: \\$ ", " \\$", 1 });
}

Test(rules, regex)
{
    CHECK("regex", "answer is (\\d+)", { "the answer is 42", "42", 1 }, { "answer is 4, no, answer is 42", "42", 1 },
          { "answer is 42, no, answer is 4", "42", 0 }, { "42", "42", 0 }, { "", "42", 0 });
    CHECK("regex", "\\d*", { "a 42 b", "42", 1 }, { "ab", "", 0 });
    CHECK("regex", "(?i)yes|no", { "YES", "YES", 1 }, { "yes no", "no", 1 });
    CHECK("regex", "(?:x|(\\d))", { "3x", "", 1 });
    CHECK("regex", "^<a>(.*)</a>$", { "<a> 5 </a>", "5", 1 }, { "<a>5", "5", 0 });
    CHECK("regex", "\\p{L}+", { "\xff\xc3\xa9\xff", "\xc3\xa9", 1 }, { "\xff\xfe", "x", 0 });
    CHECK("regex", "x\\K[ab]", { "xaxb", "b", 1 });
}

// A hundred seconds or more without a limit; here an error of the row, soon.
static void
s_check_costly(const char *pattern, const char *unit, size_t repeats, const char *end)
{
    verl_rule_t *rule = s_make("regex", pattern);
    size_t bytes = strlen(unit);
    char *text = malloc(repeats * bytes + strlen(end) + 1);
    for (size_t i = 0; i < repeats; i++)
        memcpy(text + i * bytes, unit, bytes);
    strcpy(text + repeats * bytes, end);
    verl_rule_input_t input = { text, strlen(text), "1", 1, 0, 12 };
    verl_rule_result_t result;
    clock_t begin = clock();
    s_error[0] = 0;
    cr_assert_eq(verl_rule_judge(rule, &input, &result, s_error, sizeof s_error), -1, "%s was cheap", pattern);
    double seconds = (double) (clock() - begin) / CLOCKS_PER_SEC;
    cr_assert(strstr(s_error, "row 12: the pattern takes more than 10000000 steps"), "%s", s_error);
    cr_assert_lt(seconds, 20, "%s took %.1f s", pattern, seconds);
    free(text);
    verl_rule_destroy(&rule);
}

Test(rules, catastrophic_patterns_are_errors_of_their_row)
{
    s_check_costly("(a+)+$", "a", 5000, "b"); // exponential
    s_check_costly("(x+x+)+y", "x", 40, " y");
    s_check_costly("a*+b", "a", 200000, "cb"); // quadratic over starting points
    s_check_costly("(?s).*?.*?=c", "b", 8000, "c");
    s_check_costly("\\d+(?=x)", "7", 100000, "");
}

Test(rules, a_plain_pattern_is_cheap_on_a_long_response)
{
    size_t bytes = 1 << 20;
    char *text = malloc(bytes + 32);
    memset(text, 'a', bytes);
    strcpy(text + bytes, "\n#### 42");
    verl_rule_t *rule = s_make("regex", "#### (\\d+)");
    cr_assert_eq(s_judge(rule, text, "42").score, 1);
    verl_rule_destroy(&rule);
    free(text);
}

static void
s_check_refused(const char *pattern, int64_t limit, const char *word)
{
    verl_rule_options_t options = verl_rule_defaults();
    options.pattern = pattern;
    options.match_limit = limit;
    cr_assert_null(verl_rule_new(verl_rule_find("regex"), &options, s_error, sizeof s_error));
    cr_assert(strstr(s_error, word), "\"%s\" does not say \"%s\"", s_error, word);
}

Test(rules, wrong_patterns_are_refused)
{
    s_check_refused(NULL, 10, "no pattern");
    s_check_refused("", 10, "no pattern");
    s_check_refused("ab(", 10, "column 4");
    s_check_refused("a", 0, "match_limit is 0");
    s_check_refused("a\\C", 10, "pattern is wrong");
    s_check_refused("\xff", 10, "pattern is wrong");
}

Test(rules, random_is_a_fair_coin_keyed_by_seed_batch_and_row)
{
    verl_rule_options_t options = verl_rule_defaults();
    double sum = 0;
    int same = 0;
    options.seed = 7;
    options.stage = "reward";
    verl_rule_t *one = verl_rule_new(verl_rule_find("random"), &options, s_error, sizeof s_error);
    options.seed = 8;
    verl_rule_t *two = verl_rule_new(verl_rule_find("random"), &options, s_error, sizeof s_error);
    for (int64_t batch = 0; batch < 40; batch++)
        for (int64_t row = 0; row < 256; row++) {
            verl_rule_result_t a, b, again;
            verl_rule_input_t input = { "x", 1, "y", 1, batch, row };
            verl_rule_judge(one, &input, &a, s_error, sizeof s_error);
            verl_rule_judge(two, &input, &b, s_error, sizeof s_error);
            verl_rule_judge(one, &input, &again, s_error, sizeof s_error);
            cr_assert(a.score == again.score && (a.score == 0 || a.score == 1));
            sum += (double) a.score;
            same += a.score == b.score;
        }
    cr_assert_float_eq(sum / 10240, 0.5, 0.02);
    cr_assert_float_eq(same / 10240.0, 0.5, 0.02);
    verl_rule_destroy(&one);
    verl_rule_destroy(&two);
}

Test(rules, overlong_penalty)
{
    cr_assert_float_eq(verl_overlong_penalty(100, 200, 50, 1), 0, 0);
    cr_assert_float_eq(verl_overlong_penalty(150, 200, 50, 1), 0, 0);
    cr_assert_float_eq(verl_overlong_penalty(175, 200, 50, 1), -0.5, 1e-12);
    cr_assert_float_eq(verl_overlong_penalty(200, 200, 50, 2), -2, 1e-12);
    cr_assert_float_eq(verl_overlong_penalty(225, 200, 50, 1), -1.5, 1e-12);
    cr_assert_float_eq(verl_overlong_penalty(225, 200, 0, 1), 0, 0);
}

Test(rules, the_table_describes_itself)
{
    for (size_t i = 0; verl_rule_at(i); i++) {
        cr_assert_eq(verl_rule_find(verl_rule_name(verl_rule_at(i))), verl_rule_at(i));
        cr_assert_gt(strlen(verl_rule_about(verl_rule_at(i))), 20);
    }
    cr_assert_null(verl_rule_find("sandbox"));
    cr_assert(verl_rule_needs(verl_rule_find("regex")) & VERL_RULE_NEEDS_PATTERN);
    cr_assert_not(verl_rule_needs(verl_rule_find("random")) & VERL_RULE_NEEDS_ANSWER);
}

Test(rules, noise_crashes_nothing)
{
    // Pieces of what the rules look for, glued together at random.
    static const char *const pieces[] = { "\\boxed{", "\\boxed ", "}",   "{",       "\\frac",   "\\sqrt",
                                          "#### ",    "-",        "1,2", "Answer:", "$",        "\\text{ ",
                                          "\\text{",  "=",        "\n",  "\xc3",    "\xc3\xa9", " ",
                                          ".",        "/",        "\\",  "%",       "a ",       "dollars" };
    enum { PIECES = sizeof pieces / sizeof pieces[0] };
    uint64_t state = 1;
    for (size_t i = 0; verl_rule_at(i); i++) {
        verl_rule_t *rule = s_make(verl_rule_name(verl_rule_at(i)), "(\\d+)|\\\\boxed");
        for (int n = 0; n < 3000; n++) {
            char text[2][256] = { "", "" };
            for (int k = 0; k < 20; k++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                strcat(text[k % 3 == 0], pieces[(state >> 33) % PIECES]);
            }
            float score = s_judge(rule, text[0], text[1]).score;
            cr_assert(score == 0 || score == 1 || score == -1);
        }
        verl_rule_destroy(&rule);
    }
}
