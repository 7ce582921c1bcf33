// Models and tokenizers that are damaged or do not fit: one sentence, before the start where it can be known then.
#include <stdlib.h>
#include <string.h>
#include "tools/bad.h"

#define WEIGHTS "m/model.safetensors"

static void
s_spoilt(const char *spoil, const char *words)
{
    char setup[1000];
    snprintf(setup, sizeof setup, FILES "%s", spoil);
    s_refuses(setup, RIGHT, "", "topology.toml:6:");
    s_refuses(setup, RIGHT, "", words);
}

Test(bad_model, none_is_right)
{
    s_works(FILES, RIGHT, "");
}

Test(bad_model, a_missing_tensor)
{
    s_spoilt("LC_ALL=C sed -i 's/model.norm.weight/model.norm.weighx/' " WEIGHTS,
             "tensor model.norm.weight is missing");
}

Test(bad_model, a_wrong_shape)
{
    s_spoilt("LC_ALL=C sed -i 's/\\[128,128\\]/[256, 64]/' " WEIGHTS, "256 x 64: the configuration needs 128 x 128");
}

Test(bad_model, a_shape_that_is_not_the_span)
{
    s_spoilt("LC_ALL=C sed -i 's/\\[128,128\\]/[128,129]/' " WEIGHTS, "data_offsets span 65536 bytes");
}

Test(bad_model, a_file_cut_in_half)
{
    s_spoilt("truncate -s 2000000 " WEIGHTS, "the file is truncated");
}

Test(bad_model, a_file_without_its_last_byte)
{
    s_spoilt("truncate -s -1 " WEIGHTS, "the file is truncated");
}

Test(bad_model, a_file_cut_in_its_header)
{
    s_spoilt("truncate -s 4 " WEIGHTS, "begins with 8 bytes of length");
    s_spoilt("truncate -s 100 " WEIGHTS, "model.safetensors");
}

Test(bad_model, an_empty_file)
{
    s_spoilt(": >" WEIGHTS, "is empty");
}

Test(bad_model, no_file)
{
    s_spoilt("rm " WEIGHTS, "has no weights");
}

Test(bad_model, weights_that_are_no_file)
{
    s_spoilt("rm " WEIGHTS "; mkdir " WEIGHTS, "is not a regular file");
    s_spoilt("rm " WEIGHTS "; mkfifo " WEIGHTS, "is not a regular file");
    s_spoilt("rm " WEIGHTS "; ln -s /dev/zero " WEIGHTS, "is not a regular file");
}

Test(bad_model, not_a_number_among_the_weights)
{
    s_fails(FILES "printf '\\377\\377\\377\\177' | dd of=" WEIGHTS " bs=1 seek=$(($(stat -c %s " WEIGHTS
                  ") - 4)) conv=notrunc 2>/dev/null",
            RIGHT, "", "tensor lm_head.weight holds a NaN at row 15, column 127");
}

Test(bad_model, a_configuration_that_is_no_file)
{
    s_spoilt("rm m/config.json; mkfifo m/config.json", "is not a regular file");
    s_spoilt("rm m/config.json; ln -s /dev/zero m/config.json", "is not a regular file");
    s_spoilt("rm m/config.json", "neither config.json nor");
}

Test(bad_model, a_configuration_cut_in_half)
{
    s_spoilt("truncate -s 200 m/config.json", "config.json");
}

static void
s_configured(const char *key, const char *value, const char *words)
{
    char spoil[300];
    snprintf(spoil, sizeof spoil, "sed -i 's/\"%s\": .*/\"%s\": %s,/' m/config.json", key, key, value);
    s_spoilt(spoil, words);
}

Test(bad_model, absurd_sizes)
{
    s_configured("vocab_size", "1000000000000", "vocab_size is 1000000000000");
    s_configured("hidden_size", "2147483648", "hidden_size is 2147483648");
    s_configured("num_hidden_layers", "1000000000", "num_hidden_layers is 1000000000");
    s_configured("intermediate_size", "-1", "intermediate_size is -1");
    s_configured("num_key_value_heads", "3", "multiple of num_key_value_heads");
    s_configured("vocab_size", "5", "outside the vocabulary of 5");
}

Test(bad_model, more_parameters_than_memory)
{
    s_refuses(
        FILES
        "sed -i 's/\"vocab_size\": .*/\"vocab_size\": 16777216,/; s/\"hidden_size\": .*/\"hidden_size\": 1048576,/' "
        "m/config.json",
        GRPO("init = \"random\"\n", "", "", ""), "", "a smaller model would be right");
}

Test(bad_model, weights_of_another_configuration)
{
    s_configured("intermediate_size", "256", "the configuration needs 256 x 128");
}

Test(bad_model, a_tokenizer_cut_in_half)
{
    s_spoilt("truncate -s 700 m/tokenizer.json", "the file may be cut short");
}

Test(bad_model, an_empty_tokenizer)
{
    s_spoilt(": >m/tokenizer.json", "tokenizer.json: not valid JSON");
}

Test(bad_model, no_tokenizer)
{
    s_spoilt("rm m/tokenizer.json", "no tokenizer");
}

Test(bad_model, a_tokenizer_that_is_no_file)
{
    s_spoilt("rm m/tokenizer.json; mkfifo m/tokenizer.json", "not a regular file");
    s_spoilt("rm m/tokenizer.json; ln -s /dev/zero m/tokenizer.json", "not a regular file");
}

Test(bad_model, a_tokenizer_that_makes_more_ids_than_the_model_has)
{
    s_spoilt("rm m/tokenizer_config.json; "
             "cp " VERL_SOURCE_DIR "/tests/fixtures/tokenizers/gpt2-small/tokenizer.json m/",
             "makes the id 16, and the vocabulary of");
}

Test(bad_model, a_chat_template_that_is_not_there)
{
    s_refuses(FILES, GRPO("", "template = \"chat\"\n", "", ""), "", "has no chat template");
}

Test(bad_model, a_chat_template_that_cannot_be_parsed)
{
    static const char setup[] =
        FILES "echo '{\"eos_token\": \"<eos>\", \"chat_template\": \"{% if %}\"}' >m/tokenizer_config.json";
    s_refuses(setup, GRPO("", "template = \"chat\"\n", "", ""), "", "m/tokenizer_config.json: chat template: line 1");
    s_works(setup, RIGHT, "");
}

Test(bad_model, a_cache_of_tokenizers_that_cannot_be_written)
{
    s_works(FILES "export XDG_CACHE_HOME=/proc/self HOME=/proc/self", RIGHT, "");
    s_works(FILES "unset XDG_CACHE_HOME HOME XDG_RUNTIME_DIR", RIGHT, "");
}
