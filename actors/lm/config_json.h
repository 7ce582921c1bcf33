// config_json.h: the configuration of a model as Hugging Face writes it.
//
// All functions read text that is in memory (size bytes, not terminated); name stands for the file in errors. They
// block on nothing and may run in several threads. Nesting is bounded by the JSON reader.
// Keys: https://huggingface.co/docs/transformers/main/en/model_doc/llama (and qwen2, qwen3)
#ifndef VERL_LM_CONFIG_JSON_H
#define VERL_LM_CONFIG_JSON_H
#include "actors/lm/config.h"

// Largest configuration file that is read at all.
#define VERL_LM_CONFIG_BYTES (16 << 20)

// Reads and checks a config.json: model_type llama, qwen2 or qwen3, with RoPE under rope_theta and rope_scaling or
// under rope_parameters. What would change the computation and is not supported (sliding windows that are in use, other
// activations, other RoPE scalings, quantised weights) is refused. Returns 0, or -1 with one sentence in error.
int verl_lm_config_from_json(const char *text, size_t size, const char *name, verl_lm_config_t *ret_config, char *error,
                             size_t error_size);

// Takes bos and eos of a generation_config.json over those in *config where it names them. Returns as above.
int verl_lm_stops_from_generation(const char *text, size_t size, const char *name, verl_lm_config_t *config,
                                  char *error, size_t error_size);

// Where *config has no eos: the id that a tokenizer_config.json gives for its eos_token, if it does. Returns as above.
int verl_lm_stops_from_tokenizer(const char *text, size_t size, const char *name, verl_lm_config_t *config, char *error,
                                 size_t error_size);

// The text of a config.json (dtype: "float32", "bfloat16") and of a generation_config.json, which the caller frees with
// free; NULL without memory. Reading the first back gives the same configuration.
char *verl_lm_config_to_json(const verl_lm_config_t *config, const char *dtype);
char *verl_lm_generation_to_json(const verl_lm_config_t *config);
#endif
