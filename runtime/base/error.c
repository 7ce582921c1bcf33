// error.c: see error.h.
#include "runtime/base/error.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/utf8.h"

int
verl_error_set(verl_error_t *error, const char *format, ...)
{
    if (!error || error->text[0])
        return -1;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t) length >= sizeof error->text)
        verl_utf8_trim(error->text);
    return -1;
}

int
verl_error_errno(verl_error_t *error, const char *format, ...)
{
    int number = errno;
    if (!error || error->text[0])
        return -1;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t) length < sizeof error->text) {
        char buffer[128];
        snprintf(error->text + length, sizeof error->text - (size_t) length, ": %s",
                 strerror_r(number, buffer, sizeof buffer));
    }
    verl_utf8_trim(error->text);
    return -1;
}
