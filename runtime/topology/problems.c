// problems.c: see problems.h.
#include "runtime/topology/problems.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S_MAX 500 // more would help nobody

void
verl_topology_errors_done(verl_topology_errors_t *errors)
{
    if (!errors)
        return;
    for (int i = 0; i < errors->count; i++)
        free(errors->items[i]);
    free(errors->items);
    *errors = (verl_topology_errors_t){ 0 };
}

static int
s_compare_at(const verl_at_t *a, const verl_at_t *b)
{
    if (a->origin != b->origin)
        return a->origin < b->origin ? -1 : 1;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return (a->column > b->column) - (a->column < b->column);
}

bool
verl_problem_at(const verl_problems_t *problems, verl_at_t at)
{
    for (int i = 0; i < problems->count; i++)
        if (s_compare_at(&problems->items[i].at, &at) == 0)
            return true;
    return false;
}

// Control characters become \xNN, so that no file can write to a terminal; UTF-8 stays.
static char *
s_escape(verl_pool_t *pool, const char *text)
{
    size_t length = strlen(text);
    char *out = verl_pool_alloc(pool, length * 4 + 1), *to = out;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char) text[i];
        if (c < 0x20 || c == 0x7f)
            to += snprintf(to, 5, "\\x%02x", c);
        else
            *to++ = (char) c;
    }
    return out;
}

void
verl_problem_add(verl_problems_t *problems, verl_at_t at, const char *format, ...)
{
    if (problems->count >= S_MAX)
        return;
    va_list arguments;
    va_start(arguments, format);
    char *text = s_escape(problems->pool, verl_pool_vprint(problems->pool, format, arguments));
    va_end(arguments);
    for (int i = 0; i < problems->count; i++)
        if (s_compare_at(&problems->items[i].at, &at) == 0 && strcmp(problems->items[i].text, text) == 0)
            return;
    problems->items = verl_pool_grow(problems->pool, problems->items, problems->count, sizeof *problems->items);
    problems->items[problems->count++] = (verl_problem_t){ .at = at, .text = text };
}

char *
verl_problem_place(verl_at_t at, const verl_sources_t *sources)
{
    char *place = NULL;
    int rc;
    const char *file = at.origin == -2 && sources->fragment ? sources->fragment : sources->file;
    if (at.origin == -1 && sources->fragment)  // no file has it as it is: its lines say nothing
        rc = asprintf(&place, "the running topology");
    else if (at.origin >= 0 && at.origin < sources->sets_count)
        rc = asprintf(&place, "--set %s", sources->sets[at.origin]);
    else if (at.line == 0)
        rc = asprintf(&place, "%s", file);
    else
        rc = asprintf(&place, "%s:%d:%d", file, at.line, at.column);
    for (char *c = rc < 0 ? NULL : place; c && *c; c++)
        if ((unsigned char) *c < 0x20 || *c == 0x7f)
            *c = '?';
    return rc < 0 ? NULL : place;
}

static char *
s_line(const verl_problem_t *problem, const verl_sources_t *sources)
{
    char *line = NULL, *place = verl_problem_place(problem->at, sources);
    int rc = place ? asprintf(&line, "%s: %s", place, problem->text) : -1;
    free(place);
    return rc < 0 ? NULL : line;
}

static int
s_compare(const void *a, const void *b)
{
    const verl_problem_t *p = *(const verl_problem_t *const *) a, *q = *(const verl_problem_t *const *) b;
    int order = s_compare_at(&p->at, &q->at);
    return order ? order : (p > q) - (p < q);
}

void
verl_problems_report(const verl_problems_t *problems, const verl_sources_t *sources, verl_topology_errors_t *ret_errors)
{
    *ret_errors = (verl_topology_errors_t){ 0 };
    size_t count = (size_t) problems->count;
    const verl_problem_t **sorted = calloc(count + 1, sizeof(verl_problem_t *));
    ret_errors->items = calloc(count + 1, sizeof *ret_errors->items);
    if (sorted && ret_errors->items) {
        for (size_t i = 0; i < count; i++)
            sorted[i] = &problems->items[i];
        qsort(sorted, count, sizeof(verl_problem_t *), s_compare);
        for (size_t i = 0; i < count; i++) {
            char *line = s_line(sorted[i], sources);
            if (line)
                ret_errors->items[ret_errors->count++] = line;
        }
    }
    free(sorted);
}
