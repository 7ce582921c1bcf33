// toml_scan.c: see toml_scan.h. Knows strings and comments, and nothing else of the language; up to the first mistake
// in a document, which ends the parser, it sees the same strings as the parser.
#include "runtime/topology/toml_scan.h"
#include <stdio.h>
#include <string.h>

typedef struct scan {
    const char *at, *end, *line_start;
    int line, dots, depth;
} scan_t;

static void
s_newline(scan_t *self)
{
    self->line++;
    self->line_start = self->at + 1;
}

static bool
s_three(const scan_t *self, char quote)
{
    return self->end - self->at >= 3 && self->at[0] == quote && self->at[1] == quote && self->at[2] == quote;
}

// Moves behind a string of several lines, whose closing quotes may have two of its own before them.
static void
s_skip_long(scan_t *self, char quote)
{
    for (self->at += 3; self->at < self->end; self->at++) {
        if (*self->at == '\n')
            s_newline(self);
        else if (*self->at == '\\' && quote == '"' && self->at + 1 < self->end && self->at[1] != '\n')
            self->at++;
        else if (s_three(self, quote)) {
            self->at += 3;
            for (int extra = 0; extra < 2 && self->at < self->end && *self->at == quote; extra++)
                self->at++;
            return;
        }
    }
}

static void
s_skip_string(scan_t *self, char quote)
{
    if (s_three(self, quote)) {
        s_skip_long(self, quote);
        return;
    }
    for (self->at++; self->at < self->end && *self->at != '\n'; self->at++) {
        if (*self->at == '\\' && quote == '"' && self->at + 1 < self->end && self->at[1] != '\n')
            self->at++;
        else if (*self->at == quote) {
            self->at++;
            return;
        }
    }
}

static int
s_refuse(const scan_t *self, verl_toml_error_t *error, const char *what, int bound)
{
    error->line = self->line;
    error->column = (int) (self->at - self->line_start) + 1;
    snprintf(error->text, sizeof error->text, what, bound);
    return -1;
}

static void
s_count(scan_t *self, char c)
{
    if (c == '.')
        self->dots++;
    else if (c == '[' || c == '{')
        self->depth++;
    else if ((c == ']' || c == '}') && self->depth > 0)
        self->depth--;
    if (c == '\n')
        s_newline(self);
    if (strchr("=,[]{}\n", c) && c)
        self->dots = 0;
}

int
verl_toml_scan(const char *text, size_t size, verl_toml_error_t *error)
{
    scan_t self = { .at = text, .end = text + size, .line_start = text, .line = 1 };
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        self.at += 3;                       // a byte order mark
    while (self.at < self.end) {
        char c = *self.at;
        if (c == '"' || c == '\'') {
            s_skip_string(&self, c);
            continue;
        }
        if (c == '#') {
            while (self.at < self.end && *self.at != '\n')
                self.at++;
            continue;
        }
        if ((unsigned char) c >= 0x7f || ((unsigned char) c < 0x20 && !strchr("\t\r\n", c)) || !c)
            return s_refuse(&self, error, "a character (byte %d) that can stand only in a string or a comment",
                            (unsigned char) c);
        s_count(&self, c);
        if (self.dots > VERL_TOML_MAX_DOTS)
            return s_refuse(&self, error, "a key with too many dots: at most %d", VERL_TOML_MAX_DOTS);
        if (self.depth > VERL_NODE_DEPTH)
            return s_refuse(&self, error, "arrays and tables too deep inside each other: at most %d", VERL_NODE_DEPTH);
        self.at++;
    }
    return 0;
}
