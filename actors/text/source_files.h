// source_files.h: which files a tokenizer is made of, their bytes and the key of these.
#ifndef VERL_TEXT_SOURCE_FILES_H
#define VERL_TEXT_SOURCE_FILES_H
#include "actors/text/source.h"

typedef struct {
    verl_text_t  path;                      // of tokenizer.json or the GGUF file
    verl_text_t  json, beside[VERL_BESIDE];
    bool         has[VERL_BESIDE];
    verl_gguf_t *gguf;                      // instead of json
    uint64_t     key[2];
} verl_source_input_t;

// Finds and reads the files; parses nothing but the frame of a GGUF file. 0, or -1 with a sentence.
int  verl_source_input_open(verl_source_input_t *self, const char *path, char *error, size_t error_size);
int
verl_source_input_read(const verl_source_input_t *self, verl_token_source_t *source, char *error, size_t error_size);
void verl_source_input_close(verl_source_input_t *self);
#endif
