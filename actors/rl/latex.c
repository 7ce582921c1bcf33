// latex.c: small edits of LaTeX text; see latex.h.
#include <stdlib.h>

#include "actors/rl/latex.h"

void
verl_latex_add(latex_t *self, const char *text, size_t bytes)
{
    if (self->failed)
        return;
    if (self->bytes + bytes + 1 > self->room) {
        size_t room = (self->bytes + bytes + 1) * 2;
        char *larger = realloc(self->text, room);
        if (!larger) {
            self->failed = true;
            return;
        }
        self->text = larger;
        self->room = room;
    }
    memcpy(self->text + self->bytes, text, bytes);
    self->bytes += bytes;
    self->text[self->bytes] = 0;
}

latex_t
verl_latex_of(span_t span)
{
    latex_t self = { 0 };
    verl_latex_add(&self, span.at, span.bytes);
    return self;
}

void
verl_latex_take(latex_t *self, latex_t *other)
{
    bool failed = self->failed || other->failed;
    free(self->text);
    *self = *other;
    self->failed = failed;
    *other = (latex_t){ 0 };
}

void
verl_latex_replace(latex_t *self, const char *what, const char *with)
{
    size_t bytes = strlen(what), with_bytes = strlen(with), from = 0;
    latex_t made = { 0 };
    if (self->failed || !memmem(self->text, self->bytes, what, bytes))
        return;
    verl_latex_add(&made, "", 0);
    for (;;) {
        const char *next = memmem(self->text + from, self->bytes - from, what, bytes);
        size_t end = next ? (size_t) (next - self->text) : self->bytes;
        verl_latex_add(&made, self->text + from, end - from);
        if (!next)
            break;
        verl_latex_add(&made, with, with_bytes);
        from = end + bytes;
    }
    verl_latex_take(self, &made);
}

void
verl_latex_cut(latex_t *self, size_t begin, size_t end)
{
    if (self->failed)
        return;
    memmove(self->text, self->text + begin, end - begin);
    self->bytes = end - begin;
    self->text[self->bytes] = 0;
}

size_t
verl_latex_character(const latex_t *self, size_t at)
{
    unsigned char lead = (unsigned char) self->text[at];
    size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    for (size_t i = 1; i < wanted; i++)
        if (at + i >= self->bytes || ((unsigned char) self->text[at + i] & 0xC0) != 0x80)
            return 1;
    return wanted;
}
