// recorder.c: writes columns as JSON lines, one a row, in batch order: {"batch": 3, "row": 0, "response": "85", …}.
//
// Each batch stands in the file once: what the file already holds of the first batch that this incarnation takes, and
// of later ones, is cut off before anything is written, and so is a last line that was never finished.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sys/file.h>
#include <verl.h>
#include "actors/text/utf8.h"

#define LONGEST  200                        // bytes of a file's name with its folders
#define PATIENCE 2                          // seconds for whoever has the file and is no predecessor

typedef struct book {                       // a file, and the stage that writes it
    struct book *next;
    char        *stage, *name;
    FILE        *file;
} book_t;

typedef struct {
    book_t *books;                          // of the stages that have begun
} recorder_t;

typedef struct {
    const char    *file;
    verl_strings_t columns;
} recorder_options_t;

static const verl_option_t s_options[] = {
    VERL_STRING(recorder_options_t, file, NULL,
                "file in the run directory, such as \"samples.jsonl\"; folders in between are made"),
    VERL_OPTION_OF(STRINGS, recorder_options_t, columns, "columns to write, in this order"),
    VERL_OPTIONS_END
};

// ---------------------------------------------------------------------------------------------------------------
// JSON

// What is no UTF-8 becomes U+FFFD.
static void
s_put_string(FILE *file, const char *text, size_t bytes)
{
    const uint8_t *at = (const uint8_t *) text, *end = at + bytes;
    fputc('"', file);
    while (at < end) {
        size_t skip = 0, length = verl_utf8_next(at, (size_t) (end - at), NULL, &skip);
        if (length == 0)
            fputs("\\ufffd", file);
        else if (*at == '"' || *at == '\\')
            fprintf(file, "\\%c", *at);
        else if (*at == '\n')
            fputs("\\n", file);
        else if (*at < 0x20 || *at == 0x7f)
            fprintf(file, "\\u%04x", (unsigned) *at);
        else
            fwrite(at, 1, length, file);
        at += length ? length : skip;
    }
    fputc('"', file);
}

// Nine digits bring every f32 back, and a point says that it is one. JSON has no word for what is not finite: null.
static void
s_put_real(FILE *file, float value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.9g", (double) value);
    if (!isfinite(value))
        fputs("null", file);
    else
        fprintf(file, strpbrk(digits, ".e") ? "%s" : "%s.0", digits);
}

static void
s_put_element(FILE *file, verl_dtype_t dtype, const void *data, int64_t index)
{
    if (dtype == VERL_F32) {
        s_put_real(file, ((const float *) data)[index]);
    } else if (dtype == VERL_BF16) {
        uint32_t bits = (uint32_t) ((const uint16_t *) data)[index] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        s_put_real(file, value);
    } else {
        int64_t value = dtype == VERL_I64   ? ((const int64_t *) data)[index]
                        : dtype == VERL_I32 ? ((const int32_t *) data)[index]
                                            : ((const uint8_t *) data)[index];
        fprintf(file, "%" PRId64, value);
    }
}

// `width` elements from the index'th on: a number where it is one, else an array.
static void
s_put_elements(FILE *file, const verl_column_t *column, const void *data, int64_t index)
{
    if (column->width != 1)
        fputc('[', file);
    for (int64_t i = 0; i < column->width; i++) {
        if (i > 0)
            fputs(", ", file);
        s_put_element(file, column->dtype, data, index + i);
    }
    if (column->width != 1)
        fputc(']', file);
}

static void
s_put_value(FILE *file, const verl_column_t *column, int64_t row)
{
    const void *data = verl_column_at(column, row);
    if (column->dtype == VERL_TEXT) {
        s_put_string(file, data, (size_t) verl_column_length(column, row));
    } else if (!column->ragged) {
        s_put_elements(file, column, data, 0);
    } else {
        int64_t length = verl_column_length(column, row);
        fputc('[', file);
        for (int64_t i = 0; i < length; i++) {
            if (i > 0)
                fputs(", ", file);
            s_put_elements(file, column, data, i * column->width);
        }
        fputc(']', file);
    }
}

// ---------------------------------------------------------------------------------------------------------------
// The file

// Where the first line of batch `first` or later begins, or the first line that is none of ours or not whole.
static off_t
s_end_of_earlier(FILE *file, int64_t first)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    off_t end = 0;
    while ((bytes = getline(&line, &room, file)) > 0) {
        int64_t batch;
        if (line[bytes - 1] != '\n' || sscanf(line, "{\"batch\": %" SCNd64, &batch) != 1 || batch >= first)
            break;
        end += bytes;
    }
    free(line);
    return end;
}

