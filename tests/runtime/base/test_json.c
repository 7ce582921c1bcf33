// test_json.c: words of others become JSON whatever bytes they are.
#include <criterion/criterion.h>
#include <string.h>
#include "runtime/base/json.h"

static void
s_expect(const char *text, const char *shown)
{
    json_t *value = verl_json_text(text);
    cr_expect_str_eq(json_string_value(value), shown);
    json_decref(value);
}

Test(json, text_that_is_UTF8_stays_as_it_is)
{
    s_expect("", "");
    s_expect("plain \x01 \x7f", "plain \x01 \x7f");
    s_expect("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x99\x82", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x99\x82");
}

Test(json, only_the_bytes_that_are_no_character_are_replaced)
{
    s_expect("\xc3\xa4 and half of it: \xc3", "\xc3\xa4 and half of it: ?");
    s_expect("\xe2\x82", "??");
    s_expect("\x80\xff \xe2\x82\xac", "?? \xe2\x82\xac");
    s_expect("\xc0\xaf \xe0\x9f\xbf \xf0\x8f\xbf\xbf", "?? ??? ????");      // longer than needed
    s_expect("\xed\xa0\x80 \xf4\x90\x80\x80 \xf5\x80\x80\x80", "??? ???? ????");   // surrogate, beyond the last
}

Test(json, bytes_may_hold_zeroes)
{
    static const char bytes[] = { 'a', 0, '\xc3', 0, 'b', '\xe2', '\x82' };
    json_t *value = verl_json_bytes(bytes, sizeof bytes);
    cr_assert_eq(json_string_length(value), sizeof bytes);
    cr_expect_arr_eq(json_string_value(value), "a\0?\0b??", sizeof bytes);
    json_decref(value);
}

// Whatever two bytes stand before a character and behind one: there is a string, of as many bytes.
Test(json, any_bytes_make_a_string)
{
    for (int first = 1; first < 256; first++)
        for (int second = 1; second < 256; second++) {
            char text[] = { 'a', (char) first, (char) second, '\xc3', '\xa4', 0 };
            json_t *value = verl_json_text(text);
            cr_assert(value, "%02x %02x makes none", first, second);
            cr_assert_eq(json_string_length(value), strlen(text));
            json_decref(value);
        }
}
