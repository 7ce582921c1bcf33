// worlds.c: a revision in an actor: from its table to stages and edges, when it may run, and its end.
//
// An actor has one world for each revision that has batches alive. They share its state; a newer one opens when all stages
// of the older ones are over.
#include <stdlib.h>
#include <string.h>
#include "runtime/actor/host_impl.h"
#include "runtime/base/clock.h"

static int
s_find_actor(world_t *world, verl_error_t *error)
{
    verl_plan_t *plan = world->plan;
    const char *name = world->host->config.actor;
    for (int i = 0; i < plan->actors_count; i++) {
        if (strcmp(plan->actors[i].name, name) != 0)
            continue;
        world->actor = &plan->actors[i];
        world->actor_index = i;
        return verl_plan_bind(plan, i, error);
    }
    return verl_error_set(error, "the table has no actor %s", name);
}

// The handler's names of the columns that an edge carries.
static int
s_name_columns(edge_out_t *out, const verl_plan_stage_t *maker, verl_error_t *error)
{
    out->names = calloc((size_t) out->plan->columns_count + 1, sizeof *out->names);
    if (!out->names)
        return verl_error_set(error, "out of memory");
    for (int i = 0; i < out->plan->columns_count; i++) {
        for (int j = 0; j < maker->gives_count; j++)
            if (strcmp(maker->gives_as[j], out->plan->columns[i]) == 0)
                out->names[i] = maker->gives[j];
        if (!out->names[i])
            return verl_error_set(error, "the table says that stage %s gives column %s, which it does not", maker->name,
                                  out->plan->columns[i]);
    }
    return 0;
}

static int
s_edge_in(seat_t *seat, int edge, verl_error_t *error)
{
    const verl_plan_t *plan = seat->world->plan;
    edge_in_t *in = &seat->in[seat->in_count++];
    *in = (edge_in_t) { .plan = &plan->edges[edge], .edge = edge, .seat = seat };
    if (in->plan->weights)
        seat->weights = in;
    in->inbound = calloc((size_t) plan->actors[plan->stages[in->plan->maker].actor].replicas, sizeof *in->inbound);
    return in->inbound ? 0 : verl_error_set(error, "out of memory");
}

static int
s_edge_out(seat_t *seat, int edge, verl_error_t *error)
{
    const verl_plan_t *plan = seat->world->plan;
    edge_out_t *out = &seat->out[seat->out_count++];
    const verl_plan_stage_t *reader = &plan->stages[plan->edges[edge].reader];
    *out = (edge_out_t) { .plan = &plan->edges[edge], .edge = edge, .reader = reader,
                          .replicas = plan->actors[reader->actor].replicas };
    out->channels = calloc((size_t) out->replicas, sizeof *out->channels);
    return out->channels ? s_name_columns(out, seat->plan, error) : verl_error_set(error, "out of memory");
}

static int
s_seat_edges(seat_t *seat, verl_error_t *error)
{
    const verl_plan_stage_t *stage = seat->plan;
    seat->in = calloc((size_t) stage->in_count + 1, sizeof *seat->in);
    seat->out = calloc((size_t) stage->out_count + 1, sizeof *seat->out);
    if (!seat->in || !seat->out)
        return verl_error_set(error, "out of memory");
    for (int i = 0; i < stage->in_count; i++)
        if (s_edge_in(seat, stage->in_edges[i], error))
            return -1;
    for (int i = 0; i < stage->out_count; i++)
        if (s_edge_out(seat, stage->out_edges[i], error))
            return -1;
    return 0;
}

// Columns read through a map are indexed in the whole batch; the edge of the rows is one whose maker has them.
static void
s_seat_rows(seat_t *seat)
{
    const verl_plan_t *plan = seat->world->plan;
    seat->rows_edge = -1;
    for (int i = 0; i < seat->in_count && !seat->plan->source; i++) {
        const verl_plan_stage_t *maker = &plan->stages[seat->in[i].plan->maker];
        int rows = maker->source || maker->maps ? seat->in[i].plan->maker : maker->rows_of;
        if (seat->in[i].plan->weights)
            continue;
        if (seat->rows_edge < 0)
            seat->rows_edge = i;
        if (rows == seat->plan->rows_of) {
            seat->rows_edge = i;
            break;
        }
    }
    for (int i = 0; i < seat->plan->needs_count; i++) {
        const verl_plan_need_t *need = &seat->plan->needs[i];
        for (int j = 0; j < seat->in_count; j++)
            for (int k = 0; k < need->maps; k++)
                seat->in[j].through_map |= seat->in[j].edge == need->edge ||
                                           (k > 0 && seat->in[j].edge == need->map_edges[k]);
    }
}

