// latex.h: small edits of LaTeX text for comparing answers; a growing buffer and the rewrites that rules share.
#ifndef VERL_RL_LATEX_H
#define VERL_RL_LATEX_H
#include <stdbool.h>
#include <stddef.h>

#include "actors/rl/rule_list.h"

// Text under work. failed is set where memory ran out or a rewrite met text that it cannot read, and stays set.
typedef struct latex {
    char *text; // bytes, and a NUL after them
    size_t bytes, room;
    bool failed;
} latex_t;

// A copy of span; free(text) ends it.
latex_t verl_latex_of(span_t span);

// Appends bytes.
void verl_latex_add(latex_t *self, const char *text, size_t bytes);

// Replaces every `what` by `with`, from left to right, not looking at what was put in. what is not empty.
void verl_latex_replace(latex_t *self, const char *what, const char *with);

// Takes another text's content and leaves that one empty.
void verl_latex_take(latex_t *self, latex_t *other);

// Cuts the text to its bytes begin .. end - 1.
void verl_latex_cut(latex_t *self, size_t begin, size_t end);

// Bytes of the character that begins at `at`, at least 1 (at is inside); a stray byte is one of its own.
size_t verl_latex_character(const latex_t *self, size_t at);

#endif
