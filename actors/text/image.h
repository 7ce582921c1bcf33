// image.h: the compiled tokenizer, one flat block of memory without pointers.
//
// An image is a header and sections of plain records, all at offsets from its start, so that it can be a file that any
// number of processes map. Whoever makes a verl_token_image_t of a block has checked it: checksum, bounds of every
// section, and every index inside a section. The code that reads an image relies on that and checks nothing.
#ifndef VERL_TEXT_IMAGE_H
#define VERL_TEXT_IMAGE_H
#include "actors/text/tokenizer.h"

#define VERL_IMAGE_VERSION 5u
#define VERL_IMAGE_MAX_TOKENS (1u << 24)

// Bits of a token.
enum {
    VERL_TOKEN_EXISTS  = 1,                 // the id is in use
    VERL_TOKEN_MODEL   = 2,                 // in the vocabulary of the merges, not only among the added tokens
    VERL_TOKEN_SPECIAL = 4,
    VERL_TOKEN_WHOLE   = 8,                 // merging its own bytes gives this token and nothing else
    VERL_TOKEN_PIECE   = 16,                // its bytes can be a piece of text (always, but for odd byte-level tokens)
    VERL_TOKEN_PADDING = 32                 // only fills the vocabulary; does not count in the identity
};

// Bits of an added token, as in tokenizer.json.
enum {
    VERL_ADDED_SPECIAL = 1, VERL_ADDED_LSTRIP = 2, VERL_ADDED_RSTRIP = 4, VERL_ADDED_SINGLE_WORD = 8,
    VERL_ADDED_NORMALIZED = 16              // looked for after the normaliser, not before
};

// What a step of the three pipelines does; texts are in the section of strings.
typedef enum {
    VERL_STEP_NFC, VERL_STEP_NFD, VERL_STEP_NFKC, VERL_STEP_NFKD,   // normaliser
    VERL_STEP_PREPEND,                      // first: what goes before a text that is not empty
    VERL_STEP_REPLACE,                      // first: pattern, second: replacement; normaliser and decoder
    VERL_STEP_STRIP_SPACE,                  // option bit 0: left, bit 1: right
    VERL_STEP_SPLIT,                        // first: pattern; option: verl_split_t, bit 8: inverted
    VERL_STEP_PREFIX_SPACE,                 // a space before each piece that does not begin with one
    VERL_STEP_BYTE_FALLBACK,                // decoder: "<0xE2>" is that byte
    VERL_STEP_FUSE,                         // decoder: all tokens become one
    VERL_STEP_STRIP,                        // decoder: first: a character; option: start | stop << 16, most taken
    VERL_STEP_BYTE_LEVEL,                   // decoder
    VERL_STEP_KINDS
} verl_step_kind_t;

typedef enum {
    VERL_SPLIT_ISOLATED, VERL_SPLIT_REMOVED, VERL_SPLIT_WITH_PREVIOUS, VERL_SPLIT_WITH_NEXT, VERL_SPLIT_CONTIGUOUS
} verl_split_t;
#define VERL_SPLIT_INVERT 0x100u

typedef struct {
    uint32_t offset, length;                // in the section of strings
} verl_token_span_t;

typedef struct {
    uint32_t          kind, option;
    verl_token_span_t first, second;
} verl_token_step_t;

typedef struct {
    uint32_t          id, flags;            // VERL_ADDED_*
    verl_token_span_t match;                // what is looked for in the text (normalised where the flags say so)
} verl_token_added_t;

typedef struct {
    uint32_t left, right;                   // ids; left is UINT32_MAX in an empty slot
    uint32_t rank, id;                      // lower ranks merge first; the token that the two become
} verl_token_merge_t;

typedef struct {
    uint32_t hash;                          // the upper half of verl_hash
    uint32_t id;                            // UINT32_MAX in an empty slot
} verl_token_slot_t;

