// save.c: writes beside, syncs, renames.
//
// Invariant: the target's name never stands for a directory that is not complete and on the disk. "TARGET.saving" is
// locked while it is written, so that what is found there unlocked is the rest of a saver that was killed.
#include "actors/lm/save.h"
#include "actors/lm/config_json.h"
#include "actors/lm/gguf.h"
#include "actors/lm/load.h"
#include "actors/lm/quants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 18, COPY = 1 << 16 };               // floats and bytes a turn

static const char *const s_tokenizer_files[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "tokenizer.model", "chat_template.jinja", "chat_template.json", "tokenizer.gguf",
};

typedef struct {
    const verl_lm_config_t    *config;
    const verl_lm_layout_t    *layout;
    const float               *parameters;
    const verl_save_options_t *options;
    char                       target[PATH_MAX], beside[PATH_MAX], parent[PATH_MAX];
    int                        fd;          // of the directory beside, locked
    char                      *error;
    size_t                     error_size;
} s_saving_t;

static int __attribute__((format(printf, 2, 3)))
s_fail(const s_saving_t *saving, const char *format, ...)
{
    char    what[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(saving->error, saving->error_size, "cannot save to %s: %s", saving->target, what);
    return -1;
}

static int
s_write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t written = write(fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return -1;
        at += written;
        size -= (size_t) written;
    }
    return 0;
}

static int
s_create(const s_saving_t *saving, const char *name)
{
    int fd = openat(saving->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        s_fail(saving, "cannot create %s: %s", name, strerror(errno));
    return fd;
}

// Syncs and closes; failed: an earlier write did, with errno as it left it.
static int
s_finish(const s_saving_t *saving, const char *name, int fd, bool failed)
{
    if (!failed && fsync(fd) != 0)
        failed = true;
    int why = errno;
    if (close(fd) != 0 && !failed) {
        failed = true;
        why = errno;
    }
    return failed ? s_fail(saving, "cannot write %s: %s", name, strerror(why)) : 0;
}

static int
s_write_text(const s_saving_t *saving, const char *name, char *text)
{
    if (!text)
        return s_fail(saving, "no memory for %s", name);
    int fd = s_create(saving, name);
    int result = -1;
    if (fd >= 0)
        result = s_finish(saving, name, fd, s_write_all(fd, text, strlen(text)) || s_write_all(fd, "\n", 1));
    free(text);
    return result;
}

static bool
s_is_bf16(const s_saving_t *saving)
{
    return saving->options->dtype == VERL_SAVE_BF16;
}

// Adds one tensor to the header; *at is where its bytes begin, and then where they end.
static int
s_describe(const s_saving_t *saving, json_t *header, const char *name, int64_t rows, int64_t cols, bool vector,
           int64_t *at)
{
    int64_t start = *at;
    *at += rows * cols * (s_is_bf16(saving) ? 2 : 4);
    json_t *shape = json_pack(vector ? "[I]" : "[I,I]", (json_int_t) rows, (json_int_t) cols);
    json_t *entry = json_pack("{s:s,s:o,s:[I,I]}", "dtype", s_is_bf16(saving) ? "BF16" : "F32", "shape", shape,
                              "data_offsets", (json_int_t) start, (json_int_t) *at);
    return json_object_set_new(header, name, entry);
}

// The header as text, padded with spaces so that the data is aligned to 8 bytes; NULL without memory.
static char *
s_make_header(const s_saving_t *saving)
{
    verl_lm_tensor_t tensor;
    int64_t          at = 0;
    int              failed = 0;
    json_t          *header = json_object();
    failed |= json_object_set_new(header, "__metadata__", json_pack("{s:s}", "format", "pt"));
    for (int64_t i = 0; i < verl_lm_tensor_count(saving->config); i++) {
        verl_lm_tensor_at(saving->config, saving->layout, i, &tensor);
        failed |= s_describe(saving, header, tensor.name, tensor.rows, tensor.cols, tensor.cols == 1, &at);
    }
    for (int i = 0; i < saving->options->extra_count; i++) {
        const verl_save_extra_t *extra = &saving->options->extras[i];
        failed |= s_describe(saving, header, extra->name, extra->rows, extra->cols, extra->vector, &at);
    }
    char *text = failed ? NULL : json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(header);
    if (!text)
        return NULL;
    size_t size = strlen(text), padded = (size + 7) / 8 * 8;
    char  *result = malloc(padded + 1);
    if (result) {
        memset(result, ' ', padded);
        memcpy(result, text, size);
        result[padded] = '\0';
    }
    free(text);
    return result;
}

static int
s_write_floats(const s_saving_t *saving, int fd, const float *values, int64_t count, uint16_t *halves)
{
    if (!s_is_bf16(saving))
        return s_write_all(fd, values, (size_t) count * sizeof *values);
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t size = count - at < PIECE ? count - at : PIECE;
        for (int64_t i = 0; i < size; i++)
            halves[i] = verl_bf16_from_float(values[at + i]);
        if (s_write_all(fd, halves, (size_t) size * sizeof *halves))
            return -1;
    }
    return 0;
}

