// Any bytes as a safetensors file: refused with a sentence, or every byte of every tensor can be read.
#include "actors/lm/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char                error[1024] = "";
    verl_safetensors_t *file = verl_safetensors_open_memory(bytes, size, "input", error, sizeof error);
    volatile uint8_t    sum = 0;
    if (!file && !error[0])
        abort();
    for (int64_t i = 0; file && i < verl_safetensors_count(file); i++) {
        const verl_safetensor_t *tensor = verl_safetensors_at(file, i);
        for (size_t k = 0; k < tensor->size; k++)
            sum = (uint8_t) (sum + tensor->data[k]);
        if (verl_safetensors_find(file, tensor->name) != tensor)
            abort();
        int type = verl_safetensor_quant(tensor);
        if (type < 0 || tensor->count == 0)
            continue;
        float *values = malloc((size_t) tensor->count * sizeof *values);
        if (!values)
            abort();
        verl_dequantize((verl_quant_type_t) type, tensor->data, tensor->count, values);
        free(values);
    }
    verl_safetensors_close(&file);
    return 0;
}
