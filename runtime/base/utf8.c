// utf8.c: see utf8.h.
#include "runtime/base/utf8.h"
#include <string.h>

// Bytes of a character that begins with this one; 1 where none does.
static size_t
s_length(unsigned char lead)
{
    return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
}

void
verl_utf8_trim(char *text)
{
    size_t size = strlen(text), behind = 1;
    while (behind < 4 && behind < size && ((unsigned char) text[size - behind] & 0xc0) == 0x80)
        behind++;
    if (size && s_length((unsigned char) text[size - behind]) > behind)
        text[size - behind] = 0;
}
