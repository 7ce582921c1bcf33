// json.h: words of others as JSON, which has to be UTF-8. Any thread.
#ifndef VERL_JSON_H
#define VERL_JSON_H
#include <jansson.h>

// A string: each byte of `text` that belongs to no character of UTF-8 is shown as '?' (paths, names, what was cut in the
// middle of a character). The caller owns it; NULL only without memory.
json_t *verl_json_text(const char *text);
// The same of so many bytes, which may hold zeroes.
json_t *verl_json_bytes(const char *bytes, size_t size);
#endif
