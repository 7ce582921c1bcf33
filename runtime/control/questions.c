// questions.c: open questions and their answers: who asked, under which id, and the last answer where it still waits
// for room. Gone clients are found by sending: an open question gets an empty answer a second ({"id", "more"}).
#include "runtime/control/server_impl.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include "runtime/base/clock.h"
#include "runtime/base/json.h"

#define PROBE_NS        VERL_S              // an open question hears of us that often

// --- questions ----------------------------------------------------------------------------------------------------

question_t *
verl_question_find(const verl_control_t *self, uint64_t token)
{
    for (question_t *question = self->questions; question; question = question->next)
        if (question->token == token)
            return question;
    return NULL;
}

question_t *
verl_question_open(verl_control_t *self, int socket, zmq_msg_t *peer, const json_t *id)
{
    question_t *question = calloc(1, sizeof *question);
    if (!question)
        return NULL;
    question->token = ++self->last_token;
    question->socket = socket;
    question->id = id ? json_deep_copy(id) : NULL;
    question->told_at = verl_now();
    question->peer_size = zmq_msg_size(peer);
    memcpy(question->peer, zmq_msg_data(peer), question->peer_size);
    question->next = self->questions;
    self->questions = question;
    self->questions_count++;
    return question;
}

static void
s_question_free(question_t *question)
{
    json_decref(question->id);
    free(question->last);
    free(question);
}

void
verl_question_forget(verl_control_t *self, question_t *question)
{
    question_t **link = &self->questions;
    while (*link != question)
        link = &(*link)->next;
    *link = question->next;
    self->questions_count--;
    s_question_free(question);
}

// --- sending ------------------------------------------------------------------------------------------------------

// More may have come while a socket was used, of which its descriptor tells nothing any more.
void
verl_control_look(verl_control_t *self, int socket)
{
    int events = 0;
    size_t size = sizeof events;
    if (zmq_getsockopt(self->sockets[socket], ZMQ_EVENTS, &events, &size) == 0 && events & ZMQ_POLLIN)
        eventfd_write(self->wake_fd, 1);
}

typedef enum { SENT, NO_ROOM, GONE } sent_t;

static sent_t
s_send(verl_control_t *self, question_t *question, const char *text)
{
    void *socket = self->sockets[question->socket];
    int sent = zmq_send(socket, question->peer, question->peer_size, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    if (sent >= 0)
        sent = zmq_send(socket, text, strlen(text), ZMQ_DONTWAIT);
    int why = sent < 0 ? zmq_errno() : 0;
    verl_control_look(self, question->socket);
    if (sent < 0 && why != EAGAIN && why != EINTR)
        question->gone = true;
    else if (sent >= 0)
        question->told_at = verl_now();
    return sent >= 0 ? SENT : question->gone ? GONE : NO_ROOM;
}

// Takes the answer.
static char *
s_write_answer(const question_t *question, json_t *answer, bool last)
{
    if (!answer)
        answer = json_object();
    json_object_set_new(answer, "id", question->id ? json_incref(question->id) : json_null());
    if (!last)
        json_object_set_new(answer, "more", json_true());
    else if (question->lost)
        json_object_set_new(answer, "lost", json_integer(question->lost));
    char *text = json_dumps(answer, JSON_COMPACT);
    json_decref(answer);
    return text;
}

void
verl_control_answer(verl_control_t *self, uint64_t token, json_t *answer, bool last)
{
    question_t *question = verl_question_find(self, token);
    if (!question || question->last || question->gone) {
        json_decref(answer);
        return;
    }
    char *text = s_write_answer(question, answer, last);
    sent_t sent = text ? s_send(self, question, text) : NO_ROOM;
    if (last && sent == NO_ROOM && text) {
        question->last = text;              // goes with a later step
        return;
    }
    free(text);
    if (last)
        verl_question_forget(self, question);
    else if (sent == NO_ROOM)
        question->lost++;
}

void
verl_control_refuse(verl_control_t *self, uint64_t token, const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    verl_control_answer(self, token, json_pack("{s:o}", "error", verl_json_text(text)), true);
}

bool
verl_control_alive(const verl_control_t *self, uint64_t token)
{
    const question_t *question = verl_question_find(self, token);
    return question && !question->last && !question->gone;
}

// Last answers that waited for room; a sign of life for who has heard nothing for a while; and who is gone.
void
verl_questions_tend(verl_control_t *self)
{
    int64_t now = verl_now();
    for (question_t *question = self->questions, *next; question; question = next) {
        next = question->next;
        if (question->last && s_send(self, question, question->last) == SENT) {
            verl_question_forget(self, question);
            continue;
        }
        if (!question->last && !question->gone && now - question->told_at >= PROBE_NS) {
            char *text = s_write_answer(question, NULL, false);
            if (text)
                s_send(self, question, text);
            free(text);
        }
        if (question->gone)
            verl_question_forget(self, question);
    }
}
