// spy_replay_talk.c: what the director and the peers of a replayed actor say and hear.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/clock.h"
#include "runtime/observe/filter.h"
#include "runtime/wire/pack.h"
#include "tools/spy_replay_impl.h"

// --- the director's side ------------------------------------------------------------------------------------------

static void
s_order(play_t *play, verl_buffer_t *body)
{
    verl_message_t message = { .revision = play->plan->revision, .batch = -1, .parts = 1, .time = verl_now(),
                               .body = body->data, .body_size = body->size };
    if (body->failed || verl_outbound_send(play->control, &message, NULL))
        verl_error_set(&play->error, "out of memory");
    verl_outbound_flush(play->control);
    verl_buffer_done(body);
}

static void
s_order_trace(play_t *play)
{
    verl_buffer_t body = { 0 };
    verl_filter_t filter;
    verl_filter_init(&filter);
    filter.kinds = 1u << VERL_TRACE_DATA | 1u << VERL_TRACE_WEIGHTS;
    filter.stats = true;
    filter.values = play->to->view->values ? VERL_VALUES_HEAD : VERL_VALUES_NONE;
    verl_pack_array(&body, 4);
    verl_pack_cstr(&body, "trace");
    verl_pack_int(&body, 1);
    verl_pack_cstr(&body, play->address);
    verl_filter_write(&body, &filter);
    s_order(play, &body);
}

static void
s_order_table(play_t *play)
{
    verl_buffer_t body = { 0 };
    size_t size = 0;
    char *table = verl_plan_encode(play->plan, &size);
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, "table");
    if (table)
        verl_pack_bin(&body, table, size);
    body.failed |= !table;
    free(table);
    s_order(play, &body);
}

static void
s_order_peers(play_t *play)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, "peers");
    verl_pack_array(&body, (uint32_t) play->peers_count + 1);
    for (int i = -1; i < play->peers_count; i++) {
        verl_pack_array(&body, 3);
        verl_pack_uint(&body, i < 0 ? ACTOR : play->peers[i].incarnation);
        verl_pack_cstr(&body, i < 0 ? play->plan->actors[play->actor].name : play->peers[i].actor);
        verl_pack_int(&body, 0);
    }
    s_order(play, &body);
}

// In force from the first batch that was recorded for it; a source may make as many as were recorded.
static void
s_order_begin(play_t *play)
{
    verl_buffer_t begin = { 0 }, permit = { 0 };
    verl_pack_array(&begin, 3);
    verl_pack_cstr(&begin, "begin");
    verl_pack_int(&begin, play->feed.first);
    verl_pack_array(&begin, (uint32_t) play->plan->stages_count);
    for (int i = 0; i < play->plan->stages_count; i++)
        verl_pack_int(&begin, 0);
    s_order(play, &begin);
    verl_pack_array(&permit, 2);
    verl_pack_cstr(&permit, "permit");
    verl_pack_int(&permit, play->feed.last);
    s_order(play, &permit);
}

void
verl_spy_play_stop(play_t *play)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, "stop");
    verl_pack_int(&body, 0);
    s_order(play, &body);
}

static int
s_on_failed(play_t *play, verl_reader_t *reader, verl_error_t *error)
{
    int64_t stage, batch;
    char text[1024];
    if (verl_read_int(reader, &stage) || verl_read_int(reader, &batch) || verl_read_cstr(reader, text, sizeof text))
        return verl_error_set(error, "a report of a failure is malformed");
    return verl_error_set(&play->error, "%s (batch %" PRId64 ")", text, batch), 0;
}

static int
s_on_report(void *context, verl_inbound_t *inbound, const verl_message_t *message, verl_error_t *error)
{
    play_t *play = context;
    verl_reader_t reader;
    uint32_t fields;
    char word[32];
    verl_inbound_taken(inbound, 1);
    verl_inbound_done(inbound, 1);
    verl_reader_init(&reader, message->body, message->body_size);
    if (verl_read_array(&reader, &fields) || verl_read_cstr(&reader, word, sizeof word))
        return verl_error_set(error, "a report is malformed");
    play->progress_at = verl_now();
    if (strcmp(word, "hello") == 0) {
        s_order_trace(play);
        s_order_table(play);
        s_order_peers(play);
    } else if (strcmp(word, "wired") == 0 && !play->wired) {
        play->wired = true;
        s_order_begin(play);
    } else if (strcmp(word, "failed") == 0) {
        return s_on_failed(play, &reader, error);
    }
    return 0;
}

static void
s_on_tag(void *context, void *tag)
{
    play_t *play = context;
    if (tag) {
        play->done++;
        play->progress_at = verl_now();
    }
}

