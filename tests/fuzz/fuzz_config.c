// Any bytes as config.json, generation_config.json and tokenizer_config.json: refused with a sentence, or a model that
// can be held and that reads back the same from what is written of it.
#include "actors/lm/config_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void
s_round_trip(const verl_lm_config_t *config)
{
    char             error[1024];
    verl_lm_config_t again;
    char            *text = verl_lm_config_to_json(config, "float32");
    if (!text || verl_lm_config_from_json(text, strlen(text), "again", &again, error, sizeof error)
        || again.head_dim != config->head_dim || again.eos_count != config->eos_count
        || again.rope_scaling.type != config->rope_scaling.type)
        abort();
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char base[] = "{\"model_type\": \"llama\", \"vocab_size\": 99, \"hidden_size\": 16, "
                               "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"intermediate_size\": 8}";
    char              error[1024] = "";
    verl_lm_config_t  config;
    if (verl_lm_config_from_json((const char *) bytes, size, "input", &config, error, sizeof error) == 0)
        s_round_trip(&config);
    else if (!error[0])
        abort();
    if (verl_lm_config_from_json(base, sizeof base - 1, "base", &config, error, sizeof error))
        abort();
    if (verl_lm_stops_from_generation((const char *) bytes, size, "input", &config, error, sizeof error) == 0)
        s_round_trip(&config);
    config.eos_count = 0;
    if (verl_lm_stops_from_tokenizer((const char *) bytes, size, "input", &config, error, sizeof error) == 0)
        s_round_trip(&config);
    return 0;
}
