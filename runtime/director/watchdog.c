// watchdog.c: who died, and who does not answer or works on one thing for too long.
#include "runtime/director/director_impl.h"
#include <sys/wait.h>

#define HELLO_NS  (10 * VERL_S)             // for a process to begin and say so, …
#define CROWD_NS  (VERL_S / 10)             // … and so much more for each that begins beside it
#define LOADING_S 60.0                      // no timeout is shorter where an actor prepares or saves
#define PING_NS   (10 * VERL_S)
#define ASKED_NS  (5 * VERL_S)              // who asked how the run is will ask again

static const char *
s_how(const verl_death_t *death, char *text, size_t size)
{
    if (WIFSIGNALED(death->status))
        snprintf(text, size, "was killed by signal %d (SIG%s)", WTERMSIG(death->status),
                 sigabbrev_np(WTERMSIG(death->status)) ? sigabbrev_np(WTERMSIG(death->status)) : "?");
    else
        snprintf(text, size, "ended with exit code %d", WEXITSTATUS(death->status));
    return text;
}

// A program had nothing left to do but what it does at its end: the run's results are whole, and others may miss that.
static void
s_note_end(director_t *self, const party_t *party, const char *how, const verl_death_t *death)
{
    char label[300];
    const verl_plan_actor_t *actor = verl_party_actor(self, party);
    bool whole = !self->error.text[0] && !self->interrupted && !self->rollback;
    if (!whole || !death->status || !actor || !actor->kind || !actor->kind->external)
        return;
    verl_say_lost(self, "warning: actor `%s` %s at its end, after its last batch: what it does there (finish) may be "
                  "missing%s%s%.1800s", verl_party_label(party, label, sizeof label), how,
                  WIFSIGNALED(death->status) && WTERMSIG(death->status) == SIGKILL ? " (1 s is left for it)" : "", death->tail[0] ? "; its last words: " : "",
                  death->tail);
}

static void
s_on_death(director_t *self, party_t *party, const verl_death_t *death)
{
    char label[300], how[100], waiters[300], why[2600];
    verl_party_label(party, label, sizeof label);
    s_how(death, how, sizeof how);
    party->dead = true;
    verl_event(self, "ended", json_pack("{s:s, s:s, s:I}", "actor", label, "how", how, "peak_kb",
                                        (json_int_t) death->peak_kb));
    if (self->phase == PHASE_STOPPING)
        s_note_end(self, party, how, death);
    if (self->phase == PHASE_STOPPING || party->leaving)
        return;
    verl_waiters(self, party, waiters, sizeof waiters);
    if (party->instance->thread)
        snprintf(why, sizeof why, "actor `%s` could not go on: %s", label, death->tail);
    else
        snprintf(why, sizeof why, "actor `%s` %s%s; most memory %ld MB; %s%.1800s", label, how, waiters,
                 death->peak_kb / 1024, death->tail[0] ? "its last words: " : "it wrote nothing to ",
                 death->tail[0] ? death->tail : death->log);
    verl_lost(self, party, why);
}

void
verl_reap(director_t *self)
{
    verl_death_t death;
    verl_instance_t *instance;
    while ((instance = verl_node_reap(self->node, &death)))
        s_on_death(self, instance->tag, &death);
}

bool
verl_asked_lately(const director_t *self)
{
    return self->asked_at && verl_now() - self->asked_at < ASKED_NS;
}

// Often where somebody looks, or waits for the end, or where a short limit has to be kept: a mailbox is found silent
// within its liveness and eight tenths of it, a handler too slow within a quarter of its timeout.
int64_t
verl_ping_every(const director_t *self, const verl_plan_actor_t *actor)
{
    bool soon = self->config->watched || self->draining || verl_asked_lately(self);
    int64_t every = soon ? VERL_WATCHED_NS : PING_NS;
    double liveness = actor->liveness * 0.8e9, timeout = actor->timeout * 0.25e9;
    if (liveness > 0 && (int64_t) liveness < every)
        every = (int64_t) liveness;
    if (timeout > 0 && (int64_t) timeout < every)
        every = (int64_t) timeout;
    return every < 20 * VERL_MS ? 20 * VERL_MS : every;
}