static int
s_write_tensors(const s_saving_t *saving, int fd, uint16_t *halves)
{
    verl_lm_tensor_t tensor;
    for (int64_t i = 0; i < verl_lm_tensor_count(saving->config); i++) {
        verl_lm_tensor_at(saving->config, saving->layout, i, &tensor);
        if (s_write_floats(saving, fd, saving->parameters + tensor.offset, tensor.rows * tensor.cols, halves))
            return -1;
    }
    for (int i = 0; i < saving->options->extra_count; i++) {
        const verl_save_extra_t *extra = &saving->options->extras[i];
        if (s_write_floats(saving, fd, extra->data, extra->rows * extra->cols, halves))
            return -1;
    }
    return 0;
}

static void
s_put_little(uint8_t *bytes, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        bytes[i] = (uint8_t) (value >> (8 * i));
}

static int
s_write_weights(const s_saving_t *saving)
{
    uint8_t   length[8];
    char     *header = s_make_header(saving);
    uint16_t *halves = malloc(PIECE * sizeof *halves);
    int       result = -1, fd = -1;
    if (!header || !halves)
        s_fail(saving, "no memory for the header of model.safetensors");
    else
        fd = s_create(saving, "model.safetensors");
    if (fd >= 0) {
        size_t size = strlen(header);
        s_put_little(length, size, 8);
        result = s_finish(saving, "model.safetensors", fd,
                          s_write_all(fd, length, sizeof length) || s_write_all(fd, header, size)
                              || s_write_tensors(saving, fd, halves));
    }
    free(header);
    free(halves);
    return result;
}

static int
s_copy(const s_saving_t *saving, const char *name, int from)
{
    char *buffer = malloc(COPY);
    int   to = buffer ? s_create(saving, name) : s_fail(saving, "no memory to copy %s", name);
    if (to < 0) {
        free(buffer);
        return -1;
    }
    ssize_t got;
    bool    failed = false;
    while (!failed && (got = read(from, buffer, COPY)) != 0)
        failed = got < 0 ? errno != EINTR : s_write_all(to, buffer, (size_t) got) != 0;
    free(buffer);
    return s_finish(saving, name, to, failed);
}

// A GGUF file of the metadata alone.
static int
s_write_metadata(const s_saving_t *saving, const verl_gguf_t *from)
{
    static const char name[] = "tokenizer.gguf";
    uint8_t     head[24] = "GGUF", pad[32] = {0};
    size_t      size;
    uint32_t    version;
    const void *metadata = verl_gguf_metadata(from, &size, &version);
    int         fd = s_create(saving, name);
    if (fd < 0)
        return -1;
    s_put_little(head + 4, version, 4);
    s_put_little(head + 16, (uint64_t) verl_gguf_value_count(from), 8);
    return s_finish(saving, name, fd,
                    s_write_all(fd, head, sizeof head) || s_write_all(fd, metadata, size)
                        || s_write_all(fd, pad, (32 - (sizeof head + size) % 32) % 32));
}

