// source_json.c: tokenizer.json, read into a source.
//
// What the reference ignores is ignored (versions, padding, truncation: lengths are the caller's business); what it
// would do and we cannot is an error that names the key.
#include "actors/text/source.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    verl_token_source_t *source;
    const char          *path;
    char                *error;
    size_t               error_size;
} s_reader_t;

const verl_source_added_flag_t verl_source_added_flag[VERL_ADDED_FLAGS] = {
    { "special", VERL_ADDED_SPECIAL }, { "lstrip", VERL_ADDED_LSTRIP }, { "rstrip", VERL_ADDED_RSTRIP },
    { "single_word", VERL_ADDED_SINGLE_WORD }, { "normalized", VERL_ADDED_NORMALIZED },
};

#define S_FAIL(reader, ...) verl_text_fail((reader)->error, (reader)->error_size, __VA_ARGS__)
#define S_NO_MEMORY(reader) S_FAIL(reader, "%s: not enough memory", (reader)->path)

static int
s_span(s_reader_t *self, const json_t *string, verl_token_span_t *ret_span)
{
    return verl_source_add_string(self->source, json_string_value(string), json_string_length(string), ret_span);
}

static int
s_read_vocab(s_reader_t *self, json_t *vocab)
{
    const char *key;
    size_t length;
    json_t *value;
    json_object_keylen_foreach(vocab, key, length, value) {
        verl_token_span_t span;
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= VERL_IMAGE_MAX_TOKENS)
            return S_FAIL(self, "%s: the id of token \"%.60s\" in model.vocab must be an integer from 0 to %u",
                          self->path, key, VERL_IMAGE_MAX_TOKENS - 1);
        if (verl_source_add_string(self->source, key, length, &span))
            return S_NO_MEMORY(self);
        if (verl_source_add_token(self->source, (uint32_t) id, span, VERL_TOKEN_MODEL))
            return S_FAIL(self, "%s: model.vocab gives id %lld to \"%.60s\" and to another token", self->path,
                          (long long) id, key);
    }
    return 0;
}

// A merge is a pair of tokens, or both in one string with a space between.
static int
s_read_merge(s_reader_t *self, const json_t *merge, size_t rank)
{
    verl_token_span_t left, right;
    if (json_is_array(merge) && json_array_size(merge) == 2 && json_is_string(json_array_get(merge, 0))
        && json_is_string(json_array_get(merge, 1))) {
        if (s_span(self, json_array_get(merge, 0), &left) || s_span(self, json_array_get(merge, 1), &right))
            return S_NO_MEMORY(self);
        return verl_source_add_merge(self->source, left, right) ? S_NO_MEMORY(self) : 0;
    }
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' '))
        return S_FAIL(self, "%s: model.merges[%zu] must be a pair of tokens, or two tokens with one space between",
                      self->path, rank);
    if (verl_source_add_string(self->source, text, (size_t) (space - text), &left)
        || verl_source_add_string(self->source, space + 1, strlen(space + 1), &right)
        || verl_source_add_merge(self->source, left, right))
        return S_NO_MEMORY(self);
    return 0;
}

static int
s_read_merges(s_reader_t *self, const json_t *merges)
{
    size_t rank;
    json_t *merge;
    json_array_foreach(merges, rank, merge)
        if (s_read_merge(self, merge, rank))
            return -1;
    return 0;
}

const char *
verl_source_word(const json_t *value)
{
    static const char *const words[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "text", [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "true",      [JSON_FALSE] = "false", [JSON_NULL] = "null",
    };
    return words[json_typeof(value)];
}

int
verl_source_check_flags(const json_t *object, const char *const *keys, size_t count, const char *path,
                        const char *where, char *error, size_t error_size)
{
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(object, keys[i]);
        if (value && !json_is_boolean(value) && !json_is_null(value))
            return verl_text_fail(error, error_size, "%s: %s of %s is %s: true or false would be right", path, keys[i],
                                  where, verl_source_word(value));
    }
    return 0;
}

static int
s_check_model(s_reader_t *self, const json_t *model)
{
    static const char *const flags[] = { "ignore_merges", "byte_fallback", "fuse_unk" };
    static const char *const texts[] = { "unk_token", "continuing_subword_prefix", "end_of_word_suffix" };
    for (int i = 0; i < 3; i++) {
        const json_t *text = json_object_get(model, texts[i]);
        if (text && !json_is_string(text) && !json_is_null(text))
            return S_FAIL(self, "%s: %s of model is %s: text or null would be right", self->path, texts[i],
                          verl_source_word(text));
    }
    return verl_source_check_flags(model, flags, 3, self->path, "model", self->error, self->error_size);
}

