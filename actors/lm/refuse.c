// refuse.c: see refuse.h.
#include "actors/lm/refuse.h"

#include <stdarg.h>
#include <stdio.h>

int
verl_lm_refuse(const char *name, char *error, size_t error_size, const char *format, ...)
{
    char    what[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(error, error_size, "%s: %s", name, what);
    return -1;
}

int
verl_lm_fail(char *error, size_t error_size, const char *format, ...)
{
    if (error && error_size > 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error, error_size, format, arguments);
        va_end(arguments);
    }
    return -1;
}