// 0 where there is no such process any more.
static pid_t
s_parent_of(pid_t pid)
{
    char path[64], text[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int) pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && sscanf(name_end, ") %*c %d", &parent) == 1 ? parent : 0;
}

// Whoever has the file is another actor of this run: one revision has one writer of a file, so it is of an earlier one.
static bool
s_is_predecessor(int fd)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    if (fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return false;
    return s_parent_of(lock.l_pid) == getppid();
}

// Two locks: one that keeps others out, whoever they are, and one by which they see who it is. A predecessor whose last
// batches are under way lets go when they are done.
static int
s_lock(verl_stage_t *stage, const char *name, int fd)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK || (i >= PATIENCE * 100 && !s_is_predecessor(fd)) || verl_sleep(stage, 0.01))
            return -1;
        if (i == PATIENCE * 100)
            verl_log(stage, "waits for the last batches of the stage of an earlier revision that writes '%s'", name);
    }
    return fcntl(fd, F_SETLK, &lock);
}

// Opens a folder of a folder, made where there is none, and closes that. -1 with errno.
static int
s_enter(int folder, const char *name, size_t bytes)
{
    char part[LONGEST + 1];
    snprintf(part, sizeof part, "%.*s", (int) bytes, name);
    bool made = mkdirat(folder, part, 0700) == 0 || errno == EEXIST;
    int inner = made ? openat(folder, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    int reason = errno;
    close(folder);
    errno = reason;
    return inner;
}

// No link in the run directory is followed, so that nothing outside of it is written. -1 with errno.
static int
s_open_within(const char *directory, const char *name)
{
    int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *slash; folder >= 0 && (slash = strchr(name, '/')); name = slash + 1)
        folder = s_enter(folder, name, (size_t) (slash - name));
    if (folder < 0)
        return -1;
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    int reason = errno;
    close(folder);
    errno = reason;
    return fd;
}

// Opens the file, cut before batch `first`.
static int
s_open(verl_stage_t *stage, book_t *book, const char *name, int64_t first)
{
    const char *directory = getenv("VERL_RUN_DIR");
    char path[4096];
    if (!directory)
        return verl_fail(stage, "there is no run directory to write '%s' in (VERL_RUN_DIR is not set)", name);
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int) sizeof path)
        return verl_fail(stage, "the path '%s/%s' is too long", directory, name);
    int fd = s_open_within(directory, name);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r+");
    if (!file) {
        int reason = errno;
        if (fd >= 0)
            close(fd);
        return verl_fail(stage, "cannot write '%s': %s", path, strerror(reason));
    }
    if (s_lock(stage, name, fd) != 0) {
        fclose(file);
        return verl_fail(stage, "'%s' is what another stage writes already: another `file` would be right", name);
    }
    off_t end = s_end_of_earlier(file, first);
    if (fseeko(file, end, SEEK_SET) != 0 || ftruncate(fd, end) != 0) {
        int reason = errno;
        fclose(file);
        return verl_fail(stage, "cannot cut '%s' before batch %lld: %s", path, (long long) first, strerror(reason));
    }
    book->file = file;
    return 0;
}

static void
s_free(book_t *book)
{
    if (book && book->file)
        fclose(book->file);
    if (book) {
        free(book->stage);
        free(book->name);
    }
    free(book);
}

// Closes what the stage wrote under another name: in an exchange of files each waits for the other's. A batch of that
// revision that is still to come opens it again.
static void
s_close_others(recorder_t *self, const char *stage, const char *file)
{
    for (book_t **link = &self->books, *book; (book = *link);) {
        if (strcmp(book->stage, stage) != 0 || strcmp(book->name, file) == 0) {
            link = &book->next;
            continue;
        }
        *link = book->next;
        s_free(book);
    }
}

// The book of a file, whichever stage of this actor wrote in it last: stages take turns.
static book_t *
s_find(const recorder_t *self, const char *file)
{
    book_t *book = self->books;
    while (book && strcmp(book->name, file) != 0)
        book = book->next;
    return book;
}

static bool
s_has(const verl_stage_t *stage)
{
    const recorder_options_t *options = verl_stage_options(stage);
    const book_t *book = s_find(verl_stage_state(stage), options->file);
    return book && strcmp(book->stage, verl_stage_name(stage)) == 0;
}

// In a later revision the file may have been another stage's. -1 without memory.
static int
s_take(book_t *book, const char *stage)
{
    char *name = strdup(stage);
    if (!name)
        return -1;
    free(book->stage);
    book->stage = name;
    return 0;
}

