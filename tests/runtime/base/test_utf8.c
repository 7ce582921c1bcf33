// A text that is cut keeps whole characters.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/error.h"
#include "runtime/base/utf8.h"

Test(utf8, a_character_that_was_begun_is_taken_away)
{
    static const struct { const char *given, *kept; } cases[] = {
        { "", "" }, { "abc", "abc" }, { "aé", "aé" }, { "a\xc3", "a" }, { "x→", "x→" }, { "x\xe2\x86", "x" },
        { "x\xe2", "x" }, { "😀", "😀" }, { "\xf0\x9f\x98", "" }, { "é\xf0\x9f", "é" },
        { "\x80\x80\x80\x80\x80", "\x80\x80\x80\x80\x80" },         // no UTF-8 at all
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[16];
        snprintf(text, sizeof text, "%s", cases[i].given);
        verl_utf8_trim(text);
        cr_assert_str_eq(text, cases[i].kept, "case %zu", i);
    }
}

Test(utf8, a_sentence_that_is_too_long_ends_with_a_whole_character)
{
    char snowmen[2001] = "", shifted[2002] = "x";
    for (int i = 0; i < 500; i++)
        strcat(snowmen, "☃");
    strcat(shifted, snowmen);
    verl_error_t even = { "" }, odd = { "" };
    verl_error_set(&even, "%s", snowmen);
    verl_error_set(&odd, "%s", shifted);
    cr_assert_eq(strlen(even.text), 1023);                          // 341 of 3 bytes
    cr_assert_eq(strlen(odd.text), 1 + 340 * 3);
}
