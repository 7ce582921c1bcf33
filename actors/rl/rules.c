// rules.c: the table of reward rules, their making, and the small rules; see rules.h.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "actors/data/random.h"
#include "actors/rl/rule_list.h"

static const verl_rule_kind_t s_kinds[] = {
    { "exact", "1 where the response is the answer, byte for byte (white space around them aside)",
      VERL_RULE_NEEDS_ANSWER, verl_rule_exact },
    { "regex", "1 where the last match of a pattern gives the answer (its first group, or all of it)",
      VERL_RULE_NEEDS_ANSWER | VERL_RULE_NEEDS_PATTERN, verl_rule_regex },
    { "gsm8k", "1 where the last `#### NUMBER` within the last 300 characters is the answer, commas and $ aside",
      VERL_RULE_NEEDS_ANSWER, verl_rule_gsm8k },
    { "gsm8k_flexible", "1 where the last number within the last 300 characters is the answer", VERL_RULE_NEEDS_ANSWER,
      verl_rule_gsm8k_flexible },
    { "math", "1 where the content of the last \\boxed{} equals the answer once both are in one notation",
      VERL_RULE_NEEDS_ANSWER, verl_rule_math },
    { "dapo", "+1 where the last `Answer: …` (or else \\boxed{}) equals the answer in one notation, else -1",
      VERL_RULE_NEEDS_ANSWER, verl_rule_dapo },
    { "random", "1 or 0 by a fair coin keyed by seed, batch and row: a control that says nothing about the response",
      VERL_RULE_NEEDS_SEED, verl_rule_random },
};

verl_rule_options_t
verl_rule_defaults(void)
{
    return (verl_rule_options_t){ .match_limit = 10000000, .trim = true };
}

const verl_rule_kind_t *
verl_rule_at(size_t i)
{
    return i < sizeof s_kinds / sizeof s_kinds[0] ? &s_kinds[i] : NULL;
}

const verl_rule_kind_t *
verl_rule_find(const char *name)
{
    for (size_t i = 0; verl_rule_at(i); i++)
        if (strcmp(s_kinds[i].name, name) == 0)
            return &s_kinds[i];
    return NULL;
}

const char *
verl_rule_name(const verl_rule_kind_t *kind)
{
    return kind->name;
}

const char *
verl_rule_about(const verl_rule_kind_t *kind)
{
    return kind->about;
}

unsigned
verl_rule_needs(const verl_rule_kind_t *kind)
{
    return kind->needs;
}

// Copies a text; NULL stays NULL. *failed is set where there was no memory.
static char *
s_copy(const char *text, bool *failed)
{
    char *copy = text ? strdup(text) : NULL;
    *failed = *failed || (text && !copy);
    return copy;
}

verl_rule_t *
verl_rule_new(const verl_rule_kind_t *kind, const verl_rule_options_t *options, char *error, size_t error_size)
{
    bool regex = kind->needs & VERL_RULE_NEEDS_PATTERN, failed = false;
    if (regex && (!options->pattern || !*options->pattern)) {
        snprintf(error, error_size, "rule %s has no pattern: give one, as in pattern = \"answer: (\\\\d+)\"",
                 kind->name);
        return NULL;
    }
    if (regex && options->match_limit < 1) {
        snprintf(error, error_size, "match_limit is %" PRId64 ": give at least 1", options->match_limit);
        return NULL;
    }
    verl_rule_t *self = calloc(1, sizeof *self);
    if (!self) {
        snprintf(error, error_size, "no memory for a rule: free some");
        return NULL;
    }
    self->kind = kind;
    self->options = *options;
    self->options.pattern = s_copy(options->pattern, &failed);
    self->options.stage = s_copy(options->stage, &failed);
    if (failed)
        snprintf(error, error_size, "no memory for a rule: free some");
    else if (regex)
        failed = !(self->code = verl_rule_compile(options->pattern, error, error_size));
    if (failed)
        verl_rule_destroy(&self);
    return self;
}

void
verl_rule_destroy(verl_rule_t **self_p)
{
    verl_rule_t *self = *self_p;
    if (!self)
        return;
    pcre2_code_free(self->code);
    free((void *) (uintptr_t) self->options.pattern);
    free((void *) (uintptr_t) self->options.stage);
    free(self);
    *self_p = NULL;
}

int
verl_rule_judge(const verl_rule_t *self, const verl_rule_input_t *input, verl_rule_result_t *result, char *error,
                size_t error_size)
{
    *result = (verl_rule_result_t){ 0 };
    return self->kind->judge(self, input, result, error, error_size);
}

span_t
verl_span_trim(span_t span)
{
    static const char space[] = " \t\n\r\f\v";
    while (span.bytes > 0 && memchr(space, *span.at, sizeof space - 1))
        span.at++, span.bytes--;
    while (span.bytes > 0 && memchr(space, span.at[span.bytes - 1], sizeof space - 1))
        span.bytes--;
    return span;
}

// Bytes of the character that ends at `end`: back over at most three continuation bytes to a lead byte that asks for
// them.
static size_t
s_last_character(const char *text, size_t end)
{
    size_t back = 1;
    while (back < 4 && back < end && ((unsigned char) text[end - back] & 0xC0) == 0x80)
        back++;
    unsigned char lead = (unsigned char) text[end - back];
    size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return wanted == back ? back : 1;
}

span_t
verl_span_tail(span_t span, size_t most)
{
    size_t begin = span.bytes;
    for (size_t count = 0; count < most && begin > 0; count++)
        begin -= s_last_character(span.at, begin);
    return (span_t){ span.at + begin, span.bytes - begin };
}

size_t
verl_span_rfind(span_t span, const char *what)
{
    size_t bytes = strlen(what);
    for (size_t i = span.bytes; i-- > 0;)
        if (span.bytes - i >= bytes && memcmp(span.at + i, what, bytes) == 0)
            return i;
    return SIZE_MAX;
}

bool
verl_span_braced(span_t span, size_t begin, span_t *content)
{
    size_t depth = 1;
    for (size_t i = begin; i < span.bytes; i++) {
        depth += span.at[i] == '{';
        depth -= span.at[i] == '}';
        if (depth == 0) {
            *content = (span_t){ span.at + begin, i - begin };
            return true;
        }
    }
    return false;
}

int
verl_rule_exact(const verl_rule_t *self, const verl_rule_input_t *input, verl_rule_result_t *result, char *error,
                size_t error_size)
{
    (void) error, (void) error_size;
    span_t response = verl_span_response(input), answer = verl_span_answer(input);
    if (self->options.trim)
        response = verl_span_trim(response), answer = verl_span_trim(answer);
    result->score = result->correct = verl_span_equal(response, answer);
    result->format = 1;
    return 0;
}

int
verl_rule_random(const verl_rule_t *self, const verl_rule_input_t *input, verl_rule_result_t *result, char *error,
                 size_t error_size)
{
    (void) error, (void) error_size;
    verl_random_t stream = verl_random_stream(self->options.seed, self->options.stage, input->batch, input->row);
    result->score = result->correct = (float) (verl_random_u64(&stream) >> 63);
    result->format = 1;
    return 0;
}

double
verl_overlong_penalty(int64_t length, int64_t max_length, int64_t buffer, double penalty)
{
    if (buffer <= 0)
        return 0;
    double over = (double) (length - (max_length - buffer));
    return over > 0 ? -over / (double) buffer * penalty : 0;
}
