// reports.c: what an actor says to the director, on a channel that numbers and repeats like any other.
//
// A report is a msgpack array whose first item is a word; PROTOCOL.md lists them.
#include <string.h>
#include <unistd.h>
#include "runtime/actor/host_impl.h"
#include "runtime/base/clock.h"
#include "runtime/wire/pack.h"

static void
s_send(host_t *host, verl_buffer_t *body, int64_t batch, bool flush)
{
    verl_message_t message = { .revision = host->plan ? host->plan->revision : 0, .batch = batch, .parts = 1,
                               .time = verl_now(), .body = body->data, .body_size = body->size };
    if (!body->failed)
        verl_outbound_send(host->report, &message, NULL);
    if (flush)
        verl_outbound_flush(host->report);
    verl_buffer_done(body);
}

void
verl_report_hello(host_t *host)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 3);
    verl_pack_cstr(&body, "hello");
    verl_pack_int(&body, getpid());
    verl_pack_cstr(&body, VERL_VERSION);
    s_send(host, &body, -1, true);
}

void
verl_report_word(host_t *host, const char *word)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 1);
    verl_pack_cstr(&body, word);
    s_send(host, &body, -1, true);
}

void
verl_report_done(seat_t *seat, int64_t batch)
{
    verl_buffer_t body = { 0 };
    const verl_stage_t *stage = &seat->stage;
    int64_t spent[SEAT_STATES];
    pthread_mutex_lock(&seat->host->lock);
    memcpy(spent, seat->spent, sizeof spent);
    pthread_mutex_unlock(&seat->host->lock);
    verl_pack_array(&body, 9);
    verl_pack_cstr(&body, "done");
    verl_pack_int(&body, seat->index);
    verl_pack_int(&body, batch);
    verl_pack_bool(&body, seat->skipped);
    verl_pack_int(&body, seat->batch_busy);
    verl_pack_int(&body, seat->handoff);
    verl_pack_int(&body, stage->version);
    verl_pack_array(&body, SEAT_STATES);
    for (int i = 0; i < SEAT_STATES; i++)
        verl_pack_int(&body, spent[i]);
    verl_pack_array(&body, (uint32_t) stage->metrics_count);
    for (int i = 0; i < stage->metrics_count; i++) {
        verl_pack_array(&body, 3);
        verl_pack_cstr(&body, stage->metrics[i].name);
        verl_pack_real(&body, stage->metrics[i].value);
        verl_pack_real(&body, stage->metrics[i].weight);
    }
    s_send(seat->host, &body, batch, verl_seat_is_sink(seat, batch));
}

void
verl_report_failed(host_t *host, const seat_t *seat, int64_t batch, const char *text)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 4);
    verl_pack_cstr(&body, "failed");
    verl_pack_int(&body, seat ? seat->index : -1);
    verl_pack_int(&body, batch);
    verl_pack_cstr(&body, text);
    s_send(host, &body, batch, true);
}

void
verl_report_saved(host_t *host, int64_t step)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, "saved");
    verl_pack_int(&body, step);
    s_send(host, &body, step, true);
}

void
verl_report_state(host_t *host, verl_buffer_t *body)
{
    pthread_mutex_lock(&host->lock);
    const seat_t *seat = host->running;
    bool task = !seat && host->task != VERL_TASK_NONE;
    verl_pack_array(body, 5);
    verl_pack_int(body, seat ? seat->index : host->task);
    verl_pack_int(body, seat ? seat->next : task ? host->task_batch : -1);
    verl_pack_int(body, seat ? verl_now() - seat->started : task ? verl_now() - host->task_since : 0);
    verl_pack_real(body, seat ? atomic_load(&((seat_t *) seat)->stage.progress) : 0);
    verl_pack_bool(body, host->prepared);
    pthread_mutex_unlock(&host->lock);
}

static void
s_on_sample(void *context, const verl_stage_t *stage, const char *prompt, const char *response, double score)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 6);
    verl_pack_cstr(&body, "sample");
    verl_pack_cstr(&body, stage->name);
    verl_pack_int(&body, stage->batch);
    verl_pack_cstr(&body, prompt);
    verl_pack_cstr(&body, response);
    verl_pack_real(&body, score);
    s_send(context, &body, stage->batch, false);
}

static void
s_on_log(void *context, const verl_stage_t *stage, const char *text)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 3);
    verl_pack_cstr(&body, "log");
    verl_pack_cstr(&body, stage->name);
    verl_pack_cstr(&body, text);
    s_send(context, &body, stage->batch, true);
}

const verl_reporter_t verl_host_reporter = { .sample = s_on_sample, .log = s_on_log };
