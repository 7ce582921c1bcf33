// buffer.c: the two lists that grow, of ids and of bytes. Growth doubles, so that appending is constant on average.
#include "actors/text/tokenizer.h"
#include <stdlib.h>
#include <string.h>

int
verl_token_ids_add(verl_token_ids_t *self, int32_t id)
{
    if (self->count == self->capacity) {
        size_t capacity = self->capacity ? self->capacity * 2 : 64;
        int32_t *data = realloc(self->data, capacity * sizeof *data);
        if (!data)
            return -1;
        self->data = data;
        self->capacity = capacity;
    }
    self->data[self->count++] = id;
    return 0;
}

int
verl_text_add(verl_text_t *self, const void *data, size_t length)
{
    if (length >= self->capacity - self->length || !self->data) {
        size_t capacity = self->capacity ? self->capacity : 64;
        while (capacity - self->length <= length) {
            if (capacity > SIZE_MAX / 2)
                return -1;
            capacity *= 2;
        }
        char *grown = realloc(self->data, capacity);
        if (!grown)
            return -1;
        self->data = grown;
        self->capacity = capacity;
    }
    if (length)
        memcpy(self->data + self->length, data, length);
    self->length += length;
    self->data[self->length] = 0;
    return 0;
}

void
verl_token_ids_done(verl_token_ids_t *self)
{
    free(self->data);
    *self = (verl_token_ids_t) { 0 };
}

void
verl_text_done(verl_text_t *self)
{
    free(self->data);
    *self = (verl_text_t) { 0 };
}
