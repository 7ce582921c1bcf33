// shards.c: the index is a map from tensor to file name; each file is opened once.
#include "actors/lm/shards.h"
#include "actors/lm/mapped.h"
#include "actors/lm/refuse.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_INDEX = 64 << 20, MAX_FILES = 4096 };

typedef struct {
    char                *name;
    verl_safetensors_t  *tensors;
} s_file_t;

struct verl_shards {
    s_file_t *files;
    int64_t   count;
};

// Where the opening stands: the directory, and where to say what is wrong.
typedef struct {
    const char *dir;
    char        index_path[PATH_MAX];
    char       *error;
    size_t      error_size;
} s_opening_t;

#define s_fail(opening, ...) verl_lm_refuse((opening)->index_path, (opening)->error, (opening)->error_size, __VA_ARGS__)

static bool
s_join(char *path, const char *dir, const char *name)
{
    return snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX;
}

static bool
s_has(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return s_join(path, dir, name) && access(path, F_OK) == 0;
}

bool
verl_shards_exist(const char *dir)
{
    return s_has(dir, "model.safetensors") || s_has(dir, "model.safetensors.index.json");
}

static int
s_add_file(verl_shards_t *self, const s_opening_t *opening, const char *name)
{
    char path[PATH_MAX];
    if (strchr(name, '/') || name[0] == '.' || !s_join(path, opening->dir, name))
        return s_fail(opening, "weight_map names %.200s: it must be a file beside the index", name);
    if (self->count == MAX_FILES)
        return s_fail(opening, "weight_map names more than %d files", MAX_FILES);
    s_file_t *file = &self->files[self->count];
    file->name = strdup(name);
    if (!file->name)
        return s_fail(opening, "no memory for the list of files");
    self->count++;
    file->tensors = verl_safetensors_open(path, opening->error, opening->error_size);
    return file->tensors ? 0 : -1;
}

static const s_file_t *
s_find_file(const verl_shards_t *self, const char *name)
{
    for (int64_t i = 0; i < self->count; i++)
        if (strcmp(self->files[i].name, name) == 0)
            return &self->files[i];
    return NULL;
}

static int
s_read_map(verl_shards_t *self, const s_opening_t *opening, json_t *map)
{
    const char *tensor;
    json_t     *value;
    if (!json_is_object(map))
        return s_fail(opening, "weight_map is missing: it must be an object of tensor names and files");
    json_object_foreach(map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name)
            return s_fail(opening, "weight_map must give a file for tensor %.200s", tensor);
        if (!s_find_file(self, name) && s_add_file(self, opening, name))
            return -1;
        if (!verl_safetensors_find(s_find_file(self, name)->tensors, tensor))
            return s_fail(opening, "weight_map says that tensor %.200s is in %.200s, which does not have it", tensor,
                          name);
    }
    return 0;
}

// A tensor in two files would make the answer depend on their order.
static int
s_check_twice(const verl_shards_t *self, const s_opening_t *opening)
{
    for (int64_t i = 0; i < self->count; i++)
        for (int64_t k = 0; k < verl_safetensors_count(self->files[i].tensors); k++) {
            const char *name = verl_safetensors_at(self->files[i].tensors, k)->name;
            for (int64_t j = 0; j < i; j++)
                if (verl_safetensors_find(self->files[j].tensors, name))
                    return s_fail(opening, "tensor %.200s is both in %.200s and in %.200s", name, self->files[j].name,
                                  self->files[i].name);
        }
    return 0;
}

static int
s_read_index(verl_shards_t *self, const s_opening_t *opening)
{
    verl_mapped_t file;
    json_error_t  why;
    if (verl_mapped_open(&file, opening->index_path, opening->error, opening->error_size))
        return -1;
    json_t *root = NULL;
    int     result = -1;
    if (file.size > MAX_INDEX)
        s_fail(opening, "the file has %zu bytes: an index has at most %d", file.size, MAX_INDEX);
    else if (!(root = json_loadb((const char *) file.bytes, file.size, JSON_REJECT_DUPLICATES, &why)))
        s_fail(opening, "line %d, column %d: %s", why.line, why.column, why.text);
    else
        result = s_read_map(self, opening, json_object_get(root, "weight_map"));
    json_decref(root);
    verl_mapped_close(&file);
    return result ? -1 : s_check_twice(self, opening);
}

verl_shards_t *
verl_shards_open(const char *dir, char *error, size_t error_size)
{
    s_opening_t    opening = {dir, "", error, error_size};
    bool           whole = s_has(dir, "model.safetensors");
    verl_shards_t *self = calloc(1, sizeof *self);
    if (!s_join(opening.index_path, dir, "model.safetensors.index.json")) {
        snprintf(error, error_size, "%.100s…: the path is too long", dir);
        free(self);
        return NULL;
    }
    if (self)
        self->files = calloc(MAX_FILES, sizeof *self->files);
    if (!self || !self->files) {
        snprintf(error, error_size, "%s: no memory to read it", dir);
        verl_shards_close(&self);
    } else if (whole ? s_add_file(self, &opening, "model.safetensors") : s_read_index(self, &opening)) {
        verl_shards_close(&self);
    }
    return self;
}

void
verl_shards_close(verl_shards_t **self_p)
{
    verl_shards_t *self = *self_p;
    if (!self)
        return;
    for (int64_t i = 0; i < self->count; i++) {
        verl_safetensors_close(&self->files[i].tensors);
        free(self->files[i].name);
    }
    free(self->files);
    free(self);
    *self_p = NULL;
}

const verl_safetensor_t *
verl_shards_find(const verl_shards_t *self, const char *name)
{
    for (int64_t i = 0; i < self->count; i++) {
        const verl_safetensor_t *tensor = verl_safetensors_find(self->files[i].tensors, name);
        if (tensor)
            return tensor;
    }
    return NULL;
}

int64_t
verl_shards_file_count(const verl_shards_t *self)
{
    return self->count;
}

const verl_safetensors_t *
verl_shards_file(const verl_shards_t *self, int64_t index)
{
    return index >= 0 && index < self->count ? self->files[index].tensors : NULL;
}
