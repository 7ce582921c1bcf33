// jinja_lex.c: cuts a template into lexemes, with the white space around its tags taken away as Jinja does.
//
// As the reference sets it up: a newline behind a block or comment goes (trim_blocks), so do spaces before one that
// begins its line (lstrip_blocks), `-` takes all white space on its side, `+` keeps it.
#include "actors/text/source.h"
#include "actors/text/jinja_impl.h"
#include "actors/text/utf8.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    verl_jinja_arena_t  *arena;
    char          *text;                    // with newlines made \n
    size_t         length, at;
    int            line;
    bool           line_starts;             // the text in hand begins a line
    verl_jinja_lexeme_t *list;
    size_t         count, capacity;
    const char    *where;
    char          *error;
    size_t         error_size;
} s_lexer_t;

#define S_FAIL(lexer, ...) verl_text_fail((lexer)->error, (lexer)->error_size, __VA_ARGS__)

static int
s_emit(s_lexer_t *self, verl_jinja_lexeme_kind_t kind, const char *data, size_t length, int64_t integer)
{
    if (self->count == self->capacity) {
        size_t capacity = self->capacity ? self->capacity * 2 : 256;
        verl_jinja_lexeme_t *grown = verl_jinja_arena_take(self->arena, capacity * sizeof *grown);
        if (!grown)
            return S_FAIL(self, "%s: not enough memory", self->where);
        if (self->count)
            memcpy(grown, self->list, self->count * sizeof *grown);
        self->list = grown;
        self->capacity = capacity;
    }
    self->list[self->count++] = (verl_jinja_lexeme_t) { kind, self->line, { data, length }, integer };
    return 0;
}

static bool
s_space(char character)
{
    return character == ' ' || (character >= '\t' && character <= '\r');
}

static void
s_advance(s_lexer_t *self, size_t to)
{
    for (; self->at < to; self->at++)
        self->line += self->text[self->at] == '\n';
}

// Where the next tag begins, or the end.
static size_t
s_find_tag(const s_lexer_t *self)
{
    for (size_t at = self->at; at + 1 < self->length; at++)
        if (self->text[at] == '{' &&
            (self->text[at + 1] == '{' || self->text[at + 1] == '%' || self->text[at + 1] == '#'))
            return at;
    return self->length;
}

// Where the text before a tag ends, spaces taken away.
static size_t
s_trim_before(const s_lexer_t *self, size_t tag)
{
    char kind = self->text[tag + 1], mark = tag + 2 < self->length ? self->text[tag + 2] : 0;
    size_t end = tag;
    if (mark == '-')
        while (end > self->at && s_space(self->text[end - 1]))
            end--;
    else if (kind != '{' && mark != '+') {
        while (end > self->at && s_space(self->text[end - 1]) && self->text[end - 1] != '\n')
            end--;
        bool begins_line = end > self->at ? self->text[end - 1] == '\n' : self->line_starts;
        end = begins_line ? end : tag;
    }
    return end;
}

// Steps behind the end of a tag; `mark` is the character before it.
static void
s_trim_after(s_lexer_t *self, size_t end, char mark, bool block)
{
    self->line_starts = false;
    s_advance(self, end);
    if (mark == '-') {
        while (end < self->length && s_space(self->text[end]))
            end++;
        self->line_starts = end > self->at && self->text[end - 1] == '\n';
    } else if (block && mark != '+' && end < self->length && self->text[end] == '\n') {
        end++;
        self->line_starts = true;
    }
    s_advance(self, end);
}

// The number that digits of a base write; at most `most` of them. How many there were.
static size_t
s_digits(const char *from, size_t left, size_t most, int base, unsigned *ret_code)
{
    static const char digits[] = "0123456789abcdef";
    size_t count = 0;
    for (*ret_code = 0; count < most && count < left; count++) {
        char digit = from[count] >= 'A' && from[count] <= 'F' ? (char) (from[count] + 32) : from[count];
        const char *found = digit ? memchr(digits, digit, (size_t) base) : NULL;
        if (!found)
            break;
        *ret_code = *ret_code * (unsigned) base + (unsigned) (found - digits);
    }
    return count;
}

