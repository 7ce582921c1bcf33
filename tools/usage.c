// usage.c: see usage.h.
#include "tools/usage.h"
#include <stdio.h>

// The long option of that value; NULL: none is.
static const struct option *
s_find(const struct option *options, int value)
{
    for (const struct option *option = options; option->name; option++)
        if (option->val == value)
            return option;
    return NULL;
}

const char *
verl_usage_wrong(int returned, char *const *words, const struct option *options, char *text, size_t size)
{
    const struct option *known = optopt >= VERL_LONG(0) ? s_find(options, optopt) : NULL;
    if (known)
        snprintf(text, size, "--%s %s", known->name, returned == ':' ? "needs a value" : "takes no value");
    else if (optopt)
        snprintf(text, size, "there is no option -%c", optopt);     // of several letters behind one '-', this one
    else
        snprintf(text, size, "there is no option %s", words[optind - 1]);
    return text;
}
