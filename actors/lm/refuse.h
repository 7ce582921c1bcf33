// refuse.h: how the files of this folder say what is wrong: one sentence, in the caller's buffer.
#ifndef VERL_LM_REFUSE_H
#define VERL_LM_REFUSE_H
#include <stddef.h>

// Writes "NAME: " and the sentence; name is that of the file or folder that is refused. Returns -1.
int verl_lm_refuse(const char *name, char *error, size_t error_size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Writes the sentence, where error is not NULL. Returns -1.
int verl_lm_fail(char *error, size_t error_size, const char *format, ...) __attribute__((format(printf, 3, 4)));
#endif
