// host.c: see host.h. Life of an actor: hello, table, peers, prepare beside them, work, stop.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/actor/host_impl.h"
#include "runtime/mailbox/address.h"

#define UNHEARD_MS 100                      // until the director is told again what there was no memory for

// --- what the director says ---------------------------------------------------------------------------------------

static int
s_on_table(host_t *host, verl_reader_t *reader, verl_error_t *error)
{
    const char *bytes;
    size_t size;
    if (verl_read_bin(reader, &bytes, &size))
        return verl_error_set(error, "a table is malformed");
    if (verl_host_take_table(host, bytes, size, error))
        return -1;
    if (host->worker_runs)
        return 0;
    if (pthread_create(&host->worker, NULL, verl_worker, host))
        return verl_error_set(error, "cannot start the worker thread");
    host->worker_runs = true;
    return 0;
}

static int
s_on_permit(world_t *world, verl_reader_t *reader, verl_error_t *error)
{
    int64_t last;
    if (verl_read_int(reader, &last))
        return verl_error_set(error, "a permit is malformed");
    pthread_mutex_lock(&world->host->lock);
    for (int i = 0; i < world->seats_count; i++)
        if (world->seats[i].plan->source && last > world->seats[i].granted)
            world->seats[i].granted = last;
    verl_host_changed(world->host);
    pthread_mutex_unlock(&world->host->lock);
    return 0;
}

// "save" and "restore": between two batches.
static int
s_on_state(host_t *host, bool save, verl_reader_t *reader, verl_error_t *error)
{
    int64_t step = 0;
    char path[4096];
    if ((save && (verl_read_int(reader, &step) || step < 0)) || verl_read_cstr(reader, path, sizeof path) ||
        !host->worker_runs)
        return verl_error_set(error, "an order to %s is malformed", save ? "save" : "restore");
    char *copy = strdup(path);
    if (!copy)
        return verl_error_set(error, "out of memory");
    pthread_mutex_lock(&host->lock);
    char **field = save ? &host->save_path : &host->restore_path;
    free(*field);
    *field = copy;
    if (save)
        host->save_now = step;
    pthread_cond_signal(&host->changed);
    pthread_mutex_unlock(&host->lock);
    return 0;
}

// Who follows the messages is no concern of the run: where one cannot, that is said and nothing more.
static int
s_on_tap(host_t *host, const char *word, verl_reader_t *reader, verl_error_t *error)
{
    verl_error_t why = { "" };
    int rc = verl_tap_order(host->tap, word, reader, &why);
    if (rc < 0)
        return verl_error_set(error, "%s", why.text);
    if (rc > 0) {
        char text[1024];
        snprintf(text, sizeof text, "the messages of %.300s cannot be followed: %.600s", host->label, why.text);
        verl_report_log(host, text);
    }
    return 0;
}

static int
s_on_pause(host_t *host, verl_reader_t *reader, verl_error_t *error)
{
    int64_t paused;
    if (verl_read_int(reader, &paused))
        return verl_error_set(error, "an order to pause is malformed");
    pthread_mutex_lock(&host->lock);
    host->paused = paused;
    pthread_cond_signal(&host->changed);
    pthread_mutex_unlock(&host->lock);
    return 0;
}

static int
s_on_stop(host_t *host)
{
    pthread_mutex_lock(&host->lock);
    atomic_store(&host->stopping, true);
    pthread_cond_signal(&host->changed);
    pthread_mutex_unlock(&host->lock);
    if (!host->worker_runs)
        atomic_store(&host->ended, true);
    return 0;
}

// An order about one revision.
static int
s_on_world(host_t *host, const char *word, int64_t revision, verl_reader_t *reader, verl_error_t *error)
{
    world_t *world = verl_host_world(host, revision);
    if (!world)
        return verl_error_set(error, "the director ordered '%s' of revision %lld, which has no table here", word,
                              (long long) revision);
    if (strcmp(word, "peers") == 0)
        return verl_host_take_peers(world, reader, error);
    if (strcmp(word, "begin") == 0)
        return verl_world_order(world, reader, error);
    if (strcmp(word, "permit") == 0)
        return s_on_permit(world, reader, error);
    if (strcmp(word, "retire") != 0 && strcmp(word, "drop") != 0)
        return verl_error_set(error, "the director ordered '%s', which is unknown", word);
    verl_world_close(world);
    return 0;
}

static int
s_on_control(host_t *host, const verl_message_t *message, verl_error_t *error)
{
    verl_reader_t reader;
    uint32_t fields;
    char word[32];
    verl_reader_init(&reader, message->body, message->body_size);
    if (verl_read_array(&reader, &fields) || verl_read_cstr(&reader, word, sizeof word))
        return verl_error_set(error, "an order of the director is malformed");
    if (strcmp(word, "table") == 0)
        return s_on_table(host, &reader, error);
    if (strcmp(word, "save") == 0 || strcmp(word, "restore") == 0)
        return s_on_state(host, *word == 's', &reader, error);
    if (strcmp(word, "pause") == 0)
        return s_on_pause(host, &reader, error);
    if (strcmp(word, "trace") == 0 || strcmp(word, "untrace") == 0)
        return s_on_tap(host, word, &reader, error);
    return strcmp(word, "stop") == 0 ? s_on_stop(host)
                                     : s_on_world(host, word, message->revision, &reader, error);
}

