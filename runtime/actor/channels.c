// channels.c: who is alive, and the channels to and from them, revision by revision. M only.
//
// A list of peers is the whole truth about a revision. Who is no more in it is dead: what was kept for it goes to whoever
// has its place now, and what came from it and is not worked off is acknowledged to that successor.
#include <stdlib.h>
#include <string.h>
#include "runtime/actor/host_impl.h"
#include "runtime/mailbox/address.h"

typedef struct peer {
    uint64_t incarnation;
    char     actor[256];
    int64_t  replica;
} peer_t;

const char *
verl_host_label(const host_t *host, uint64_t incarnation)
{
    if (incarnation == host->config.incarnation)
        return host->label;
    if (incarnation == VERL_DIRECTOR)
        return VERL_TRACE_DIRECTOR;
    const label_t *label = atomic_load(&host->labels);
    while (label && label->incarnation != incarnation)
        label = label->next;
    return label ? label->text : "?";
}

static void
s_name(host_t *host, const verl_plan_t *plan, const peer_t *peer)
{
    int64_t replicas = 1;
    if (strcmp(verl_host_label(host, peer->incarnation), "?") != 0)
        return;
    for (int i = 0; i < plan->actors_count; i++)
        if (strcmp(plan->actors[i].name, peer->actor) == 0)
            replicas = plan->actors[i].replicas;
    size_t size = strlen(peer->actor) + 48;
    label_t *label = malloc(sizeof *label + size);
    if (!label)
        return;                             // its messages are traced under "?"
    label->incarnation = peer->incarnation;
    verl_trace_label(label->text, size, peer->actor, peer->replica, replicas, peer->incarnation);
    label->next = atomic_load(&host->labels);
    atomic_store(&host->labels, label);
}

static int
s_connect(host_t *host, uint64_t incarnation, verl_error_t *error)
{
    char address[VERL_ADDRESS_BYTES];
    verl_address(address, host->config.run_id, incarnation);
    return verl_endpoint_connect(host->endpoint, incarnation, address, error);
}

static void
s_close_in(edge_in_t *edge, verl_inbound_t **inbound_p)
{
    host_t *host = edge->seat->host;
    verl_inbound_t *gone = *inbound_p;
    if (!gone)
        return;
    pthread_mutex_lock(&host->lock);
    for (unit_t *unit = edge->first; unit; unit = unit->next)
        if (unit->inbound == gone)
            verl_unit_let_go(unit);
    verl_ack_forget(edge->seat, gone);
    pthread_mutex_unlock(&host->lock);
    verl_inbound_close(host->endpoint, gone);
    *inbound_p = NULL;
}

static int
s_open_in(edge_in_t *edge, verl_inbound_t **inbound_p, uint64_t incarnation, verl_error_t *error)
{
    host_t *host = edge->seat->host;
    const world_t *world = edge->seat->world;
    if (*inbound_p && verl_inbound_from(*inbound_p) == incarnation)
        return 0;
    s_close_in(edge, inbound_p);
    if (!incarnation)
        return 0;
    if (s_connect(host, incarnation, error))
        return -1;
    *inbound_p = verl_inbound_open(host->endpoint, incarnation, verl_edge_number(world, edge->edge),
                                   verl_plan_window(world->plan), edge);
    return *inbound_p ? 0 : verl_error_set(error, "out of memory");
}

// The place of a reader is another's, or nobody's, from now on. Whoever sends holds the host's lock meanwhile.
// Returns -1, and leaves it to the dead one, where the successor cannot be given what was kept.
static int
s_replace(host_t *host, verl_outbound_t **channel_p, verl_outbound_t *channel)
{
    pthread_mutex_lock(&host->lock);
    verl_outbound_t *old = *channel_p;
    int failed = old && channel ? verl_outbound_inherit(channel, old) : 0;
    if (!failed)
        *channel_p = channel;
    pthread_mutex_unlock(&host->lock);
    if (old && !failed)
        verl_outbound_close(old);
    return failed;
}

static int
s_open_out(edge_out_t *edge, world_t *world, int64_t replica, uint64_t incarnation, verl_error_t *error)
{
    host_t *host = world->host;
    verl_outbound_t *old = edge->channels[replica], *channel = NULL;
    if (old && verl_outbound_to(old) == incarnation)
        return 0;
    if (incarnation) {
        if (s_connect(host, incarnation, error))
            return -1;
        channel = verl_outbound_open(host->endpoint, incarnation, verl_edge_number(world, edge->edge),
                                     verl_plan_window(world->plan));
        if (!channel)
            return verl_error_set(error, "out of memory");
    }
    return s_replace(host, &edge->channels[replica], channel)
               ? verl_error_set(error, "out of memory for what stage %s has still to be given", edge->reader->name) : 0;
}

