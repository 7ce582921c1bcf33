// quants.c: the block formats, one small function each.
//
// Invariant: a function reads exactly blocks * block_size bytes and writes blocks * block_count floats, and depends on
// nothing else, so that any cut of a tensor at block borders gives the same bits.
#include "actors/lm/quants.h"

#include <stdbool.h>
#include <string.h>

typedef void (*s_span_fn)(const uint8_t *bytes, int64_t blocks, float *out);

static inline uint16_t
s_u16(const uint8_t *bytes)
{
    return (uint16_t) (bytes[0] | bytes[1] << 8);
}

static inline float
s_float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// An IEEE half in integer arithmetic, so that it does not depend on how the processor treats subnormal floats.
static inline float
s_half(const uint8_t *bytes)
{
    uint32_t half = s_u16(bytes), sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    uint32_t special = (magnitude << 13) | 0x7f800000u;
    float    small = (float) (int32_t) magnitude * 0x1p-24f;
    uint32_t small_bits;
    memcpy(&small_bits, &small, sizeof small_bits);
    uint32_t result = magnitude >= 0x7c00u ? special : magnitude < 0x400u ? small_bits : normal;
    return s_float_from_bits(result | sign);
}

static void
s_f32(const uint8_t *bytes, int64_t blocks, float *out)
{
    memcpy(out, bytes, (size_t) blocks * sizeof *out);
}

static void
s_f16(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++)
        out[i] = s_half(bytes + 2 * i);
}

static void
s_bf16(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++)
        out[i] = s_float_from_bits((uint32_t) s_u16(bytes + 2 * i) << 16);
}

// half d, 16 bytes of nibbles: the low ones are elements 0 to 15, the high ones 16 to 31.
static void
s_q4_0(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++, bytes += 18, out += 32) {
        float scale = s_half(bytes);
        for (int j = 0; j < 16; j++) {
            out[j] = (float) ((bytes[2 + j] & 15) - 8) * scale;
            out[j + 16] = (float) ((bytes[2 + j] >> 4) - 8) * scale;
        }
    }
}

// half d, half minimum, 16 bytes of nibbles.
static void
s_q4_1(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++, bytes += 20, out += 32) {
        float scale = s_half(bytes), least = s_half(bytes + 2);
        for (int j = 0; j < 16; j++) {
            out[j] = (float) (bytes[4 + j] & 15) * scale + least;
            out[j + 16] = (float) (bytes[4 + j] >> 4) * scale + least;
        }
    }
}

// The fifth bit of element j of a block of 32, in its place.
static inline int
s_fifth_bit(const uint8_t *bits, int j)
{
    return (bits[j / 8] >> (j % 8) & 1) << 4;
}

// half d, 32 fifth bits, 16 bytes of nibbles.
static void
s_q5_0(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++, bytes += 22, out += 32) {
        float scale = s_half(bytes);
        for (int j = 0; j < 16; j++) {
            out[j] = (float) (((bytes[6 + j] & 15) | s_fifth_bit(bytes + 2, j)) - 16) * scale;
            out[j + 16] = (float) (((bytes[6 + j] >> 4) | s_fifth_bit(bytes + 2, j + 16)) - 16) * scale;
        }
    }
}

// half d, half minimum, 32 fifth bits, 16 bytes of nibbles.
static void
s_q5_1(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++, bytes += 24, out += 32) {
        float scale = s_half(bytes), least = s_half(bytes + 2);
        for (int j = 0; j < 16; j++) {
            out[j] = (float) ((bytes[8 + j] & 15) | s_fifth_bit(bytes + 4, j)) * scale + least;
            out[j + 16] = (float) ((bytes[8 + j] >> 4) | s_fifth_bit(bytes + 4, j + 16)) * scale + least;
        }
    }
}

// half d, 32 signed bytes.
static void
s_q8_0(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++, bytes += 34, out += 32) {
        float scale = s_half(bytes);
        for (int j = 0; j < 32; j++)
            out[j] = (float) (int8_t) bytes[2 + j] * scale;
    }
}

// 16 bytes of (4-bit scale, 4-bit minimum) for 16 elements each, 64 bytes of 2-bit numbers, half d, half d of minima.
static void
s_q2_k(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++, bytes += 84, out += 256) {
        const uint8_t *two_bits = bytes + 16;
        float          scale = s_half(bytes + 80), least = s_half(bytes + 82);
        for (int group = 0; group < 16; group++) {
            const uint8_t *q = two_bits + group / 8 * 32 + group % 2 * 16;
            float          d = scale * (float) (bytes[group] & 15), m = least * (float) (bytes[group] >> 4);
            int            shift = group % 8 / 2 * 2;
            for (int j = 0; j < 16; j++)
                out[group * 16 + j] = d * (float) (q[j] >> shift & 3) - m;
        }
    }
}

// The 6-bit scale of group (0 to 15) of Q3_K: 4 low bits in the first 8 bytes, 2 high bits in the last 4.
static inline int
s_q3_scale(const uint8_t *scales, int group)
{
    int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
    int high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

// 32 bytes of third bits, 64 bytes of 2-bit numbers, 12 bytes of scales, half d. A third bit that is 0 subtracts 4.
static void
s_q3_k(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++, bytes += 110, out += 256) {
        float scale = s_half(bytes + 108);
        for (int group = 0; group < 16; group++) {
            const uint8_t *q = bytes + 32 + group / 8 * 32 + group % 2 * 16, *third = bytes + group % 2 * 16;
            float          d = scale * (float) s_q3_scale(bytes + 96, group);
            int            shift = group % 8 / 2 * 2, bit = group / 2;
            for (int j = 0; j < 16; j++)
                out[group * 16 + j] = d * (float) ((q[j] >> shift & 3) - ((third[j] >> bit & 1) ? 0 : 4));
        }
    }
}

