// alphabet.c: both directions of the byte-level alphabet.
#include "actors/text/alphabet.h"
#include "actors/text/utf8.h"

static bool
s_visible(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

uint32_t
verl_alphabet_character(uint8_t byte)
{
    if (s_visible(byte))
        return byte;
    uint32_t hidden = 0;
    for (uint32_t other = 0; other < byte; other++)
        hidden += !s_visible(other);
    return 0x100 + hidden;
}

// The byte of a character, or -1.
static int
s_byte(uint32_t character)
{
    if (character < 0x100)
        return s_visible(character) ? (int) character : -1;
    if (character < 0x121)                  // 0..20
        return (int) (character - 0x100);
    if (character < 0x143)                  // 7F..A0
        return (int) (character - 0x121 + 0x7F);
    return character == 0x143 ? 0xAD : -1;
}

bool
verl_alphabet_bytes(const char *content, size_t length, verl_text_t *bytes, bool *ret_memory)
{
    size_t before = bytes->length, step, skip;
    for (size_t at = 0; at < length; at += step) {
        uint32_t character;
        step = verl_utf8_next((const uint8_t *) content + at, length - at, &character, &skip);
        int byte = step ? s_byte(character) : -1;
        char value = (char) byte;
        if (byte >= 0 && verl_text_add(bytes, &value, 1) == 0)
            continue;
        *ret_memory = byte < 0;
        bytes->length = before;
        return false;
    }
    return true;
}
