// json.c: see json.h.
#include "runtime/base/json.h"
#include <stdlib.h>
#include <string.h>

// Bytes of the character that `text` begins with; 0: it begins with none. Longer forms than needed, surrogates and what is
// beyond U+10FFFF are none: their second byte tells.
static size_t
s_character(const unsigned char *text)
{
    unsigned char first = text[0], low = 0x80, high = 0xbf;
    size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    for (size_t i = 1; i < size; i++, low = 0x80, high = 0xbf)
        if (text[i] < low || text[i] > high)
            return 0;
    return size;
}

json_t *
verl_json_text(const char *text)
{
    json_t *value = json_string(text);
    char *copy = value ? NULL : strdup(text);
    for (char *at = copy; at && *at;) {
        size_t size = s_character((const unsigned char *) at);
        if (size == 0)
            *at = '?';
        at += size ? size : 1;
    }
    if (copy)
        value = json_string(copy);
    free(copy);
    return value;
}
