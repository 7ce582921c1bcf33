// pattern.c: compiles and runs a translated pattern.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "actors/text/pattern.h"
#include "actors/text/source.h"
#include <pcre2.h>

enum { STACK_LEAST = 32 * 1024, STACK_MOST = 8 * 1024 * 1024 };

int
verl_pattern_init(verl_pattern_t *self, const char *regex, size_t length, const char *where, char *error,
                  size_t error_size)
{
    verl_text_t translated = { 0 };
    int number = 0;
    PCRE2_SIZE at = 0;
    *self = (verl_pattern_t) { 0 };
    if (verl_pattern_translate(regex, length, &translated, where, error, error_size)) {
        verl_text_done(&translated);
        return -1;
    }
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        pcre2_set_parens_nest_limit(context, 100);
        self->code =
            pcre2_compile((PCRE2_SPTR) (translated.data ? translated.data : ""), translated.length,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &number, &at, context);
    }
    pcre2_compile_context_free(context);
    verl_text_done(&translated);
    if (!self->code) {
        PCRE2_UCHAR reason[128] = "not enough memory";
        if (number)
            pcre2_get_error_message(number, reason, sizeof reason);
        return verl_text_fail(error, error_size, "%s: the pattern \"%.*s\" cannot be used: %s", where,
                              (int) (length < 200 ? length : 200), regex, (const char *) reason);
    }
    pcre2_jit_compile(self->code, PCRE2_JIT_COMPLETE);  // where this fails, the interpreter serves
    return 0;
}

void
verl_pattern_done(verl_pattern_t *self)
{
    pcre2_code_free(self->code);
    self->code = NULL;
}

static int
s_prepare(verl_matcher_t *matcher)
{
    if (matcher->data)
        return 0;
    matcher->context = pcre2_match_context_create(NULL);
    matcher->stack = pcre2_jit_stack_create(STACK_LEAST, STACK_MOST, NULL);
    matcher->data = pcre2_match_data_create(1, NULL);
    if (!matcher->context || !matcher->stack || !matcher->data) {
        verl_matcher_done(matcher);
        return -1;
    }
    pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    return 0;
}

void
verl_matcher_done(verl_matcher_t *matcher)
{
    pcre2_match_data_free(matcher->data);
    pcre2_jit_stack_free(matcher->stack);
    pcre2_match_context_free(matcher->context);
    *matcher = (verl_matcher_t) { 0 };
}

int
verl_pattern_find(const verl_pattern_t *self, verl_matcher_t *matcher, const char *text, size_t length,
                  size_t from, size_t *ret_start, size_t *ret_end)
{
    if (s_prepare(matcher))
        return -1;
    int rc =
        pcre2_match(self->code, (PCRE2_SPTR) text, length, from, PCRE2_NO_UTF_CHECK, matcher->data, matcher->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(self->code, (PCRE2_SPTR) text, length, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, matcher->data,
                         matcher->context);
    if (rc < 0)
        return rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(matcher->data);
    *ret_start = bounds[0];
    *ret_end = bounds[1] < bounds[0] ? bounds[0] : bounds[1];
    return 1;
}
