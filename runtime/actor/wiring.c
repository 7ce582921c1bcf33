// wiring.c: from the table of a revision and the list of who is alive to stages, edges and channels.
#include <stdlib.h>
#include <string.h>
#include "runtime/actor/host_impl.h"
#include "runtime/base/clock.h"
#include "runtime/mailbox/address.h"

int64_t
verl_host_window(const verl_plan_t *plan)
{
    int64_t parts = 1;
    for (int i = 0; i < plan->stages_count; i++)
        if (plan->stages[i].parts > parts)
            parts = plan->stages[i].parts;
    int64_t window = (plan->max_in_flight + 1) * parts;
    return window < 64 ? 64 : window;
}

static int
s_find_actor(host_t *host, verl_error_t *error)
{
    verl_plan_t *plan = host->plan;
    for (int i = 0; i < plan->actors_count; i++) {
        verl_plan_actor_t *actor = &plan->actors[i];
        if (strcmp(actor->name, host->config.actor) != 0)
            continue;
        host->actor = actor;
        host->actor_index = i;
        return verl_plan_bind(plan, i, error);
    }
    return verl_error_set(error, "the table has no actor %s", host->config.actor);
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
s_seat_edges(host_t *host, seat_t *seat, verl_error_t *error)
{
    const verl_plan_t *plan = host->plan;
    const verl_plan_stage_t *stage = seat->plan;
    seat->in = calloc((size_t) stage->in_count + 1, sizeof *seat->in);
    seat->out = calloc((size_t) stage->out_count + 1, sizeof *seat->out);
    if (!seat->in || !seat->out)
        return verl_error_set(error, "out of memory");
    for (int i = 0; i < stage->in_count; i++) {
        const verl_plan_edge_t *edge = &plan->edges[stage->in_edges[i]];
        seat->in[seat->in_count++] = (edge_in_t) { .plan = edge, .edge = stage->in_edges[i], .seat = seat };
        if (edge->weights)
            seat->weights = &seat->in[i];
    }
    for (int i = 0; i < stage->out_count; i++) {
        const verl_plan_edge_t *edge = &plan->edges[stage->out_edges[i]];
        edge_out_t *out = &seat->out[seat->out_count++];
        *out = (edge_out_t) { .plan = edge, .edge = stage->out_edges[i], .reader = &plan->stages[edge->reader],
                              .replicas = plan->actors[plan->stages[edge->reader].actor].replicas };
        out->channels = calloc((size_t) out->replicas, sizeof *out->channels);
        if (!out->channels)
            return verl_error_set(error, "out of memory");
        if (s_name_columns(out, stage, error))
            return -1;
    }
    return 0;
}

// Columns read through a map are indexed in the whole batch; the edge of the rows is one whose maker has them.
static void
s_seat_rows(seat_t *seat)
{
    const verl_plan_t *plan = seat->host->plan;
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
s_seat_init(host_t *host, seat_t *seat, int index, verl_error_t *error)
{
    verl_plan_stage_t *stage = &host->plan->stages[index];
    *seat = (seat_t) { .index = index, .plan = stage, .host = host, .writer = -1, .granted = -1,
                       .version_update = -1, .state = SEAT_DATA, .since = verl_now() };
    if (verl_stage_init(&seat->stage, stage->name, host->actor->kind, stage->handler, host->state, &stage->options,
                        host->plan->seed, host->plan->steps, error) ||
        s_seat_edges(host, seat, error))
        return -1;
    seat->stage.reporter = verl_host_reporter;
    seat->stage.reporter.context = host;
    seat->stage.stopping = &host->stopping;
    seat->stage.stop_lock = &host->lock;
    seat->stage.stop_signal = &host->changed;
    s_seat_rows(seat);
    seat->next = verl_seat_after(seat, -1);
    return 0;
}

static void
s_link_seats(host_t *host)
{
    for (int i = 0; i < host->seats_count; i++) {
        seat_t *seat = &host->seats[i];
        for (int j = 0; j < host->seats_count; j++) {
            seat_t *other = &host->seats[j];
            if (other->plan->handler->writes_weights && seat->plan->handler->reads_weights && !seat->weights)
                seat->writer = j;
            for (int k = 0; k < seat->out_count; k++)
                for (int l = 0; l < other->in_count; l++)
                    if (other->in[l].edge == seat->out[k].edge)
                        seat->out[k].local = &other->in[l];
        }
    }
}

int
verl_host_take_table(host_t *host, const char *bytes, size_t size, verl_error_t *error)
{
    if (host->plan)
        return verl_error_set(error, "a second table came");
    host->plan = verl_plan_decode(bytes, size, error);
    if (!host->plan || s_find_actor(host, error))
        return -1;
    const verl_kind_t *kind = host->actor->kind;
    host->state = calloc(1, verl_options_bytes(kind->options, kind->state_size) + 1);
    host->seats = calloc((size_t) host->plan->stages_count, sizeof *host->seats);
    if (!host->state || !host->seats)
        return verl_error_set(error, "out of memory");
    if (kind->options && verl_options_fill(kind->options, &host->actor->options, host->state, error))
        return -1;
    for (int i = 0; i < host->plan->stages_count; i++)
        if (host->plan->stages[i].actor == host->actor_index &&
            s_seat_init(host, &host->seats[host->seats_count++], i, error))
            return -1;
    s_link_seats(host);
    bool saves = kind->snapshot && host->plan->save_every > 0 && host->plan->save_every < host->plan->steps;
    host->save_next = saves ? host->plan->save_every : -1;
    return host->seats_count ? 0 : verl_error_set(error, "the table has no stage for actor %s", host->config.actor);
}

// --- channels -----------------------------------------------------------------------------------------------------

// One party of the list of who is alive: connects to it where an edge needs it.
static int
s_take_peer(host_t *host, uint64_t incarnation, const char *actor, int64_t replica, verl_error_t *error)
{
    const verl_plan_t *plan = host->plan;
    char address[VERL_ADDRESS_BYTES];
    int64_t window = verl_host_window(plan);
    bool self = incarnation == host->config.incarnation;
    verl_address(address, host->config.run_id, incarnation);
    for (int i = 0; i < host->seats_count && !self; i++) {
        seat_t *seat = &host->seats[i];
        for (int j = 0; j < seat->in_count; j++) {
            const char *maker = plan->actors[plan->stages[seat->in[j].plan->maker].actor].name;
            if (strcmp(maker, actor) == 0 &&
                (verl_endpoint_connect(host->endpoint, incarnation, address, error) ||
                 !verl_inbound_open(host->endpoint, incarnation, seat->in[j].edge, window, &seat->in[j])))
                return verl_error_set(error, "out of memory");
        }
        for (int j = 0; j < seat->out_count; j++) {
            edge_out_t *out = &seat->out[j];
            if (strcmp(plan->actors[out->reader->actor].name, actor) != 0 || replica < 0 || replica >= out->replicas)
                continue;
            if (verl_endpoint_connect(host->endpoint, incarnation, address, error) ||
                !(out->channels[replica] = verl_outbound_open(host->endpoint, incarnation, out->edge, window)))
                return verl_error_set(error, "out of memory");
        }
    }
    return 0;
}

int
verl_host_take_peers(host_t *host, verl_reader_t *reader, verl_error_t *error)
{
    uint32_t count, fields;
    if (!host->plan || verl_read_array(reader, &count))
        return verl_error_set(error, "a list of peers is malformed");
    for (uint32_t i = 0; i < count; i++) {
        uint64_t incarnation;
        int64_t replica;
        char actor[256];
        if (verl_read_array(reader, &fields) || fields != 3 || verl_read_uint(reader, &incarnation) ||
            verl_read_cstr(reader, actor, sizeof actor) || verl_read_int(reader, &replica))
            return verl_error_set(error, "a list of peers is malformed");
        if (s_take_peer(host, incarnation, actor, replica, error))
            return -1;
    }
    pthread_mutex_lock(&host->lock);
    host->wired = true;
    pthread_cond_signal(&host->changed);
    pthread_mutex_unlock(&host->lock);
    verl_report_word(host, "wired");
    return 0;
}

// Before anything of a seat is freed: the last reader of an output makes the host look at all of its seats again.
static void
s_let_go(host_t *host)
{
    for (int i = 0; i < host->seats_count; i++)
        for (int j = 0; j < host->seats[i].in_count; j++) {
            edge_in_t *edge = &host->seats[i].in[j];
            while (edge->first) {
                unit_t *unit = edge->first;
                edge->first = unit->next;
                verl_unit_free(unit, false);
            }
        }
}

void
verl_host_unwire(host_t *host)
{
    s_let_go(host);
    for (int i = 0; i < host->seats_count; i++) {
        seat_t *seat = &host->seats[i];
        for (int j = 0; j < seat->out_count; j++) {
            free(seat->out[j].channels);
            free(seat->out[j].names);
        }
        free(seat->in);
        free(seat->out);
        verl_stage_done(&seat->stage);
    }
    free(host->seats);
    if (host->state && host->actor && host->actor->kind && host->actor->kind->options)
        verl_options_done(host->actor->kind->options, host->state);
    free(host->state);
    verl_plan_destroy(&host->plan);
}