static int
s_seat_init(world_t *world, seat_t *seat, int index, verl_error_t *error)
{
    host_t *host = world->host;
    verl_plan_stage_t *stage = &world->plan->stages[index];
    *seat = (seat_t) { .index = index, .plan = stage, .world = world, .host = host, .writer = -1, .next = -1,
                       .granted = -1, .version_update = -1, .passed = -1, .state = SEAT_OVER, .since = verl_now() };
    if (verl_stage_init(&seat->stage, stage->name, host->kind, stage->handler, host->state, &stage->options,
                        world->plan->seed, world->plan->steps, error) ||
        s_seat_edges(seat, error))
        return -1;
    seat->stage.span = stage->span;
    seat->stage.reporter = verl_host_reporter;
    seat->stage.reporter.context = host;
    seat->stage.stopping = &host->stopping;
    seat->stage.stop_lock = &host->lock;
    seat->stage.stop_signal = &host->changed;
    s_seat_rows(seat);
    return 0;
}

static void
s_link_seats(world_t *world)
{
    for (int i = 0; i < world->seats_count; i++) {
        seat_t *seat = &world->seats[i];
        for (int j = 0; j < world->seats_count; j++) {
            seat_t *other = &world->seats[j];
            if (other->plan->handler->writes_weights && seat->plan->handler->reads_weights && !seat->weights)
                seat->writer = j;
            for (int k = 0; k < seat->out_count; k++)
                for (int l = 0; l < other->in_count; l++)
                    if (other->in[l].edge == seat->out[k].edge)
                        seat->out[k].local = &other->in[l];
        }
    }
}

// --- taking a table -----------------------------------------------------------------------------------------------

// The first table makes the actor's state; those that follow are about the same state.
static int
s_take_state(host_t *host, const world_t *world, verl_error_t *error)
{
    const verl_kind_t *kind = world->actor->kind;
    if (host->kind)
        return host->kind == kind ? 0 : verl_error_set(error, "the table makes a %s of actor %s, which is a %s",
                                                       kind->name, host->config.actor, host->kind->name);
    host->state = calloc(1, verl_options_bytes(kind->options, kind->state_size) + 1);
    if (!host->state)
        return verl_error_set(error, "out of memory");
    if (kind->options && verl_options_fill(kind->options, &world->actor->options, host->state, error))
        return -1;
    host->kind = kind;
    host->state_plan = world->plan;
    host->chained = !kind->keeps_state || kind->start;
    bool saves = kind->snapshot && world->plan->save_every > 0 && world->plan->save_every < world->plan->steps;
    host->save_every = saves ? world->plan->save_every : 0;
    return 0;
}

static int
s_take_stages(world_t *world, verl_error_t *error)
{
    const verl_plan_t *plan = world->plan;
    world->seats = calloc((size_t) plan->stages_count, sizeof *world->seats);
    world->base = calloc((size_t) plan->stages_count, sizeof *world->base);
    if (!world->seats || !world->base)
        return verl_error_set(error, "out of memory");
    for (int i = 0; i < plan->stages_count; i++)
        if (plan->stages[i].actor == world->actor_index &&
            s_seat_init(world, &world->seats[world->seats_count++], i, error))
            return -1;
    s_link_seats(world);
    return world->seats_count ? 0 : verl_error_set(error, "the table has no stage for actor %s",
                                                   world->host->config.actor);
}

static void
s_insert(host_t *host, world_t *world)
{
    world_t **link = &host->worlds;
    pthread_mutex_lock(&host->lock);
    while (*link && (*link)->plan->revision < world->plan->revision)
        link = &(*link)->next;
    world->next = *link;
    *link = world;
    pthread_cond_signal(&host->changed);
    pthread_mutex_unlock(&host->lock);
}

int
verl_host_take_table(host_t *host, const char *bytes, size_t size, verl_error_t *error)
{
    world_t *world = calloc(1, sizeof *world);
    if (!world)
        return verl_error_set(error, "out of memory");
    *world = (world_t) { .host = host, .cut = -1, .end = INT64_MAX };
    world->plan = verl_plan_decode(bytes, size, error);
    if (!world->plan || s_find_actor(world, error) || s_take_state(host, world, error) ||
        s_take_stages(world, error)) {
        verl_world_free(world);
        return -1;
    }
    if (verl_host_world(host, world->plan->revision)) {
        verl_error_set(error, "a second table of revision %lld came", (long long) world->plan->revision);
        verl_world_free(world);
        return -1;
    }
    s_insert(host, world);
    return 0;
}

world_t *
verl_host_world(host_t *host, int64_t revision)
{
    pthread_mutex_lock(&host->lock);
    world_t *world = host->worlds;
    while (world && (world->retired || world->plan->revision != revision))
        world = world->next;
    pthread_mutex_unlock(&host->lock);
    return world;
}

