// reports.c: what an actor says to the director, on a channel that numbers and repeats like any other.
//
// What the director waits for is never lost in silence; what is for people (samples, logs) may be, without memory.
// A report is a msgpack array whose first item is a word; PROTOCOL.md lists them.
#include <string.h>
#include <unistd.h>
#include "runtime/actor/host_impl.h"
#include "runtime/base/clock.h"
#include "runtime/wire/pack.h"

// tag: returned when the director has acknowledged it. -1 without memory: the tag is the caller's still.
static int
s_send(host_t *host, verl_buffer_t *body, int64_t revision, int64_t batch, bool flush, output_t *tag)
{
    verl_message_t message = { .revision = revision, .batch = batch, .parts = 1, .time = verl_now(),
                               .body = body->data, .body_size = body->size };
    int failed = body->failed || verl_outbound_send(host->report, &message, tag) ? -1 : 0;
    if (flush)
        verl_outbound_flush(host->report);
    verl_buffer_done(body);
    return failed;
}

// For what the director waits for. Without memory the actor works no more, and says so as soon as it can. Under no lock.
static int
s_tell(host_t *host, verl_buffer_t *body, int64_t revision, int64_t batch, bool flush, output_t *tag)
{
    if (s_send(host, body, revision, batch, flush, tag) == 0)
        return 0;
    pthread_mutex_lock(&host->lock);
    host->failed = true;
    pthread_mutex_unlock(&host->lock);
    if (!atomic_exchange(&host->unheard, true))
        verl_endpoint_wake(host->endpoint);
    return -1;
}

int
verl_report_hello(host_t *host)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 3);
    verl_pack_cstr(&body, "hello");
    verl_pack_int(&body, getpid());
    verl_pack_cstr(&body, VERL_VERSION);
    return s_send(host, &body, 0, -1, true, NULL);
}

void
verl_report_word(host_t *host, const char *word, int64_t revision)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 1);
    verl_pack_cstr(&body, word);
    s_tell(host, &body, revision, -1, true, NULL);
}

int
verl_report_done(seat_t *seat, int64_t batch, ack_t *ack)
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
    verl_pack_array(&body, SEAT_STATES + SEAT_BYTES);
    for (int i = 0; i < SEAT_STATES; i++)
        verl_pack_int(&body, spent[i]);
    for (int i = 0; i < SEAT_BYTES; i++)
        verl_pack_int(&body, seat->bytes[i]);
    verl_pack_array(&body, (uint32_t) stage->metrics_count);
    for (int i = 0; i < stage->metrics_count; i++) {
        verl_pack_array(&body, 3);
        verl_pack_cstr(&body, stage->metrics[i].name);
        verl_pack_real(&body, stage->metrics[i].value);
        verl_pack_real(&body, stage->metrics[i].weight);
    }
    output_t *tag = ack ? verl_output_new(seat->host, seat, ack, NULL) : NULL;
    body.failed |= ack && !tag;
    return s_tell(seat->host, &body, seat->world->plan->revision, batch, verl_seat_is_sink(seat, batch), tag);
}

static int
s_failed(host_t *host, int64_t revision, int stage, int64_t batch, const char *text)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 4);
    verl_pack_cstr(&body, "failed");
    verl_pack_int(&body, stage);
    verl_pack_int(&body, batch);
    verl_pack_cstr(&body, text);
    return s_tell(host, &body, revision, batch, true, NULL);
}

bool
verl_report_unheard(host_t *host)
{
    if (!atomic_load(&host->unheard))
        return false;
    if (s_failed(host, 0, -1, -1, "out of memory: a report to the director was lost") == 0)
        atomic_store(&host->unheard, false);
    return atomic_load(&host->unheard);
}

void
verl_report_failed(host_t *host, const seat_t *seat, int64_t batch, const char *text)
{
    s_failed(host, seat ? seat->world->plan->revision : 0, seat ? seat->index : -1, batch, text);
}

void
verl_report_failed_world(world_t *world, const seat_t *seat, const char *text)
{
    s_failed(world->host, world->plan->revision, seat->index, -1, text);
}

void
verl_report_saved(host_t *host, int64_t step)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, "saved");
    verl_pack_int(&body, step);
    s_tell(host, &body, 0, step, true, NULL);
}

// Messages that all readers of a stage would take of it now; -1: it sends to none.
static int64_t
s_credit(const seat_t *seat)
{
    int64_t least = -1;
    for (int i = 0; i < seat->out_count; i++)
        for (int64_t j = 0; seat->out[i].channels && j < seat->out[i].replicas; j++) {
            int64_t credit = seat->out[i].channels[j] ? verl_outbound_credit(seat->out[i].channels[j]) : -1;
            least = credit >= 0 && (least < 0 || credit < least) ? credit : least;
        }
    return least;
}

static void
s_pack_seats(const host_t *host, verl_buffer_t *body)
{
    uint32_t count = 0;
    for (const world_t *world = host->worlds; world; world = world->next)
        count += (uint32_t) world->seats_count;
    verl_pack_array(body, count);
    for (const world_t *world = host->worlds; world; world = world->next)
        for (int i = 0; i < world->seats_count; i++) {
            verl_pack_array(body, 4);
            verl_pack_int(body, world->plan->revision);
            verl_pack_int(body, world->seats[i].index);
            verl_pack_int(body, world->seats[i].state);
            verl_pack_int(body, s_credit(&world->seats[i]));
        }
}

void
verl_report_state(host_t *host, verl_buffer_t *body)
{
    pthread_mutex_lock(&host->lock);
    const seat_t *seat = host->running;
    bool task = !seat && host->task != VERL_TASK_NONE;
    verl_pack_array(body, 8);
    verl_pack_int(body, seat ? seat->index : host->task);
    verl_pack_int(body, seat ? seat->next : task ? host->task_batch : -1);
    verl_pack_int(body, seat ? verl_now() - seat->started : task ? verl_now() - host->task_since : 0);
    verl_pack_real(body, seat ? atomic_load(&((seat_t *) seat)->stage.progress) : 0);
    verl_pack_bool(body, host->prepared);
    verl_pack_int(body, seat ? seat->world->plan->revision : 0);
    verl_pack_bool(body, host->paused);
    s_pack_seats(host, body);
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
    s_send(context, &body, 0, stage->batch, false, NULL);
}

static void
s_log(host_t *host, const char *who, int64_t batch, const char *text)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 3);
    verl_pack_cstr(&body, "log");
    verl_pack_cstr(&body, who);
    verl_pack_cstr(&body, text);
    s_send(host, &body, 0, batch, true, NULL);
}

void
verl_report_log(host_t *host, const char *text)
{
    s_log(host, host->config.actor, -1, text);
}

static void
s_on_log(void *context, const verl_stage_t *stage, const char *text)
{
    s_log(context, stage->name, stage->batch, text);
}

static void
s_on_loaded(void *context, const verl_stage_t *stage, const char *what, double seconds)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 5);
    verl_pack_cstr(&body, "loaded");
    verl_pack_cstr(&body, stage->name);
    verl_pack_int(&body, stage->batch);
    verl_pack_cstr(&body, what);
    verl_pack_real(&body, seconds);
    s_send(context, &body, 0, stage->batch, false, NULL);
}

const verl_reporter_t verl_host_reporter = { .sample = s_on_sample, .log = s_on_log, .loaded = s_on_loaded };
