// spy_words.c: what the subcommands of verl-spy need for their command lines.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "tools/spy.h"

int
verl_spy_usage(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, ": see verl-spy --help\n");
    va_end(arguments);
    return 2;
}

const char *
verl_spy_value(int count, char **words, int *at, const char *name, bool *missing)
{
    size_t length = strlen(name);
    if (strncmp(words[*at], name, length) != 0)
        return NULL;
    if (words[*at][length] == '=')
        return words[*at] + length + 1;
    if (words[*at][length])
        return NULL;
    if (*at + 1 < count)
        return words[++*at];
    *missing = true;
    return NULL;
}