// The sections, in the order of the file.
enum {
    VERL_SECTION_CONTENT_OFFSETS, // uint32_t[tokens + 1]: where each token's content starts
    VERL_SECTION_CONTENTS,        // bytes, as in the file
    VERL_SECTION_BYTES_OFFSETS,   // the same for the bytes that each token stands for
    VERL_SECTION_BYTES,
    VERL_SECTION_TOKEN_FLAGS,   // uint8_t[tokens]
    VERL_SECTION_CONTENT_TABLE, // verl_token_slot_t[power of two]: content to id
    VERL_SECTION_PIECE_TABLE,   // verl_token_slot_t[power of two]: bytes to id, tokens of the model only
    VERL_SECTION_MERGES,        // verl_token_merge_t[power of two]
    VERL_SECTION_BYTE_IDS,      // int32_t[256]: the token of a byte (byte-level, or byte fallback); -1: none
    VERL_SECTION_ADDED_RAW,     // verl_token_added_t[], sorted by the bytes of match
    VERL_SECTION_ADDED_NORMALIZED,
    VERL_SECTION_NORMALIZER, // verl_token_step_t[]
    VERL_SECTION_PRE_TOKENIZER,
    VERL_SECTION_DECODER,
    VERL_SECTION_PREFIX, // int32_t[]: what ADD_SPECIAL puts before and behind the ids
    VERL_SECTION_SUFFIX,
    VERL_SECTION_CHAT_TEMPLATE, // bytes; empty where there is none
    VERL_SECTION_STRINGS,       // bytes of all spans
    VERL_SECTIONS
};

// Bits of a model.
enum {
    VERL_MODEL_BYTE_LEVEL = 1, VERL_MODEL_IGNORE_MERGES = 2, VERL_MODEL_BYTE_FALLBACK = 4, VERL_MODEL_FUSE_UNK = 8,
    VERL_MODEL_CHAT = 16,                   // a chat template came with it
    VERL_MODEL_JOIN = 32,                   // no decoder: tokens are joined by spaces
    VERL_MODEL_CHAT_CONFIG = 64,            // the template is that of tokenizer_config.json, …
    VERL_MODEL_CHAT_FILE = 128              // … or chat_template.jinja
};

typedef struct {
    char     magic[8];                      // "verltok" and a zero
    uint32_t version, flags;                // VERL_IMAGE_VERSION, VERL_MODEL_*
    uint64_t key[2];                        // of the source files
    uint64_t size;                          // of the whole image
    uint64_t checksum;                      // of the image with this field zero
    uint64_t identity;                      // of the id space: verl_tokenizer_hash
    uint32_t tokens;                        // the highest id + 1
    uint32_t longest;                       // bytes of the longest token
    int32_t  unk, named[VERL_NAMED_TOKENS]; // -1: none
    struct {
        uint64_t offset, size;              // in bytes; offsets are multiples of 16
    } section[VERL_SECTIONS];
} verl_image_header_t;

// Views into a checked block, and how the block is held.
typedef struct {
    const verl_image_header_t *header;
    void                      *block;
    size_t                     block_size;
    bool                       mapped;      // else from malloc
    const uint32_t            *content_offset, *bytes_offset;
    const char                *contents, *bytes, *strings, *chat_template;
    const uint8_t             *flags;
    const verl_token_slot_t   *content_table, *piece_table;
    const verl_token_merge_t  *merges;
    uint32_t                   content_mask, piece_mask, merge_mask;
    const int32_t             *byte_ids;
    const verl_token_added_t  *added[2];    // raw, normalised
    uint32_t                   added_count[2];
    const verl_token_step_t   *steps[3];    // normaliser, pre-tokenizer, decoder
    uint32_t                   step_count[3];
    const int32_t             *prefix, *suffix;
    uint32_t                   prefix_count, suffix_count;
} verl_token_image_t;

enum { VERL_PIPE_NORMALIZER, VERL_PIPE_PRE_TOKENIZER, VERL_PIPE_DECODER };

// Takes a block over (from mmap or malloc) as an image, with pointers set but nothing checked. For the compiler.
void verl_image_view(verl_token_image_t *image, void *block, size_t size, bool mapped);

// Checks a block whose size is known: key (NULL: any), checksum, bounds, indices. Returns NULL, or what is wrong.
const char *verl_image_check(const void *block, size_t size, const uint64_t key[2]);

uint64_t verl_image_checksum(const void *block, size_t size);

// Unmaps or frees the block; accepts zeroed memory.
void verl_image_done(verl_token_image_t *image);

// Look-ups; UINT32_MAX where there is no such token.
uint32_t verl_image_find_content(const verl_token_image_t *image, const char *content, size_t length);
uint32_t verl_image_find_piece(const verl_token_image_t *image, const uint8_t *piece, size_t length, uint64_t hash);

// The slot of a pair of tokens, or NULL.
const verl_token_merge_t *verl_image_find_merge(const verl_token_image_t *image, uint32_t left, uint32_t right);

static inline uint64_t
verl_image_merge_hash(uint32_t left, uint32_t right)
{
    uint64_t pair = ((uint64_t) left << 32 | right) * 0x9E3779B97F4A7C15u;
    return pair ^ pair >> 32;
}
#endif
