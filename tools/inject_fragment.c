// inject_fragment.c: how what is said on a command line becomes a fragment of a topology. See inject.h.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "actors/text/utf8.h"
#include "runtime/topology/toml.h"
#include "runtime/topology/value.h"
#include "tools/inject.h"

#define FRAGMENT_MOST (1 << 20)             // bytes

static bool
s_is_toml(const char *line, verl_toml_error_t *error)
{
    verl_pool_t pool = { 0 };
    bool is = verl_toml_parse(line, strlen(line), &pool, error) != NULL;
    verl_pool_done(&pool);
    return is;
}

// `value` as a string of TOML.
static char *
s_quoted(const char *key, const char *value)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fprintf(out, "%s = ", key);
    verl_value_print_string(out, value);
    fputc('\n', out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

char *
verl_inject_line(const char *section, const char *assignment, verl_error_t *error)
{
    const char *equals = strchr(assignment, '=');
    char *key = NULL, *line = NULL;
    verl_toml_error_t wrong = { 0 };
    bool plain = equals && equals != assignment;
    for (const unsigned char *c = (const unsigned char *) assignment; *c; c++)
        plain = plain && *c >= 0x20 && *c != 0x7f;
    if (!plain) {
        verl_error_set(error, "'%s' is not of the form KEY=VALUE: lr=1e-5 would be right", assignment);
        return NULL;
    }
    if (asprintf(&key, "%s%s%.*s", section, *section ? "." : "", (int) (equals - assignment), assignment) < 0 ||
        asprintf(&line, "%s = %s\n", key, equals + 1) < 0) {
        verl_error_set(error, "out of memory");
        free(key);
        return NULL;
    }
    if (!s_is_toml(line, &wrong) && !(equals[1] && strchr("[{\"'", equals[1]))) {
        free(line);
        line = s_quoted(key, equals + 1);
    }
    if (!line || !s_is_toml(line, &wrong)) {
        verl_error_set(error, "'%s' is no KEY=VALUE: %s", assignment, line ? wrong.text : "out of memory");
        free(line);
        line = NULL;
    }
    free(key);
    return line;
}

char *
verl_inject_unplaced(const char *text, const char *path, char *const *words, int words_count)
{
    char *told = NULL;
    size_t size, length = strlen(path);
    FILE *out = open_memstream(&told, &size);
    for (const char *line = text; out && *line;) {
        size_t rest = strcspn(line, "\n");
        int row = 0, column = 0, used = 0;
        if (strncmp(line, path, length) == 0)
            sscanf(line + length, ":%d:%d: %n", &row, &column, &used);
        if (used && row > 0 && row <= words_count)
            fprintf(out, "%s %s: ", path, words[row - 1]);
        else if (used)
            fprintf(out, "%s: ", path);
        size_t skip = used ? length + (size_t) used : 0;
        skip = skip < rest ? skip : rest;
        fprintf(out, "%.*s%s", (int) (rest - skip), line + skip, line[rest] ? "\n" : "");
        line += rest + (line[rest] != 0);
    }
    if (out && fclose(out) == 0)
        return told;
    free(told);
    return NULL;
}

// At most FRAGMENT_MOST + 1 bytes of it. NULL with errno.
static char *
s_read(int fd, size_t *ret_size)
{
    char *text = fd >= 0 ? malloc(FRAGMENT_MOST + 2) : NULL;
    size_t size = 0;
    ssize_t got = -1;
    while (text && size <= FRAGMENT_MOST) {
        got = read(fd, text + size, FRAGMENT_MOST + 1 - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size += (size_t) got;
    }
    *ret_size = size;
    if (text && got >= 0)
        return text;
    free(text);
    return NULL;
}

// Is it a text of a few lines?
static int
s_check(const char *name, const char *text, size_t size, verl_error_t *error)
{
    size_t right = verl_utf8_valid((const uint8_t *) text, size);
    if (size > FRAGMENT_MOST)
        return verl_error_set(error, "%s has more than 1 MiB: a fragment is a few lines", name);
    if (memchr(text, 0, size))
        return verl_error_set(error, "%s is no text: it has a zero byte in it", name);
    if (right < size)
        return verl_error_set(error, "%s is no text: its byte %zu is not UTF-8", name, right + 1);
    return 0;
}

char *
verl_inject_read(const char *path, verl_error_t *error)
{
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    int fd = standard ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    char *text = s_read(fd, &size);
    if (!text)
        verl_error_errno(error, "cannot read %s", name);
    if (fd > 0)
        close(fd);
    if (text && s_check(name, text, size, error)) {
        free(text);
        return NULL;
    }
    if (text)
        text[size] = 0;
    return text;
}
