// spy_follow_names.c: see spy_follow_names.h.
#include "tools/spy_follow_names.h"
#include <ctype.h>
#include <string.h>
#include "runtime/topology/nearest.h"

// Is `name` an actor's name, with or without a replica (".2") and an incarnation ("#7")?
static bool
s_is_actor(const char *name, const char *actor)
{
    size_t length = strlen(actor);
    if (strncmp(name, actor, length) != 0)
        return false;
    name += length;
    if (*name == '.' && isdigit((unsigned char) name[1]))
        name += 1 + strspn(name + 1, "0123456789");
    return !*name || *name == '#';
}

static bool
s_offer(const json_t *list, bool actors, const char *name, verl_nearest_t *nearest)
{
    size_t index;
    const json_t *item;
    json_array_foreach((json_t *) (uintptr_t) list, index, item) {
        const char *known = json_string_value(json_object_get(item, "name"));
        if (known && (actors ? s_is_actor(name, known) : strcmp(name, known) == 0))
            return true;
        if (known)
            verl_nearest_offer(nearest, known);
    }
    return false;
}

typedef enum { OF_ACTORS, OF_STAGES, OF_BOTH } of_t;

static int
s_remark(const json_t *status, const verl_filter_names_t *names, of_t of, const char *program, FILE *out)
{
    static const char *const what[] = { "actor", "stage", "actor or stage" };
    const json_t *actors = json_object_get(status, "actors"), *stages = json_object_get(status, "stages");
    int unknown = 0;
    for (int i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        verl_nearest_t nearest;
        verl_nearest_init(&nearest, name);
        if (!*name || (of != OF_STAGES && (strcmp(name, "director") == 0 || strcmp(name, "director#1") == 0 ||
                                           s_offer(actors, true, name, &nearest))) ||
            (of != OF_ACTORS && s_offer(stages, false, name, &nearest)))
            continue;
        unknown++;
        fprintf(out, "%s: the run has no %s '%s'%s%s%s\n", program, what[of], name,
                nearest.best ? "; did you mean '" : "", nearest.best ? nearest.best : "", nearest.best ? "'?" : "");
    }
    return unknown;
}

int
verl_spy_filter_unknown(const json_t *status, const verl_filter_t *filter, const char *program, FILE *out)
{
    return s_remark(status, &filter->actors, OF_ACTORS, program, out) +
           s_remark(status, &filter->stages, OF_STAGES, program, out) +
           s_remark(status, &filter->makers, OF_BOTH, program, out) +
           s_remark(status, &filter->readers, OF_BOTH, program, out);
}

void
verl_spy_filter_remark(verl_client_t *client, const verl_filter_t *filter, const char *program, FILE *out)
{
    if (!filter->actors.count && !filter->stages.count && !filter->makers.count)
        return;
    json_t *status = verl_client_ask(client, json_pack("{s:s}", "do", "status"), 1000, NULL);
    if (json_array_size(json_object_get(status, "actors")) > 0)
        verl_spy_filter_unknown(status, filter, program, out);
    json_decref(status);
}
