// jsonl.h: a data set of JSON-lines files: one JSON object a line is one record, any record at hand by its number.
//
// Opening reads every file once, to note where each line begins; a record is read and parsed when it is asked for, so
// that a data set may be larger than memory. Blank lines are skipped, lines may be of any length up to 1 GiB.
// The schema (field names and types) is that of the first record; every later record must have exactly its fields. Two
// types it leaves open: a list that is empty gets its type from the first record that has elements in it, else i32; and
// integers are reals where a later record has a real. All records of a data set of up to 8 MiB have that say, of a
// larger one the first 64 of each file, so that the schema is a function of the files alone.
// Every error is `file:line: what is wrong: what would be right`.
#ifndef VERL_DATA_JSONL_H
#define VERL_DATA_JSONL_H
#include <stddef.h>
#include <stdint.h>

// Bytes of a data set whose every record has a say in the schema, and is read before a run starts.
#define VERL_JSONL_SMALL ((int64_t) 8 << 20)

typedef enum {
    VERL_FIELD_TEXT,     // a string
    VERL_FIELD_I64,      // an integer, or true / false as 1 / 0
    VERL_FIELD_F32,      // a real; other records may write integers that it can hold
    VERL_FIELD_I32_LIST, // a list of integers, each within 32 bits
    VERL_FIELD_F32_LIST, // a list of numbers, at least one of them a real
    VERL_FIELD_MESSAGES, // a list of {"role", "content"}: kept as compact JSON text (messages.h reads it)
    VERL_FIELD_JSON,     // any other object: kept as compact JSON text
} verl_field_type_t;

typedef struct verl_field {
    char *name;
    verl_field_type_t type;
} verl_field_t;

// The fields of a data set, in the order of its first record.
typedef struct verl_schema {
    verl_field_t *fields;
    size_t count;
} verl_schema_t;

// One field of one record; which members are set follows from the field's type.
typedef struct verl_value {
    const char *text;    // TEXT, MESSAGES, JSON: UTF-8 without NUL inside, and one NUL after it
    int64_t integer;     // I64
    float real;          // F32
    const int32_t *ints; // I32_LIST
    const float *reals;  // F32_LIST
    int64_t count;       // bytes of text (its NUL not counted), or elements of the list
} verl_value_t;

typedef struct verl_record {
    verl_value_t *values; // one a field, in the order of the schema
    size_t count;
    void *memory; // what the values point into
} verl_record_t;

typedef struct verl_jsonl verl_jsonl_t;

// "text", "i64", "f32", "i32 list", "f32 list", "messages" or "json".
const char *verl_field_type_name(verl_field_type_t type);

// The same for sentences: "text", "an integer", "a list of numbers".
const char *verl_field_type_words(verl_field_type_t type);

// Which field has this name; -1 where none has.
int64_t verl_schema_find(const verl_schema_t *schema, const char *name);

// Frees what a schema holds and leaves it empty; accepts an empty one.
void verl_schema_done(verl_schema_t *schema);

// Checks only the first records of each file (at most 64), before a run: *schema is that of the data set, and they must
// have it. 0, or -1 with the reason in error. The caller owns *schema (verl_schema_done). Blocks on the files.
int verl_jsonl_discover(const char *const *paths, size_t count, verl_schema_t *schema, char *error, size_t error_size);

// Opens count files as one data set, in their order. NULL with the reason in error: no file, not a regular file, no
// record in one, a first record that is wrong. Blocks while it reads all files once. Keeps 16 bytes a record.
verl_jsonl_t *verl_jsonl_open(const char *const *paths, size_t count, char *error, size_t error_size);

// Closes the files and frees *self_p, and sets it to NULL; accepts NULL inside.
void verl_jsonl_destroy(verl_jsonl_t **self_p);

// Number of records.
int64_t verl_jsonl_records(const verl_jsonl_t *self);

// The fields; the data set owns them.
const verl_schema_t *verl_jsonl_schema(const verl_jsonl_t *self);

// Where record `index` stands, as "FILE:LINE", for what readers find wrong in it.
void verl_jsonl_place(const verl_jsonl_t *self, int64_t index, char *place, size_t size);

// Reads record `index`. NULL with the reason in error: no such record, broken JSON, a field missing, too many or of
// another type, invalid UTF-8, a file that changed. The caller owns the record. Blocks on the file; thread-safe.
verl_record_t *verl_jsonl_read(const verl_jsonl_t *self, int64_t index, char *error, size_t error_size);

// Frees *record_p and sets it to NULL; accepts NULL inside.
void verl_jsonl_release(verl_record_t **record_p);

#endif
