// display_text.h: text as a terminal shows it: its width, what must not reach one, what fits.
//
// Invariant: whatever was appended by these is valid UTF-8 without a control character.
#ifndef VERL_DISPLAY_TEXT_H
#define VERL_DISPLAY_TEXT_H
#include <stdbool.h>
#include <stdio.h>
#include "runtime/wire/buffer.h"

void verl_display_text_add(verl_buffer_t *buffer, const char *text);
void verl_text_format(verl_buffer_t *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Whether the locale (LC_ALL, LC_CTYPE, LANG: the first that is not empty) has UTF-8.
bool verl_text_unicode(void);

// Columns that a text takes on a terminal; a text that is not UTF-8 counts a column a wrong byte.
int verl_text_width(const char *text);

// Any text on one line: control characters, characters that turn the direction of writing, and bytes that are not UTF-8
// are written out (\n, \t, \x1b, \u202e). At most `columns` wide; a longer one ends with … (or ~). Returns the width.
int verl_text_shown(verl_buffer_t *buffer, const char *text, int columns, bool unicode);
// The same of so many bytes, which may hold zeroes.
int verl_text_shown_bytes(verl_buffer_t *buffer, const char *text, size_t size, int columns, bool unicode);

// A word of a command line: in quotes where the shell would take it for something else.
void verl_text_shell(verl_buffer_t *buffer, const char *word);

// A text of one or more lines on `out`, each with `before` in front of it; empty ones are left out. Nothing in them moves
// the cursor, and one longer than 10000 columns is shortened.
void verl_text_lines(FILE *out, const char *before, const char *text);

// The text, and blanks up to `columns`, behind it or (right) before it. Too long a text is shortened.
void verl_text_cell(verl_buffer_t *buffer, const char *text, int columns, bool right, bool unicode);

// A curve of `count` values in at most `columns` columns: means where there are more values than columns.
void verl_text_curve(verl_buffer_t *buffer, const double *values, int count, int columns, bool unicode);

// A duration: 0.42 s, 12.3 s, 3:07, 2:03:07. Writes at most size bytes; returns text.
const char *verl_text_duration(double seconds, char *text, size_t size);
#endif