// Whether the source is a GGUF model (1, done), or not (0), or it failed (-1).
static int
s_copy_gguf_tokenizer(const s_saving_t *saving)
{
    char path[PATH_MAX], why[1024];
    if (!verl_lm_find_gguf(saving->options->tokenizer_dir, path, sizeof path))
        return 0;
    verl_gguf_t *from = verl_gguf_open(path, why, sizeof why);
    if (!from)
        return s_fail(saving, "the tokenizer cannot go along: %.900s", why);
    int result = s_write_metadata(saving, from) ? -1 : 1;
    verl_gguf_close(&from);
    return result;
}

// A file that the source does not have is not copied; a link is followed (model caches are made of links).
static int
s_copy_tokenizer(const s_saving_t *saving)
{
    int gguf = s_copy_gguf_tokenizer(saving);
    if (gguf)
        return gguf < 0 ? -1 : 0;
    for (size_t i = 0; i < sizeof s_tokenizer_files / sizeof s_tokenizer_files[0]; i++) {
        char        path[PATH_MAX];
        struct stat status;
        int size = snprintf(path, sizeof path, "%s/%s", saving->options->tokenizer_dir, s_tokenizer_files[i]);
        if (size >= (int) sizeof path || stat(path, &status) != 0 || !S_ISREG(status.st_mode))
            continue;
        int from = open(path, O_RDONLY | O_CLOEXEC);
        if (from < 0)
            return s_fail(saving, "cannot open %s: %s", path, strerror(errno));
        int result = s_copy(saving, s_tokenizer_files[i], from);
        close(from);
        if (result)
            return -1;
    }
    return 0;
}