// --- the endpoint's handlers --------------------------------------------------------------------------------------

static int
s_on_message(void *context, verl_inbound_t *inbound, const verl_message_t *message, verl_error_t *error)
{
    host_t *host = context;
    if (verl_inbound_edge(inbound) != VERL_EDGE_CONTROL)
        return verl_host_receive(host, verl_inbound_tag(inbound), inbound, message, error);
    int failed = s_on_control(host, message, error);
    verl_inbound_taken(inbound, 1);
    verl_inbound_done(inbound, 1);
    return failed;
}

static void
s_on_done(void *context, void *tag)
{
    (void) context;
    verl_output_release(tag);
}

static void
s_on_ping(void *context, verl_buffer_t *body)
{
    verl_report_state(context, body);
}

// Under the endpoint's lock.
static void
s_on_trace(void *context, const verl_message_t *message)
{
    host_t *host = context;
    if (!verl_tap_on(host->tap))
        return;
    verl_tap_event_t event = { .kind = verl_trace_kind_of_message(message, false), .message = message,
                               .from = verl_host_label(host, message->from), .to = verl_host_label(host, message->to) };
    verl_tap_message(host->tap, &event);
}

static void
s_on_malformed(void *context, const char *reason)
{
    verl_report_failed(context, NULL, -1, reason);
}

// --- life ---------------------------------------------------------------------------------------------------------

static int
s_begin(host_t *host, verl_error_t *error)
{
    static const verl_endpoint_handlers_t handlers = { .message = s_on_message, .done = s_on_done,
                                                       .ping = s_on_ping, .malformed = s_on_malformed,
                                                       .trace = s_on_trace };
    char address[VERL_ADDRESS_BYTES];
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    host->save_next = host->save_now = -1;
    host->task = VERL_TASK_NONE;
    verl_trace_label(host->label, sizeof host->label, host->config.actor, host->config.replica, host->config.replicas,
                     host->config.incarnation);
    host->tap = verl_tap_new(host->config.zmq, host->label, error);
    if (!host->tap)
        return -1;
    host->arena = verl_arena_new(host->config.node_fd, error);
    if (!host->arena)
        return -1;
    host->memory = verl_arena_memory(host->arena);
    host->slabs = verl_arena_slabs(host->arena);
    verl_address(address, host->config.run_id, host->config.incarnation);
    host->endpoint = verl_endpoint_new(host->config.zmq, host->config.incarnation, address, &handlers, host, error);
    if (!host->endpoint)
        return -1;
    verl_address(address, host->config.run_id, VERL_DIRECTOR);
    if (verl_endpoint_connect(host->endpoint, VERL_DIRECTOR, address, error))
        return -1;
    host->report = verl_outbound_open(host->endpoint, VERL_DIRECTOR, VERL_EDGE_REPORT, VERL_CONTROL_WINDOW);
    if (!host->report ||
        !verl_inbound_open(host->endpoint, VERL_DIRECTOR, VERL_EDGE_CONTROL, VERL_CONTROL_WINDOW, NULL))
        return verl_error_set(error, "out of memory");
    return verl_report_hello(host) ? verl_error_set(error, "out of memory") : 0;
}

static void
s_forget_names(host_t *host)
{
    for (label_t *label = atomic_load(&host->labels), *next; label; label = next) {
        next = label->next;
        free(label);
    }
    free(host->save_path);
    free(host->restore_path);
    free(host->restored_path);
}

static void
s_end(host_t *host)
{
    if (host->worker_runs)
        pthread_join(host->worker, NULL);
    verl_versions_forget(host);
    verl_endpoint_destroy(&host->endpoint);
    while (host->worlds) {
        world_t *world = host->worlds;
        host->worlds = world->next;
        verl_world_free(world);
    }
    verl_units_free(host->old_version, false);
    if (host->kind && host->kind->options)
        verl_options_done(host->kind->options, host->state);
    free(host->state);
    verl_plan_destroy(&host->state_plan);
    s_forget_names(host);
    verl_arena_destroy(&host->arena);
    verl_tap_destroy(&host->tap);
    pthread_cond_destroy(&host->changed);
    pthread_mutex_destroy(&host->lock);
}

int
verl_host_run(const verl_host_config_t *config, verl_error_t *error)
{
    host_t *host = calloc(1, sizeof *host);
    if (!host)
        return verl_error_set(error, "out of memory");
    host->config = *config;
    int failed = s_begin(host, error);
    while (!failed && !atomic_load(&host->ended)) {
        verl_endpoint_step(host->endpoint, -1, verl_report_unheard(host) ? UNHEARD_MS : -1);
        verl_arena_tend(host->arena);
    }
    s_end(host);
    free(host);
    return failed;
}
