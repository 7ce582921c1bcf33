// source_beside.c: the files beside tokenizer.json: special tokens by name, and the chat template.
//
// The reference takes tokens from these files that tokenizer.json does not have, or has with other flags; its ids then
// are not those of tokenizer.json, so such a token is refused by name. As there, special_tokens_map.json and
// added_tokens.json count only where tokenizer_config.json has no added_tokens_decoder, and the former then goes before
// tokenizer_config.json.
#include "actors/text/source.h"
#include <jansson.h>
#include <string.h>

const char *const verl_beside_names[VERL_BESIDE] = {
    [VERL_BESIDE_CONFIG] = "tokenizer_config.json", [VERL_BESIDE_TEMPLATE] = "chat_template.jinja",
    [VERL_BESIDE_SPECIAL] = "special_tokens_map.json", [VERL_BESIDE_ADDED] = "added_tokens.json",
};

typedef struct {
    verl_token_source_t *source;
    const char          *path, *file;       // of tokenizer.json; the name of the one that is read
    char                *error;
    size_t               error_size;
} s_reader_t;

#define S_FAIL(reader, ...) verl_text_fail((reader)->error, (reader)->error_size, __VA_ARGS__)
#define S_NO_MEMORY(reader) S_FAIL(reader, "%s: not enough memory", (reader)->path)

// Integers are ids in all but the configuration, of which none is used.
static const size_t s_integers[VERL_BESIDE] = { [VERL_BESIDE_CONFIG] = JSON_DECODE_INT_AS_REAL };

static int
s_load(s_reader_t *self, const verl_source_files_t *files, verl_beside_t which, json_t **ret_json)
{
    json_error_t where;
    self->file = verl_beside_names[which];
    *ret_json = NULL;
    if (!files->beside[which])
        return 0;
    // transformers writes a model_max_length of 1e30 as an integer where there is none.
    *ret_json = json_loadb(files->beside[which], files->beside_size[which], JSON_ALLOW_NUL | s_integers[which], &where);
    if (!*ret_json)
        return S_FAIL(self, "%s: %s beside it is not valid JSON: line %d, column %d: %s; it may be cut short",
                      self->path, self->file, where.line, where.column, where.text);
    return json_is_object(*ret_json) ? 0 : S_FAIL(self, "%s: %s beside it must be an object", self->path, self->file);
}

// A token is a string, or an object with its content.
static const json_t *
s_content(const json_t *token)
{
    return json_is_object(token) ? json_object_get(token, "content") : token;
}

// The added token of tokenizer.json that is meant; NULL, with a sentence, where there is none.
static const verl_token_added_t *
s_find(s_reader_t *self, const char *key, const json_t *content)
{
    const verl_token_source_t *source = self->source;
    const char *text = json_string_value(content);
    size_t length = json_string_length(content);
    for (size_t i = 0; i < source->added_count && text; i++)
        if (source->added[i].match.length == length &&
            memcmp(source->strings.data + source->added[i].match.offset, text, length) == 0)
            return &source->added[i];
    if (text)
        S_FAIL(self, "%s: \"%.60s\" of %s in %s beside it is none of its added_tokens: one there would be right",
               self->path, text, key, self->file);
    else
        S_FAIL(self, "%s: %s in %s beside it must be a text, or an object with its content", self->path, key,
               self->file);
    return NULL;
}

static int
s_check_flags(s_reader_t *self, const json_t *token)
{
    const json_t *content = s_content(token);
    const verl_token_added_t *added = s_find(self, "added_tokens_decoder", content);
    uint32_t flags = verl_source_added_flags(token);
    if (!added)
        return -1;
    if (!json_object_get(token, "normalized") && !(flags & VERL_ADDED_SPECIAL))
        flags |= VERL_ADDED_NORMALIZED;
    for (size_t i = 0; i < VERL_ADDED_FLAGS; i++)
        if ((flags ^ added->flags) & verl_source_added_flag[i].flag)
            return S_FAIL(self, "%s: \"%.60s\" has %s = %s in its added_tokens, and %s in %s beside it: the same in "
                          "both would be right", self->path, json_string_value(content), verl_source_added_flag[i].key,
                          added->flags & verl_source_added_flag[i].flag ? "true" : "false",
                          flags & verl_source_added_flag[i].flag ? "true" : "false", self->file);
    return 0;
}

// Tokens of a list, or of an object by names of their own.
static int
s_check_list(s_reader_t *self, const char *key, json_t *tokens)
{
    size_t index;
    const char *name;
    json_t *token;
    json_array_foreach(tokens, index, token)
        if (!s_find(self, key, s_content(token)))
            return -1;
    json_object_foreach(tokens, name, token)
        if (!s_find(self, key, s_content(token)))
            return -1;
    return 0;
}

