// Properties of every text: encoding and decoding give it back, the cache changes nothing, and no text is slow.
#include "text_fixture.h"
#include "actors/text/utf8.h"

TestSuite(tokenizer_properties, .init = fixture_setup, .fini = fixture_teardown, .timeout = 120);

static uint32_t
s_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

// A random valid text: words, spaces, digits and characters of all planes.
static verl_text_t
s_text(uint32_t *state)
{
    static const char *const parts[] = { " ",    "  ", "\n", "the", " of",     "It's",       "123", "4567", "é",
                                         "你好", "😀",  "\t", "!?",  " Привет", "<|eot_id|>", "🇩🇪",  "\r\n", "_x" };
    verl_text_t text = { 0 };
    cr_assert_eq(verl_text_add(&text, "", 0), 0);
    for (uint32_t left = s_random(state) % 30; left > 0; left--) {
        uint32_t pick = s_random(state) % 24, code = s_random(state) % 0x110000;
        uint8_t character[4];
        size_t length = verl_utf8_write(code >= 0xD800 && code < 0xE000 ? 'x' : code, character);
        if (pick < sizeof parts / sizeof *parts)
            cr_assert_eq(verl_text_add(&text, parts[pick], strlen(parts[pick])), 0);
        else
            cr_assert_eq(verl_text_add(&text, character, length), 0);
    }
    return text;
}

Test(tokenizer_properties, decode_gives_back_what_was_encoded)
{
    verl_tokenizer_t *tokenizer = fixture_open(FIXTURES "llama3-small");
    uint32_t state = 7;
    for (int trial = 0; trial < 5000; trial++) {
        verl_text_t text = s_text(&state);
        verl_token_ids_t ids =
            fixture_encode(tokenizer, text.data, text.length, trial % 2 ? VERL_TOKENIZER_PARSE_SPECIAL : 0);
        verl_text_t back = fixture_decode(tokenizer, &ids, 0);
        cr_assert(back.length == text.length && memcmp(back.data, text.data, text.length) == 0,
                  "trial %d: \"%s\" became \"%s\"", trial, text.data, back.data);
        verl_text_done(&text);
        verl_text_done(&back);
        verl_token_ids_done(&ids);
    }
    verl_tokenizer_close(&tokenizer);
}

// The bytes of the tokens, one by one, are the text too: a reader may follow a stream of ids.
Test(tokenizer_properties, bytes_of_tokens_are_the_text)
{
    verl_tokenizer_t *tokenizer = fixture_open(FIXTURES "llama3-small");
    uint32_t state = 8;
    for (int trial = 0; trial < 1000; trial++) {
        verl_text_t text = s_text(&state), joined = { 0 };
        verl_token_ids_t ids = fixture_encode(tokenizer, text.data, text.length, 0);
        cr_assert_eq(verl_text_add(&joined, "", 0), 0);
        for (size_t i = 0; i < ids.count; i++) {
            size_t length, content_length;
            const char *bytes = verl_tokenizer_token_bytes(tokenizer, ids.data[i], &length);
            const char *content = verl_tokenizer_id_to_token(tokenizer, ids.data[i], &content_length);
            cr_assert_eq(verl_text_add(&joined, bytes, length), 0);
            cr_assert_eq(verl_tokenizer_token_to_id(tokenizer, content, content_length), ids.data[i]);
        }
        cr_assert_str_eq(joined.data, text.data);
        verl_text_done(&text);
        verl_text_done(&joined);
        verl_token_ids_done(&ids);
    }
    verl_tokenizer_close(&tokenizer);
}

Test(tokenizer_properties, the_cache_changes_no_id)
{
    verl_tokenizer_t *fresh = fixture_open(FIXTURES "gpt2-small"), *mapped = fixture_open(FIXTURES "gpt2-small");
    uint32_t state = 9;
    for (int trial = 0; trial < 2000; trial++) {
        verl_text_t text = s_text(&state);
        verl_token_ids_t one = fixture_encode(fresh, text.data, text.length, 3);
        verl_token_ids_t two = fixture_encode(mapped, text.data, text.length, 3);
        cr_assert_eq(one.count, two.count);
        cr_assert(one.count == 0 || memcmp(one.data, two.data, one.count * sizeof *one.data) == 0);
        verl_text_done(&text);
        verl_token_ids_done(&one);
        verl_token_ids_done(&two);
    }
    cr_assert_eq(verl_tokenizer_origin(fresh), VERL_TOKENIZER_COMPILED);
    cr_assert_eq(verl_tokenizer_origin(mapped), VERL_TOKENIZER_MAPPED);
    verl_tokenizer_close(&fresh);
    verl_tokenizer_close(&mapped);
}

// A line of 2 MB of one character, of spaces, of digits, of marks: time that grows with the square would be hours.
Test(tokenizer_properties, long_lines_take_no_quadratic_time, .timeout = 250)
{
    static const char *const units[] = { "a", " ", "1", "=", "\n", "ab", "\xCC\x81", "\xE4\xBD\xA0", "'", " \n" };
    verl_tokenizer_t *tokenizer = fixture_open(FIXTURES "llama3-small");
    for (size_t unit = 0; unit < sizeof units / sizeof *units; unit++) {
        verl_text_t text = { 0 };
        while (text.length < (unit ? 500000u : 2000000u))
            cr_assert_eq(verl_text_add(&text, units[unit], strlen(units[unit])), 0);
        verl_token_ids_t ids = fixture_encode(tokenizer, text.data, text.length, 0);
        verl_text_t back = fixture_decode(tokenizer, &ids, 0);
        cr_assert(back.length == text.length && memcmp(back.data, text.data, text.length) == 0);
        verl_text_done(&text);
        verl_text_done(&back);
        verl_token_ids_done(&ids);
    }
    verl_tokenizer_close(&tokenizer);
}

// Ids that do not exist are left out; broken bytes are replaced as one text, across tokens.
Test(tokenizer_properties, decode_accepts_any_ids)
{
    verl_tokenizer_t *tokenizer = fixture_open(FIXTURES "llama3-small");
    verl_token_ids_t whole = fixture_encode(tokenizer, "a😀b", 6, 0), odd = { 0 };
    int32_t strange[] = { -1, INT32_MIN, INT32_MAX, 1 << 24 };
    for (size_t i = 0; i < whole.count; i++) {
        cr_assert_eq(verl_token_ids_add(&odd, strange[i % 4]), 0);
        cr_assert_eq(verl_token_ids_add(&odd, whole.data[i]), 0);
    }
    verl_text_t text = fixture_decode(tokenizer, &odd, 0);
    cr_assert_str_eq(text.data, "a😀b");
    verl_text_done(&text);
    int32_t byte = verl_tokenizer_token_to_id(tokenizer, "Ł", 2);      // byte 0x81
    verl_token_ids_t broken = { .data = &byte, .count = 1 };
    cr_assert_geq(byte, 0);
    text = fixture_decode(tokenizer, &broken, 0);
    cr_assert_str_eq(text.data, "\xEF\xBF\xBD");
    verl_text_done(&text);
    verl_token_ids_done(&whole);
    verl_token_ids_done(&odd);
    verl_tokenizer_close(&tokenizer);
}
