// host.c: see host.h. Life of an actor: hello, table, peers, prepare beside them, work, stop.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/actor/host_impl.h"
#include "runtime/mailbox/address.h"

#define CONTROL_WINDOW 4096

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
    if (pthread_create(&host->worker, NULL, verl_worker, host))
        return verl_error_set(error, "cannot start the worker thread");
    host->worker_runs = true;
    return 0;
}

static int
s_on_permit(host_t *host, verl_reader_t *reader, verl_error_t *error)
{
    int64_t last;
    if (verl_read_int(reader, &last))
        return verl_error_set(error, "a permit is malformed");
    pthread_mutex_lock(&host->lock);
    for (int i = 0; i < host->seats_count; i++)
        if (host->seats[i].plan->source && last > host->seats[i].granted)
            host->seats[i].granted = last;
    verl_host_changed(host);
    pthread_mutex_unlock(&host->lock);
    return 0;
}

static int
s_on_save(host_t *host, verl_reader_t *reader, verl_error_t *error)
{
    int64_t step;
    if (verl_read_int(reader, &step) || step < 0)
        return verl_error_set(error, "an order to save is malformed");
    pthread_mutex_lock(&host->lock);
    host->save_now = step;
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

static int
s_on_control(host_t *host, const verl_message_t *message, verl_error_t *error)
{
    verl_reader_t reader;
    uint32_t fields;
    char word[32];
    verl_reader_init(&reader, message->body, message->body_size);
    if (verl_read_array(&reader, &fields) || verl_read_cstr(&reader, word, sizeof word))
        return verl_error_set(error, "an order of the director is malformed");
    return strcmp(word, "table") == 0    ? s_on_table(host, &reader, error)
           : strcmp(word, "peers") == 0  ? verl_host_take_peers(host, &reader, error)
           : strcmp(word, "permit") == 0 ? s_on_permit(host, &reader, error)
           : strcmp(word, "save") == 0   ? s_on_save(host, &reader, error)
           : strcmp(word, "stop") == 0   ? s_on_stop(host)
                                         : verl_error_set(error, "the director ordered '%s', which is unknown", word);
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
                                                       .ping = s_on_ping, .malformed = s_on_malformed };
    char address[VERL_ADDRESS_BYTES];
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    host->save_next = host->save_now = -1;
    host->task = VERL_TASK_NONE;
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
    host->report = verl_outbound_open(host->endpoint, VERL_DIRECTOR, VERL_EDGE_REPORT, CONTROL_WINDOW);
    if (!host->report ||
        !verl_inbound_open(host->endpoint, VERL_DIRECTOR, VERL_EDGE_CONTROL, CONTROL_WINDOW, NULL))
        return verl_error_set(error, "out of memory");
    verl_report_hello(host);
    return 0;
}

static void
s_end(host_t *host)
{
    if (host->worker_runs)
        pthread_join(host->worker, NULL);
    verl_endpoint_destroy(&host->endpoint);
    verl_host_unwire(host);
    verl_arena_destroy(&host->arena);
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
        verl_endpoint_step(host->endpoint, -1, -1);
        verl_arena_tend(host->arena);
    }
    s_end(host);
    free(host);
    return failed;
}
