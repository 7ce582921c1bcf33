// spy_words.c: what the subcommands of verl-spy need for their command lines.
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
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

int
verl_spy_written(const char *name)
{
    static bool said;
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    if (!said && errno)
        fprintf(stderr, "%s: cannot write to standard output: %s\n", name, strerror(errno));
    else if (!said)
        fprintf(stderr, "%s: cannot write to standard output\n", name);
    said = true;
    return 1;
}

int
verl_spy_no_memory(const char *name)
{
    fprintf(stderr, "%s: out of memory\n", name);
    return 1;
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
        return name[1] == '-' ? NULL : words[*at] + length;     // "-n3"
    if (*at + 1 < count)
        return words[++*at];
    *missing = true;
    return NULL;
}
