// utf8.c: decoding that never trusts its input.
#include "actors/text/utf8.h"
#include <string.h>

// The range of the second byte depends on the first one; all others are 80..BF (Unicode 15, table 3-7).
static size_t
s_second_range(uint8_t first, uint8_t *low, uint8_t *high)
{
    *low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    *high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (first >= 0xC2 && first <= 0xDF)
        return 2;
    if (first >= 0xE0 && first <= 0xEF)
        return 3;
    return first >= 0xF0 && first <= 0xF4 ? 4 : 0;
}

size_t
verl_utf8_next(const uint8_t *data, size_t length, uint32_t *ret_code, size_t *ret_skip)
{
    uint32_t code = data[0];
    size_t wanted = 1;
    if (data[0] >= 0x80) {
        uint8_t low, high;
        wanted = s_second_range(data[0], &low, &high);
        if (wanted == 0) {
            *ret_skip = 1;
            return 0;
        }
        code = data[0] & (0x7Fu >> wanted);
        for (size_t i = 1; i < wanted; i++) {
            if (i >= length || data[i] < low || data[i] > high) {
                *ret_skip = i;
                return 0;
            }
            code = code << 6 | (data[i] & 0x3Fu);
            low = 0x80;
            high = 0xBF;
        }
    }
    if (ret_code)
        *ret_code = code;
    return wanted;
}

size_t
verl_utf8_valid(const uint8_t *data, size_t length)
{
    size_t at = 0, skip;
    while (at < length) {
        uint64_t eight;
        while (at + 8 <= length && (memcpy(&eight, data + at, 8), (eight & 0x8080808080808080u) == 0))
            at += 8;
        if (at >= length)
            break;
        size_t step = verl_utf8_next(data + at, length - at, NULL, &skip);
        if (step == 0)
            return at;
        at += step;
    }
    return length;
}

int
verl_utf8_add_lossy(verl_text_t *text, const uint8_t *data, size_t length)
{
    while (length) {
        size_t valid = verl_utf8_valid(data, length), skip = 0;
        if (verl_text_add(text, data, valid))
            return -1;
        data += valid;
        length -= valid;
        if (length == 0)
            break;
        verl_utf8_next(data, length, NULL, &skip);
        if (verl_text_add(text, "\xEF\xBF\xBD", 3))
            return -1;
        data += skip;
        length -= skip;
    }
    return 0;
}

size_t
verl_utf8_write(uint32_t code, uint8_t *out)
{
    if (code < 0x80) {
        out[0] = (uint8_t) code;
        return 1;
    }
    size_t count = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; i--, code >>= 6)
        out[i] = (uint8_t) (0x80 | (code & 0x3F));
    out[0] = (uint8_t) ((count == 2 ? 0xC0u : count == 3 ? 0xE0u : 0xF0u) | code);
    return count;
}
