// nearest.c: see nearest.h. The distance is the optimal string alignment: Levenshtein's, with swapped neighbours as one
// edit.
#include "runtime/topology/nearest.h"
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define S_MAX  63
#define S_PART 3 // letters that make a part of a name

static int
s_fold(const char *text, char *out)
{
    int length = 0;
    for (; text[length] && length < S_MAX; length++)
        out[length] = text[length] == '-' ? '_' : (char) tolower((unsigned char) text[length]);
    return length;
}

static int
s_min(int a, int b)
{
    return a < b ? a : b;
}

int
verl_edit_distance(const char *a, const char *b)
{
    char s[S_MAX], t[S_MAX];
    int m = s_fold(a, s), n = s_fold(b, t);
    int row[3][S_MAX + 1];
    for (int j = 0; j <= n; j++)
        row[0][j] = j;
    for (int i = 1; i <= m; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *older = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= n; j++) {
            now[j] = s_min(s_min(last[j] + 1, now[j - 1] + 1), last[j - 1] + (s[i - 1] != t[j - 1]));
            if (i > 1 && j > 1 && s[i - 1] == t[j - 2] && s[i - 2] == t[j - 1])
                now[j] = s_min(now[j], older[j - 2] + 1);
        }
    }
    return row[m % 3][n];
}

void
verl_nearest_init(verl_nearest_t *nearest, const char *name)
{
    *nearest = (verl_nearest_t){ .name = name };
}

// Do letters begin with others, underscores aside?
static bool
s_begins(const char *text, int size, const char *part, int length)
{
    int at = 0;
    for (int i = 0; i < length; i++) {
        if (part[i] == '_')
            continue;
        while (at < size && text[at] == '_')
            at++;
        if (at == size || text[at++] != part[i])
            return false;
    }
    return true;
}

// Is a name the beginning of one that is known, or of one of its words?
static bool
s_is_part(const char *name, const char *known)
{
    char part[S_MAX], whole[S_MAX];
    int length = s_fold(name, part), size = s_fold(known, whole);
    for (int i = 0; length >= S_PART && i < size; i++)
        if ((i == 0 || whole[i - 1] == '_') && s_begins(whole + i, size - i, part, length))
            return true;
    return false;
}

void
verl_nearest_offer(verl_nearest_t *nearest, const char *known)
{
    int distance = verl_edit_distance(nearest->name, known);
    int bound = (int) strlen(nearest->name) / 3;
    if (distance > (bound < 1 ? 1 : bound)) {
        if (!s_is_part(nearest->name, known))
            return;
        distance = S_MAX; // a mistyped name comes before, and of these the first
    }
    if (!nearest->best || distance < nearest->distance) {
        nearest->best = known;
        nearest->distance = distance;
    }
}

int
verl_same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
            return 0;
    return *a == *b;
}
