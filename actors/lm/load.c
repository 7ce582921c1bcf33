// load.c: finds what kind of model a path is, and reads its configuration.
#include "actors/lm/load.h"
#include "actors/lm/config_gguf.h"
#include "actors/lm/config_json.h"
#include "actors/lm/gguf.h"
#include "actors/lm/mapped.h"
#include "actors/lm/refuse.h"
#include "actors/lm/shards.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const char *path;                       // as the caller gave it
    char       *error;
    size_t      error_size;
} s_model_t;

#define s_fail(model, ...) verl_lm_refuse((model)->path, (model)->error, (model)->error_size, __VA_ARGS__)

static bool
s_join(char *ret_path, size_t size, const char *dir, const char *name)
{
    return (size_t) snprintf(ret_path, size, "%s/%s", dir, name) < size;
}

static bool
s_has(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return s_join(path, sizeof path, dir, name) && access(path, F_OK) == 0;
}

static bool
s_is_gguf_name(const char *name)
{
    size_t size = strlen(name);
    return size > 5 && strcmp(name + size - 5, ".gguf") == 0;
}

// The only .gguf file of a directory.
static bool
s_only_gguf(const char *dir, char *ret_path, size_t size)
{
    int            found = 0;
    struct dirent *entry;
    DIR           *listing = opendir(dir);
    if (!listing)
        return false;
    while ((entry = readdir(listing)))
        if (s_is_gguf_name(entry->d_name) && s_join(ret_path, size, dir, entry->d_name))
            found++;
    closedir(listing);
    return found == 1;
}

bool
verl_lm_find_gguf(const char *path, char *ret_path, size_t size)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    if (S_ISDIR(status.st_mode))
        return !s_has(path, "config.json") && s_only_gguf(path, ret_path, size);
    return S_ISREG(status.st_mode) && (size_t) snprintf(ret_path, size, "%s", path) < size;
}

bool
verl_lm_has_weights(const char *path)
{
    char gguf[PATH_MAX];
    return verl_lm_find_gguf(path, gguf, sizeof gguf) || verl_shards_exist(path);
}

typedef int (*s_parse_fn)(const char *text, size_t size, const char *name, verl_lm_config_t *config, char *error,
                          size_t error_size);

// Maps dir/name and hands it to parse. An absent file is no error where it is optional.
static int
s_read_json(const s_model_t *model, const char *name, bool optional, s_parse_fn parse, verl_lm_config_t *config)
{
    char          path[PATH_MAX];
    verl_mapped_t file;
    if (optional && !s_has(model->path, name))
        return 0;
    if (!s_join(path, sizeof path, model->path, name))
        return s_fail(model, "the path is too long");
    if (verl_mapped_open(&file, path, model->error, model->error_size))
        return -1;
    int result = parse((const char *) file.bytes, file.size, path, config, model->error, model->error_size);
    verl_mapped_close(&file);
    return result;
}

static int
s_load_gguf_config(const char *path, verl_lm_config_t *ret_config, char *error, size_t error_size)
{
    verl_gguf_t *gguf = verl_gguf_open(path, error, error_size);
    if (!gguf)
        return -1;
    int result = verl_lm_config_from_gguf(gguf, path, ret_config, error, error_size);
    verl_gguf_close(&gguf);
    return result;
}

int
verl_lm_config_load(const char *path, verl_lm_config_t *ret_config, char *error, size_t error_size)
{
    char        gguf[PATH_MAX];
    s_model_t   model = {path, error, error_size};
    struct stat status;
    if (verl_lm_find_gguf(path, gguf, sizeof gguf))
        return s_load_gguf_config(gguf, ret_config, error, error_size);
    if (stat(path, &status) != 0)
        return s_fail(&model, "there is no such model: it must be a Hugging Face directory or a .gguf file");
    if (s_has(path, "adapter_config.json"))
        return s_fail(&model, "adapter_config.json is there, and adapters are not supported: merge it into the "
                      "weights, or take it away");
    if (!s_has(path, "config.json"))
        return s_fail(&model, "it has neither config.json nor exactly one .gguf file");
    if (s_read_json(&model, "config.json", false, verl_lm_config_from_json, ret_config)
        || s_read_json(&model, "generation_config.json", true, verl_lm_stops_from_generation, ret_config)
        || s_read_json(&model, "tokenizer_config.json", true, verl_lm_stops_from_tokenizer, ret_config))
        return -1;
    return 0;
}
