// Ids and decoded texts equal to the reference library's, on 2,400 strings a tokenizer (see tests/fixtures/tokenizers).
#include "text_fixture.h"
#include "actors/text/utf8.h"

TestSuite(tokenizer_ids, .init = fixture_setup, .fini = fixture_teardown, .timeout = 120);

typedef struct {
    const uint8_t *at, *end;
} s_reader_t;

static uint32_t
s_number(s_reader_t *reader)
{
    uint32_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        cr_assert(reader->at < reader->end && shift < 32, "the fixture is cut short");
        value |= (uint32_t) (*reader->at & 0x7F) << shift;
        if (!(*reader->at++ & 0x80))
            return value;
    }
}

static const char *
s_bytes(s_reader_t *reader, size_t *length)
{
    *length = s_number(reader);
    cr_assert(*length <= (size_t) (reader->end - reader->at), "the fixture is cut short");
    reader->at += *length;
    return (const char *) reader->at - *length;
}

static verl_token_ids_t
s_ids(s_reader_t *reader)
{
    verl_token_ids_t ids = { 0 };
    for (uint32_t count = s_number(reader); count > 0; count--)
        cr_assert_eq(verl_token_ids_add(&ids, (int32_t) s_number(reader)), 0);
    return ids;
}

static void
s_check_ids(verl_tokenizer_t *tokenizer, const char *text, size_t length, unsigned flags,
            const verl_token_ids_t *expected, uint32_t index)
{
    verl_token_ids_t ids = fixture_encode(tokenizer, text, length, flags | VERL_TOKENIZER_PARSE_SPECIAL);
    cr_assert_eq(ids.count, expected->count, "case %u: %zu ids, not %zu, for \"%.*s\"", index, ids.count,
                 expected->count, (int) length, text);
    for (size_t i = 0; i < ids.count; i++)
        cr_assert_eq(ids.data[i], expected->data[i], "case %u: id %zu is %d, not %d, for \"%.*s\"", index, i,
                     ids.data[i], expected->data[i], (int) length, text);
    verl_token_ids_done(&ids);
}

static void
s_check_text(verl_tokenizer_t *tokenizer, const verl_token_ids_t *ids, unsigned flags, const char *expected,
             size_t length, uint32_t index)
{
    verl_text_t text = fixture_decode(tokenizer, ids, flags);
    cr_assert(text.length == length && memcmp(text.data, expected, length) == 0,
              "case %u decodes to \"%.*s\", not \"%.*s\"", index, (int) text.length, text.data, (int) length, expected);
    verl_text_done(&text);
}

static void
s_check_case(verl_tokenizer_t *tokenizer, s_reader_t *reader, uint32_t index)
{
    size_t length, size;
    verl_text_t lossy = { 0 };
    const char *text = s_bytes(reader, &length);
    verl_token_ids_t plain = s_ids(reader), special = { 0 };
    bool differs = s_number(reader) != 0;
    if (differs)
        special = s_ids(reader);
    s_check_ids(tokenizer, text, length, 0, &plain, index);
    s_check_ids(tokenizer, text, length, VERL_TOKENIZER_ADD_SPECIAL, differs ? &special : &plain, index);
    cr_assert_eq(verl_text_add(&lossy, "", 0), 0);
    cr_assert_eq(verl_utf8_add_lossy(&lossy, (const uint8_t *) text, length), 0);
    for (unsigned skip = 0; skip < 2; skip++) {
        bool other = s_number(reader) != 0;
        const char *expected = other ? s_bytes(reader, &size) : lossy.data;
        s_check_text(tokenizer, differs ? &special : &plain, skip ? VERL_TOKENIZER_SKIP_SPECIAL : 0, expected,
                     other ? size : lossy.length, index);
    }
    verl_token_ids_done(&plain);
    verl_token_ids_done(&special);
    verl_text_done(&lossy);
}

static void
s_check(const char *path, const char *expected)
{
    if (access(path, R_OK) != 0)
        cr_skip_test("%s is not there", path);
    verl_text_t fixture = fixture_read(expected);
    s_reader_t reader = { (const uint8_t *) fixture.data + 4, (const uint8_t *) fixture.data + fixture.length };
    cr_assert(fixture.length > 4 && memcmp(fixture.data, "VTK2", 4) == 0);
    verl_tokenizer_t *tokenizer = fixture_open(path);
    uint32_t cases = s_number(&reader);
    cr_assert_geq(cases, 2000);
    for (uint32_t index = 0; index < cases; index++)
        s_check_case(tokenizer, &reader, index);
    cr_assert_eq(reader.at, reader.end);
    verl_tokenizer_close(&tokenizer);
    verl_text_done(&fixture);
}

