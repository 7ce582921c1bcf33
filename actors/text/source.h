// source.h: a tokenizer as its file describes it, before it is compiled into an image.
//
// Each reader of a file format fills one of these; it says what the file says and resolves nothing. All texts are
// spans of one growing buffer, so that there is one thing to free.
#ifndef VERL_TEXT_SOURCE_H
#define VERL_TEXT_SOURCE_H
#include "actors/text/image.h"
#include "actors/lm/gguf.h"

typedef struct {
    verl_token_span_t content;
    uint32_t          flags;                // VERL_TOKEN_*; 0: no such id
} verl_source_token_t;

typedef struct {
    verl_token_span_t left, right;
} verl_source_merge_t;

#define VERL_SOURCE_MAX_SPECIAL 8           // ids that a post-processor may put on one side

typedef struct {
    verl_text_t          strings;
    verl_source_token_t *token;             // by id
    size_t               token_count, token_capacity;
    verl_source_merge_t *merge;             // by rank
    size_t               merge_count, merge_capacity;
    verl_token_added_t  *added;             // in the file's order; id is the file's, match the content
    size_t               added_count, added_capacity;
    verl_token_step_t   *step[3];           // by pipeline, VERL_PIPE_*
    size_t               step_count[3], step_capacity[3];
    int32_t              prefix[VERL_SOURCE_MAX_SPECIAL], suffix[VERL_SOURCE_MAX_SPECIAL];
    size_t               prefix_count, suffix_count;
    uint32_t             flags;             // VERL_MODEL_*
    bool                 no_decoder;        // tokens are joined by spaces
    verl_token_span_t    unk, chat_template, named[VERL_NAMED_TOKENS]; // contents; length 0: none
    int32_t              named_id[VERL_NAMED_TOKENS];           // where the file gives ids; else -1
} verl_token_source_t;

void verl_source_init(verl_token_source_t *self);
void verl_source_done(verl_token_source_t *self);

// Each returns 0, or -1 without memory (add_token also for an id that is out of range or taken by another content).
int verl_source_add_string(verl_token_source_t *self, const char *data, size_t length, verl_token_span_t *ret_span);
int verl_source_add_token(verl_token_source_t *self, uint32_t id, verl_token_span_t content, uint32_t flags);
int verl_source_add_merge(verl_token_source_t *self, verl_token_span_t left, verl_token_span_t right);
int verl_source_add_added(verl_token_source_t *self, const verl_token_added_t *added);
int verl_source_add_step(verl_token_source_t *self, int pipe, verl_step_kind_t kind, uint32_t option,
                         const char *first, size_t first_length, const char *second, size_t second_length);

// The steps of a ByteLevel pre-tokenizer, and its flag. The pattern is the one that GPT-2 was published with.
int verl_source_add_byte_level(verl_token_source_t *self, bool prefix_space, bool use_regex);
// Digits one by one: the numbers that patterns know, and those of Unicode 17 that the reference's Digits knows too.
#define VERL_DIGIT_PATTERN "[\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}]"
// \w of the engine that the reference has for Whitespace and for single words: without superscripts and fractions, with
// the two joiners.
#define VERL_WORD_CLASS \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200C}\\x{200D}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}" \
    "\\x{1F170}-\\x{1F189}"
#define VERL_GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

// The files that may lie beside tokenizer.json.
typedef enum {
    VERL_BESIDE_CONFIG,                     // tokenizer_config.json
    VERL_BESIDE_TEMPLATE,                   // chat_template.jinja
    VERL_BESIDE_SPECIAL,                    // special_tokens_map.json
    VERL_BESIDE_ADDED,                      // added_tokens.json
    VERL_BESIDE
} verl_beside_t;
extern const char *const verl_beside_names[VERL_BESIDE];

// What a reader is given: the bytes of tokenizer.json, and of the files beside it (NULL where there are none).
typedef struct {
    const char *path;                       // of tokenizer.json, for messages
    const char *json, *beside[VERL_BESIDE];
    size_t      json_size, beside_size[VERL_BESIDE];
} verl_source_files_t;

// Both return 0, or -1 with a sentence that names the file.
int verl_source_read_json(verl_token_source_t *self, const verl_source_files_t *files, char *error, size_t error_size);
int verl_source_read_gguf(verl_token_source_t *self, const verl_gguf_t *gguf, const char *path, char *error,
                          size_t error_size);

// The parts of read_json: the pipelines, from a json_t of jansson; and the files beside tokenizer.json, once its added
// tokens are read. 0, or -1 with a sentence.
struct json_t;
int verl_source_read_pipelines(verl_token_source_t *self, const struct json_t *root, const char *path, char *error,
                               size_t error_size);
int verl_source_read_beside(verl_token_source_t *self, const verl_source_files_t *files, char *error,
                            size_t error_size);

// Is each of these keys true, false, null or not there? 0, or -1 with a sentence that says where the object stands.
int verl_source_check_flags(const struct json_t *object, const char *const *keys, size_t count, const char *path,
                            const char *where, char *error, size_t error_size);
// "an object", "text": what a value is, for sentences.
const char *verl_source_word(const struct json_t *value);

// The flags that an object of JSON gives an added token (VERL_ADDED_*), and their keys.
typedef struct {
    const char *key;
    uint32_t    flag;
} verl_source_added_flag_t;
#define VERL_ADDED_FLAGS 5
extern const verl_source_added_flag_t verl_source_added_flag[VERL_ADDED_FLAGS];
uint32_t verl_source_added_flags(const struct json_t *token);

// Makes an image of a source. The image is the caller's; its block is from malloc. 0, or -1 with a sentence.
int verl_source_compile(const verl_token_source_t *self, const uint64_t key[2], const char *path,
                        verl_token_image_t *ret_image, char *error, size_t error_size);

// Writes one sentence and returns -1.
int verl_text_fail(char *error, size_t error_size, const char *format, ...) __attribute__((format(printf, 3, 4)));
#endif
