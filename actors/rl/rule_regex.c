// rule_regex.c: the answer is what a pattern finds last.
//
// A pattern may cost more than anybody wants to wait. Each step of the matcher is counted (a callout before every item
// of the pattern, and the bytes stepped over since the last), over all matches of a response together; PCRE2's own
// limits stand behind that. So a catastrophic pattern is an error of its row after a bounded time, on every machine
// alike.
#include <inttypes.h>
#include <stdio.h>

#include "actors/rl/rule_list.h"

#define HEAP_LIMIT 65536 // KiB that one match may take

// The steps that one response has left.
typedef struct budget {
    int64_t left;
    size_t start, position; // of the last callout
} budget_t;

pcre2_code *
verl_rule_compile(const char *pattern, char *error, size_t error_size)
{
    int code;
    size_t offset;
    uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_AUTO_CALLOUT | PCRE2_NEVER_BACKSLASH_C;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR) pattern, PCRE2_ZERO_TERMINATED, options, &code, &offset, NULL);
    if (!compiled) {
        PCRE2_UCHAR reason[160];
        pcre2_get_error_message(code, reason, sizeof reason);
        snprintf(error, error_size, "pattern is wrong at column %zu: %s", offset + 1, (char *) reason);
    }
    return compiled;
}

static int
s_count(pcre2_callout_block *block, void *data)
{
    budget_t *budget = data;
    size_t from = block->start_match == budget->start ? budget->position : block->start_match;
    budget->left -= 1 + (block->current_position > from ? (int64_t) (block->current_position - from) : 0);
    budget->start = block->start_match;
    budget->position = block->current_position;
    return budget->left < 0 ? PCRE2_ERROR_MATCHLIMIT : 0;
}

// What the match in data gives: its first group, all of it where the pattern has none, nothing where that took no part.
static span_t
s_found(pcre2_match_data *data, span_t text)
{
    const size_t *ends = pcre2_get_ovector_pointer(data);
    size_t group = pcre2_get_ovector_count(data) > 1 ? 1 : 0, begin = ends[2 * group], end = ends[2 * group + 1];
    if (begin == PCRE2_UNSET || begin > end)
        return (span_t){ text.at, 0 };
    return (span_t){ text.at + begin, end - begin };
}

// Finds the last match that is not empty. 1 and *found, 0 where there is none, or PCRE2's error.
static int
s_last_match(const verl_rule_t *self, span_t text, pcre2_match_data *data, pcre2_match_context *context, span_t *found)
{
    size_t at = 0;
    int any = 0;
    while (at < text.bytes) {
        int status = pcre2_match(self->code, (PCRE2_SPTR) text.at, text.bytes, at, PCRE2_NOTEMPTY, data, context);
        if (status == PCRE2_ERROR_NOMATCH)
            break;
        if (status < 0)
            return status;
        size_t end = pcre2_get_ovector_pointer(data)[1];
        *found = s_found(data, text);
        any = 1;
        at = end > at ? end : at + 1; // \K can end a match where it was looked for
        while (at < text.bytes && ((unsigned char) text.at[at] & 0xC0) == 0x80)
            at++;
    }
    return any;
}

static int
s_search(const verl_rule_t *self, span_t text, span_t *found)
{
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(self->code, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    budget_t budget = { .left = self->options.match_limit };
    int status = PCRE2_ERROR_NOMEMORY;
    if (data && context) {
        int64_t limit = self->options.match_limit;
        pcre2_set_match_limit(context, limit < UINT32_MAX ? (uint32_t) limit : UINT32_MAX);
        pcre2_set_heap_limit(context, HEAP_LIMIT);
        pcre2_set_callout(context, s_count, &budget);
        status = s_last_match(self, text, data, context, found);
    }
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    return status;
}

int
verl_rule_regex(const verl_rule_t *self, const verl_rule_input_t *input, verl_rule_result_t *result, char *error,
                size_t error_size)
{
    span_t text = verl_span_response(input), found = { "", 0 };
    int status = s_search(self, text, &found);
    if (status == PCRE2_ERROR_MATCHLIMIT || status == PCRE2_ERROR_HEAPLIMIT || status == PCRE2_ERROR_DEPTHLIMIT) {
        snprintf(error, error_size,
                 "row %" PRId64 ": the pattern takes more than %" PRId64 " steps on a response of %zu "
                 "bytes: write it without nested repeats, or raise match_limit",
                 input->row, self->options.match_limit, text.bytes);
        return -1;
    }
    if (status < 0) {
        PCRE2_UCHAR reason[160];
        pcre2_get_error_message(status, reason, sizeof reason);
        snprintf(error, error_size, "row %" PRId64 ": the pattern cannot be matched: %s", input->row, (char *) reason);
        return -1;
    }
    result->format = (float) status;
    result->correct = status && verl_span_equal(verl_span_trim(found), verl_span_trim(verl_span_answer(input)));
    result->score = result->correct > 0 ? 1 : status ? (float) self->options.format_score : 0;
    return 0;
}
