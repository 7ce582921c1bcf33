// error.h: one sentence that says what went wrong. The first one wins, so that a cause is not hidden by what it led to.
#ifndef VERL_ERROR_H
#define VERL_ERROR_H

typedef struct verl_error {
    char text[1024];                        // empty: nothing went wrong
} verl_error_t;

// Writes the sentence unless there is one already. Returns -1, so that a failing path is one line. error may be NULL.
int verl_error_set(verl_error_t *error, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
// The same with ": " and the text of errno behind it.
int verl_error_errno(verl_error_t *error, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
#endif
