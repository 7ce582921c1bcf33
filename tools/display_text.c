// display_text.c: see display_text.h.
#include "tools/display_text.h"
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define LINE_MOST 10000                     // columns

bool
verl_text_unicode(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

void
verl_display_text_add(verl_buffer_t *buffer, const char *text)
{
    verl_buffer_append(buffer, text, strlen(text));
}

void
verl_text_format(verl_buffer_t *buffer, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length >= 0 && verl_buffer_reserve(buffer, (size_t) length + 1) == 0) {
        vsnprintf(buffer->data + buffer->size, (size_t) length + 1, format, again);
        buffer->size += (size_t) length;
    }
    va_end(again);
    va_end(arguments);
}

// --- one character ------------------------------------------------------------------------------------------------

typedef struct {
    char text[12];                          // as it is shown
    int  width;
} s_glyph_t;

// Marks that reorder what stands around them: a sample could forge what a line says.
static bool
s_turns(int32_t c)
{
    return (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0x200E || c == 0x200F || c == 0x061C ||
           c == 0x2028 || c == 0x2029;
}

static s_glyph_t
s_escaped(char kind, unsigned value)
{
    s_glyph_t glyph;
    glyph.width = snprintf(glyph.text, sizeof glyph.text, kind == 'x' ? "\\x%02x" : "\\u%04x", value);
    return glyph;
}

// Takes one character off the front of a text that is not empty.
static s_glyph_t
s_next(const char **text, const char *end)
{
    const uint8_t *at = (const uint8_t *) *text;
    int32_t c = -1;
    utf8proc_ssize_t bytes = utf8proc_iterate(at, end - *text < 4 ? end - *text : 4, &c);
    if (bytes <= 0 || c < 0) {
        ++*text;
        return s_escaped('x', *at);
    }
    *text += bytes;
    if (c == '\n' || c == '\t' || c == '\r')
        return (s_glyph_t) { { '\\', c == '\n' ? 'n' : c == '\t' ? 't' : 'r', 0 }, 2 };
    if (c < 0x20 || c == 0x7f)
        return s_escaped('x', (unsigned) c);
    if ((c >= 0x80 && c < 0xA0) || s_turns(c))
        return s_escaped('u', (unsigned) c);
    s_glyph_t glyph = { .width = utf8proc_charwidth(c) };
    memcpy(glyph.text, at, (size_t) bytes);
    glyph.text[bytes] = 0;
    return glyph;
}

int
verl_text_width(const char *text)
{
    const char *end = text + strlen(text);
    int width = 0;
    while (text < end)
        width += s_next(&text, end).width;
    return width;
}

int
verl_text_shown(verl_buffer_t *buffer, const char *text, int columns, bool unicode)
{
    return verl_text_shown_bytes(buffer, text, strlen(text), columns, unicode);
}

int
verl_text_shown_bytes(verl_buffer_t *buffer, const char *text, size_t size, int columns, bool unicode)
{
    const char *end = text + size;
    int width = 0, kept = 0;
    size_t keep = buffer->size;             // up to where it may be cut so that the mark still fits
    while (text < end) {
        s_glyph_t glyph = s_next(&text, end);
        if (width + glyph.width > columns) {
            buffer->size = keep;
            if (columns > 0)
                verl_display_text_add(buffer, unicode ? "…" : "~");
            return columns > 0 ? kept + 1 : 0;
        }
        verl_display_text_add(buffer, glyph.text);
        width += glyph.width;
        if (width + 1 <= columns) {
            keep = buffer->size;
            kept = width;
        }
    }
    return width;
}

void
verl_text_shell(verl_buffer_t *buffer, const char *word)
{
    verl_buffer_t quoted = { 0 };
    bool plain = *word != 0;
    for (const char *c = word; *c; c++)
        plain = plain && (*c < 0 || isalnum((unsigned char) *c) || strchr("/._-+=:,@%", *c));
    verl_display_text_add(&quoted, plain ? "" : "'");
    for (const char *c = word; *c; c++)
        verl_buffer_append(&quoted, *c == '\'' ? "'\\''" : c, *c == '\'' ? 4 : 1);
    verl_display_text_add(&quoted, plain ? "" : "'");
    verl_text_shown_bytes(buffer, quoted.data ? quoted.data : "", quoted.size, INT_MAX, true);
    verl_buffer_done(&quoted);
}

void
verl_text_lines(FILE *out, const char *before, const char *text)
{
    char *copy = strdup(text), *rest = copy;
    for (char *line = copy ? strsep(&rest, "\n") : NULL; line; line = strsep(&rest, "\n")) {
        verl_buffer_t shown = { 0 };
        verl_text_shown(&shown, line, LINE_MOST, true);
        if (shown.size)
            fprintf(out, "%s%.*s\n", before, (int) shown.size, shown.data);
        verl_buffer_done(&shown);
    }
    free(copy);
}

static void
s_blanks(verl_buffer_t *buffer, int count)
{
    for (int i = 0; i < count; i++)
        verl_display_text_add(buffer, " ");
}

void
verl_text_cell(verl_buffer_t *buffer, const char *text, int columns, bool right, bool unicode)
{
    int width = verl_text_width(text);
    if (right)
        s_blanks(buffer, columns - width);
    width = verl_text_shown(buffer, text, columns, unicode);
    if (!right)
        s_blanks(buffer, columns - width);
}

// --- curves and times ---------------------------------------------------------------------------------------------

// Mean of the finite values in [from, to); NaN where there is none.
static double
s_mean(const double *values, int from, int to)
{
    double sum = 0;
    int count = 0;
    for (int i = from; i < to; i++)
        if (isfinite(values[i])) {
            sum += values[i];
            count++;
        }
    return count ? sum / count : (double) NAN;
}

// The i-th point of a curve of so many.
static double
s_point(const double *values, int count, int i, int points)
{
    long long from = (long long) count * i / points, to = (long long) count * (i + 1) / points;
    return s_mean(values, (int) from, (int) to);
}

void
verl_text_curve(verl_buffer_t *buffer, const double *values, int count, int columns, bool unicode)
{
    static const char *const fine[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const coarse[] = { "_", ".", "-", "=", "+", "*", "%", "#" };
    int points = count < columns ? count : columns;
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < points; i++) {
        double mean = s_point(values, count, i, points);
        least = fmin(least, mean);          // fmin and fmax leave NaN aside
        most = fmax(most, mean);
    }
    for (int i = 0; i < points; i++) {
        double mean = s_point(values, count, i, points);
        double share = most > least ? (mean - least) / (most - least) : 0.5;
        int level = isfinite(share) ? (int) (share * 7.999) : 0;
        verl_display_text_add(buffer, !isfinite(mean) ? " " : unicode ? fine[level] : coarse[level]);
    }
}

const char *
verl_text_duration(double seconds, char *text, size_t size)
{
    if (!(seconds >= 0 && seconds < 1e9))
        snprintf(text, size, "?");
    else if (seconds < 10)
        snprintf(text, size, "%.2f s", seconds);
    else if (seconds < 60)
        snprintf(text, size, "%.1f s", seconds);
    else if (seconds < 3600)
        snprintf(text, size, "%d:%02d", (int) seconds / 60, (int) seconds % 60);
    else
        snprintf(text, size, "%d:%02d:%02d", (int) seconds / 3600, (int) seconds / 60 % 60, (int) seconds % 60);
    return text;
}
