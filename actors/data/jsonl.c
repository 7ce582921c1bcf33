// jsonl.c: files of JSON lines and the index of their lines; see jsonl.h.
//
// Files are read with pread, never mapped: a file that somebody cuts short becomes an error, not a signal.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/data/jsonl.h"
#include "actors/data/schema.h"

#define CHUNK      ((size_t) 1 << 20)  // bytes of one read while indexing
#define LONGEST    ((int64_t) 1 << 30) // bytes of one line
#define LOOK_AHEAD 64                  // records of each file that discovery reads, and that have a say in a larger one

typedef struct place {
    int64_t offset; // of the line's first byte in its file
    uint32_t bytes; // up to the newline
    uint32_t line;  // counted from 1
} place_t;

typedef struct file {
    char *path;
    int handle;
    int64_t first; // number of the file's first record
} file_t;

struct verl_jsonl {
    file_t *files;
    size_t file_count;
    place_t *places; // one a record
    int64_t records, room;
    int64_t bytes; // of all files
    verl_schema_t schema;
};

// State of one pass over a file.
typedef struct scan {
    verl_jsonl_t *self;
    file_t *file;
    int64_t most;   // stop after so many records of this file
    int64_t start;  // offset of the current line
    int64_t line;   // its number
    bool blank;     // nothing but spaces in it so far
    verl_line_t at; // for errors
} scan_t;

static int
s_add_place(scan_t *scan, int64_t end)
{
    verl_jsonl_t *self = scan->self;
    scan->at.number = scan->line;
    if (end - scan->start > LONGEST)
        return verl_line_fail(&scan->at, "the line is longer than 1 GiB: a record is one line of JSON");
    if (scan->line > UINT32_MAX)
        return verl_line_fail(&scan->at, "the file has over 4 billion lines: split it");
    if (self->records == self->room) {
        int64_t room = self->room ? self->room * 2 : 1024;
        place_t *places = realloc(self->places, (size_t) room * sizeof *places);
        if (!places)
            return verl_line_fail(&scan->at, "no memory for an index of %" PRId64 " records: free some", room);
        self->places = places;
        self->room = room;
    }
    self->places[self->records++] = (place_t){ scan->start, (uint32_t) (end - scan->start), (uint32_t) scan->line };
    return 0;
}

