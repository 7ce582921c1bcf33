// schema.h: from one line of JSON to typed values, for jsonl.c; files of other folders include jsonl.h instead.
#ifndef VERL_DATA_SCHEMA_H
#define VERL_DATA_SCHEMA_H
#include <jansson.h>

#include "actors/data/jsonl.h"

// What a value is, in words of error sentences: "an object", "a real".
const char *verl_data_word(const json_t *value);

// The type of a list: of reals where one of its numbers is; -1 where no list of ours begins so.
int verl_data_list_type(const json_t *list);

// The type of a field with this value; -1 where no field has such.
int verl_data_type(const json_t *value);

// Where a line is, for error sentences, and where those go.
typedef struct verl_line {
    const char *path;
    int64_t number; // counted from 1
    char *error;
    size_t error_size;
} verl_line_t;

// Writes `path:number: ...` as the error of this line; always -1.
int verl_line_fail(const verl_line_t *line, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

// Parses one line into an object that the caller owns (json_decref); NULL with the reason in line->error.
json_t *verl_line_parse(const verl_line_t *line, const char *text, size_t bytes);

// The schema of one record; a list that is empty is guessed to be of integers. 0 or -1; the caller owns *schema.
int verl_schema_infer(const verl_line_t *line, json_t *root, verl_schema_t *schema);

// values.c: the values of one record that has to have this schema; NULL with the reason. The record keeps its own
// reference of root.
verl_record_t *verl_schema_apply(const verl_line_t *line, const verl_schema_t *schema, json_t *root);

#endif
