// source_pipelines.c: the normaliser, pre-tokenizer, decoder and post-processor of tokenizer.json, as flat steps.
//
// Everything that cuts a text becomes a SPLIT with a pattern (a literal is escaped, digits are \p{N}), so that one
// piece of code does all the cutting. ByteLevel must be the last pre-tokenizer, since what follows it would see
// another alphabet; no known tokenizer has it elsewhere.
#include "actors/text/source.h"
#include <jansson.h>
#include <string.h>

typedef struct {
    verl_token_source_t *source;
    const char          *path;
    char                *error;
    size_t               error_size;
} s_reader_t;

#define S_FAIL(reader, ...) verl_text_fail((reader)->error, (reader)->error_size, __VA_ARGS__)
#define S_NO_MEMORY(reader) S_FAIL(reader, "%s: not enough memory", (reader)->path)
enum { MAX_DEPTH = 16 };

typedef int s_reader_fn_t(s_reader_t *self, const json_t *node, int depth);

static const char *
s_type(const json_t *node)
{
    const char *type = json_string_value(json_object_get(node, "type"));
    return type ? type : "";
}

// -1: it is none.
static json_int_t
s_integer(const json_t *value)
{
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static bool
s_option(const json_t *node, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(node, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static int
s_add(s_reader_t *self, int pipe, verl_step_kind_t kind, uint32_t option, const char *first, const char *second)
{
    int rc = verl_source_add_step(self->source, pipe, kind, option, first, strlen(first), second, strlen(second));
    return rc ? S_NO_MEMORY(self) : 0;
}

// Reads one step; part is the key that it stands behind.
static int
s_read_node(s_reader_t *self, const char *part, const json_t *node, s_reader_fn_t *read, int depth)
{
    static const char *const flags[] = { "add_prefix_space", "use_regex",  "invert",
                                         "individual_digits", "strip_left", "strip_right" };
    if (!json_is_object(node))
        return S_FAIL(self, "%s: %s %s %s: an object with its type would be right", self->path, part,
                      depth > 0 ? "has an element that is" : "is", verl_source_word(node));
    if (verl_source_check_flags(node, flags, sizeof flags / sizeof *flags, self->path, part, self->error,
                                self->error_size))
        return -1;
    return read(self, node, depth);
}

// Reads each element of an array in order.
static int
s_each(s_reader_t *self, const json_t *node, const char *key, s_reader_fn_t *read, int depth)
{
    const json_t *list = json_object_get(node, key);
    size_t index;
    json_t *element;
    if (depth > MAX_DEPTH)
        return S_FAIL(self, "%s: a Sequence is nested more than %d deep", self->path, MAX_DEPTH);
    if (!json_is_array(list))
        return S_FAIL(self, "%s: a Sequence must have the array \"%s\"", self->path, key);
    json_array_foreach(list, index, element)
        if (s_read_node(self, key, element, read, depth + 1))
            return -1;
    return 0;
}

// Gives a pattern {"String": …} or {"Regex": …} as a regular expression in *text.
static int
s_pattern(s_reader_t *self, const json_t *node, verl_text_t *text)
{
    const json_t *pattern = json_object_get(node, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *literal = json_string_value(json_object_get(pattern, "String"));
    if (!regex && !literal)
        return S_FAIL(self, "%s: a %s must have a pattern, a \"String\" or a \"Regex\"", self->path, s_type(node));
    if (regex)
        return verl_text_add(text, regex, strlen(regex)) ? S_NO_MEMORY(self) : 0;
    for (; *literal; literal++) {
        bool plain = (*literal >= 'a' && *literal <= 'z') || (*literal >= 'A' && *literal <= 'Z')
                     || (*literal >= '0' && *literal <= '9') || (*literal & 0x80) != 0 || *literal <= ' ';
        if ((!plain && verl_text_add(text, "\\", 1)) || verl_text_add(text, literal, 1))
            return S_NO_MEMORY(self);
    }
    return 0;
}

static int
s_add_replace(s_reader_t *self, const json_t *node, int pipe)
{
    const json_t *content = json_object_get(node, "content");
    verl_text_t pattern = { 0 };
    int rc = -1;
    if (!json_is_string(content))
        S_FAIL(self, "%s: a Replace must have the string \"content\"", self->path);
    else if (!s_pattern(self, node, &pattern))
        rc = verl_source_add_step(self->source, pipe, VERL_STEP_REPLACE, 0, pattern.data ? pattern.data : "",
                                  pattern.length, json_string_value(content), json_string_length(content))
                 ? S_NO_MEMORY(self) : 0;
    verl_text_done(&pattern);
    return rc;
}

static int
s_read_normalizer(s_reader_t *self, const json_t *node, int depth)
{
    static const struct { const char *type; verl_step_kind_t kind; } forms[] = {
        { "NFC", VERL_STEP_NFC }, { "NFD", VERL_STEP_NFD }, { "NFKC", VERL_STEP_NFKC }, { "NFKD", VERL_STEP_NFKD },
    };
    const char *type = s_type(node);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(type, forms[i].type) == 0)
            return s_add(self, VERL_PIPE_NORMALIZER, forms[i].kind, 0, "", "");
    if (strcmp(type, "Sequence") == 0)
        return s_each(self, node, "normalizers", s_read_normalizer, depth);
    if (strcmp(type, "Replace") == 0)
        return s_add_replace(self, node, VERL_PIPE_NORMALIZER);
    if (strcmp(type, "Strip") == 0)
        return s_add(self, VERL_PIPE_NORMALIZER, VERL_STEP_STRIP_SPACE,
                     (s_option(node, "strip_left", true) ? 1u : 0u) | (s_option(node, "strip_right", true) ? 2u : 0u),
                     "", "");
    const char *prepend = json_string_value(json_object_get(node, "prepend"));
    if (strcmp(type, "Prepend") == 0 && prepend)
        return s_add(self, VERL_PIPE_NORMALIZER, VERL_STEP_PREPEND, 0, prepend, "");
    return S_FAIL(self, "%s: the normalizer \"%s\" is not supported; NFC, NFD, NFKC, NFKD, Replace, Prepend, Strip and "
                  "Sequence are", self->path, type);
}

static int
s_read_split(s_reader_t *self, const json_t *node)
{
    static const char *const names[] = { "Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous" };
    const char *behavior = json_string_value(json_object_get(node, "behavior"));
    uint32_t option = 0;
    while (option < 5 && (!behavior || strcmp(behavior, names[option]) != 0))
        option++;
    if (option == 5)
        return S_FAIL(self, "%s: the behavior of a Split is \"%s\"; it must be Isolated, Removed, MergedWithPrevious, "
                      "MergedWithNext or Contiguous", self->path, behavior ? behavior : "");
    if (s_option(node, "invert", false))
        option |= VERL_SPLIT_INVERT;
    verl_text_t pattern = { 0 };
    int rc = s_pattern(self, node, &pattern);
    if (!rc)
        rc = s_add(self, VERL_PIPE_PRE_TOKENIZER, VERL_STEP_SPLIT, option, pattern.data ? pattern.data : "", "");
    verl_text_done(&pattern);
    return rc;
}

static int
s_read_pre_tokenizer(s_reader_t *self, const json_t *node, int depth)
{
    const int pipe = VERL_PIPE_PRE_TOKENIZER;
    const char *type = s_type(node);
    if (strcmp(type, "Sequence") == 0)
        return s_each(self, node, "pretokenizers", s_read_pre_tokenizer, depth);
    if (self->source->flags & VERL_MODEL_BYTE_LEVEL)
        return S_FAIL(self, "%s: the pre-tokenizer \"%s\" comes after ByteLevel, which must be the last", self->path,
                      type);
    if (strcmp(type, "ByteLevel") == 0)
        return verl_source_add_byte_level(self->source, s_option(node, "add_prefix_space", true),
                                          s_option(node, "use_regex", true)) ? S_NO_MEMORY(self) : 0;
    if (strcmp(type, "Split") == 0)
        return s_read_split(self, node);
    if (strcmp(type, "Digits") == 0)
        return s_add(self, pipe, VERL_STEP_SPLIT, VERL_SPLIT_ISOLATED,
                     s_option(node, "individual_digits", false) ? VERL_DIGIT_PATTERN : VERL_DIGIT_PATTERN "+", "");
    if (strcmp(type, "Whitespace") == 0)
        return s_add(self, pipe, VERL_STEP_SPLIT, VERL_SPLIT_REMOVED | VERL_SPLIT_INVERT,
                     "[" VERL_WORD_CLASS "]+|[^\\s" VERL_WORD_CLASS "]+", "");
    if (strcmp(type, "WhitespaceSplit") == 0)
        return s_add(self, pipe, VERL_STEP_SPLIT, VERL_SPLIT_REMOVED, "\\s", "");
    return S_FAIL(self, "%s: the pre-tokenizer \"%s\" is not supported; ByteLevel, Split, Digits, Whitespace, "
                  "WhitespaceSplit and Sequence are", self->path, type);
}

static int
s_read_strip(s_reader_t *self, const json_t *node)
{
    const char *content = json_string_value(json_object_get(node, "content"));
    json_int_t start = s_integer(json_object_get(node, "start")), stop = s_integer(json_object_get(node, "stop"));
    if (!content || !content[0] || start < 0 || start > UINT16_MAX || stop < 0 || stop > UINT16_MAX)
        return S_FAIL(self, "%s: a Strip of decoder must have the text \"content\", and \"start\" and \"stop\" from 0 "
                      "to %d", self->path, UINT16_MAX);
    return s_add(self, VERL_PIPE_DECODER, VERL_STEP_STRIP, (uint32_t) start | (uint32_t) stop << 16, content, "");
}

static int
s_read_decoder(s_reader_t *self, const json_t *node, int depth)
{
    const int pipe = VERL_PIPE_DECODER;
    const char *type = s_type(node);
    if (strcmp(type, "Sequence") == 0)
        return s_each(self, node, "decoders", s_read_decoder, depth);
    if (strcmp(type, "ByteLevel") == 0)
        return s_add(self, pipe, VERL_STEP_BYTE_LEVEL, 0, "", "");
    if (strcmp(type, "Replace") == 0)
        return s_add_replace(self, node, pipe);
    if (strcmp(type, "ByteFallback") == 0)
        return s_add(self, pipe, VERL_STEP_BYTE_FALLBACK, 0, "", "");
    if (strcmp(type, "Fuse") == 0)
        return s_add(self, pipe, VERL_STEP_FUSE, 0, "", "");
    if (strcmp(type, "Strip") == 0)
        return s_read_strip(self, node);
    return S_FAIL(self, "%s: the decoder \"%s\" is not supported; ByteLevel, Replace, ByteFallback, Fuse, Strip and "
                  "Sequence are", self->path, type);
}

// Puts ids before (prefix) or behind what is there already.
static int
s_add_special(s_reader_t *self, const int32_t *ids, size_t count, bool suffix)
{
    int32_t *list = suffix ? self->source->suffix : self->source->prefix;
    size_t *used = suffix ? &self->source->suffix_count : &self->source->prefix_count;
    if (count > VERL_SOURCE_MAX_SPECIAL - *used)
        return S_FAIL(self, "%s: the post-processor adds more than %d tokens on one side", self->path,
                      VERL_SOURCE_MAX_SPECIAL);
    if (!suffix)
        memmove(list + count, list, *used * sizeof *list);
    memcpy(suffix ? list + *used : list, ids, count * sizeof *list);
    *used += count;
    return 0;
}

// The ids of one special token of a template.
static int
s_template_ids(s_reader_t *self, const json_t *node, const char *name, int32_t *ids, size_t *count)
{
    const json_t *list = json_object_get(json_object_get(json_object_get(node, "special_tokens"), name), "ids");
    size_t index;
    json_t *id;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return S_FAIL(self, "%s: post_processor.special_tokens has no ids for \"%s\"", self->path, name);
    json_array_foreach(list, index, id) {
        if (*count >= VERL_SOURCE_MAX_SPECIAL)
            return S_FAIL(self, "%s: the post-processor adds more than %d tokens on one side", self->path,
                          VERL_SOURCE_MAX_SPECIAL);
        json_int_t value = s_integer(id);
        if (value < 0 || value >= VERL_IMAGE_MAX_TOKENS)
            return S_FAIL(self, "%s: post_processor.special_tokens gives a wrong id to \"%s\"", self->path, name);
        ids[(*count)++] = (int32_t) value;
    }
    return 0;
}

static int
s_read_template(s_reader_t *self, const json_t *node)
{
    int32_t ids[2][VERL_SOURCE_MAX_SPECIAL];
    size_t count[2] = { 0, 0 }, index;
    int side = 0;
    json_t *part;
    json_array_foreach(json_object_get(node, "single"), index, part) {
        const char *name = json_string_value(json_object_get(json_object_get(part, "SpecialToken"), "id"));
        if (!name && side++)
            return S_FAIL(self, "%s: post_processor.single must have the text once", self->path);
        if (name && s_template_ids(self, node, name, ids[side], &count[side]))
            return -1;
    }
    if (!side)
        return S_FAIL(self, "%s: post_processor.single does not have the text", self->path);
    return s_add_special(self, ids[0], count[0], false) || s_add_special(self, ids[1], count[1], true) ? -1 : 0;
}

static int
s_read_post_processor(s_reader_t *self, const json_t *node, int depth)
{
    const char *type = s_type(node);
    if (strcmp(type, "Sequence") == 0)
        return s_each(self, node, "processors", s_read_post_processor, depth);
    if (strcmp(type, "ByteLevel") == 0)
        return 0;
    if (strcmp(type, "TemplateProcessing") == 0)
        return s_read_template(self, node);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        json_int_t cls = s_integer(json_array_get(json_object_get(node, "cls"), 1));
        json_int_t sep = s_integer(json_array_get(json_object_get(node, "sep"), 1));
        if (cls < 0 || sep < 0 || cls >= VERL_IMAGE_MAX_TOKENS || sep >= VERL_IMAGE_MAX_TOKENS)
            return S_FAIL(self, "%s: post_processor.cls and .sep must be pairs of a token and its id", self->path);
        int32_t ids[2] = { (int32_t) cls, (int32_t) sep };
        return s_add_special(self, &ids[0], 1, false) || s_add_special(self, &ids[1], 1, true) ? -1 : 0;
    }
    return S_FAIL(self,
                  "%s: the post-processor \"%s\" is not supported; ByteLevel, TemplateProcessing, BertProcessing, "
                  "RobertaProcessing and Sequence are",
                  self->path, type);
}

int
verl_source_read_pipelines(verl_token_source_t *self, const json_t *root, const char *path, char *error,
                           size_t error_size)
{
    s_reader_t reader = { self, path, error, error_size };
    static const struct { const char *key; s_reader_fn_t *read; } parts[] = {
        { "normalizer", s_read_normalizer }, { "pre_tokenizer", s_read_pre_tokenizer },
        { "decoder", s_read_decoder }, { "post_processor", s_read_post_processor },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *node = json_object_get(root, parts[i].key);
        if (node && !json_is_null(node) && s_read_node(&reader, parts[i].key, node, parts[i].read, 0))
            return -1;
    }
    self->no_decoder = !json_is_object(json_object_get(root, "decoder"));
    return 0;
}
