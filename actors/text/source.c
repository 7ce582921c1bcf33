// source.c: the lists of a source.
#include "actors/text/source.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
verl_text_fail(char *error, size_t error_size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (error && error_size)
        vsnprintf(error, error_size, format, arguments);
    va_end(arguments);
    return -1;
}

void
verl_source_init(verl_token_source_t *self)
{
    *self = (verl_token_source_t) { 0 };
    for (int i = 0; i < VERL_NAMED_TOKENS; i++)
        self->named_id[i] = -1;
}

void
verl_source_done(verl_token_source_t *self)
{
    verl_text_done(&self->strings);
    free(self->token);
    free(self->merge);
    free(self->added);
    for (int i = 0; i < 3; i++)
        free(self->step[i]);
    verl_source_init(self);
}

// Makes room for one more record.
static int
s_grow(void **list, size_t count, size_t *capacity, size_t record)
{
    if (count < *capacity)
        return 0;
    size_t wanted = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(*list, wanted * record);
    if (!grown)
        return -1;
    *list = grown;
    *capacity = wanted;
    return 0;
}

int
verl_source_add_string(verl_token_source_t *self, const char *data, size_t length, verl_token_span_t *ret_span)
{
    if (length > UINT32_MAX / 2 || self->strings.length > UINT32_MAX / 2 - length)
        return -1;
    *ret_span = (verl_token_span_t) { (uint32_t) self->strings.length, (uint32_t) length };
    return verl_text_add(&self->strings, data, length);
}

int
verl_source_add_token(verl_token_source_t *self, uint32_t id, verl_token_span_t content, uint32_t flags)
{
    if (id >= VERL_IMAGE_MAX_TOKENS)
        return -1;
    if (id >= self->token_capacity) {
        size_t wanted = self->token_capacity ? self->token_capacity : 1024;
        while (wanted <= id)
            wanted *= 2;
        verl_source_token_t *grown = realloc(self->token, wanted * sizeof *grown);
        if (!grown)
            return -1;
        memset(grown + self->token_capacity, 0, (wanted - self->token_capacity) * sizeof *grown);
        self->token = grown;
        self->token_capacity = wanted;
    }
    if (self->token[id].flags)
        return -1;
    self->token[id] = (verl_source_token_t) { content, flags | VERL_TOKEN_EXISTS };
    if (id >= self->token_count)
        self->token_count = (size_t) id + 1;
    return 0;
}

int
verl_source_add_merge(verl_token_source_t *self, verl_token_span_t left, verl_token_span_t right)
{
    if (s_grow((void **) &self->merge, self->merge_count, &self->merge_capacity, sizeof *self->merge))
        return -1;
    self->merge[self->merge_count++] = (verl_source_merge_t) { left, right };
    return 0;
}

int
verl_source_add_added(verl_token_source_t *self, const verl_token_added_t *added)
{
    if (s_grow((void **) &self->added, self->added_count, &self->added_capacity, sizeof *self->added))
        return -1;
    self->added[self->added_count++] = *added;
    return 0;
}

int
verl_source_add_step(verl_token_source_t *self, int pipe, verl_step_kind_t kind, uint32_t option,
                     const char *first, size_t first_length, const char *second, size_t second_length)
{
    verl_token_step_t step = { .kind = (uint32_t) kind, .option = option };
    if (verl_source_add_string(self, first, first_length, &step.first)
        || verl_source_add_string(self, second, second_length, &step.second)
        || s_grow((void **) &self->step[pipe], self->step_count[pipe], &self->step_capacity[pipe], sizeof step))
        return -1;
    self->step[pipe][self->step_count[pipe]++] = step;
    return 0;
}

int
verl_source_add_byte_level(verl_token_source_t *self, bool prefix_space, bool use_regex)
{
    int pipe = VERL_PIPE_PRE_TOKENIZER;
    self->flags |= VERL_MODEL_BYTE_LEVEL;
    if (prefix_space && verl_source_add_step(self, pipe, VERL_STEP_PREFIX_SPACE, 0, "", 0, "", 0))
        return -1;
    if (!use_regex)
        return 0;
    return verl_source_add_step(self, pipe, VERL_STEP_SPLIT, VERL_SPLIT_ISOLATED, VERL_GPT2_PATTERN,
                                strlen(VERL_GPT2_PATTERN), "", 0);
}
