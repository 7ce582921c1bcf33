#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include "tools/display_text.h"

// The text as it is shown in so many columns; freed by the next call.
static const char *
s_shown(const char *text, int columns, bool unicode, int *ret_width)
{
    static char shown[1024];
    verl_buffer_t buffer = { 0 };
    int width = verl_text_shown(&buffer, text, columns, unicode);
    cr_assert_lt(buffer.size, sizeof shown);
    if (buffer.size)
        memcpy(shown, buffer.data, buffer.size);
    shown[buffer.size] = 0;
    verl_buffer_done(&buffer);
    if (ret_width)
        *ret_width = width;
    return shown;
}

#define EXPECT(text, columns, unicode, expected) \
    cr_expect_str_eq(s_shown(text, columns, unicode, NULL), expected)

Test(display_text, escapes_control_characters)
{
    EXPECT("a\nb\tc\rd", 80, true, "a\\nb\\tc\\rd");
    EXPECT("\x1b[2J\x07", 80, true, "\\x1b[2J\\x07");
    EXPECT("\x7f", 80, true, "\\x7f");
    EXPECT("\xc2\x9b" "2J", 80, true, "\\u009b2J");        // the one-character CSI
}

Test(display_text, escapes_marks_that_turn_the_writing)
{
    EXPECT("a\xe2\x80\xae" "b", 80, true, "a\\u202eb");
    EXPECT("a\xe2\x81\xa6", 80, true, "a\\u2066");
}

Test(display_text, escapes_bytes_that_are_not_utf8)
{
    EXPECT("a\xff\xc3", 80, true, "a\\xff\\xc3");
    EXPECT("\xed\xa0\x80", 80, true, "\\xed\\xa0\\x80");   // a surrogate
    EXPECT("\xf0\x9f", 80, true, "\\xf0\\x9f");            // cut off
}

Test(display_text, shortens_by_columns)
{
    int width;
    EXPECT("abcdef", 6, true, "abcdef");
    EXPECT("abcdefg", 6, true, "abcde…");
    EXPECT("abcdefg", 6, false, "abcde~");
    EXPECT("日本語", 6, true, "日本語");
    EXPECT("日本語", 5, true, "日本…");
    s_shown("日本語", 4, true, &width);
    cr_expect_eq(width, 3);
    EXPECT("日本語", 4, true, "日…");
    EXPECT("a\n\n", 4, true, "a\\n…");
    EXPECT("abc", 0, true, "");
    EXPECT("abc", 1, true, "…");
}

Test(display_text, words_are_quoted_where_a_shell_would_change_them)
{
    static const char *const cases[][2] = { { "runs/a-1_b.toml", "runs/a-1_b.toml" }, { "", "''" },
                                            { "my run", "'my run'" },               { "it's", "'it'\\''s'" },
                                            { "$HOME", "'$HOME'" },                 { "größe", "größe" },
                                            { "a\x1b", "'a\\x1b'" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        verl_buffer_t buffer = { 0 };
        verl_text_shell(&buffer, cases[i][0]);
        verl_buffer_append(&buffer, "", 1);
        cr_expect_str_eq(buffer.data, cases[i][1]);
        verl_buffer_done(&buffer);
    }
}

Test(display_text, width_counts_wide_and_combining_characters)
{
    cr_expect_eq(verl_text_width("abc"), 3);
    cr_expect_eq(verl_text_width("日本"), 4);
    cr_expect_eq(verl_text_width("e\xcc\x81"), 1);
    cr_expect_eq(verl_text_width("\n"), 2);
}

Test(display_text, cells_are_as_wide_as_asked)
{
    verl_buffer_t buffer = { 0 };
    verl_text_cell(&buffer, "ab", 4, false, true);
    verl_text_cell(&buffer, "ab", 4, true, true);
    verl_text_cell(&buffer, "abcdef", 4, true, true);
    verl_buffer_append(&buffer, "", 1);
    cr_expect_str_eq(buffer.data, "ab    ababc…");
    verl_buffer_done(&buffer);
}

static void
s_expect_curve(const double *values, int count, int columns, const char *expected)
{
    verl_buffer_t buffer = { 0 };
    verl_text_curve(&buffer, values, count, columns, true);
    verl_buffer_append(&buffer, "", 1);
    cr_expect_str_eq(buffer.data, expected);
    verl_buffer_done(&buffer);
}

Test(display_text, curves_show_means)
{
    s_expect_curve((double[]) { 0, 1 }, 2, 10, "▁█");
    s_expect_curve((double[]) { 0, 0, 1, 1 }, 4, 2, "▁█");
    s_expect_curve((double[]) { 5, 5 }, 2, 10, "▄▄");
    s_expect_curve((double[]) { 0, (double) NAN, 1 }, 3, 10, "▁ █");
    s_expect_curve((double[]) { 0, (double) INFINITY, 1 }, 3, 10, "▁ █");
    s_expect_curve(NULL, 0, 10, "");
    s_expect_curve((double[]) { 1 }, 1, 0, "");
}

Test(display_text, durations)
{
    char text[32];
    cr_expect_str_eq(verl_text_duration(0.416, text, sizeof text), "0.42 s");
    cr_expect_str_eq(verl_text_duration(12.34, text, sizeof text), "12.3 s");
    cr_expect_str_eq(verl_text_duration(187, text, sizeof text), "3:07");
    cr_expect_str_eq(verl_text_duration(7387, text, sizeof text), "2:03:07");
    cr_expect_str_eq(verl_text_duration((double) NAN, text, sizeof text), "?");
    cr_expect_str_eq(verl_text_duration(-1, text, sizeof text), "?");
}