Test(tokenizer_ids, gpt2_small) { s_check(FIXTURES "gpt2-small", FIXTURES "gpt2-small/expected.bin"); }
Test(tokenizer_ids, llama3_small) { s_check(FIXTURES "llama3-small", FIXTURES "llama3-small/expected.bin"); }
Test(tokenizer_ids, llama2_small)
{
    s_check(FIXTURES "llama2-small", FIXTURES "llama2-small/expected.bin");
}
Test(tokenizer_ids, qwen3) { s_check(QWEN3, FIXTURES "qwen3/expected.bin"); }
Test(tokenizer_ids, smollm2_from_gguf) { s_check(SMOLLM2, FIXTURES "smollm2-135m/expected.bin"); }

// 16 tokens, no merges: what the vocabulary lacks is dropped.
Test(tokenizer_ids, addition_has_sixteen_tokens)
{
    verl_tokenizer_t *tokenizer = fixture_open(VERL_SOURCE_DIR "/topologies/models/addition-init");
    static const char text[] = "12+345=357 x\xC3\xA9<eos>";
    static const int32_t expected[] = { 2, 3, 11, 4, 5, 6, 12, 4, 6, 8, 13 };
    verl_token_ids_t ids = fixture_encode(tokenizer, text, sizeof text - 1, VERL_TOKENIZER_PARSE_SPECIAL);
    cr_assert_eq(ids.count, sizeof expected / sizeof *expected);
    cr_assert_arr_eq(ids.data, expected, sizeof expected);
    verl_text_t back = fixture_decode(tokenizer, &ids, VERL_TOKENIZER_SKIP_SPECIAL);
    cr_assert_str_eq(back.data, "12+345=357");
    cr_assert_eq(verl_tokenizer_vocab_size(tokenizer), 16);
    cr_assert_eq(verl_tokenizer_eos(tokenizer), 13);
    cr_assert_eq(verl_tokenizer_pad(tokenizer), 0);
    cr_assert_eq(verl_tokenizer_bos(tokenizer), -1);
    cr_assert(verl_tokenizer_is_special(tokenizer, 13) && !verl_tokenizer_is_special(tokenizer, 12));
    verl_text_done(&back);
    verl_token_ids_done(&ids);
    verl_tokenizer_close(&tokenizer);
}

// Of an added token that is white space and takes the white space around it, the first takes all.
Test(tokenizer_ids, white_space_that_strips_is_taken_once, .init = fixture_setup, .fini = fixture_teardown)
{
    static const char json[] =
        "{\"model\": {\"vocab\": {\"a\": 0, \"\u0120\": 1}, \"merges\": []}, \"pre_tokenizer\": {\"type\": "
        "\"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}, \"added_tokens\": [{\"id\": 2, \"content\": "
        "\"  \", \"lstrip\": true, \"rstrip\": true, \"single_word\": false, \"normalized\": false, \"special\": "
        "false}]}";
    static const struct { const char *text; int32_t ids[5]; size_t count; } cases[] = {
        { "    ", { 2 }, 1 }, { "a     a a", { 0, 2, 0, 1, 0 }, 5 }, { "  ", { 2 }, 1 }, { " a", { 1, 0 }, 2 },
    };
    verl_tokenizer_t *tokenizer = fixture_open(fixture_write("tokenizer.json", json, strlen(json)));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        verl_token_ids_t ids = fixture_encode(tokenizer, cases[i].text, strlen(cases[i].text), 0);
        cr_assert_eq(ids.count, cases[i].count, "'%s' has %zu ids", cases[i].text, ids.count);
        cr_assert_arr_eq(ids.data, cases[i].ids, ids.count * sizeof *ids.data);
        verl_token_ids_done(&ids);
    }
    verl_tokenizer_close(&tokenizer);
}

// Without PARSE_SPECIAL a special token in the text is text.
Test(tokenizer_ids, special_tokens_are_text_unless_asked_for)
{
    verl_tokenizer_t *tokenizer = fixture_open(FIXTURES "llama3-small");
    static const char text[] = "a<|eot_id|>b";
    int32_t special = verl_tokenizer_token_to_id(tokenizer, "<|eot_id|>", 10);
    verl_token_ids_t parsed = fixture_encode(tokenizer, text, sizeof text - 1, VERL_TOKENIZER_PARSE_SPECIAL);
    verl_token_ids_t plain = fixture_encode(tokenizer, text, sizeof text - 1, 0);
    cr_assert_eq(parsed.count, 3);
    cr_assert_eq(parsed.data[1], special);
    for (size_t i = 0; i < plain.count; i++)
        cr_assert_neq(plain.data[i], special);
    verl_text_t back = fixture_decode(tokenizer, &plain, VERL_TOKENIZER_SKIP_SPECIAL);
    cr_assert_str_eq(back.data, text);
    verl_text_done(&back);
    verl_token_ids_done(&parsed);
    verl_token_ids_done(&plain);
    verl_tokenizer_close(&tokenizer);
}