// Options of a BPE model that change its ids in ways that no tokenizer of the byte-level kind uses.
static int
s_refuse_options(s_reader_t *self, const json_t *model)
{
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_number(dropout) && !json_is_null(dropout))
        return S_FAIL(self, "%s: dropout of model is %s: null would be right", self->path, verl_source_word(dropout));
    if (json_number_value(dropout) != 0)
        return S_FAIL(self, "%s: model.dropout is %g; ids would be random, so it must be null", self->path,
                      json_number_value(dropout));
    static const char *const affixes[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    for (int i = 0; i < 2; i++) {
        const char *affix = json_string_value(json_object_get(model, affixes[i]));
        if (affix && affix[0])
            return S_FAIL(self, "%s: model.%s is \"%s\"; only tokenizers without it are supported", self->path,
                          affixes[i], affix);
    }
    return 0;
}

static int
s_read_model(s_reader_t *self, const json_t *root)
{
    json_t *model = json_object_get(root, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    if (type && strcmp(type, "BPE") != 0)
        return S_FAIL(self, "%s: the model is of type \"%s\"; only \"BPE\" is supported", self->path, type);
    if (!json_is_object(vocab) || !json_is_array(merges))
        return S_FAIL(self, "%s: no BPE tokenizer: it must have the object model.vocab and the array model.merges",
                      self->path);
    if (s_check_model(self, model) || s_refuse_options(self, model))
        return -1;
    if (json_is_true(json_object_get(model, "ignore_merges")))
        self->source->flags |= VERL_MODEL_IGNORE_MERGES;
    if (json_is_true(json_object_get(model, "byte_fallback")))
        self->source->flags |= VERL_MODEL_BYTE_FALLBACK;
    if (json_is_true(json_object_get(model, "fuse_unk")))
        self->source->flags |= VERL_MODEL_FUSE_UNK;
    const json_t *unk = json_object_get(model, "unk_token");
    if (json_is_string(unk) && s_span(self, unk, &self->source->unk))
        return S_NO_MEMORY(self);
    return s_read_vocab(self, vocab) || s_read_merges(self, merges) ? -1 : 0;
}

uint32_t
verl_source_added_flags(const json_t *token)
{
    uint32_t flags = 0;
    for (size_t i = 0; i < VERL_ADDED_FLAGS; i++)
        if (json_is_true(json_object_get(token, verl_source_added_flag[i].key)))
            flags |= verl_source_added_flag[i].flag;
    return flags;
}

static int
s_check_added(s_reader_t *self, const json_t *token, size_t index)
{
    const char *keys[VERL_ADDED_FLAGS];
    char where[48];
    for (size_t i = 0; i < VERL_ADDED_FLAGS; i++)
        keys[i] = verl_source_added_flag[i].key;
    snprintf(where, sizeof where, "added_tokens[%zu]", index);
    return verl_source_check_flags(token, keys, VERL_ADDED_FLAGS, self->path, where, self->error, self->error_size);
}

static int
s_read_added(s_reader_t *self, const json_t *root)
{
    const json_t *list = json_object_get(root, "added_tokens");
    size_t index;
    json_t *token;
    if (list && !json_is_array(list) && !json_is_null(list))
        return S_FAIL(self, "%s: added_tokens is %s: an array of objects would be right", self->path,
                      verl_source_word(list));
    json_array_foreach(list, index, token) {
        const json_t *id = json_object_get(token, "id"), *content = json_object_get(token, "content");
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= VERL_IMAGE_MAX_TOKENS
            || !json_is_string(content))
            return S_FAIL(self, "%s: added_tokens[%zu] must have an id from 0 to %u and a content", self->path, index,
                          VERL_IMAGE_MAX_TOKENS - 1);
        if (s_check_added(self, token, index))
            return -1;
        verl_token_added_t added = { .id = (uint32_t) json_integer_value(id), .flags = verl_source_added_flags(token) };
        if (s_span(self, content, &added.match) || verl_source_add_added(self->source, &added))
            return S_NO_MEMORY(self);
    }
    return 0;
}

int
verl_source_read_json(verl_token_source_t *self, const verl_source_files_t *files, char *error, size_t error_size)
{
    s_reader_t reader = { self, files->path, error, error_size };
    json_error_t where;
    json_t *root = json_loadb(files->json, files->json_size, JSON_ALLOW_NUL, &where);
    if (!root)
        return S_FAIL(&reader, "%s: not valid JSON: line %d, column %d: %s; the file may be cut short", files->path,
                      where.line, where.column, where.text);
    int rc = -1;
    if (!json_is_object(root) || !json_is_object(json_object_get(root, "model")))
        S_FAIL(&reader, "%s: no tokenizer: it must be an object with the key \"model\"", files->path);
    else if (!s_read_model(&reader, root) && !s_read_added(&reader, root)
             && !verl_source_read_pipelines(self, root, files->path, error, error_size))
        rc = verl_source_read_beside(self, files, error, error_size);
    json_decref(root);
    return rc;
}
