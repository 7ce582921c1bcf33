// rule_list.h: what a reward rule is made of, and all of them; files of other folders include rules.h instead.
#ifndef VERL_RL_RULE_LIST_H
#define VERL_RL_RULE_LIST_H
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "actors/rl/rules.h"

// Bytes of somebody else's text.
typedef struct span {
    const char *at;
    size_t bytes;
} span_t;

struct verl_rule {
    const verl_rule_kind_t *kind;
    verl_rule_options_t options; // its texts are the rule's own
    pcre2_code *code;            // of options.pattern, or NULL
};

// Judges one response: fills *result, which comes zeroed. 0 or -1 with a sentence.
typedef int (*rule_function_t)(const verl_rule_t *self, const verl_rule_input_t *input, verl_rule_result_t *result,
                               char *error, size_t error_size);

struct verl_rule_kind {
    const char *name, *about;
    unsigned needs;
    rule_function_t judge;
};

int verl_rule_exact(const verl_rule_t *, const verl_rule_input_t *, verl_rule_result_t *, char *, size_t);
int verl_rule_random(const verl_rule_t *, const verl_rule_input_t *, verl_rule_result_t *, char *, size_t);
int verl_rule_regex(const verl_rule_t *, const verl_rule_input_t *, verl_rule_result_t *, char *, size_t);
int verl_rule_gsm8k(const verl_rule_t *, const verl_rule_input_t *, verl_rule_result_t *, char *, size_t);
int verl_rule_gsm8k_flexible(const verl_rule_t *, const verl_rule_input_t *, verl_rule_result_t *, char *, size_t);
int verl_rule_math(const verl_rule_t *, const verl_rule_input_t *, verl_rule_result_t *, char *, size_t);
int verl_rule_dapo(const verl_rule_t *, const verl_rule_input_t *, verl_rule_result_t *, char *, size_t);

// Compiles a pattern for the regex rule; NULL with the reason in error. The caller frees it (pcre2_code_free).
pcre2_code *verl_rule_compile(const char *pattern, char *error, size_t error_size);

static inline span_t
verl_span(const char *at, size_t bytes)
{
    return (span_t){ at ? at : "", at ? bytes : 0 };
}

static inline span_t
verl_span_response(const verl_rule_input_t *input)
{
    return verl_span(input->response, input->response_bytes);
}

static inline span_t
verl_span_answer(const verl_rule_input_t *input)
{
    return verl_span(input->answer, input->answer_bytes);
}

static inline bool
verl_span_equal(span_t a, span_t b)
{
    return a.bytes == b.bytes && memcmp(a.at, b.at, a.bytes) == 0;
}

// Without ASCII white space at both ends.
span_t verl_span_trim(span_t span);

// The last `most` characters: code points where the text is UTF-8, any stray byte being one of its own.
span_t verl_span_tail(span_t span, size_t most);

// Where `what` begins for the last time, or SIZE_MAX. what is not empty.
size_t verl_span_rfind(span_t span, const char *what);

// What stands from `begin`, which is behind an open brace, up to the brace that closes it; false, and *content is left
// alone, where none does.
bool verl_span_braced(span_t span, size_t begin, span_t *content);

#endif
