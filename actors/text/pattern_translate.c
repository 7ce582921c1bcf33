// pattern_translate.c: from Oniguruma's Ruby syntax to PCRE2's.
#include "actors/text/pattern.h"
#include "actors/text/source.h"
#include <stdio.h>
#include <string.h>

// White_Space of Unicode. PCRE2 would add U+180E.
#define SPACE "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define NOT_SPACE "\\x{0}-\\x{8}\\x{E}-\\x{1F}!-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}" \
    "\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}"
// Letters and numbers that are in \w beside the categories L, M, Nd, Nl, Pc; the second only outside of brackets.
#define MORE_WORD "\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"
#define LONE_WORD "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"

// What Unicode 15 and 16 added to each property, from DerivedGeneralCategory.txt and Scripts.txt. Where PCRE2 is
// newer, they say nothing new.
static const struct { const char *name, *added; } s_added[] = {
    { "L",
      "\\x{1C89}-\\x{1C8A}\\x{A7CB}-\\x{A7CD}\\x{A7DA}-\\x{A7DC}\\x{105C0}-\\x{105F3}"
      "\\x{10D4A}-\\x{10D65}\\x{10D6F}-\\x{10D85}\\x{10EC2}-\\x{10EC4}\\x{1123F}-\\x{11240}"
      "\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}\\x{11390}-\\x{113B5}\\x{113B7}\\x{113D1}\\x{113D3}"
      "\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}\\x{1342F}"
      "\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}\\x{16100}-\\x{1611D}\\x{16D40}-\\x{16D6C}\\x{18CFF}"
      "\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}\\x{1E4D0}-\\x{1E4EB}"
      "\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}" },
    { "N",
      "\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}"
      "\\x{16130}-\\x{16139}\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1D2C0}-\\x{1D2D3}"
      "\\x{1E4F0}-\\x{1E4F9}\\x{1E5F1}-\\x{1E5FA}" },
    { "M",
      "\\x{897}\\x{CF3}\\x{ECE}\\x{10D69}-\\x{10D6D}\\x{10EFC}-\\x{10EFF}\\x{11241}"
      "\\x{113B8}-\\x{113C0}\\x{113C2}\\x{113C5}\\x{113C7}-\\x{113CA}\\x{113CC}-\\x{113D0}\\x{113D2}"
      "\\x{113E1}-\\x{113E2}\\x{11F00}-\\x{11F01}\\x{11F03}\\x{11F34}-\\x{11F3A}\\x{11F3E}-\\x{11F42}"
      "\\x{11F5A}\\x{13440}\\x{13447}-\\x{13455}\\x{1611E}-\\x{1612F}\\x{1E08F}\\x{1E4EC}-\\x{1E4EF}"
      "\\x{1E5EE}-\\x{1E5EF}" },
    { "P",
      "\\x{1B4E}-\\x{1B4F}\\x{1B7F}\\x{10D6E}\\x{113D4}-\\x{113D5}\\x{113D7}-\\x{113D8}"
      "\\x{11B00}-\\x{11B09}\\x{11BE1}\\x{11F43}-\\x{11F4F}\\x{16D6D}-\\x{16D6F}\\x{1E5FF}" },
    { "S",
      "\\x{2427}-\\x{2429}\\x{2FFC}-\\x{2FFF}\\x{31E4}-\\x{31E5}\\x{31EF}\\x{10D8E}-\\x{10D8F}"
      "\\x{1CC00}-\\x{1CCEF}\\x{1CD00}-\\x{1CEB3}\\x{1F6DC}\\x{1F774}-\\x{1F776}\\x{1F77B}-\\x{1F77F}"
      "\\x{1F7D9}\\x{1F8B2}-\\x{1F8BB}\\x{1F8C0}-\\x{1F8C1}\\x{1FA75}-\\x{1FA77}\\x{1FA87}-\\x{1FA89}"
      "\\x{1FA8F}\\x{1FAAD}-\\x{1FAAF}\\x{1FABB}-\\x{1FABF}\\x{1FAC6}\\x{1FACE}-\\x{1FACF}"
      "\\x{1FADA}-\\x{1FADC}\\x{1FADF}\\x{1FAE8}-\\x{1FAE9}\\x{1FAF7}-\\x{1FAF8}\\x{1FBCB}-\\x{1FBEF}" },
    { "Lu",
      "\\x{1C89}\\x{A7CB}-\\x{A7CC}\\x{A7DA}\\x{A7DC}\\x{10D50}-\\x{10D65}" },
    { "Ll",
      "\\x{1C8A}\\x{A7CD}\\x{A7DB}\\x{10D70}-\\x{10D85}\\x{1DF25}-\\x{1DF2A}" },
    { "Lm",
      "\\x{10D4E}\\x{10D6F}\\x{16D40}-\\x{16D42}\\x{16D6B}-\\x{16D6C}\\x{1E030}-\\x{1E06D}\\x{1E4EB}" },
    { "Lo",
      "\\x{105C0}-\\x{105F3}\\x{10D4A}-\\x{10D4D}\\x{10D4F}\\x{10EC2}-\\x{10EC4}\\x{1123F}-\\x{11240}"
      "\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}\\x{11390}-\\x{113B5}\\x{113B7}\\x{113D1}\\x{113D3}"
      "\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}\\x{1342F}"
      "\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}\\x{16100}-\\x{1611D}\\x{16D43}-\\x{16D6A}\\x{18CFF}"
      "\\x{1B132}\\x{1B155}\\x{1E4D0}-\\x{1E4EA}\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}"
      "\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}" },
    { "Nd",
      "\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}"
      "\\x{16130}-\\x{16139}\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1E4F0}-\\x{1E4F9}"
      "\\x{1E5F1}-\\x{1E5FA}" },
    { "Han",
      "\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}" },
};

