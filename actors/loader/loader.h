// loader.h: the state of a loader and what its files share; actors/loader.c makes a kind of them.
#ifndef VERL_LOADER_LOADER_H
#define VERL_LOADER_LOADER_H
#include <verl.h>
#include "actors/data/jsonl.h"
#include "actors/data/sampler.h"
#include "actors/kit/prompt.h"

enum { VERL_LONG_PROMPT_ERROR, VERL_LONG_PROMPT_CUT_LEFT, VERL_LONG_PROMPT_SKIP };

typedef struct verl_loader {
    verl_strings_t  files;                  // options
    const char     *tokenizer;
    int             template;
    verl_jsonl_t   *data;
    verl_prompter_t prompter;
} verl_loader_t;

typedef struct verl_loader_options {
    int64_t rows, epochs, max_prompt_tokens;
    bool    shuffle, again, drop_last;
    int     too_long;
} verl_loader_options_t;

// The records of one batch and what is made of them.
typedef struct verl_load {
    int64_t           count;
    verl_record_t   **records;
    int64_t          *numbers;              // of the records in the data set
    verl_token_ids_t  prompt_ids, response_ids;
    int64_t          *prompt_lengths, *response_lengths;
} verl_load_t;

// declare.c: what the files and the options say before a run starts. A `declare` of a stage: mistakes are told to the
// declaration; returns 0. Blocks on the files.
int verl_loader_declare(verl_declaration_t *declaration, const void *state, const void *options);
// Are the ids of this column made here, of that field?
bool verl_loader_gives(const verl_loader_t *self, const verl_schema_t *schema, const char *ids, const char *text);
// Are the fields that a tokenizer reads of a type that it can read? 0, or -1 with one sentence.
int verl_loader_check_fields(const verl_loader_t *self, const verl_schema_t *schema, char *error, size_t error_size);
// Which record is in which row of which batch.
verl_sampler_t verl_loader_sampler(const verl_loader_options_t *options, int64_t records, uint64_t seed);

// prompts.c: encodes all rows, and does what too_long says with prompts that are longer than max_prompt_tokens, also
// where their ids come from the records; rows that are left out are closed up. 0, or -1 with the sentence told.
int verl_loader_encode(verl_stage_t *stage, verl_loader_t *self, const verl_schema_t *schema, verl_load_t *load);
#endif
