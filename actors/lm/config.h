// config.h: the shape of a decoder-only transformer, and where each of its tensors lies in one flat vector.
//
// All parameters of a model are one contiguous float vector, so that the optimizer, gradients, snapshots and
// published versions are single passes over memory. The layout is a pure function of the configuration.
#ifndef VERL_LM_CONFIG_H
#define VERL_LM_CONFIG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { VERL_LM_LLAMA, VERL_LM_QWEN2, VERL_LM_QWEN3 } verl_lm_family_t;
typedef enum { VERL_ROPE_DEFAULT, VERL_ROPE_LINEAR, VERL_ROPE_LLAMA3 } verl_rope_type_t;

#define VERL_LM_MAX_EOS   8
#define VERL_LM_ALIGNMENT 16                // floats; a cache line

typedef struct verl_lm_config {
    verl_lm_family_t family;
    int64_t vocab_size;
    int64_t hidden_size;
    int64_t layers;
    int64_t heads;                          // query heads
    int64_t kv_heads;                       // key and value heads; divides heads
    int64_t head_dim;                       // may differ from hidden_size / heads (Qwen3)
    int64_t intermediate_size;
    int64_t max_positions;                  // longest context
    double  norm_eps;                       // of RMSNorm
    double  rope_theta;
    struct {
        verl_rope_type_t type;
        double  factor, low_freq_factor, high_freq_factor;
        int64_t original_max_positions;
    } rope_scaling;
    bool    tied;                           // the head is the embedding
    bool    qkv_bias;                       // Qwen2, or attention_bias
    bool    o_bias;                         // attention_bias of Llama
    bool    mlp_bias;
    bool    qk_norm;                        // Qwen3: RMSNorm of each query and key head
    int32_t bos;                            // -1 where there is none
    int32_t pad;                            // -1 where there is none; kept in what is saved, and used nowhere
    int32_t eos[VERL_LM_MAX_EOS];           // generation stops at any of these
    int     eos_count;
} verl_lm_config_t;

// Offsets, in floats, of one layer's tensors from the start of the vector; -1 where the model has no such tensor.
// Matrices are row-major [out, in], as in Hugging Face's files.
typedef struct verl_lm_layer_layout {
    int64_t input_norm;                     // [hidden]
    int64_t q, k, v;                        // [heads*head_dim, hidden], [kv_heads*head_dim, hidden] x 2
    int64_t o;                              // [hidden, heads*head_dim]
    int64_t q_bias, k_bias, v_bias, o_bias;
    int64_t q_norm, k_norm;                 // [head_dim]
    int64_t post_norm;                      // [hidden]
    int64_t gate, up, down;                 // [intermediate, hidden] x 2, [hidden, intermediate]
    int64_t gate_bias, up_bias, down_bias;
} verl_lm_layer_layout_t;

typedef struct verl_lm_layout {
    int64_t embedding;                      // [vocab, hidden]
    int64_t final_norm;                     // [hidden]
    int64_t head;                           // [vocab, hidden]; equals embedding where tied
    int64_t total;                          // floats in the vector, gaps counted; a multiple of VERL_LM_ALIGNMENT
    verl_lm_layer_layout_t *layer;          // config->layers of them
} verl_lm_layout_t;

// Says whether config describes a model that can be held: sizes in range (so that no offset overflows), heads that
// divide, RoPE numbers that are numbers, token ids inside the vocabulary. Returns 0, or -1 with one sentence in error.
int  verl_lm_config_check(const verl_lm_config_t *config, char *error, size_t error_size);

// Fills *layout for a config that passed the check. Returns 0, or -1 without memory. verl_lm_layout_done frees it; it
// accepts zeroed memory. q, k and v are adjacent without a gap (one product makes all three), so are gate and up, and
// so are their biases; every other tensor, and the first of each such group, starts at a multiple of
// VERL_LM_ALIGNMENT. Gaps, there only where a size is no such multiple, belong to no tensor and hold zeros.
int  verl_lm_layout_init(verl_lm_layout_t *layout, const verl_lm_config_t *config);
void verl_lm_layout_done(verl_lm_layout_t *layout);

// One tensor by its Hugging Face name.
typedef struct verl_lm_tensor {
    char    name[96];                       // "model.layers.3.self_attn.q_proj.weight"
    int64_t offset;                         // in floats
    int64_t rows, cols;                     // cols is 1 for a vector (norms and biases)
} verl_lm_tensor_t;

// The number of tensors, and the i-th of them in the order of the vector (a tied head is not a tensor of its own).
// index is from 0 to the number less one.
int64_t verl_lm_tensor_count(const verl_lm_config_t *config);
void    verl_lm_tensor_at(const verl_lm_config_t *config, const verl_lm_layout_t *layout, int64_t index,
                          verl_lm_tensor_t *ret_tensor);
#endif