// Removes the plain files of a directory of models; it holds no others. Returns 0 or -1 with errno.
static int
s_empty(int directory)
{
    int  again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = again < 0 ? NULL : fdopendir(again);
    if (!listing) {
        if (again >= 0)
            close(again);
        return -1;
    }
    int            result = 0;
    struct dirent *entry;
    while (result == 0 && (entry = readdir(listing)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = unlinkat(directory, entry->d_name, 0);
    closedir(listing);
    return result;
}

// Opens and locks the directory beside the target, empty.
static int
s_begin(s_saving_t *saving)
{
    if (mkdir(saving->beside, 0755) != 0 && errno != EEXIST)
        return s_fail(saving, "cannot create %s: %s", saving->beside, strerror(errno));
    saving->fd = open(saving->beside, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (saving->fd < 0)
        return s_fail(saving, "cannot open %s: %s", saving->beside, strerror(errno));
    if (flock(saving->fd, LOCK_EX | LOCK_NB) != 0)
        return s_fail(saving, "another save to it is going on (%s is locked)", saving->beside);
    if (s_empty(saving->fd) != 0)
        return s_fail(saving, "cannot empty %s, left by a save that was interrupted: %s", saving->beside,
                      strerror(errno));
    return 0;
}

static int
s_write_files(const s_saving_t *saving)
{
    if (s_write_text(saving, "config.json",
                     verl_lm_config_to_json(saving->config, s_is_bf16(saving) ? "bfloat16" : "float32"))
        || s_write_text(saving, "generation_config.json", verl_lm_generation_to_json(saving->config))
        || s_write_weights(saving))
        return -1;
    if (saving->options->tokenizer_dir && s_copy_tokenizer(saving))
        return -1;
    if (fsync(saving->fd) != 0)
        return s_fail(saving, "cannot sync %s: %s", saving->beside, strerror(errno));
    return 0;
}

static int
s_sync_parent(const s_saving_t *saving)
{
    int fd = open(saving->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return s_fail(saving, "cannot sync %s: %s", saving->parent, strerror(why));
    }
    close(fd);
    return 0;
}

// Puts what was written in the target's place. A target that is there changes places with it and is removed.
static int
s_publish(const s_saving_t *saving)
{
    if (rename(saving->beside, saving->target) == 0)        // also where an empty directory is there
        return s_sync_parent(saving);
    if (errno != EEXIST && errno != ENOTEMPTY)
        return s_fail(saving, "cannot rename %s: %s", saving->beside, strerror(errno));
    if (renameat2(AT_FDCWD, saving->beside, AT_FDCWD, saving->target, RENAME_EXCHANGE) != 0)
        return s_fail(saving, "this file system cannot replace a directory in one step (%s): save to a new one",
                      strerror(errno));
    if (s_sync_parent(saving))
        return -1;
    int old = open(saving->beside, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (old >= 0) {
        s_empty(old);                                       // the next save to the target tries again
        close(old);
        rmdir(saving->beside);
    }
    return 0;
}

static int
s_set_paths(s_saving_t *saving, const char *dir)
{
    struct stat status;
    size_t      size = strlen(dir);
    while (size > 1 && dir[size - 1] == '/')
        size--;
    snprintf(saving->target, sizeof saving->target, "%.*s", (int) (size < PATH_MAX ? size : PATH_MAX), dir);
    if (size == 0 || size + sizeof ".saving" > PATH_MAX)
        return s_fail(saving, "the path is %s", size ? "too long" : "empty");
    snprintf(saving->beside, sizeof saving->beside, "%.*s.saving", PATH_MAX - 8, saving->target);
    const char *slash = strrchr(saving->target, '/');
    if (slash)
        snprintf(saving->parent, sizeof saving->parent, "%.*s",
                 (int) (slash == saving->target ? 1 : slash - saving->target), saving->target);
    else
        snprintf(saving->parent, sizeof saving->parent, ".");
    if (lstat(saving->target, &status) == 0 && !S_ISDIR(status.st_mode))
        return s_fail(saving, "it is there and no directory");
    return 0;
}

// A target that is there is replaced as a whole, so it must be the directory of one model, or empty.
static int
s_check_target(const s_saving_t *saving)
{
    struct dirent *entry;
    DIR           *listing = opendir(saving->target);
    if (!listing)
        return errno == ENOENT ? 0 : s_fail(saving, "cannot list it: %s", strerror(errno));
    int  result = 0;
    bool empty = true, model = faccessat(dirfd(listing), "config.json", F_OK, 0) == 0;
    while (result == 0 && (entry = readdir(listing))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        empty = false;
        if (entry->d_type == DT_DIR)
            result = s_fail(saving, "it holds a directory (%s), so it is no directory of one model", entry->d_name);
    }
    closedir(listing);
    if (result == 0 && !empty && !model)
        return s_fail(saving, "it holds files and no config.json, so it is no directory of one model");
    return result;
}

int
verl_lm_save(const char *dir, const verl_lm_config_t *config, const verl_lm_layout_t *layout, const float *parameters,
             const verl_save_options_t *options, char *error, size_t error_size)
{
    static const verl_save_options_t plain = {VERL_SAVE_F32, NULL, NULL, 0};
    s_saving_t saving = {.config = config, .layout = layout, .parameters = parameters,
                         .options = options ? options : &plain, .fd = -1, .error = error, .error_size = error_size};
    if (s_set_paths(&saving, dir) || s_check_target(&saving))
        return -1;
    if (s_begin(&saving)) {
        if (saving.fd >= 0)
            close(saving.fd);
        return -1;
    }
    int result = s_write_files(&saving);
    if (result == 0)
        result = s_publish(&saving);
    if (result && s_empty(saving.fd) == 0)
        rmdir(saving.beside);
    close(saving.fd);
    return result;
}