seat_t *
verl_host_first_seat(host_t *host)
{
    seat_t *seat = NULL;
    pthread_mutex_lock(&host->lock);
    for (world_t *world = host->worlds; world; world = world->next)
        if (!seat || (world->begun && !world->failed))
            seat = &world->seats[0];
    pthread_mutex_unlock(&host->lock);
    return seat;
}

// --- in force, and over -------------------------------------------------------------------------------------------

// The first batch of a seat in its world: not below what the revision and the director say.
static void
s_place(seat_t *seat, int64_t start, unit_t **gone)
{
    seat->start = start > seat->world->cut ? start : seat->world->cut;
    seat->next = verl_seat_after(seat, seat->start - 1);
    seat->stage.first = seat->start;
    for (int i = 0; i < seat->in_count; i++) {
        unit_t *below = &seat->in[i] == seat->weights ? NULL : verl_edge_take(&seat->in[i], seat->start - 1);
        while (below) {                     // it came before this order: nobody will ask for it
            unit_t *next = below->next;
            below->next = *gone;
            *gone = below;
            below = next;
        }
    }
}

// Which versions the stages go on with. Where the order does not say: those of the cut.
static int
s_read_bases(world_t *world, verl_reader_t *reader)
{
    uint32_t count = (uint32_t) world->plan->stages_count;
    bool said = verl_reader_left(reader) > 0;
    if (said && (verl_read_array(reader, &count) || count != (uint32_t) world->plan->stages_count))
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        world->base[i] = world->cut - 1;
        if (said && (verl_read_int(reader, &world->base[i]) || world->base[i] < -1 || world->base[i] >= world->cut))
            return -1;
    }
    return 0;
}

int
verl_world_order(world_t *world, verl_reader_t *reader, verl_error_t *error)
{
    host_t *host = world->host;
    int64_t cut;
    uint32_t count;
    unit_t *gone = NULL;
    if (world->ordered || verl_read_int(reader, &cut) || cut < 0 || verl_read_array(reader, &count) ||
        count != (uint32_t) world->plan->stages_count)
        return verl_error_set(error, "an order to begin is malformed");
    pthread_mutex_lock(&host->lock);
    world->cut = cut;
    int seat = 0, failed = 0;
    for (uint32_t i = 0; i < count && !failed; i++) {
        int64_t start;
        failed = verl_read_int(reader, &start);
        if (!failed && seat < world->seats_count && world->seats[seat].index == (int) i)
            s_place(&world->seats[seat++], start, &gone);
    }
    failed = failed || s_read_bases(world, reader);
    for (world_t *older = host->worlds; older && older != world; older = older->next)
        if (older->end > cut)
            older->end = cut;
    if (host->save_every > 0 && host->save_next < 0) {
        int64_t from = world->seats[0].start / host->save_every * host->save_every + host->save_every;
        host->save_next = from < world->plan->steps ? from : -1;
    }
    world->ordered = !failed;
    pthread_cond_signal(&host->changed);
    pthread_mutex_unlock(&host->lock);
    verl_units_free(gone, true);
    return failed ? verl_error_set(error, "an order to begin is malformed") : 0;
}

// Before anything of a seat is freed: the last reader of an output makes the host look at all of its seats again. The
// weights in use stay until others are taken.
static void
s_let_go(world_t *world)
{
    host_t *host = world->host;
    for (int i = 0; i < world->seats_count; i++) {
        seat_t *seat = &world->seats[i];
        for (int j = 0; seat->in && j < seat->in_count; j++) {
            edge_in_t *edge = &seat->in[j];
            unit_t *used = edge == seat->weights ? verl_edge_find(edge, seat->version_update, 0) : NULL;
            unit_t **link = &edge->first;
            while (used && *link != used)
                link = &(*link)->next;
            if (used) {
                *link = used->next;
                verl_unit_let_go(used);
                used->next = host->old_version;
                host->old_version = used;
            }
            verl_units_free(edge->first, false);
            edge->first = NULL;
        }
    }
}

void
verl_world_free(world_t *world)
{
    s_let_go(world);
    for (int i = 0; i < world->seats_count; i++) {
        seat_t *seat = &world->seats[i];
        for (int j = 0; j < seat->in_count; j++)
            free(seat->in[j].inbound);
        for (int j = 0; j < seat->out_count; j++) {
            free(seat->out[j].channels);
            free(seat->out[j].names);
        }
        free(seat->in);
        free(seat->out);
        while (seat->acks) {
            ack_t *ack = seat->acks;
            seat->acks = ack->next;
            verl_units_free(ack->units, false);
            free(ack);
        }
        if (seat->stage.handler)
            verl_stage_done(&seat->stage);
    }
    free(world->seats);
    free(world->base);
    if (world->plan != world->host->state_plan)
        verl_plan_destroy(&world->plan);
    free(world);
}
