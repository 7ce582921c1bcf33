// config_json_private.h: what reading and writing of config.json share.
#ifndef VERL_LM_CONFIG_JSON_PRIVATE_H
#define VERL_LM_CONFIG_JSON_PRIVATE_H
#include "actors/lm/config_json.h"

#define VERL_LM_FAMILIES 3

// A family as Hugging Face has it.
typedef struct {
    const char      *model_type, *prefix;   // of the names in "architectures"
    verl_lm_family_t family;
    int64_t          max_positions;         // where the file says nothing
} verl_lm_family_info_t;

// By verl_lm_family_t.
extern const verl_lm_family_info_t verl_lm_families[VERL_LM_FAMILIES];
#endif
