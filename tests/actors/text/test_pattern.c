// Patterns: every character is in the classes that the reference's engine puts it in, and odd syntax is refused.
#include "text_fixture.h"
#include "actors/text/pattern.h"
#include "actors/text/utf8.h"

static int
s_members(const char *regex)
{
    char error[512] = "", whole[256];
    verl_pattern_t pattern;
    verl_matcher_t matcher = { 0 };
    int members = 0;
    snprintf(whole, sizeof whole, "\\A%s\\z", regex);
    cr_assert_eq(verl_pattern_init(&pattern, whole, strlen(whole), "test", error, sizeof error), 0, "%s", error);
    for (uint32_t code = 0; code < 0x110000; code++) {
        char character[4];
        size_t start, end, length = verl_utf8_write(code, (uint8_t *) character);
        if (code < 0xD800 || code > 0xDFFF)
            members += verl_pattern_find(&pattern, &matcher, character, length, 0, &start, &end) == 1;
    }
    verl_matcher_done(&matcher);
    verl_pattern_done(&pattern);
    return members;
}

// The numbers are those of Unicode 16 (DerivedGeneralCategory.txt), which the reference's engine has.
Test(pattern, classes_have_the_members_of_unicode_16)
{
    static const struct { const char *regex; int members; } classes[] = {
        { "\\s", 25 }, { "\\S", 1112039 }, { "[\\S]", 1112039 }, { "[^\\s]", 1112039 }, { "\\p{L}", 141028 },
        { "\\P{L}", 971036 }, { "\\p{^L}", 971036 }, { "\\p{N}", 1911 }, { "\\p{M}", 2501 }, { "\\p{P}", 855 },
        { "\\p{S}", 8514 }, { "\\p{Lu}", 1858 }, { "\\p{Ll}", 2258 }, { "\\p{Lm}", 404 }, { "\\p{Lo}", 136477 },
        { "\\w", 144671 }, { "\\d", 760 }, { "\\h", 22 }, { "(?i:s)", 3 }, { "\\p{Han}", 99030 }, { "\\p{Z}", 19 },
        { "[\\w]", 144665 }, { "[^\\w]", 967399 }, { "\\W", 967393 },
        { ".", 1112063 }, { "[^\\s\\p{L}\\p{N}]", 969100 }, { "[\\u4e00-\\u9fa5]", 20902 },
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        int members = s_members(classes[i].regex);
        cr_expect_eq(members, classes[i].members, "%s has %d members, not %d", classes[i].regex, members,
                     classes[i].members);
    }
}

Test(pattern, what_the_engines_read_differently_is_refused)
{
    static const char *const patterns[] = {
        "[a[b]]", "[a&&b]", "a{1,2}+", "\\", "\\p{", "\\pL", "(?m:.)", "\\H", "\\X", "[\\W]", "\\u12", "(", "[",
        "a{3}{", "(?<", "\\p{NoSuchScript}", "[]a]", "\\bx", "x\\B", "[\\P{L}]", "[^\\p{^N}]", "[\\D]",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char error[512] = "";
        verl_pattern_t pattern;
        int rc = verl_pattern_init(&pattern, patterns[i], strlen(patterns[i]), "here", error, sizeof error);
        if (rc == 0)
            cr_expect_str_eq(patterns[i], "a{3}{", "%s was taken", patterns[i]);
        else
            cr_expect(strstr(error, "here: the pattern \""), "%s", error);
        verl_pattern_done(&pattern);
    }
}