static bool
s_is_token(const char *key, const json_t *value)
{
    size_t length = strlen(key);
    return length > 6 && strcmp(key + length - 6, "_token") == 0 && json_string_length(s_content(value)) > 0;
}

// Every token that an object names is an added token of tokenizer.json.
static int
s_check_tokens(s_reader_t *self, json_t *object)
{
    static const char *const lists[] = { "extra_special_tokens", "additional_special_tokens" };
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
        if (s_is_token(key, value) && !s_find(self, key, s_content(value)))
            return -1;
    for (int i = 0; i < 2; i++)
        if (s_check_list(self, lists[i], json_object_get(object, lists[i])))
            return -1;
    return 0;
}

static int
s_read_named(s_reader_t *self, const json_t *object)
{
    for (int i = 0; i < VERL_NAMED_TOKENS; i++) {
        const json_t *token = json_object_get(object, verl_named_tokens[i]), *content = s_content(token);
        if (token)
            self->source->named[i] = (verl_token_span_t) { 0 };
        if (json_is_string(content) && verl_source_add_string(self->source, json_string_value(content),
                                                              json_string_length(content), &self->source->named[i]))
            return S_NO_MEMORY(self);
    }
    return 0;
}

// A chat template is a string, or a list of named ones of which "default" is taken.
static const json_t *
s_find_template(const json_t *config)
{
    const json_t *found = json_object_get(config, "chat_template");
    size_t index;
    json_t *entry;
    if (!json_is_array(found))
        return found;
    const json_t *list = found;
    json_array_foreach(list, index, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_object_get(entry, "template");
    }
    return NULL;
}

static int
s_add_template(s_reader_t *self, uint32_t origin, const char *text, size_t length)
{
    self->source->flags &= ~(uint32_t) (VERL_MODEL_CHAT_CONFIG | VERL_MODEL_CHAT_FILE);
    self->source->flags |= VERL_MODEL_CHAT | origin;
    return verl_source_add_string(self->source, text, length, &self->source->chat_template) ? S_NO_MEMORY(self) : 0;
}

static int
s_read_config(s_reader_t *self, json_t *config)
{
    const char *id;
    json_t *token;
    if (json_is_true(json_object_get(config, "split_special_tokens")))
        return S_FAIL(self, "%s: split_special_tokens is true in %s beside it, and special tokens are never split "
                      "here: false would be right", self->path, self->file);
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), id, token)
        if (s_check_flags(self, token))
            return -1;
    const json_t *chat = s_find_template(config);
    if (json_is_string(chat) &&
        s_add_template(self, VERL_MODEL_CHAT_CONFIG, json_string_value(chat), json_string_length(chat)))
        return -1;
    return s_check_tokens(self, config) || s_read_named(self, config) ? -1 : 0;
}

static int
s_read_special(s_reader_t *self, json_t *map)
{
    return s_check_tokens(self, map) || s_read_named(self, map) ? -1 : 0;
}

static int
s_read_added(s_reader_t *self, json_t *tokens)
{
    const char *text;
    json_t *id;
    json_object_foreach(tokens, text, id) {
        json_t *content = json_string(text);
        const verl_token_added_t *added = content ? s_find(self, "a token", content) : NULL;
        json_decref(content);
        if (!added)
            return content ? -1 : S_NO_MEMORY(self);
        if (json_integer_value(id) != (json_int_t) added->id)
            return S_FAIL(self, "%s: \"%.60s\" has the id %u in its added_tokens, and another in %s beside it: the "
                          "same in both would be right", self->path, text, added->id, self->file);
    }
    return 0;
}

int
verl_source_read_beside(verl_token_source_t *self, const verl_source_files_t *files, char *error, size_t error_size)
{
    s_reader_t reader = { self, files->path, "", error, error_size };
    json_t *config, *special = NULL, *added = NULL;
    int rc = s_load(&reader, files, VERL_BESIDE_CONFIG, &config);
    bool whole = json_object_get(config, "added_tokens_decoder");
    rc = rc || s_read_config(&reader, config);
    rc = rc || (!whole && (s_load(&reader, files, VERL_BESIDE_SPECIAL, &special) || s_read_special(&reader, special)));
    rc = rc || (!whole && (s_load(&reader, files, VERL_BESIDE_ADDED, &added) || s_read_added(&reader, added)));
    if (!rc && files->beside[VERL_BESIDE_TEMPLATE])
        rc = s_add_template(&reader, VERL_MODEL_CHAT_FILE, files->beside[VERL_BESIDE_TEMPLATE],
                            files->beside_size[VERL_BESIDE_TEMPLATE]);
    json_decref(config);
    json_decref(special);
    json_decref(added);
    return rc ? -1 : 0;
}