// What stands behind a backslash, as in Python; *ret_used: how much of it there is, 0 for what is no escape there or
// not supported. How many bytes it is.
static size_t
s_escape(const char *from, size_t left, uint8_t *out, size_t *ret_used)
{
    static const char codes[] = "ntr\\'\"abfv", bytes[] = "\n\t\r\\'\"\a\b\f\v";
    const char *found = left && from[0] ? strchr(codes, from[0]) : NULL;
    char kind = left ? from[0] : 0;
    size_t wanted = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    unsigned code = 0;
    *ret_used = kind == 'N' || kind < 0 || !kind ? 0 : 1;
    if (kind == '\n')
        return 0;
    if (found) {
        out[0] = (uint8_t) bytes[found - codes];
        return 1;
    }
    size_t octal = s_digits(from, left, 3, 8, &code);
    if (octal || wanted) {
        bool whole = octal || s_digits(from + 1, left - 1, wanted, 16, &code) == wanted;
        *ret_used = !whole || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF) ? 0 : octal ? octal : 1 + wanted;
        return *ret_used ? verl_utf8_write(code, out) : 0;
    }
    out[0] = '\\';                          // unknown escapes stand for themselves
    out[1] = (uint8_t) kind;
    return 2;
}

static int
s_string(s_lexer_t *self)
{
    char quote = self->text[self->at];
    size_t end = self->at + 1, length = 0;
    while (end < self->length && self->text[end] != quote)
        end += self->text[end] == '\\' ? 2 : 1;
    if (end >= self->length)
        return S_FAIL(self, "%s: line %d: a string does not end", self->where, self->line);
    uint8_t *value = verl_jinja_arena_take(self->arena, 2 * (end - self->at) + 8);
    if (!value)
        return S_FAIL(self, "%s: not enough memory", self->where);
    for (size_t at = self->at + 1, used; at < end; at += used) {
        used = 1;
        if (self->text[at] != '\\') {
            value[length++] = (uint8_t) self->text[at];
            continue;
        }
        length += s_escape(self->text + at + 1, end - at - 1, value + length, &used);
        if (!used++)
            return S_FAIL(self, "%s: line %d: a string has the escape \\%.*s, which is not supported", self->where,
                          self->line, (int) (end - at - 1 < 10 ? end - at - 1 : 10), self->text + at + 1);
    }
    int rc = s_emit(self, TOKEN_STRING, (const char *) value, length, 0);
    s_advance(self, end + 1);
    return rc;
}

static bool
s_name_character(char character)
{
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') || character == '_'
           || (character >= '0' && character <= '9');
}

static int
s_word(s_lexer_t *self)
{
    size_t end = self->at;
    while (end < self->length && s_name_character(self->text[end]))
        end++;
    const char *text = self->text + self->at;
    size_t length = end - self->at;
    int64_t value = 0;
    if (text[0] < '0' || text[0] > '9') {
        self->at = end;
        return s_emit(self, TOKEN_NAME, text, length, 0);
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || value > INT32_MAX)
            return S_FAIL(self, "%s: line %d: the number %.*s is not supported", self->where, self->line,
                          (int) (length < 40 ? length : 40), text);
        value = value * 10 + (text[i] - '0');
    }
    if (end + 1 < self->length && text[length] == '.' && text[length + 1] >= '0' && text[length + 1] <= '9')
        return S_FAIL(self, "%s: line %d: numbers with a point are not supported", self->where, self->line);
    self->at = end;
    return s_emit(self, TOKEN_INT, text, length, value);
}