// Who has an actor's place, 0: nobody, or this very actor.
static uint64_t
s_who(const host_t *host, const peer_t *peers, uint32_t count, const char *actor, int64_t replica)
{
    for (uint32_t i = 0; i < count; i++)
        if (peers[i].replica == replica && strcmp(peers[i].actor, actor) == 0)
            return peers[i].incarnation == host->config.incarnation ? 0 : peers[i].incarnation;
    return 0;
}

static int
s_wire_seat(seat_t *seat, const peer_t *peers, uint32_t count, verl_error_t *error)
{
    world_t *world = seat->world;
    const verl_plan_t *plan = world->plan;
    for (int i = 0; i < seat->in_count; i++) {
        const verl_plan_actor_t *maker = &plan->actors[plan->stages[seat->in[i].plan->maker].actor];
        for (int64_t j = 0; j < maker->replicas; j++)
            if (s_open_in(&seat->in[i], &seat->in[i].inbound[j], s_who(seat->host, peers, count, maker->name, j),
                          error))
                return -1;
    }
    for (int i = 0; i < seat->out_count; i++) {
        const char *reader = plan->actors[seat->out[i].reader->actor].name;
        for (int64_t j = 0; j < seat->out[i].replicas; j++)
            if (s_open_out(&seat->out[i], world, j, s_who(seat->host, peers, count, reader, j), error))
                return -1;
    }
    return 0;
}

static int
s_read_peers(verl_reader_t *reader, peer_t **peers_p, uint32_t *ret_count, verl_error_t *error)
{
    uint32_t count, fields;
    if (verl_read_array(reader, &count) || count > (1u << 20) || !(*peers_p = calloc(count + 1, sizeof **peers_p)))
        return verl_error_set(error, "a list of peers is malformed");
    for (uint32_t i = 0; i < count; i++) {
        peer_t *peer = &(*peers_p)[i];
        if (verl_read_array(reader, &fields) || fields != 3 || verl_read_uint(reader, &peer->incarnation) ||
            verl_read_cstr(reader, peer->actor, sizeof peer->actor) || verl_read_int(reader, &peer->replica))
            return verl_error_set(error, "a list of peers is malformed");
    }
    *ret_count = count;
    return 0;
}

int
verl_host_take_peers(world_t *world, verl_reader_t *reader, verl_error_t *error)
{
    host_t *host = world->host;
    peer_t *peers = NULL;
    uint32_t count = 0;
    int failed = s_read_peers(reader, &peers, &count, error);
    for (uint32_t i = 0; i < count && !failed; i++)
        s_name(host, world->plan, &peers[i]);
    for (int i = 0; i < world->seats_count && !failed; i++)
        failed = s_wire_seat(&world->seats[i], peers, count, error);
    free(peers);
    if (failed)
        return -1;
    pthread_mutex_lock(&host->lock);
    // The first revision of an actor is prepared beside its wiring; a later one is ready when the kind has seen it.
    bool now = !host->prepared || world->begun;
    world->unwired += !now;
    pthread_mutex_unlock(&host->lock);
    if (now)
        verl_report_word(host, "wired", world->plan->revision);
    return 0;
}

void
verl_world_close(world_t *world)
{
    for (int i = 0; i < world->seats_count; i++) {
        seat_t *seat = &world->seats[i];
        for (int j = 0; j < seat->in_count; j++) {
            const verl_plan_t *plan = world->plan;
            int64_t replicas = plan->actors[plan->stages[seat->in[j].plan->maker].actor].replicas;
            for (int64_t k = 0; k < replicas; k++)
                s_close_in(&seat->in[j], &seat->in[j].inbound[k]);
        }
        for (int j = 0; j < seat->out_count; j++)
            for (int64_t k = 0; k < seat->out[j].replicas; k++)
                s_replace(world->host, &seat->out[j].channels[k], NULL);
    }
    pthread_mutex_lock(&world->host->lock);
    world->retired = true;
    pthread_cond_signal(&world->host->changed);
    pthread_mutex_unlock(&world->host->lock);
}