// Somebody to be given up: its end is made sure of, and what follows is decided.
static void __attribute__((format(printf, 3, 4)))
s_give_up(director_t *self, party_t *party, const char *format, ...)
{
    char text[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    verl_lost(self, party, text);
}

// A process that does not even say hello.
static void
s_check_begin(director_t *self, party_t *party, const verl_plan_actor_t *actor, int64_t now)
{
    int crowd = 0;
    char label[300];
    for (const party_t *other = self->parties; other; other = other->next)
        crowd += !other->dead;
    double limit = (double) (HELLO_NS + CROWD_NS * crowd) / 1e9;
    limit = actor->liveness > limit ? actor->liveness : limit;
    if (actor->liveness > 0 && (double) (now - party->begun_at) / 1e9 > limit)
        s_give_up(self, party, "actor `%s` does not begin: its process %d has said nothing for %.0f s",
                  verl_party_label(party, label, sizeof label), (int) party->instance->pid, limit);
}

// What an actor does, as of its last answer: "stage `mid` of `mid#2` has worked on batch 20". NULL: nothing that is
// known.
static const char *
s_work(const director_t *self, const party_t *party, const char *label, char *text, size_t size)
{
    const revision_t *revision = verl_revision_find(self, party->running_revision);
    if (party->running == VERL_TASK_PREPARE)
        snprintf(text, size, "actor `%s` has been preparing", label);
    else if (party->running == VERL_TASK_SAVE)
        snprintf(text, size, "actor `%s` has been writing the checkpoint step-%" PRId64, label, party->running_batch);
    else if (party->running >= 0 && revision && party->running < revision->plan->stages_count)
        snprintf(text, size, "stage `%s` of `%s` has worked on batch %" PRId64,
                 revision->plan->stages[party->running].name, label, party->running_batch);
    else
        return NULL;
    return text;
}

// What an actor does takes too long.
static void
s_check_timeout(director_t *self, party_t *party, const verl_plan_actor_t *actor, int64_t now, const char *label,
                const char *waiters)
{
    char text[800];
    const char *work = s_work(self, party, label, text, sizeof text);
    if (!work)
        return;
    bool stage = party->running >= 0;
    const revision_t *revision = verl_revision_find(self, party->running_revision);
    double limit = stage ? revision->plan->stages[party->running].timeout : actor->timeout;
    if (limit <= 0)
        return;
    limit = !stage && limit < LOADING_S ? LOADING_S : limit;
    // What it works on is known as of its last answer. Only a mailbox that is silent for all that time, and may be
    // (liveness = 0), is taken to work on it still.
    bool silent = party->pinged_at > party->answered_at && (double) (now - party->pinged_at) / 1e9 > limit;
    double since = (double) ((silent ? now : party->told_at) - party->running_since) / 1e9;
    if (since > limit)
        s_give_up(self, party, "%s for more than %.15g s (timeout)%s", work, limit, waiters);
}

// One that holds an interpreter's lock cannot answer while it computes: inside a handler only the timeout judges it.
static double
s_patience(const party_t *party, const verl_plan_actor_t *actor)
{
    if (!party->holds_lock || actor->liveness <= 0)
        return actor->liveness;
    return actor->timeout <= 0 ? 0 : actor->timeout > actor->liveness ? actor->timeout : actor->liveness;
}

static void
s_check_party(director_t *self, party_t *party, int64_t now)
{
    const verl_plan_actor_t *actor = verl_party_actor(self, party);
    char label[300], waiters[300];
    if (!actor || !party->instance || !party->instance->alive || party->leaving)
        return;
    if (!party->hello) {
        s_check_begin(self, party, actor, now);
        return;
    }
    if (party->pinged_at <= party->answered_at && now - party->pinged_at >= verl_ping_every(self, actor)) {
        party->pinged_at = now;
        verl_endpoint_ping(self->endpoint, party->incarnation, now);
        return;
    }
    verl_waiters(self, party, waiters, sizeof waiters);
    verl_party_label(party, label, sizeof label);
    double patience = s_patience(party, actor);
    if (patience > 0 && party->pinged_at > party->answered_at && (double) (now - party->pinged_at) / 1e9 > patience)
        s_give_up(self, party, "actor `%s` does not answer: its mailbox has been silent for %.15g s (liveness)%s",
                  label, patience, waiters);
    else
        s_check_timeout(self, party, actor, now, label, waiters);
}

void
verl_check_parties(director_t *self)
{
    int64_t now = verl_now();
    bool slept = self->stepped_at && now - self->stepped_at > VERL_IDLE_MS * VERL_MS + VERL_S;
    for (party_t *party = self->parties, *next; party && self->phase != PHASE_STOPPING; party = next) {
        next = party->next;
        if (slept)                          // this process was stopped or starved: nobody else is to blame
            party->begun_at = party->pinged_at = party->answered_at = now;
        s_check_party(self, party, now);
    }
    self->stepped_at = now;
}

const char *
verl_under_way(const director_t *self, char *text, size_t size)
{
    size_t length = 0;
    char label[300], waiters[300], room[800];
    text[0] = 0;
    for (const party_t *party = self->parties; party && length < size; party = party->next) {
        const char *work = party->dead ? NULL
                                       : s_work(self, party, verl_party_label(party, label, sizeof label), room,
                                                sizeof room);
        if (!work)
            continue;
        verl_waiters(self, party, waiters, sizeof waiters);
        length += (size_t) snprintf(text + length, size - length, "%s%s for %.0f s%s", length ? "; " : ": ", work,
                                    (double) (verl_now() - party->running_since) / 1e9, waiters);
    }
    return text;
}
