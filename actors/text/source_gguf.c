// source_gguf.c: the tokenizer inside a GGUF file, read into a source.
//
// The file names its pre-tokenizer and does not describe it; the table below says what each name means, after the
// tokenizer.json of the model that the name was made for.
// Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#include "actors/text/source.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CASED_WORD(tail) \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" tail \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" tail

static const char s_gpt2[] = VERL_GPT2_PATTERN;
static const char s_llama3[] =
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES;
static const char s_qwen2[] =
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES;
static const char s_qwen35[] =
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES;
static const char s_gpt4o[] = CASED_WORD(CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES;
static const char s_tekken[] = CASED_WORD("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES;

enum { DIGITS = 1, NFC = 2, IGNORE_MERGES = 4, ADD_BOS = 8, THREES = 16 };

// `options`: each digit is a piece of its own; the normaliser is NFC; a piece that is a token is not merged; the bos
// is added unless the file says otherwise; punctuation is cut off first, and digits by threes last (what llama.cpp does
// where it knows nothing better).
static const struct {
    const char *name, *pattern;
    unsigned    options;
} s_known[] = {
    { "gpt-2", s_gpt2, 0 },
    { "gpt2", s_gpt2, 0 },
    { "default", s_gpt2, THREES },
    { "phi-2", s_gpt2, 0 },
    { "mpt", s_gpt2, NFC },
    { "olmo", s_gpt2, NFC },
    { "smollm", s_gpt2, DIGITS },
    { "starcoder", s_gpt2, DIGITS },
    { "refact", s_gpt2, DIGITS },
    { "codeshell", s_gpt2, DIGITS },
    { "command-r", s_gpt2, DIGITS | NFC },
    { "llama-bpe", s_llama3, IGNORE_MERGES | ADD_BOS },
    { "llama3", s_llama3, IGNORE_MERGES | ADD_BOS },
    { "llama-v3", s_llama3, IGNORE_MERGES | ADD_BOS },
    { "dbrx", s_llama3, 0 },
    { "smaug-bpe", s_llama3, IGNORE_MERGES },
    { "qwen2", s_qwen2, NFC },
    { "deepseek-r1-qwen", s_qwen2, NFC },
    { "stablelm2", s_qwen2, NFC },
    { "qwen35", s_qwen35, NFC },
    { "gpt-4o", s_gpt4o, 0 },
    { "llama4", s_gpt4o, ADD_BOS },
    { "tekken", s_tekken, IGNORE_MERGES | ADD_BOS },
};

// Types of a token, of the format.
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };

typedef struct {
    verl_token_source_t *source;
    const verl_gguf_t   *gguf;
    const char          *path;
    char                *error;
    size_t               error_size;
} s_reader_t;

#define S_FAIL(reader, ...) verl_text_fail((reader)->error, (reader)->error_size, __VA_ARGS__)
#define S_NO_MEMORY(reader) S_FAIL(reader, "%s: not enough memory", (reader)->path)

static int
s_add_split(s_reader_t *self, const char *pattern)
{
    return verl_source_add_step(self->source, VERL_PIPE_PRE_TOKENIZER, VERL_STEP_SPLIT, VERL_SPLIT_ISOLATED, pattern,
                                strlen(pattern), "", 0);
}

static int
s_add_splits(s_reader_t *self, const char *pattern, unsigned options)
{
    int rc = 0;
    if (options & DIGITS)
        rc = s_add_split(self, VERL_DIGIT_PATTERN);
    if (options & THREES)
        rc = rc || s_add_split(self, "[\\p{P}$+<=>^~|]+");
    rc = rc || s_add_split(self, pattern);
    if (options & THREES)
        rc = rc || s_add_split(self, "\\p{N}+") || s_add_split(self, "[0-9][0-9][0-9]");
    return rc;
}

static int
s_read_pre(s_reader_t *self)
{
    verl_gguf_string_t name;
    size_t known = 0, count = sizeof s_known / sizeof *s_known;
    if (!verl_gguf_string(self->gguf, "tokenizer.ggml.pre", &name))
        return S_FAIL(self,
                      "%s: has no tokenizer.ggml.pre, so that nothing says how it cuts text; convert the model anew",
                      self->path);
    while (known < count &&
           (strlen(s_known[known].name) != name.size || memcmp(s_known[known].name, name.data, name.size) != 0))
        known++;
    if (known == count)
        return S_FAIL(self, "%s: the pre-tokenizer \"%.*s\" is not known; give the model's tokenizer.json instead",
                      self->path, (int) (name.size < 60 ? name.size : 60), name.data);
    unsigned options = s_known[known].options;
    int rc = 0;
    if (options & NFC)
        rc = verl_source_add_step(self->source, VERL_PIPE_NORMALIZER, VERL_STEP_NFC, 0, "", 0, "", 0);
    rc = rc || s_add_splits(self, s_known[known].pattern, options);
    rc = rc || verl_source_add_byte_level(self->source, false, false)
         || verl_source_add_step(self->source, VERL_PIPE_DECODER, VERL_STEP_BYTE_LEVEL, 0, "", 0, "", 0);
    self->source->flags |= options & IGNORE_MERGES ? VERL_MODEL_IGNORE_MERGES : 0u;
    return rc ? S_NO_MEMORY(self) : options & ADD_BOS ? 1 : 0;
}

static int
s_read_token(s_reader_t *self, uint32_t id, verl_gguf_string_t content, int64_t type)
{
    verl_token_span_t span;
    bool added = (type == TYPE_CONTROL || type == TYPE_USER_DEFINED) && content.size > 0;
    uint32_t flags = type == TYPE_UNUSED ? VERL_TOKEN_PADDING : added ? 0u : (uint32_t) VERL_TOKEN_MODEL;
    if (verl_source_add_string(self->source, content.data, content.size, &span)
        || verl_source_add_token(self->source, id, span, flags))
        return S_NO_MEMORY(self);
    verl_token_added_t token = { .id = id, .flags = type == TYPE_CONTROL ? VERL_ADDED_SPECIAL : 0u, .match = span };
    return added && verl_source_add_added(self->source, &token) ? S_NO_MEMORY(self) : 0;
}

static int
s_read_tokens(s_reader_t *self)
{
    const verl_gguf_value_t *tokens = verl_gguf_get(self->gguf, "tokenizer.ggml.tokens");
    const verl_gguf_value_t *types = verl_gguf_get(self->gguf, "tokenizer.ggml.token_type");
    int64_t count = tokens ? verl_gguf_element_count(tokens) : 0;
    if (count == 0 || count > VERL_IMAGE_MAX_TOKENS)
        return S_FAIL(self, "%s: tokenizer.ggml.tokens has %" PRId64 " tokens; it must have 1 to %u", self->path, count,
                      VERL_IMAGE_MAX_TOKENS);
    if (types && verl_gguf_element_count(types) != count)
        return S_FAIL(self, "%s: tokenizer.ggml.token_type has %" PRId64 " elements for %" PRId64 " tokens", self->path,
                      verl_gguf_element_count(types), count);
    for (int64_t id = 0; id < count; id++) {
        verl_gguf_string_t content;
        int64_t type = TYPE_NORMAL;
        if (!verl_gguf_element_string(tokens, id, &content))
            return S_FAIL(self, "%s: tokenizer.ggml.tokens is not a list of strings", self->path);
        if (types && !verl_gguf_element_int(types, id, &type))
            return S_FAIL(self, "%s: tokenizer.ggml.token_type is not a list of integers", self->path);
        if (s_read_token(self, (uint32_t) id, content, type))
            return -1;
    }
    return 0;
}

static int
s_read_merges(s_reader_t *self)
{
    const verl_gguf_value_t *merges = verl_gguf_get(self->gguf, "tokenizer.ggml.merges");
    if (!merges)
        return S_FAIL(self, "%s: no BPE tokenizer: it has no tokenizer.ggml.merges", self->path);
    for (int64_t rank = 0; rank < verl_gguf_element_count(merges); rank++) {
        verl_gguf_string_t merge = { 0 };
        verl_token_span_t left, right;
        const char *space = NULL;
        if (verl_gguf_element_string(merges, rank, &merge) && merge.size > 2)
            space = memchr(merge.data + 1, ' ', merge.size - 2);
        if (!space)
            return S_FAIL(self, "%s: tokenizer.ggml.merges[%" PRId64 "] must be two tokens with a space between",
                          self->path, rank);
        size_t length = (size_t) (space - merge.data);
        if (verl_source_add_string(self->source, merge.data, length, &left)
            || verl_source_add_string(self->source, space + 1, merge.size - length - 1, &right)
            || verl_source_add_merge(self->source, left, right))
            return S_NO_MEMORY(self);
    }
    return 0;
}

static int32_t
s_special(s_reader_t *self, const char *key)
{
    int64_t id = -1;
    bool there = verl_gguf_int(self->gguf, key, &id) && id >= 0 && id < (int64_t) self->source->token_count;
    return there ? (int32_t) id : -1;
}

static int
s_read_special(s_reader_t *self, bool bos_by_default)
{
    verl_token_source_t *source = self->source;
    verl_gguf_string_t chat;
    int64_t add_bos = bos_by_default, add_eos = 0;
    int32_t bos = s_special(self, "tokenizer.ggml.bos_token_id"), eos = s_special(self, "tokenizer.ggml.eos_token_id");
    source->named_id[VERL_NAMED_BOS] = bos;
    source->named_id[VERL_NAMED_EOS] = eos;
    source->named_id[VERL_NAMED_PAD] = s_special(self, "tokenizer.ggml.padding_token_id");
    verl_gguf_int(self->gguf, "tokenizer.ggml.add_bos_token", &add_bos);
    verl_gguf_int(self->gguf, "tokenizer.ggml.add_eos_token", &add_eos);
    if (add_bos && bos >= 0)
        source->prefix[source->prefix_count++] = bos;
    if (add_eos && eos >= 0)
        source->suffix[source->suffix_count++] = eos;
    if (!verl_gguf_string(self->gguf, "tokenizer.chat_template", &chat))
        return 0;
    source->flags |= VERL_MODEL_CHAT;
    return verl_source_add_string(source, chat.data, chat.size, &source->chat_template) ? S_NO_MEMORY(self) : 0;
}

int
verl_source_read_gguf(verl_token_source_t *self, const verl_gguf_t *gguf, const char *path, char *error,
                      size_t error_size)
{
    s_reader_t reader = { self, gguf, path, error, error_size };
    verl_gguf_string_t model = { "", 0 };
    verl_gguf_string(gguf, "tokenizer.ggml.model", &model);
    if (model.size != 4 || memcmp(model.data, "gpt2", 4) != 0)
        return S_FAIL(&reader, "%s: tokenizer.ggml.model is \"%.*s\"; only \"gpt2\" (byte-level BPE) is supported",
                      path, (int) (model.size < 60 ? model.size : 60), model.data);
    int bos = s_read_pre(&reader);
    if (bos < 0 || s_read_tokens(&reader) || s_read_merges(&reader))
        return -1;
    return s_read_special(&reader, bos > 0);
}
