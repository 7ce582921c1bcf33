// source_files.c: finding and reading the files of a tokenizer.
#include "actors/text/source_files.h"
#include "actors/text/hash.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST_FILE = 512 * 1024 * 1024 };

// Reads a whole file. 1: it is not there; -1: an error with a sentence.
static int
s_read_file(const char *path, verl_text_t *bytes, char *error, size_t error_size)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? 1 : verl_text_fail(error, error_size, "%s: cannot be read: %s", path, strerror(errno));
    int rc = 0;
    if (fstat(file, &status) || !S_ISREG(status.st_mode))
        rc = verl_text_fail(error, error_size, "%s: not a regular file", path);
    else if (status.st_size > LARGEST_FILE)
        rc = verl_text_fail(error, error_size, "%s: has %lld bytes; a tokenizer has at most %d", path,
                            (long long) status.st_size, LARGEST_FILE);
    static _Thread_local char s_chunk[65536];
    while (!rc) {
        ssize_t got = read(file, s_chunk, sizeof s_chunk);
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            rc = verl_text_fail(error, error_size, "%s: cannot be read: %s", path, strerror(errno));
        else if (bytes->length + (size_t) got > LARGEST_FILE || verl_text_add(bytes, s_chunk, (size_t) got))
            rc = verl_text_fail(error, error_size, "%s: too large for the memory", path);
    }
    close(file);
    return rc;
}

static bool
s_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

// The one GGUF file of a directory, appended to *path. How many there are.
static int
s_find_gguf(const char *directory, verl_text_t *path)
{
    DIR *stream = opendir(directory);
    int found = 0;
    for (struct dirent *entry; stream && (entry = readdir(stream)) != NULL;) {
        if (!s_ends_with(entry->d_name, ".gguf") || found++)
            continue;
        if (verl_text_add(path, "/", 1) || verl_text_add(path, entry->d_name, strlen(entry->d_name)))
            found = -1;
    }
    if (stream)
        closedir(stream);
    return found;
}

// Sets self->path to the file that the tokenizer is in.
static int
s_locate(verl_source_input_t *self, const char *path, char *error, size_t error_size)
{
    struct stat status;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (verl_text_add(&self->path, path, length))
        return verl_text_fail(error, error_size, "%s: not enough memory", path);
    if (stat(self->path.data, &status))
        return verl_text_fail(error, error_size,
                              "%s: no tokenizer: %s; it must be a model directory, a tokenizer.json or a "
                              ".gguf file",
                              self->path.data, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return 0;
    if (verl_text_add(&self->path, "/tokenizer.json", 15))
        return verl_text_fail(error, error_size, "%s: not enough memory", path);
    if (stat(self->path.data, &status) == 0)
        return 0;
    self->path.length = length;
    self->path.data[length] = 0;
    int found = s_find_gguf(path, &self->path);
    if (found == 1)
        return 0;
    return verl_text_fail(error, error_size, "%.*s: no tokenizer: the directory has no tokenizer.json and %s",
                          (int) length, path,
                          found ? "more than one .gguf file, of which one must be named" : "no .gguf file");
}

// Reads a file that lies beside tokenizer.json and may be absent.
static int
s_read_beside(verl_source_input_t *self, int which, char *error, size_t error_size)
{
    verl_text_t path = { 0 };
    const char *name = verl_beside_names[which];
    const char *slash = strrchr(self->path.data, '/');
    size_t length = slash ? (size_t) (slash + 1 - self->path.data) : 0;
    int rc = verl_text_add(&path, self->path.data, length) || verl_text_add(&path, name, strlen(name))
                 ? verl_text_fail(error, error_size, "%s: not enough memory", self->path.data)
                 : s_read_file(path.data, &self->beside[which], error, error_size);
    self->has[which] = rc == 0;
    verl_text_done(&path);
    return rc < 0 ? -1 : 0;
}

static void
s_mix(uint64_t key[2], const void *bytes, size_t length)
{
    bytes = bytes ? bytes : "";
    key[0] = verl_hash(bytes, length, key[0]);
    key[1] = verl_hash(bytes, length, ~key[1]);
}

// The key of a GGUF file is that of what it says of its tokenizer; its tensors do not matter.
static void
s_mix_gguf(uint64_t key[2], const verl_gguf_t *gguf)
{
    for (int64_t i = 0; i < verl_gguf_value_count(gguf); i++) {
        const verl_gguf_value_t *value = verl_gguf_value_at(gguf, i);
        const char *name = verl_gguf_value_key(value);
        if (strncmp(name, "tokenizer.", 10) != 0)
            continue;
        s_mix(key, name, strlen(name));
        for (int64_t j = 0; j < verl_gguf_element_count(value); j++) {
            verl_gguf_string_t string;
            int64_t integer = 0;
            if (verl_gguf_element_string(value, j, &string))
                s_mix(key, string.data, string.size);
            else if (verl_gguf_element_int(value, j, &integer))
                s_mix(key, &integer, sizeof integer);
        }
    }
}

static int
s_open_json(verl_source_input_t *self, char *error, size_t error_size)
{
    int rc = s_read_file(self->path.data, &self->json, error, error_size);
    if (rc > 0)
        return verl_text_fail(error, error_size, "%s: no tokenizer: the file is not there", self->path.data);
    s_mix(self->key, self->json.data, self->json.length);
    for (int i = 0; i < VERL_BESIDE && !rc; i++) {
        rc = s_read_beside(self, i, error, error_size);
        s_mix(self->key, &self->has[i], sizeof self->has[i]);
        s_mix(self->key, self->beside[i].data, self->beside[i].length);
    }
    return rc;
}

int
verl_source_input_open(verl_source_input_t *self, const char *path, char *error, size_t error_size)
{
    *self = (verl_source_input_t) { .key = { VERL_IMAGE_VERSION, sizeof(verl_image_header_t) } };
    int rc = s_locate(self, path, error, error_size);
    if (!rc && s_ends_with(self->path.data, ".gguf")) {
        self->gguf = verl_gguf_open(self->path.data, error, error_size);
        rc = self->gguf ? 0 : -1;
        if (!rc)
            s_mix_gguf(self->key, self->gguf);
    } else if (!rc) {
        rc = s_open_json(self, error, error_size);
    }
    if (rc)
        verl_source_input_close(self);
    return rc;
}

int
verl_source_input_read(const verl_source_input_t *self, verl_token_source_t *source, char *error, size_t error_size)
{
    if (self->gguf)
        return verl_source_read_gguf(source, self->gguf, self->path.data, error, error_size);
    verl_source_files_t files = {
        .path = self->path.data, .json = self->json.data ? self->json.data : "", .json_size = self->json.length,
    };
    for (int i = 0; i < VERL_BESIDE; i++) {
        files.beside[i] = !self->has[i] ? NULL : self->beside[i].data ? self->beside[i].data : "";
        files.beside_size[i] = self->beside[i].length;
    }
    return verl_source_read_json(source, &files, error, error_size);
}

void
verl_source_input_close(verl_source_input_t *self)
{
    verl_text_done(&self->path);
    verl_text_done(&self->json);
    for (int i = 0; i < VERL_BESIDE; i++)
        verl_text_done(&self->beside[i]);
    verl_gguf_close(&self->gguf);
}