static bool
s_is_blank(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

// Ends the current line at offset `end` and begins the next one behind it.
static int
s_end_line(scan_t *scan, int64_t end)
{
    if (!scan->blank && s_add_place(scan, end))
        return -1;
    scan->start = end + 1;
    scan->line++;
    scan->blank = true;
    return 0;
}

static bool
s_full(const scan_t *scan)
{
    return scan->self->records - scan->file->first >= scan->most;
}

// Takes in the `bytes` of the file that begin at `offset`.
static int
s_scan_chunk(scan_t *scan, const char *chunk, size_t bytes, int64_t offset)
{
    size_t at = 0;
    while (at < bytes && !s_full(scan)) {
        const char *newline = memchr(chunk + at, '\n', bytes - at);
        size_t end = newline ? (size_t) (newline - chunk) : bytes;
        scan->blank = scan->blank && s_is_blank(chunk + at, end - at);
        if (newline && s_end_line(scan, offset + (int64_t) end))
            return -1;
        at = end + 1;
    }
    return 0;
}

// What a file that is no JSON lines looks like at its start; NULL where nothing speaks against it.
static const char *
s_foreign(const char *head, size_t bytes)
{
    if (bytes >= 4 && memcmp(head, "PAR1", 4) == 0)
        return "is a Parquet file: convert it to JSON lines, one object a line";
    if (bytes >= 2 && memcmp(head, "\x1f\x8b", 2) == 0)
        return "is compressed by gzip: decompress it";
    if (bytes >= 4 && memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0)
        return "is compressed by zstd: decompress it";
    if (bytes >= 2 && (memcmp(head, "\xff\xfe", 2) == 0 || memcmp(head, "\xfe\xff", 2) == 0))
        return "is in UTF-16: write it in UTF-8";
    return NULL;
}

// Looks at the first bytes of a file; a byte order mark is stepped over.
static int
s_scan_head(scan_t *scan, const char *head, size_t bytes)
{
    const char *wrong = s_foreign(head, bytes);
    scan->at.number = 1;
    if (wrong)
        return verl_line_fail(&scan->at, "%s", wrong);
    if (bytes >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0)
        scan->start = 3;
    return 0;
}

static int
s_scan_file(scan_t *scan, char *chunk)
{
    int64_t offset = 0;
    for (;;) {
        ssize_t got = pread(scan->file->handle, chunk, CHUNK, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            snprintf(scan->at.error, scan->at.error_size, "%s: cannot be read: %s", scan->at.path, strerror(errno));
            return -1;
        }
        if (offset == 0 && s_scan_head(scan, chunk, (size_t) got))
            return -1;
        size_t skip = offset == 0 ? (size_t) scan->start : 0;
        if (s_scan_chunk(scan, chunk + skip, (size_t) got - skip, offset + (int64_t) skip))
            return -1;
        offset += got;
        if (got == 0 || s_full(scan))
            break;
    }
    if (!s_full(scan) && s_end_line(scan, offset))
        return -1;
    if (scan->self->records > scan->file->first)
        return 0;
    snprintf(scan->at.error, scan->at.error_size,
             "%s: has no records: write one JSON object a line, as in "
             "{\"prompt\": \"1+1=\", \"answer\": \"2\"}",
             scan->at.path);
    return -1;
}

static int
s_open_file(verl_jsonl_t *self, const char *path, char *error, size_t error_size)
{
    struct stat info;
    file_t *file = &self->files[self->file_count++];
    file->path = strdup(path);
    file->handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a fifo without a writer must not block
    if (!file->path || file->handle < 0 || fstat(file->handle, &info)) {
        snprintf(error, error_size, "%s: cannot be opened: %s", path, strerror(errno));
        return -1;
    }
    if (!S_ISREG(info.st_mode)) {
        snprintf(error, error_size, "%s: is %s: give a file of JSON lines", path,
                 S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
        return -1;
    }
    self->bytes += info.st_size;
    return 0;
}

// Notes where the records are; of a data set that is not small, of the first `most` of each file.
static int
s_index(verl_jsonl_t *self, const char *const *paths, size_t count, int64_t most, char *error, size_t error_size)
{
    char *chunk = malloc(CHUNK);
    self->files = calloc(count, sizeof *self->files);
    int status = chunk && self->files ? 0 : -1;
    if (status)
        snprintf(error, error_size, "no memory to read %zu files: free some", count);
    for (size_t i = 0; i < count && status == 0; i++)
        status = s_open_file(self, paths[i], error, error_size);
    if (self->bytes <= VERL_JSONL_SMALL)
        most = INT64_MAX;
    for (size_t i = 0; i < count && status == 0; i++) {
        file_t *file = &self->files[i];
        file->first = self->records;
        scan_t scan = { self, file, most, 0, 1, true, { paths[i], 1, error, error_size } };
        status = s_scan_file(&scan, chunk);
    }
    free(chunk);
    return status;
}

static const file_t *
s_file_of(const verl_jsonl_t *self, int64_t index)
{
    size_t low = 0, high = self->file_count; // files[low].first <= index < files[high].first
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (self->files[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    return &self->files[low];
}

// Reads the bytes of one line into a new buffer.
static char *
s_read_line(const file_t *file, const place_t *place, const verl_line_t *line)
{
    char *text = malloc((size_t) place->bytes + 1);
    size_t have = 0;
    while (text && have < place->bytes) {
        ssize_t got = pread(file->handle, text + have, place->bytes - have, place->offset + (int64_t) have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            verl_line_fail(line, "%s: leave a data file as it is while a run reads it",
                           got < 0 ? strerror(errno) : "the file became shorter since it was opened");
            free(text);
            return NULL;
        }
        have += (size_t) got;
    }
    if (!text)
        verl_line_fail(line, "no memory for a line of %" PRIu32 " bytes: free some", place->bytes);
    return text;
}

// Reads and parses record `index`, and says in *line where it stands.
static json_t *
s_load(const verl_jsonl_t *self, int64_t index, verl_line_t *line, char *error, size_t error_size)
{
    const file_t *file = s_file_of(self, index);
    const place_t *place = &self->places[index];
    *line = (verl_line_t){ file->path, place->line, error, error_size };
    char *text = s_read_line(file, place, line);
    json_t *root = text ? verl_line_parse(line, text, place->bytes) : NULL;
    free(text);
    return root;
}

// What later records may make of a field's type, by its value in an earlier one.
typedef enum open_type { SETTLED, INTEGERS, EMPTY_LIST } open_type_t;

static open_type_t
s_openness(const json_t *value)
{
    if (json_is_array(value) && json_array_size(value) == 0)
        return EMPTY_LIST;
    return json_is_integer(value) || (json_is_array(value) && verl_data_list_type(value) == VERL_FIELD_I32_LIST)
               ? INTEGERS
               : SETTLED;
}

// Lets one more record have its say: an empty list becomes one of what is there, integers become reals.
static void
s_settle_field(verl_field_t *field, open_type_t *open, const json_t *value)
{
    int type = value ? verl_data_type(value) : -1;
    bool widens = (field->type == VERL_FIELD_I64 && type == VERL_FIELD_F32) ||
                  (field->type == VERL_FIELD_I32_LIST && type == VERL_FIELD_F32_LIST);
    bool fills = *open == EMPTY_LIST && json_array_size(value) > 0 && type >= 0;
    if (*open == SETTLED || !(widens || fills))
        return;
    field->type = (verl_field_type_t) type;
    *open = s_openness(value);
}

// Behind the last record of a file that has a say in the schema: the same whether all are indexed or the first alone.
static int64_t
s_end_of_look(const verl_jsonl_t *self, size_t file)
{
    int64_t end = file + 1 < self->file_count ? self->files[file + 1].first : self->records;
    int64_t most = self->files[file].first + LOOK_AHEAD;
    return self->bytes > VERL_JSONL_SMALL && end > most ? most : end;
}

// Lets record `index` have its say in all fields; how many are still open.
static size_t
s_settle_record(verl_jsonl_t *self, int64_t index, open_type_t *open)
{
    char ignored[256];
    verl_line_t line;
    size_t left = 0;
    json_t *root = s_load(self, index, &line, ignored, sizeof ignored);
    for (size_t f = 0; f < self->schema.count; f++) {
        if (root)
            s_settle_field(&self->schema.fields[f], &open[f], json_object_get(root, self->schema.fields[f].name));
        left += open[f] != SETTLED;
    }
    json_decref(root);
    return left;
}

// Settles the types that the first record leaves open: of empty lists, and of integers that may be reals elsewhere.
static int
s_settle(verl_jsonl_t *self, const verl_line_t *line, json_t *first)
{
    open_type_t *open = calloc(self->schema.count, sizeof *open);
    size_t left = 0;
    if (!open)
        return verl_line_fail(line, "no memory for the schema: free some");
    for (size_t f = 0; f < self->schema.count; f++) {
        open[f] = s_openness(json_object_get(first, self->schema.fields[f].name));
        left += open[f] != SETTLED;
    }
    for (size_t file = 0; file < self->file_count; file++)
        for (int64_t i = self->files[file].first; left > 0 && i < s_end_of_look(self, file); i++)
            left = s_settle_record(self, i, open);
    free(open);
    return 0;
}

// The schema of the first record, which is also read whole, so that what is wrong in it shows at once.
static int
s_first(verl_jsonl_t *self, char *error, size_t error_size)
{
    verl_line_t line;
    int status = -1;
    json_t *root = s_load(self, 0, &line, error, error_size);
    if (root && verl_schema_infer(&line, root, &self->schema) == 0 && s_settle(self, &line, root) == 0) {
        verl_record_t *record = verl_schema_apply(&line, &self->schema, root);
        status = record ? 0 : -1;
        verl_jsonl_release(&record);
    }
    json_decref(root);
    return status;
}

static verl_jsonl_t *
s_open(const char *const *paths, size_t count, int64_t most, char *error, size_t error_size)
{
    verl_jsonl_t *self = calloc(1, sizeof *self);
    if (!self || count == 0) {
        snprintf(error, error_size,
                 self ? "there are no files: name at least one" : "no memory for a data set: free some");
        free(self);
        return NULL;
    }
    if (s_index(self, paths, count, most, error, error_size) || s_first(self, error, error_size))
        verl_jsonl_destroy(&self);
    return self;
}

verl_jsonl_t *
verl_jsonl_open(const char *const *paths, size_t count, char *error, size_t error_size)
{
    return s_open(paths, count, INT64_MAX, error, error_size);
}

int
verl_jsonl_discover(const char *const *paths, size_t count, verl_schema_t *schema, char *error, size_t error_size)
{
    verl_jsonl_t *self = s_open(paths, count, LOOK_AHEAD, error, error_size);
    int status = self ? 0 : -1;
    for (int64_t i = 1; status == 0 && i < self->records; i++) {
        if (i - s_file_of(self, i)->first >= LOOK_AHEAD)
            continue;
        verl_record_t *record = verl_jsonl_read(self, i, error, error_size);
        status = record ? 0 : -1;
        verl_jsonl_release(&record);
    }
    *schema = (verl_schema_t){ 0 };
    if (status == 0) {
        *schema = self->schema;
        self->schema = (verl_schema_t){ 0 };
    }
    verl_jsonl_destroy(&self);
    return status;
}

void
verl_jsonl_destroy(verl_jsonl_t **self_p)
{
    verl_jsonl_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; i < self->file_count; i++) {
        if (self->files[i].handle >= 0)
            close(self->files[i].handle);
        free(self->files[i].path);
    }
    free(self->files);
    free(self->places);
    verl_schema_done(&self->schema);
    free(self);
    *self_p = NULL;
}

int64_t
verl_jsonl_records(const verl_jsonl_t *self)
{
    return self->records;
}

const verl_schema_t *
verl_jsonl_schema(const verl_jsonl_t *self)
{
    return &self->schema;
}

void
verl_jsonl_place(const verl_jsonl_t *self, int64_t index, char *place, size_t size)
{
    snprintf(place, size, "%s:%" PRIu32, s_file_of(self, index)->path, self->places[index].line);
}

verl_record_t *
verl_jsonl_read(const verl_jsonl_t *self, int64_t index, char *error, size_t error_size)
{
    if (index < 0 || index >= self->records) {
        snprintf(error, error_size, "%s: there is no record %" PRId64 ": the data set has %" PRId64 ", counted from 0",
                 self->files[0].path, index, self->records);
        return NULL;
    }
    verl_line_t line;
    json_t *root = s_load(self, index, &line, error, error_size);
    verl_record_t *record = root ? verl_schema_apply(&line, &self->schema, root) : NULL;
    json_decref(root);
    return record;
}