// The 6-bit scale and minimum of group (0 to 7) of Q4_K and Q5_K, packed in 12 bytes.
static inline void
s_scale_and_least(const uint8_t *packed, int group, int *ret_scale, int *ret_least)
{
    if (group < 4) {
        *ret_scale = packed[group] & 63;
        *ret_least = packed[group + 4] & 63;
    } else {
        *ret_scale = (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
        *ret_least = packed[group + 4] >> 4 | packed[group] >> 6 << 4;
    }
}

// half d, half d of minima, 12 bytes of scales and minima for 32 elements each, 128 bytes of nibbles.
static void
s_q4_k(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++, bytes += 144, out += 256)
        for (int group = 0; group < 8; group++) {
            int scale, least;
            s_scale_and_least(bytes + 4, group, &scale, &least);
            const uint8_t *q = bytes + 16 + group / 2 * 32;
            float          d = s_half(bytes) * (float) scale, m = s_half(bytes + 2) * (float) least;
            int            shift = group % 2 * 4;
            for (int j = 0; j < 32; j++)
                out[group * 32 + j] = d * (float) (q[j] >> shift & 15) - m;
        }
}

// As Q4_K, with 32 bytes of fifth bits (bit g of byte j belongs to element j of group g) before the nibbles.
static void
s_q5_k(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++, bytes += 176, out += 256)
        for (int group = 0; group < 8; group++) {
            int scale, least;
            s_scale_and_least(bytes + 4, group, &scale, &least);
            const uint8_t *q = bytes + 48 + group / 2 * 32, *fifth = bytes + 16;
            float          d = s_half(bytes) * (float) scale, m = s_half(bytes + 2) * (float) least;
            int            shift = group % 2 * 4;
            for (int j = 0; j < 32; j++)
                out[group * 32 + j] = d * (float) ((q[j] >> shift & 15) | (fifth[j] >> group & 1) << 4) - m;
        }
}

// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales for 16 elements each, half d.
static void
s_q6_k(const uint8_t *bytes, int64_t blocks, float *out)
{
    for (int64_t i = 0; i < blocks; i++, bytes += 210, out += 256) {
        float scale = s_half(bytes + 208);
        for (int group = 0; group < 16; group++) {
            int            half = group / 8, quarter = group % 8 / 2, start = group % 2 * 16;
            const uint8_t *low = bytes + half * 64 + quarter % 2 * 32 + start, *high = bytes + 128 + half * 32 + start;
            float          d = scale * (float) (int8_t) bytes[192 + group];
            for (int j = 0; j < 16; j++)
                out[group * 16 + j] = d * (float) (((low[j] >> quarter / 2 * 4 & 15)
                                                    | (high[j] >> quarter * 2 & 3) << 4) - 32);
        }
    }
}

static const struct {
    verl_quant_type_t   type;
    verl_quant_format_t format;
    s_span_fn           span;
} s_formats[] = {
    {VERL_QUANT_F32, {"F32", 1, 4}, s_f32},        {VERL_QUANT_F16, {"F16", 1, 2}, s_f16},
    {VERL_QUANT_BF16, {"BF16", 1, 2}, s_bf16},     {VERL_QUANT_Q4_0, {"Q4_0", 32, 18}, s_q4_0},
    {VERL_QUANT_Q4_1, {"Q4_1", 32, 20}, s_q4_1},   {VERL_QUANT_Q5_0, {"Q5_0", 32, 22}, s_q5_0},
    {VERL_QUANT_Q5_1, {"Q5_1", 32, 24}, s_q5_1},   {VERL_QUANT_Q8_0, {"Q8_0", 32, 34}, s_q8_0},
    {VERL_QUANT_Q2_K, {"Q2_K", 256, 84}, s_q2_k},  {VERL_QUANT_Q3_K, {"Q3_K", 256, 110}, s_q3_k},
    {VERL_QUANT_Q4_K, {"Q4_K", 256, 144}, s_q4_k}, {VERL_QUANT_Q5_K, {"Q5_K", 256, 176}, s_q5_k},
    {VERL_QUANT_Q6_K, {"Q6_K", 256, 210}, s_q6_k},
};
enum { FORMATS = sizeof s_formats / sizeof s_formats[0] };

verl_quant_format_t
verl_quant_format(int64_t type)
{
    for (int i = 0; i < FORMATS; i++)
        if ((int64_t) s_formats[i].type == type)
            return s_formats[i].format;
    return (verl_quant_format_t) {NULL, 0, 0};
}

void
verl_dequantize(verl_quant_type_t type, const void *bytes, int64_t count, float *out)
{
    int which = 0;
    while (which < FORMATS - 1 && s_formats[which].type != type)
        which++;
    s_span_fn           span = s_formats[which].span;
    verl_quant_format_t format = s_formats[which].format;
    int64_t             step = 16384 / format.block_count;          // blocks: 64 KiB of floats a turn
    int64_t             blocks = count / format.block_count;
#pragma omp parallel for schedule(static) if(blocks > 4 * step)
    for (int64_t at = 0; at < blocks; at += step)
        span((const uint8_t *) bytes + (size_t) at * format.block_size, blocks - at < step ? blocks - at : step,
             out + at * format.block_count);
}

uint16_t
verl_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t) (bits >> 16 | 0x40u);
    return (uint16_t) ((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
