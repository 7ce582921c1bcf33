// nearest.h: the known name that a mistyped one was probably meant to be.
#ifndef VERL_TOPOLOGY_NEAREST_H
#define VERL_TOPOLOGY_NEAREST_H

// Edits (insert, delete, replace, swap of neighbours) that turn one name into the other; dashes and underscores are
// the same, and so are capitals. Names longer than 63 bytes are compared by their first 63.
int verl_edit_distance(const char *a, const char *b);

typedef struct verl_nearest {
    const char *name; // asked for
    const char *best; // nearest so far, NULL: none near enough
    int distance;
} verl_nearest_t;

// Offer every known name, then look at best. A name is near where a third of its letters, and at least one, may differ;
// where none is, also one that it is the beginning of, or of a word of which: save, inflight of max_in_flight.
void verl_nearest_init(verl_nearest_t *nearest, const char *name);
void verl_nearest_offer(verl_nearest_t *nearest, const char *known);

// Equal but for dashes and underscores?
int verl_same_name(const char *a, const char *b);
#endif
