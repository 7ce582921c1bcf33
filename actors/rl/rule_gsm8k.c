// rule_gsm8k.c: grade-school mathematics: the answer after `#### `, or the last number; both of the last 300
// characters.
//
// Strict: `####`, one space, an optional minus, then digits, dots and commas; the last such, with commas and dollars
// taken out, has to be the answer. Flexible: the last run of an optional minus, digits, dots and commas that is not a
// lone dot has to be the answer as it stands.
#include "actors/rl/rule_list.h"

#define TAIL 300

static bool
s_numeral(char c)
{
    return (c >= '0' && c <= '9') || c == '.' || c == ',';
}

// Bytes of the number that begins at `at`; 0 where none does.
static size_t
s_number(span_t text, size_t at)
{
    size_t end = at + (at < text.bytes && text.at[at] == '-'), digits = end;
    while (end < text.bytes && s_numeral(text.at[end]))
        end++;
    return end > digits ? end - at : 0;
}

// Whether number, without commas and dollars, is the answer.
static bool
s_same(span_t number, span_t answer)
{
    size_t at = 0;
    for (size_t i = 0; i < number.bytes; i++) {
        if (number.at[i] == ',' || number.at[i] == '$')
            continue;
        if (at >= answer.bytes || answer.at[at] != number.at[i])
            return false;
        at++;
    }
    return at == answer.bytes;
}

static void
s_settle(const verl_rule_t *self, bool found, bool right, verl_rule_result_t *result)
{
    result->format = found;
    result->correct = right;
    result->score = right ? 1 : found ? (float) self->options.format_score : 0;
}

int
verl_rule_gsm8k(const verl_rule_t *self, const verl_rule_input_t *input, verl_rule_result_t *result, char *error,
                size_t error_size)
{
    (void) error, (void) error_size;
    static const char mark[] = "#### ";
    span_t text = verl_span_tail(verl_span_response(input), TAIL), last = { "", 0 };
    for (size_t i = 0; i + sizeof mark - 1 <= text.bytes; i++) {
        if (memcmp(text.at + i, mark, sizeof mark - 1) != 0)
            continue;
        size_t bytes = s_number(text, i + sizeof mark - 1);
        if (bytes > 0)
            last = (span_t){ text.at + i + sizeof mark - 1, bytes };
    }
    s_settle(self, last.bytes > 0, last.bytes > 0 && s_same(last, verl_span_answer(input)), result);
    return 0;
}

int
verl_rule_gsm8k_flexible(const verl_rule_t *self, const verl_rule_input_t *input, verl_rule_result_t *result,
                         char *error, size_t error_size)
{
    (void) error, (void) error_size;
    span_t text = verl_span_tail(verl_span_response(input), TAIL), last = { "", 0 };
    for (size_t i = 0; i < text.bytes;) {
        size_t bytes = s_number(text, i);
        if (bytes > 1 || (bytes == 1 && text.at[i] != '.'))
            last = (span_t){ text.at + i, bytes };
        i += bytes > 0 ? bytes : 1;
    }
    s_settle(self, last.bytes > 0, last.bytes > 0 && verl_span_equal(last, verl_span_answer(input)), result);
    return 0;
}
