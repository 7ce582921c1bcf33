// fuzz_tokenizer.c: a tokenizer.json and a text, with a zero byte between; no tokenizer: one of the fixtures.
//
// Whatever the file says, it is refused or compiled into an image that passes its own check; then the text is encoded
// and decoded. Where the text is valid and the tokenizer is the fixture, it must come back as it was.
#include "actors/text/engine.h"
#include "actors/text/source.h"
#include "actors/text/utf8.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char s_error[1024];

// Compiles a tokenizer.json in memory. Whether there is an engine.
static bool
s_make(verl_engine_t *engine, const char *json, size_t length)
{
    static const uint64_t key[2] = { 1, 2 };
    verl_source_files_t files = { .path = "fuzz", .json = json, .json_size = length };
    verl_token_source_t source;
    verl_token_image_t image = { 0 };
    verl_source_init(&source);
    bool made = !verl_source_read_json(&source, &files, s_error, sizeof s_error)
                && !verl_source_compile(&source, key, "fuzz", &image, s_error, sizeof s_error)
                && !verl_engine_init(engine, &image, "fuzz", s_error, sizeof s_error);
    verl_source_done(&source);
    return made;
}

static void
s_use(const verl_engine_t *engine, const char *text, size_t length, bool comes_back)
{
    verl_encoder_t encoder = { 0 };
    for (unsigned flags = 0; flags < 4; flags++) {
        verl_token_ids_t ids = { 0 };
        verl_text_t back = { 0 };
        if (!verl_engine_encode(engine, &encoder, text, length, flags, &ids, s_error, sizeof s_error) &&
            !verl_engine_decode(engine, ids.data, ids.count, flags & 1 ? VERL_TOKENIZER_SKIP_SPECIAL : 0, &back,
                                s_error, sizeof s_error)) {
            if (verl_utf8_valid((const uint8_t *) back.data, back.length) != back.length)
                abort();
            if (comes_back && !(flags & 1) && (back.length != length || memcmp(back.data, text, length)))
                abort();
        }
        verl_token_ids_done(&ids);
        verl_text_done(&back);
    }
    verl_encoder_done(&encoder);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static verl_tokenizer_t *s_fixture;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t json = zero ? (size_t) (zero - data) : size, rest = zero ? size - json - 1 : 0;
    const char *text = zero ? (const char *) zero + 1 : "Hello 123 \xC3\xA9";
    size_t length = zero ? rest : 12;
    if (json) {
        verl_engine_t engine;
        if (s_make(&engine, (const char *) data, json)) {
            s_use(&engine, text, length, false);
            verl_engine_done(&engine);
        }
        return 0;
    }
    if (!s_fixture)
        s_fixture = verl_tokenizer_open("tests/fixtures/tokenizers/llama3-small", s_error, sizeof s_error);
    verl_token_ids_t ids = { 0 };
    verl_text_t back = { 0 };
    if (verl_tokenizer_encode(s_fixture, text, length, VERL_TOKENIZER_PARSE_SPECIAL, &ids, s_error, sizeof s_error)
        || verl_tokenizer_decode(s_fixture, ids.data, ids.count, 0, &back, s_error, sizeof s_error))
        abort();                            // run it from the root of the sources
    if (verl_utf8_valid((const uint8_t *) text, length) == length
        && (back.length != length || (length && memcmp(back.data, text, length))))
        abort();
    verl_token_ids_done(&ids);
    verl_text_done(&back);
    return 0;
}
