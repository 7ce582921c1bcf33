// rule_dapo.c: +1 or -1 by the last line `Answer: …` of the last 300 characters; without one, by the content of the
// last \boxed{} of the last 100, which then has to be the answer as it stands.
//
// Both sides are brought into one notation: what follows the last equals sign; without articles, units, dollars, text
// commands and spaces; fractions and roots with braces; no commas in a number of digits and commas only.
#include <stdlib.h>
#include <strings.h>

#include "actors/rl/latex.h"

#define TAIL     300
#define BOX_TAIL 100

// Words that say nothing about which answer it is.
static const char *const s_words[] = {
    "square", "ways",   "integers", "dollars", "mph",    "inches",   "hours",     "km",
    "units",  "points", "feet",     "minutes", "digits", "cents",    "degrees",   "cm",
    "gm",     "pounds", "meters",   "meals",   "edges",  "students", "multiples",
};

static const char *const s_edits[][2] = {
    { "\\$", "" },          { "\\!", "" },       { "\\;", "" },     { "\\ ", "" },       { "mbox", "text" },
    { "tfrac", "frac" },    { "dfrac", "frac" }, { "^\\circ", "" }, { "^{\\circ}", "" }, { "\\mathrm{th}", "" },
    { "{,}", "" },          { "\\ldots", "" },   { "\\dots", "" },  { "\"", "" },        { ",\\text{and}", "," },
    { "\\text{and}", "," }, { "\\%", "" },       { "%", "" },
};

static bool
s_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '\\';
}

// Removes a word wherever no letter touches it.
static void
s_drop_word(latex_t *text, const char *word)
{
    size_t bytes = strlen(word), from = 0;
    while (!text->failed) {
        char *next = memmem(text->text + from, text->bytes - from, word, bytes);
        if (!next)
            return;
        size_t at = (size_t) (next - text->text), behind = at + bytes;
        bool whole =
            (at == 0 || !s_letter(text->text[at - 1])) && (behind == text->bytes || !s_letter(text->text[behind]));
        from = whole ? at : behind;
        if (!whole)
            continue;
        memmove(next, next + bytes, text->bytes - behind + 1);
        text->bytes -= bytes;
    }
}

static bool
s_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Bytes of the article that begins at `at`, with the space behind it; 0: none does. It stands alone before a word of
// two letters or more, or before a number; in "2a", "a + b" and "a x" it is a variable.
static size_t
s_article(const latex_t *text, size_t at)
{
    const char *from = text->text + at;
    size_t bytes = strncmp(from, "an ", 3) == 0 ? 3 : strncmp(from, "a ", 2) == 0 ? 2 : 0;
    if (bytes == 0 || (at > 0 && !memchr(" \t\n{$", from[-1], 5)))
        return 0;
    const char *next = from + bytes + strspn(from + bytes, " $");
    return s_digit(next[0]) || (next[0] != '\\' && s_letter(next[0]) && s_letter(next[1])) ? bytes : 0;
}

static void
s_drop_articles(latex_t *text)
{
    size_t at = 0;
    while (!text->failed && at < text->bytes) {
        size_t bytes = s_article(text, at);
        if (bytes == 0) {
            at++;
            continue;
        }
        memmove(text->text + at, text->text + at + bytes, text->bytes - at - bytes + 1);
        text->bytes -= bytes;
    }
}

// Takes away `command` at `open` and the brace at `close`.
static void
s_take_away(latex_t *text, char *open, size_t bytes, char *close)
{
    memmove(close, close + 1, (size_t) (text->text + text->bytes - close));
    memmove(open, open + bytes, (size_t) (text->text + text->bytes - (open + bytes)));
    text->bytes -= bytes + 1;
    text->text[text->bytes] = 0;
}

// Replaces each `\command{X}` by X, which ends at the first brace.
static void
s_unwrap(latex_t *text, const char *command)
{
    size_t bytes = strlen(command), from = 0;
    while (!text->failed) {
        char *open = memmem(text->text + from, text->bytes - from, command, bytes);
        char *close = open ? memchr(open, '}', text->bytes - (size_t) (open - text->text)) : NULL;
        if (!close)
            return;
        s_take_away(text, open, bytes, close);
        from = (size_t) (open - text->text);
    }
}

// Replaces `\boxed{X}` by X, which ends at the last brace: it may have others in it.
static void
s_unbox(latex_t *text)
{
    static const char command[] = "\\boxed{";
    char *open = text->failed ? NULL : memmem(text->text, text->bytes, command, sizeof command - 1);
    char *close = open ? memrchr(open, '}', text->bytes - (size_t) (open - text->text)) : NULL;
    if (close)
        s_take_away(text, open, sizeof command - 1, close);
}

// Keeps what stands between the first two dollars, where there are two.
static void
s_keep_formula(latex_t *text)
{
    char *first = text->failed ? NULL : memchr(text->text, '$', text->bytes);
    size_t begin = first ? (size_t) (first - text->text) + 1 : 0;
    char *second = first ? memchr(first + 1, '$', text->bytes - begin) : NULL;
    if (second)
        verl_latex_cut(text, begin, (size_t) (second - text->text));
}

