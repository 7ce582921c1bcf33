// gguf_file.h: a writer of small GGUF files, right or wrong.
#ifndef VERL_TEST_LM_GGUF_FILE_H
#define VERL_TEST_LM_GGUF_FILE_H
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint8_t bytes[2048];
    size_t  size;
} gguf_file_t;

static inline void
gguf_number(gguf_file_t *file, uint64_t value, size_t size)
{
    cr_assert(file->size + size <= sizeof file->bytes);
    for (size_t i = 0; i < size; i++)
        file->bytes[file->size++] = (uint8_t) (value >> (8 * i));
}

static inline void
gguf_text(gguf_file_t *file, const char *text)
{
    gguf_number(file, strlen(text), 8);
    for (; *text; text++)
        gguf_number(file, (uint8_t) *text, 1);
}

static inline void
gguf_head(gguf_file_t *file, uint64_t version, uint64_t tensors, uint64_t values)
{
    file->size = 0;
    gguf_number(file, 0x46554747, 4);
    gguf_number(file, version, 4);
    gguf_number(file, tensors, 8);
    gguf_number(file, values, 8);
}

static inline void
gguf_tensor(gguf_file_t *file, const char *name, uint64_t rows, uint64_t type, uint64_t offset)
{
    gguf_text(file, name);
    gguf_number(file, 1, 4);
    gguf_number(file, rows, 8);
    gguf_number(file, type, 4);
    gguf_number(file, offset, 8);
}

static inline void
gguf_data(gguf_file_t *file, size_t size)
{
    while (file->size % 32)
        gguf_number(file, 0, 1);
    for (size_t i = 0; i < size; i++)
        gguf_number(file, 0, 1);
}
#endif
