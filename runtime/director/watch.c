// watch.c: what a run says about itself to whoever watches it.
#include "runtime/director/director_impl.h"

static json_t *
s_status(const director_t *self)
{
    const revision_t *newest = verl_revision_newest(self);
    json_t *actors = json_array();
    for (const party_t *party = self->parties; party; party = party->next)
        if (!party->dead)
            json_array_append_new(actors, json_pack("{s:s, s:I, s:I, s:i, s:b, s:b}", "name", party->name, "incarnation",
                                                    (json_int_t) party->incarnation, "replica",
                                                    (json_int_t) party->replica, "pid", (int) party->instance->pid,
                                                    "ready", party->ready, "paused", party->paused));
    return json_pack("{s:s, s:I, s:I, s:I, s:o}", "run", newest->plan->name, "revision",
                     (json_int_t) newest->plan->revision, "done", (json_int_t) verl_ledger_done(self->ledger), "granted",
                     (json_int_t) verl_ledger_granted(self->ledger), "actors", actors);
}

json_t *
verl_watch_answer(director_t *self, const char *word, const json_t *request, verl_error_t *error)
{
    (void) request;
    if (strcmp(word, "status") == 0)
        return s_status(self);
    verl_error_set(error, "\"%s\" is none of status, steps, trace, untrace", word);
    return NULL;
}