typedef struct {
    const char  *regex;
    size_t       length, at;
    bool         in_class;
    bool         memory;                    // false: an append failed
    const char  *wrong;                     // what cannot be translated
    verl_text_t *out;
} s_translator_t;

static void
s_emit(s_translator_t *self, const char *text)
{
    self->memory = self->memory && verl_text_add(self->out, text, strlen(text)) == 0;
}

static void
s_copy(s_translator_t *self, size_t count)
{
    self->memory = self->memory && verl_text_add(self->out, self->regex + self->at, count) == 0;
    self->at += count;
}

static const char *
s_added_to(const char *name)
{
    for (size_t i = 0; i < sizeof s_added / sizeof *s_added; i++)
        if (strcmp(s_added[i].name, name) == 0)
            return s_added[i].added;
    return "";
}

// Members of a class: as they are inside one, in brackets outside.
static void
s_emit_members(s_translator_t *self, bool negated, const char *first, const char *second, const char *third)
{
    if (!self->in_class)
        s_emit(self, negated ? "[^" : "[");
    s_emit(self, first);
    s_emit(self, second);
    s_emit(self, third);
    if (!self->in_class)
        s_emit(self, "]");
}

static void
s_emit_word(s_translator_t *self, bool negated)
{
    char members[4096];
    if (negated && self->in_class) {
        self->wrong = "\\W inside a class";
        return;
    }
    snprintf(members, sizeof members, "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}%s%s%s", s_added_to("L"), s_added_to("M"),
             s_added_to("Nd"));
    s_emit_members(self, negated, members, MORE_WORD, self->in_class ? "" : LONE_WORD);
}

// \p{Name}, \P{Name}, \p{^Name}. A name of more than two letters that is no category is a script: the property
// Script, not the Script_Extensions that PCRE2 would take.
static void
s_emit_property(s_translator_t *self)
{
    static const char *const long_names[][2] = {
        { "Letter", "L" },
        { "Number", "N" },
        { "Mark", "M" },
        { "Punctuation", "P" },
        { "Punct", "P" },
        { "Symbol", "S" },
        { "Separator", "Z" },
        { "Other", "C" },
        { "Uppercase_Letter", "Lu" },
        { "Lowercase_Letter", "Ll" },
        { "Titlecase_Letter", "Lt" },
        { "Modifier_Letter", "Lm" },
        { "Other_Letter", "Lo" },
        { "Decimal_Number", "Nd" },
        { "Any", "Any" },
    };
    bool negated = self->regex[self->at + 1] == 'P';
    const char *open = self->regex + self->at + 3, *end = self->regex + self->length;
    const char *close =
        self->at + 3 < self->length && open[-1] == '{' ? memchr(open, '}', (size_t) (end - open)) : NULL;
    char name[48] = "", property[64];
    if (close && *open == '^') {
        negated = !negated;
        open++;
    }
    if (!close || close <= open || (size_t) (close - open) >= sizeof name) {
        self->wrong = "a property that is not \\p{Name}";
        return;
    }
    memcpy(name, open, (size_t) (close - open));
    for (size_t i = 0; i < sizeof long_names / sizeof *long_names; i++)
        if (strcmp(name, long_names[i][0]) == 0)
            snprintf(name, sizeof name, "%s", long_names[i][1]);
    bool script = strlen(name) > 2 && strcmp(name, "Any") != 0 && !strchr(name, '=') && !strchr(name, ':');
    if (negated && self->in_class && *s_added_to(name))
        self->wrong = "\\P inside a class";
    snprintf(property, sizeof property, "\\%c{%s%s}", negated && self->in_class ? 'P' : 'p', script ? "sc:" : "", name);
    s_emit_members(self, negated, property, s_added_to(name), "");
    self->at = (size_t) (close + 1 - self->regex);
}