// Puts braces around single characters after `frac` (two of them) and `sqrt` (one).
static void
s_brace(latex_t *text, const char *command, int arguments)
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
        for (int i = 0; i < arguments && from < text->bytes && text->text[from] != '{'; i++) {
            size_t size = verl_latex_character(text, from);
            verl_latex_add(&made, "{", 1);
            verl_latex_add(&made, text->text + from, size);
            verl_latex_add(&made, "}", 1);
            from += size;
        }
    }
    verl_latex_take(text, &made);
}

static bool
s_digits_and_commas(const latex_t *text)
{
    bool digit = false;
    for (size_t i = 0; i < text->bytes; i++) {
        if (text->text[i] != ',' && !s_digit(text->text[i]))
            return false;
        digit = digit || text->text[i] != ',';
    }
    return digit;
}

static latex_t
s_normal(span_t span)
{
    size_t equals = verl_span_rfind(span, "=");
    if (equals != SIZE_MAX)
        span = (span_t){ span.at + equals + 1, span.bytes - equals - 1 };
    latex_t text = verl_latex_of(verl_span_trim(span));
    for (size_t i = 0; i < sizeof s_edits / sizeof s_edits[0]; i++)
        verl_latex_replace(&text, s_edits[i][0], s_edits[i][1]);
    s_keep_formula(&text);
    s_unwrap(&text, "\\textbf{");
    s_unwrap(&text, "\\text{");
    s_unwrap(&text, "\\overline{");
    s_unbox(&text);
    s_drop_articles(&text);
    for (size_t i = 0; i < sizeof s_words / sizeof s_words[0]; i++)
        s_drop_word(&text, s_words[i]);
    verl_latex_replace(&text, "$", "");
    verl_latex_replace(&text, " ", "");
    s_brace(&text, "frac", 2);
    s_brace(&text, "sqrt", 1);
    if (!text.failed && s_digits_and_commas(&text))
        verl_latex_replace(&text, ",", "");
    if (!text.failed && text.bytes > 0 && text.text[text.bytes - 1] == '.')
        verl_latex_cut(&text, 0, text.bytes - 1);
    return text;
}

// Texts of which nothing is left are compared as they stand.
static bool
s_equivalent(span_t given, span_t answer)
{
    latex_t x = s_normal(given), y = s_normal(answer);
    span_t a = { x.text, x.bytes }, raw = verl_span_trim(answer);
    bool same = !x.failed && !y.failed &&
                (a.bytes == 0 ? verl_span_equal(verl_span_trim(given), raw)
                              : verl_span_equal(a, (span_t){ y.text, y.bytes }) || verl_span_equal(a, raw));
    free(x.text);
    free(y.text);
    return same;
}

// What follows `answer`, white space, a colon, white space, at `at`, up to the end of its line; empty where it is not
// so.
static span_t
s_answer_line(span_t text, size_t at)
{
    static const char word[] = "answer";
    if (text.bytes - at < sizeof word - 1 || strncasecmp(text.at + at, word, sizeof word - 1) != 0)
        return (span_t){ text.at, 0 };
    span_t rest = { text.at + at + sizeof word - 1, text.bytes - at - (sizeof word - 1) };
    while (rest.bytes > 0 && memchr(" \t\r\n\f\v", *rest.at, 6))
        rest.at++, rest.bytes--;
    if (rest.bytes == 0 || *rest.at != ':')
        return (span_t){ text.at, 0 };
    rest = verl_span_trim((span_t){ rest.at + 1, rest.bytes - 1 });
    const char *newline = memchr(rest.at, '\n', rest.bytes);
    return (span_t){ rest.at, newline ? (size_t) (newline - rest.at) : rest.bytes };
}

// The content of the last \boxed{…} with balanced braces; false where there is none.
static bool
s_boxed(span_t text, span_t *content)
{
    static const char open[] = "\\boxed{";
    size_t at = verl_span_rfind(text, open);
    return at != SIZE_MAX && verl_span_braced(text, at + sizeof open - 1, content);
}

int
verl_rule_dapo(const verl_rule_t *self, const verl_rule_input_t *input, verl_rule_result_t *result, char *error,
               size_t error_size)
{
    (void) self, (void) error, (void) error_size;
    span_t response = verl_span_response(input), answer = verl_span_answer(input), given = { "", 0 };
    span_t text = verl_span_tail(response, TAIL);
    for (size_t i = 0; i < text.bytes; i++) {
        span_t line = s_answer_line(text, i);
        if (line.bytes == 0)
            continue;
        given = line;
        i = (size_t) (line.at + line.bytes - text.at); // an `Answer:` in it is part of the answer
    }
    bool boxed = given.bytes == 0 && s_boxed(verl_span_tail(response, BOX_TAIL), &given);
    result->format = given.bytes > 0 || boxed;
    result->correct = boxed ? verl_span_equal(given, answer) : given.bytes > 0 && s_equivalent(given, answer);
    result->score = result->correct > 0 ? 1 : -1;
    return 0;
}
