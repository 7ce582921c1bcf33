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
verl_json_bytes(const char *bytes, size_t size)
{
    json_t *value = json_stringn(bytes, size);
    char *copy = value ? NULL : malloc(size + 1);
    if (!copy)
        return value;
    memcpy(copy, bytes, size);
    copy[size] = 0;                         // no character goes on behind it
    for (char *at = copy; at < copy + size;) {
        size_t taken = s_character((const unsigned char *) at);
        if (taken == 0)
            *at = '?';
        at += taken ? taken : 1;
    }
    value = json_stringn(copy, size);
    free(copy);
    return value;
}

json_t *
verl_json_text(const char *text)
{
    return verl_json_bytes(text, strlen(text));
}