// One escape; self->at is at the backslash.
static void
s_escape(s_translator_t *self)
{
    if (self->at + 1 >= self->length) {
        self->wrong = "a backslash at its end";
        return;
    }
    char code = self->regex[self->at + 1];
    char hex[5] = "";
    if (!self->in_class && (code == 'b' || code == 'B'))
        self->wrong = "a border of words, which the two engines put in different places";
    switch (code) {
    case 'p': case 'P':
        s_emit_property(self);
        return;
    case 's': s_emit_members(self, false, SPACE, "", ""); break;
    case 'S': s_emit_members(self, true, self->in_class ? NOT_SPACE : SPACE, "", ""); break;
    case 'w': s_emit_word(self, false); break;
    case 'W': s_emit_word(self, true); break;
    case 'd': s_emit_members(self, false, "\\p{Nd}", s_added_to("Nd"), ""); break;
    case 'D':
        if (self->in_class)
            self->wrong = "\\D inside a class";
        s_emit_members(self, true, "\\p{Nd}", s_added_to("Nd"), "");
        break;
    case 'h': s_emit_members(self, false, "0-9A-Fa-f", "", ""); break;
    case 'v': s_emit(self, "\\x0B"); break;
    case 'u':
        if (self->at + 6 > self->length) {
            self->wrong = "\\u without four digits";
            return;
        }
        memcpy(hex, self->regex + self->at + 2, 4);
        s_emit(self, "\\x{");
        s_emit(self, hex);
        s_emit(self, "}");
        self->at += 4;
        break;
    case 'H': case 'N': case 'O': case 'Q': case 'E': case 'X': case 'y': case 'Y': case 'C': case 'M':
        self->wrong = "an escape that the two engines read differently";
        return;
    default:
        s_copy(self, 2);
        return;
    }
    self->at += 2;
}

// One character inside brackets.
static void
s_class_character(s_translator_t *self)
{
    char character = self->regex[self->at];
    if (character == '[')
        self->wrong = "a class inside a class";
    else if (character == '&' && self->at + 1 < self->length && self->regex[self->at + 1] == '&')
        self->wrong = "an intersection of classes";
    else if (character == ']')
        self->in_class = false;
    s_copy(self, 1);
}

static void
s_plain_character(s_translator_t *self)
{
    const char *here = self->regex + self->at;
    size_t left = self->length - self->at;
    if (*here == '[') {
        self->in_class = true;
        s_copy(self, left > 1 && here[1] == '^' ? 2 : 1);
        if (self->at < self->length && self->regex[self->at] == ']')
            self->wrong = "a class that begins with a bracket";
        return;
    }
    if (*here == '}' && left > 1 && here[1] == '+')
        self->wrong = "{n,m} followed by +";
    if (*here == '(' && left > 2 && here[1] == '?') {
        for (size_t i = 2; i < left && here[i] != ')' && here[i] != ':' && here[i] != '<'; i++)
            if (here[i] == 'm')
                self->wrong = "the option m, which the two engines read differently";
    }
    s_copy(self, 1);
}

int
verl_pattern_translate(const char *regex, size_t length, verl_text_t *out, const char *where, char *error,
                       size_t error_size)
{
    s_translator_t self = { .regex = regex, .length = length, .memory = true, .out = out };
    while (self.at < length && self.memory && !self.wrong) {
        if (regex[self.at] == '\\')
            s_escape(&self);
        else if (self.in_class)
            s_class_character(&self);
        else
            s_plain_character(&self);
    }
    if (self.wrong)
        return verl_text_fail(error, error_size, "%s: the pattern \"%.*s\" has %s, which is not supported", where,
                              (int) (length < 200 ? length : 200), regex, self.wrong);
    return self.memory ? 0 : verl_text_fail(error, error_size, "%s: not enough memory", where);
}
