// messages.c: lists of {"role", "content"}; see messages.h.
#include <stdio.h>
#include <stdlib.h>

#include "actors/data/messages.h"

static int
s_check_one(const json_t *message, size_t index, char *error, size_t error_size)
{
    const json_t *role = json_object_get(message, "role"), *content = json_object_get(message, "content");
    if (!json_is_object(message))
        snprintf(error, error_size, "message %zu is no object: write {\"role\": \"user\", \"content\": \"…\"}", index);
    else if (!role)
        snprintf(error, error_size, "message %zu has no \"role\": give it one, as in {\"role\": \"user\", …}", index);
    else if (!json_is_string(role) || json_string_length(role) == 0)
        snprintf(error, error_size, "the role of message %zu is no text: write \"system\", \"user\" or \"assistant\"",
                 index);
    else if (!content)
        snprintf(error, error_size, "message %zu has no \"content\": give it text, empty where there is none", index);
    else if (!json_is_string(content))
        snprintf(error, error_size, "the content of message %zu is no text: write a string", index);
    else
        return 0;
    return -1;
}

int
verl_messages_check(const json_t *json, char *error, size_t error_size)
{
    if (!json_is_array(json) || json_array_size(json) == 0) {
        snprintf(error, error_size, "there are no messages: give a list of at least one {\"role\", \"content\"}");
        return -1;
    }
    for (size_t i = 0; i < json_array_size(json); i++)
        if (s_check_one(json_array_get(json, i), i, error, error_size))
            return -1;
    return 0;
}

static bool
s_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool
verl_messages_looks_like(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && s_is_space(text[at]))
        at++;
    if (at >= bytes || text[at++] != '[')
        return false;
    while (at < bytes && s_is_space(text[at]))
        at++;
    return at < bytes && text[at] == '{';
}

static verl_messages_t *
s_of_json(json_t *json)
{
    size_t count = json_array_size(json);
    verl_messages_t *self = calloc(1, sizeof *self);
    verl_chat_turn_t *items = calloc(count, sizeof *items);
    if (!self || !items) {
        free(self);
        free(items);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *message = json_array_get(json, i);
        items[i].role = json_string_value(json_object_get(message, "role"));
        items[i].content = json_string_value(json_object_get(message, "content"));
        items[i].whole = message;
    }
    *self = (verl_messages_t){ items, count, json };
    return self;
}

verl_messages_t *
verl_messages_parse(const char *text, size_t bytes, char *error, size_t error_size)
{
    json_error_t found;
    json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &found);
    if (!json) {
        snprintf(error, error_size, "messages are not JSON at column %d: %s", found.column, found.text);
        return NULL;
    }
    verl_messages_t *self = NULL;
    if (verl_messages_check(json, error, error_size) == 0) {
        self = s_of_json(json);
        if (!self)
            snprintf(error, error_size, "no memory for %zu messages: free some", json_array_size(json));
    }
    if (!self)
        json_decref(json);
    return self;
}

void
verl_messages_destroy(verl_messages_t **self_p)
{
    if (!*self_p)
        return;
    json_decref((*self_p)->memory);
    free((*self_p)->items);
    free(*self_p);
    *self_p = NULL;
}
