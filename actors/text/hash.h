// hash.h: a 64-bit hash for tables, identities and checksums. It guards against accidents, not against an adversary.
//
// Each step folds the 128-bit product of two words (the idea of wyhash); every input bit reaches every output bit.
#ifndef VERL_TEXT_HASH_H
#define VERL_TEXT_HASH_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t
verl_hash_mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide_t;
    wide_t product = (wide_t) (a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xD1B54A32D192ED03u);
    return (uint64_t) product ^ (uint64_t) (product >> 64);
}

static inline uint64_t
verl_hash_tail(const uint8_t *data, size_t length)
{
    uint64_t word = 0;
    memcpy(&word, data, length < 8 ? length : 8);
    return word;
}

static inline uint64_t
verl_hash(const void *bytes, size_t length, uint64_t seed)
{
    const uint8_t *data = bytes;
    uint64_t state = verl_hash_mix(seed, length);
    for (; length > 16; data += 16, length -= 16)
        state = verl_hash_mix(verl_hash_tail(data, 8) ^ state, verl_hash_tail(data + 8, 8)) + state;
    uint64_t first = verl_hash_tail(data, length), second = length > 8 ? verl_hash_tail(data + 8, length - 8) : 0;
    return verl_hash_mix(verl_hash_mix(first ^ state, second), state ^ 0xA0761D6478BD642Fu);
}
#endif
