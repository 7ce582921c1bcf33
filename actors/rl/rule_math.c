// rule_math.c: competition mathematics: the content of the last \boxed{}, compared with the answer in one notation.
//
// The notation: fractions as \frac{a}{b}, roots as \sqrt{a}, no spacing commands, degrees, dollars, percents, trailing
// units or spaces. A text that cannot be brought into it (a \frac at its end) is compared as it stands.
#include <stdlib.h>

#include "actors/rl/latex.h"

// The content of the last \boxed{…} with balanced braces, or of `\boxed …` up to a dollar; false where there is none.
// An \fbox is no box.
static bool
s_boxed(span_t text, span_t *content)
{
    static const char spaced[] = "\\boxed ", open[] = "\\boxed{";
    size_t at = verl_span_rfind(text, spaced);
    if (at != SIZE_MAX) {
        at += sizeof spaced - 1;
        const char *dollar = memchr(text.at + at, '$', text.bytes - at);
        *content = (span_t){ text.at + at, (dollar ? (size_t) (dollar - text.at) : text.bytes) - at };
        return true;
    }
    at = verl_span_rfind(text, "\\boxed");
    if (at == SIZE_MAX || text.bytes - at < sizeof open - 1 || memcmp(text.at + at, open, sizeof open - 1) != 0)
        return false;
    return verl_span_braced(text, at + sizeof open - 1, content);
}

// Removes a unit at the end: everything from the only `\text{ ` on; two of them cannot be read.
static void
s_drop_unit(latex_t *text)
{
    static const char unit[] = "\\text{ ";
    char *first = text->failed ? NULL : memmem(text->text, text->bytes, unit, sizeof unit - 1);
    if (!first)
        return;
    size_t at = (size_t) (first - text->text), behind = at + sizeof unit - 1;
    if (memmem(text->text + behind, text->bytes - behind, unit, sizeof unit - 1))
        text->failed = true;
    else
        verl_latex_cut(text, 0, at);
}

// Removes a short name before a single equals sign: `x=5` is 5.
static void
s_drop_name(latex_t *text)
{
    char *equals = text->failed ? NULL : memchr(text->text, '=', text->bytes);
    if (!equals || memchr(equals + 1, '=', text->bytes - (size_t) (equals + 1 - text->text)))
        return;
    size_t bytes = (size_t) (equals - text->text), characters = 0;
    for (size_t at = 0; at < bytes; at += verl_latex_character(text, at))
        characters++;
    if (characters <= 2)
        verl_latex_cut(text, bytes + 1, text->bytes);
}

static void
s_group(latex_t *made, const char *text, size_t bytes)
{
    verl_latex_add(made, "{", 1);
    verl_latex_add(made, text, bytes);
    verl_latex_add(made, "}", 1);
}

// Gives the argument after each `\sqrt` or the two after each `\frac` their braces, where they are single characters.
static void
s_brace(latex_t *text, const char *command, bool two)
{
    latex_t made = { 0 };
    size_t bytes = strlen(command), from = 0;
    verl_latex_add(&made, "", 0);
    while (!text->failed) {
        const char *next = memmem(text->text + from, text->bytes - from, command, bytes);
        size_t end = next ? (size_t) (next - text->text) + bytes : text->bytes;
        verl_latex_add(&made, text->text + from, end - from);
        from = end;
        if (!next)
            break;
        if (from == text->bytes) {
            text->failed = true;
        } else if (text->text[from] != '{') {
            size_t size = verl_latex_character(text, from);
            s_group(&made, text->text + from, size);
            from += size;
            if (two && (from == text->bytes || text->text[from] == '\\')) {
                text->failed = text->failed || from == text->bytes;
            } else if (two && text->text[from] != '{') {
                size = verl_latex_character(text, from);
                s_group(&made, text->text + from, size);
                from += size;
            }
        }
    }
    verl_latex_take(text, &made);
}

// Whether bytes are an integer as a computer writes it: no sign but a minus, no leading zero.
static bool
s_integer(const char *text, size_t bytes)
{
    size_t at = bytes > 1 && *text == '-';
    if (at == bytes || (text[at] == '0' && bytes > 1))
        return false;
    for (; at < bytes; at++)
        if (text[at] < '0' || text[at] > '9')
            return false;
    return true;
}

// `a/b` of two integers becomes \frac{a}{b}.
static void
s_slash(latex_t *text)
{
    char *slash = text->failed ? NULL : memchr(text->text, '/', text->bytes);
    size_t left = slash ? (size_t) (slash - text->text) : 0, right = text->bytes - left - 1;
    if (!slash || !s_integer(text->text, left) || !s_integer(slash + 1, right))
        return;
    latex_t made = { 0 };
    verl_latex_add(&made, "\\frac", 5);
    s_group(&made, text->text, left);
    s_group(&made, slash + 1, right);
    verl_latex_take(text, &made);
}

static void
s_drop_commands(latex_t *text)
{
    static const char *const edits[][2] = {
        { "\n", "" },     { "\\!", "" },     { "\\\\", "\\" },    { "tfrac", "frac" }, { "dfrac", "frac" },
        { "\\left", "" }, { "\\right", "" }, { "^{\\circ}", "" }, { "^\\circ", "" },   { "\\$", "" },
    };
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++)
        verl_latex_replace(text, edits[i][0], edits[i][1]);
    s_drop_unit(text);
    verl_latex_replace(text, "\\%", "");
    verl_latex_replace(text, " .", " 0.");
    verl_latex_replace(text, "{.", "{0.");
}

static latex_t
s_normal(span_t span)
{
    latex_t text = verl_latex_of(span);
    s_drop_commands(&text);
    if (text.failed || text.bytes == 0)
        return text;
    if (text.text[0] == '.') {
        latex_t made = { 0 };
        verl_latex_add(&made, "0", 1);
        verl_latex_add(&made, text.text, text.bytes);
        verl_latex_take(&text, &made);
    }
    s_drop_name(&text);
    s_brace(&text, "\\sqrt", false);
    verl_latex_replace(&text, " ", "");
    s_brace(&text, "\\frac", true);
    if (!text.failed && text.bytes == 3 && memcmp(text.text, "0.5", 3) == 0)
        verl_latex_replace(&text, "0.5", "\\frac{1}{2}");
    s_slash(&text);
    return text;
}

static bool
s_equivalent(span_t a, span_t b)
{
    latex_t x = s_normal(a), y = s_normal(b);
    bool same = x.failed || y.failed ? verl_span_equal(a, b)
                                     : verl_span_equal((span_t){ x.text, x.bytes }, (span_t){ y.text, y.bytes });
    free(x.text);
    free(y.text);
    return same;
}

int
verl_rule_math(const verl_rule_t *self, const verl_rule_input_t *input, verl_rule_result_t *result, char *error,
               size_t error_size)
{
    (void) self, (void) error, (void) error_size;
    span_t content;
    if (!s_boxed(verl_span_response(input), &content))
        return 0;
    result->format = 1;
    result->score = result->correct = s_equivalent(content, verl_span_answer(input));
    return 0;
}