static int
s_start(verl_stage_t *stage, int64_t first)
{
    recorder_t *self = verl_stage_state(stage);
    const recorder_options_t *options = verl_stage_options(stage);
    s_close_others(self, verl_stage_name(stage), options->file);
    book_t *book = s_find(self, options->file);
    if (book)
        return s_take(book, verl_stage_name(stage)) ? verl_fail(stage, "no memory to write '%s'", options->file) : 0;
    book = calloc(1, sizeof *book);
    if (!book || !(book->stage = strdup(verl_stage_name(stage))) || !(book->name = strdup(options->file)))
        verl_fail(stage, "no memory to write '%s'", options->file);
    else if (s_open(stage, book, options->file, first) == 0) {
        book->next = self->books;
        self->books = book;
        return 0;
    }
    s_free(book);
    return -1;
}

static int
s_record(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    (void) out;
    const recorder_options_t *options = verl_stage_options(stage);
    int64_t batch = verl_batch_id(in);
    if (!s_has(stage) && s_start(stage, batch) != 0)
        return -1;
    FILE *file = s_find(verl_stage_state(stage), options->file)->file;
    for (int64_t row = 0; row < verl_batch_rows(in); row++) {
        fprintf(file, "{\"batch\": %" PRId64 ", \"row\": %" PRId64, batch, row);
        for (int i = 0; i < options->columns.count; i++) {
            const char *name = options->columns.items[i];
            fputs(", ", file);
            s_put_string(file, name, strlen(name));
            fputs(": ", file);
            s_put_value(file, verl_batch_column(in, name), row);
        }
        fputs("}\n", file);
    }
    if (fflush(file) != 0 || ferror(file))
        return verl_fail(stage, "cannot write to '%s': %s", options->file, strerror(errno));
    return 0;
}

static void
s_finish(verl_stage_t *stage)
{
    recorder_t *self = verl_stage_state(stage);
    while (self->books) {
        book_t *book = self->books;
        self->books = book->next;
        s_free(book);
    }
}

// Is it what the run itself writes, or in a folder of that: one of its names, or of a group of them?
static bool
s_is_taken(const char *file)
{
    static const char *const names[] = { "metrics.jsonl", "run.log", "script.jsonl", "logs", "checkpoints", "lock" };
    static const char *const groups[] = { "topology.toml", "topology-", "handover-", "control.json" };
    bool taken = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        taken |= strcspn(file, "/") == strlen(names[i]) && strncmp(file, names[i], strlen(names[i])) == 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        taken |= strncmp(file, groups[i], strlen(groups[i])) == 0;
    return taken;
}

// A line has every key once.
static void
s_check_columns(verl_declaration_t *declaration, const verl_strings_t *columns)
{
    for (int i = 0; i < columns->count; i++) {
        const char *name = columns->items[i];
        bool twice = strcmp(name, "batch") == 0 || strcmp(name, "row") == 0;
        for (int k = 0; k < i; k++)
            twice |= strcmp(name, columns->items[k]) == 0;
        if (twice)
            verl_declare_error(declaration, "columns", "a line has '%s' already: once, or under another name (`uses` "
                               "on this stage), would be right", name);
    }
}

// Does it lead from the run directory down to a file, in one way only?
static bool
s_is_within(const char *file)
{
    for (const char *c = file; *c; c++)
        if ((unsigned char) *c < ' ' || *c == 0x7f)
            return false;
    for (const char *part = file;; part++) {
        size_t bytes = strcspn(part, "/");
        if (bytes == 0 || (part[0] == '.' && (bytes == 1 || (bytes == 2 && part[1] == '.'))))
            return false;
        part += bytes;
        if (!*part)
            return strlen(file) <= LONGEST;
    }
}

// Whatever the topology says, nothing outside the run directory is written.
static int
s_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    (void) state;
    const recorder_options_t *self = options;
    const char *file = self->file ? self->file : "";
    if (!s_is_within(file))
        verl_declare_error(declaration, "file", "'%s' is no name of a file in the run directory: give one, such as "
                           "\"samples.jsonl\" or \"samples/train.jsonl\"", file);
    if (s_is_taken(file))
        verl_declare_error(declaration, "file", "'%s' is what the run itself writes: another name, such as "
                           "\"samples.jsonl\", would be right", file);
    verl_declare_writes(declaration, "file", file);
    s_check_columns(declaration, &self->columns);
    return 0;
}

VERL_KIND(recorder,
    .about = "writes columns as JSON lines, one a row, in batch order",
    .state_size = sizeof(recorder_t),
    .stages = { { "record", s_record, .about = "writes a batch",
                  .options_size = sizeof(recorder_options_t), .options = s_options,
                  .needs = { "*columns" }, .declare = s_declare } },
    .keeps_state = true, .start = s_start, .finish = s_finish)
