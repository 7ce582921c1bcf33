// ending.c: how a run is stopped, and what is written about it.
#include "runtime/director/director_impl.h"

void
verl_event(director_t *self, const char *event, json_t *fields)
{
    verl_record_event(self->record, event, fields);
}

static void
s_say(director_t *self, bool lost, const char *format, va_list arguments)
{
    char text[4000];
    const verl_observer_t *observer = &self->config->observer;
    void (*told)(void *, const char *) = lost && observer->lost ? observer->lost : observer->log;
    vsnprintf(text, sizeof text, format, arguments);
    verl_event(self, "note", json_pack("{s:o}", "text", verl_json_text(text)));
    if (told)
        told(observer->context, text);
}

void
verl_say(director_t *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    s_say(self, false, format, arguments);
    va_end(arguments);
}

void
verl_say_lost(director_t *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    s_say(self, true, format, arguments);
    va_end(arguments);
}

void
verl_stop(director_t *self)
{
    if (self->phase == PHASE_STOPPING)
        return;
    self->phase = PHASE_STOPPING;
    self->stopping_at = verl_now();
    for (party_t *party = self->parties; party; party = party->next)
        if (party->instance && party->instance->alive)
            verl_party_stop(self, party);
}

void
verl_director_fail(director_t *self, const char *format, ...)
{
    char text[3000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    verl_event(self, "failed", json_pack("{s:o}", "why", verl_json_text(text)));
    verl_error_set(&self->error, "%s", text);
    verl_stop(self);
}
