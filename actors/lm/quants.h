// quants.h: turns stored weights (IEEE and brain halves, GGML's block formats) into floats.
//
// A row is a whole number of blocks of the format; a block is a fixed number of bytes for a fixed number of elements.
// Block layouts: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
#ifndef VERL_LM_QUANTS_H
#define VERL_LM_QUANTS_H
#include <stddef.h>
#include <stdint.h>

// The numbers are those of GGUF files; numbers that are not here are not supported.
typedef enum {
    VERL_QUANT_F32  = 0,
    VERL_QUANT_F16  = 1,
    VERL_QUANT_Q4_0 = 2,
    VERL_QUANT_Q4_1 = 3,
    VERL_QUANT_Q5_0 = 6,
    VERL_QUANT_Q5_1 = 7,
    VERL_QUANT_Q8_0 = 8,
    VERL_QUANT_Q2_K = 10,
    VERL_QUANT_Q3_K = 11,
    VERL_QUANT_Q4_K = 12,
    VERL_QUANT_Q5_K = 13,
    VERL_QUANT_Q6_K = 14,
    VERL_QUANT_BF16 = 30
} verl_quant_type_t;

// What a format is called, and its block: elements and bytes. name is NULL for a type that is not supported.
typedef struct {
    const char *name;
    int64_t     block_count;
    size_t      block_size;
} verl_quant_format_t;

verl_quant_format_t verl_quant_format(int64_t type);

// Writes count floats, a multiple of the format's block_count, from the blocks at bytes (no alignment needed) to out.
// type must be a supported one. Uses OpenMP threads where count is large; blocks until done. Never fails.
void verl_dequantize(verl_quant_type_t type, const void *bytes, int64_t count, float *out);

// Round to nearest even; a NaN stays a (quiet) NaN.
uint16_t verl_bf16_from_float(float value);
#endif