static int
s_operator(s_lexer_t *self)
{
    static const char *const pairs[] = { "==", "!=", "<=", ">=", "//", "**" };
    const char *text = self->text + self->at;
    size_t length = 1;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (self->at + 1 < self->length && memcmp(text, pairs[i], 2) == 0)
            length = 2;
    if (!strchr("+-*/%~=<>()[]{}.,:|!", text[0]) || (length == 1 && text[0] == '!') || text[0] == 0)
        return S_FAIL(self, "%s: line %d: '%c' cannot stand in an expression", self->where, self->line,
                      text[0] >= ' ' && text[0] < 127 ? text[0] : '?');
    self->at += length;
    return s_emit(self, TOKEN_OPERATOR, text, length, 0);
}

// The lexemes of one tag, up to its end: "%}" or "}}", with or without a mark.
static int
s_tag(s_lexer_t *self, bool block)
{
    const char first = block ? '%' : '}';
    int nesting = 0;
    while (self->at < self->length) {
        const char *here = self->text + self->at;
        size_t left = self->length - self->at, mark = *here == '-' || (block && *here == '+') ? 1 : 0;
        if (nesting == 0 && left > mark + 1 && here[mark] == first && here[mark + 1] == '}') {
            if (s_emit(self, block ? TOKEN_BLOCK_END : TOKEN_OUT_END, here, 0, 0))
                return -1;
            s_trim_after(self, self->at + mark + 2, mark ? *here : 0, block);
            return 0;
        }
        nesting += *here == '{' || *here == '(' || *here == '['   ? 1
                   : *here == '}' || *here == ')' || *here == ']' ? -1
                                                                  : 0;
        nesting = nesting < 0 ? 0 : nesting;
        int rc = 0;
        if (s_space(*here))
            s_advance(self, self->at + 1);
        else if (*here == '\'' || *here == '"')
            rc = s_string(self);
        else
            rc = s_name_character(*here) ? s_word(self) : s_operator(self);
        if (rc)
            return -1;
    }
    return S_FAIL(self, "%s: line %d: a tag does not end", self->where, self->line);
}

static int
s_comment(s_lexer_t *self)
{
    for (size_t at = self->at; at + 1 < self->length; at++)
        if (self->text[at] == '#' && self->text[at + 1] == '}') {
            s_trim_after(self, at + 2, at > self->at ? self->text[at - 1] : 0, true);
            return 0;
        }
    return S_FAIL(self, "%s: line %d: a comment does not end", self->where, self->line);
}

static int
s_lex(s_lexer_t *self)
{
    while (self->at < self->length) {
        size_t tag = s_find_tag(self), end = tag < self->length ? s_trim_before(self, tag) : tag;
        if (end > self->at && s_emit(self, TOKEN_TEXT, self->text + self->at, end - self->at, 0))
            return -1;
        s_advance(self, tag);
        if (tag == self->length)
            break;
        char kind = self->text[tag + 1], mark = tag + 2 < self->length ? self->text[tag + 2] : 0;
        s_advance(self, tag + (mark == '-' || mark == '+' ? 3 : 2));
        if (kind == '#') {
            if (s_comment(self))
                return -1;
        } else if (s_emit(self, kind == '%' ? TOKEN_BLOCK : TOKEN_OUT, "", 0, 0) || s_tag(self, kind == '%'))
            return -1;
    }
    return s_emit(self, TOKEN_END, "", 0, 0);
}

int
verl_jinja_lex(verl_jinja_arena_t *arena, const char *text, size_t length, const char *where,
                  verl_jinja_lexeme_t **ret_lexemes, char *error, size_t error_size)
{
    s_lexer_t self = { .arena = arena, .line = 1, .line_starts = true, .where = where, .error = error,
                       .error_size = error_size };
    self.text = verl_jinja_arena_take(arena, length + 1);
    if (!self.text)
        return S_FAIL(&self, "%s: not enough memory", where);
    for (size_t i = 0; i < length; i++)
        if (text[i] != '\r')
            self.text[self.length++] = text[i];
        else if (i + 1 == length || text[i + 1] != '\n')
            self.text[self.length++] = '\n';
    if (self.length && self.text[self.length - 1] == '\n')     // Jinja drops one newline at the end
        self.length--;
    int rc = s_lex(&self);
    *ret_lexemes = self.list;
    return rc;
}