static void
s_on_malformed(void *context, const char *reason)
{
    play_t *play = context;
    verl_error_set(&play->error, "%s", reason);
}

int
verl_spy_play_director(play_t *play)
{
    static const verl_endpoint_handlers_t handlers = { .message = s_on_report, .done = s_on_tag,
                                                       .malformed = s_on_malformed };
    char address[VERL_ADDRESS_BYTES];
    verl_address(address, play->run_id, VERL_DIRECTOR);
    play->director = verl_endpoint_new(play->zmq, VERL_DIRECTOR, address, &handlers, play, &play->error);
    verl_address(address, play->run_id, ACTOR);
    if (!play->director || verl_endpoint_connect(play->director, ACTOR, address, &play->error))
        return -1;
    play->control = verl_outbound_open(play->director, ACTOR, VERL_EDGE_CONTROL, CONTROL);
    if (!play->control || !verl_inbound_open(play->director, ACTOR, VERL_EDGE_REPORT, CONTROL, NULL))
        return verl_error_set(&play->error, "out of memory");
    return 0;
}

// --- the peers' side ----------------------------------------------------------------------------------------------

static int
s_on_given(void *context, verl_inbound_t *inbound, const verl_message_t *message, verl_error_t *error)
{
    play_t *play = context;
    (void) message;
    (void) error;
    verl_inbound_taken(inbound, 1);
    verl_inbound_done(inbound, 1);
    play->progress_at = verl_now();
    return 0;
}

static int
s_open_peer(play_t *play, int actor)
{
    static const verl_endpoint_handlers_t handlers = { .message = s_on_given, .done = s_on_tag,
                                                       .malformed = s_on_malformed };
    peer_t *peer = &play->peers[play->peers_count];
    char address[VERL_ADDRESS_BYTES];
    *peer = (peer_t) { .actor = play->plan->actors[actor].name,
                       .incarnation = ACTOR + 1 + (uint64_t) play->peers_count };
    verl_address(address, play->run_id, peer->incarnation);
    peer->endpoint = verl_endpoint_new(play->zmq, peer->incarnation, address, &handlers, play, &play->error);
    if (!peer->endpoint)
        return -1;
    play->peers_count++;
    verl_address(address, play->run_id, ACTOR);
    if (verl_endpoint_connect(peer->endpoint, ACTOR, address, &play->error))
        return -1;
    for (int i = 0; i < play->plan->edges_count; i++) {
        const verl_plan_edge_t *edge = &play->plan->edges[i];
        if (play->plan->stages[edge->maker].actor == play->actor && play->plan->stages[edge->reader].actor == actor &&
            !verl_inbound_open(peer->endpoint, ACTOR, play->plan->revision << 20 | i, play->window, NULL))
            return verl_error_set(&play->error, "out of memory");
    }
    return 0;
}

int
verl_spy_play_peers(play_t *play)
{
    play->peers = calloc((size_t) play->plan->actors_count, sizeof *play->peers);
    if (!play->peers)
        return verl_error_set(&play->error, "out of memory");
    for (int i = 0; i < play->plan->actors_count; i++)
        if (i != play->actor && s_open_peer(play, i))
            return -1;
    return 0;
}

// What was recorded, as far as channels have credit it goes at once. Data is counted by its tag.
int
verl_spy_play_feed(play_t *play)
{
    for (size_t i = 0; i < play->feed.count; i++) {
        const verl_spy_morsel_t *morsel = &play->feed.items[i];
        const verl_plan_edge_t *edge = &play->plan->edges[morsel->edge];
        const char *maker = play->plan->actors[play->plan->stages[edge->maker].actor].name;
        int at = 0;
        while (at < play->peers_count && strcmp(play->peers[at].actor, maker) != 0)
            at++;
        if (at == play->peers_count)
            continue;                       // made by the actor itself
        verl_outbound_t *channel = verl_outbound_open(play->peers[at].endpoint, ACTOR,
                                                      play->plan->revision << 20 | morsel->edge, play->window);
        verl_message_t message = { .revision = play->plan->revision, .batch = morsel->batch, .part = morsel->part,
                                   .parts = morsel->parts, .time = verl_now(), .body = morsel->body,
                                   .body_size = morsel->size };
        if (!channel || verl_outbound_send(channel, &message, edge->weights ? NULL : play))
            return verl_error_set(&play->error, "out of memory");
        play->sent += !edge->weights;
    }
    for (int i = 0; i < play->peers_count; i++)
        verl_endpoint_flush(play->peers[i].endpoint);
    return 0;
}
