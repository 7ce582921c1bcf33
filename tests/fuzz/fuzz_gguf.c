// Any bytes as a GGUF file: refused with a sentence, or all its metadata and tensors can be read, and its configuration
// is a model that can be held or is refused.
#include "actors/lm/config_gguf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void
s_read_value(const verl_gguf_t *file, const verl_gguf_value_t *value)
{
    verl_gguf_string_t text;
    int64_t            whole;
    double             real;
    volatile char      sum = 0;
    if (verl_gguf_get(file, verl_gguf_value_key(value)) != value)
        abort();
    for (int64_t i = -1; i <= verl_gguf_element_count(value); i++) {
        bool string = verl_gguf_element_string(value, i, &text);
        for (size_t k = 0; string && k < text.size; k++)
            sum = (char) (sum + text.data[k]);
        if (string && (verl_gguf_element_int(value, i, &whole) || verl_gguf_element_real(value, i, &real)))
            abort();
        verl_gguf_element_int(value, i, &whole);
        verl_gguf_element_real(value, i, &real);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char             error[1024] = "";
    verl_lm_config_t config;
    verl_gguf_t     *file = verl_gguf_open_memory(bytes, size, "input", error, sizeof error);
    if (!file && !error[0])
        abort();
    for (int64_t i = 0; file && i < verl_gguf_value_count(file); i++)
        s_read_value(file, verl_gguf_value_at(file, i));
    for (int64_t i = 0; file && i < verl_gguf_tensor_count(file); i++) {
        const verl_gguf_tensor_t *tensor = verl_gguf_tensor_at(file, i);
        if (verl_gguf_tensor(file, tensor->name) != tensor || tensor->count > (1 << 24))
            abort();
        float *values = malloc((size_t) tensor->count * sizeof *values + 1);
        if (!values)
            abort();
        verl_dequantize(tensor->type, tensor->data, tensor->count, values);
        free(values);
    }
    if (file && verl_lm_config_from_gguf(file, "input", &config, error, sizeof error) == 0
        && verl_lm_config_check(&config, error, sizeof error))
        abort();
    verl_gguf_close(&file);
    return 0;
}
