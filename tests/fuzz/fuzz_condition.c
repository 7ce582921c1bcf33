// Any text as a condition of a script: refused with a sentence, or a condition that is true or not, alike both times.
#include "tools/script_condition.c"
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

// Half of the names have a value.
static bool
s_fuzz_lookup(void *context, const char *name, double *ret_value)
{
    size_t length = strlen(name);
    ++*(int *) context;
    *ret_value = (double) length;
    return length % 2 == 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    verl_error_t error = { "" };
    int lookups = 0;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, bytes, size);
    text[size] = '\0';
    verl_condition_tree_t *condition = verl_condition_parse(text, &error);
    if (!condition != (error.text[0] != '\0'))
        abort();
    if (condition && verl_condition_true(condition, s_fuzz_lookup, &lookups) !=
                         verl_condition_true(condition, s_fuzz_lookup, &lookups))
        abort();
    verl_condition_destroy(&condition);
    free(text);
    return 0;
}
