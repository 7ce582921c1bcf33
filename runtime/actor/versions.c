// versions.c: the weights that a writer publishes: after each update, at the beginning of a revision, and after a restart
// those of before that some batch still wants.
//
// The version of an update that lies before the cut of a revision is that of the cut, under the number cut - 1.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/actor/host_impl.h"
#include "runtime/base/clock.h"

#define VERSION_MAGIC 0x7672657631u         // "1verv"

// Which update a reader's batch k wants the weights of.
static int64_t
s_wanted(const seat_t *writer, const edge_out_t *edge, int64_t k)
{
    int64_t update = verl_plan_version(writer->world->plan, writer->index, edge->plan->staleness, k);
    return update >= writer->world->cut ? update : writer->world->cut - 1;
}

// Does a replica of a reader want the version that the update of `batch` made, for a batch from `from` on?
static bool
s_wants(const seat_t *writer, const edge_out_t *edge, int64_t replica, int64_t batch, int64_t from)
{
    const verl_plan_t *plan = writer->world->plan;
    const verl_span_t *span = &edge->reader->span;
    for (int64_t k = verl_span_next(span, plan->steps, from - 1); k >= 0; k = verl_span_next(span, plan->steps, k)) {
        int64_t wanted = s_wanted(writer, edge, k);
        if (wanted > batch)
            return false;
        if (wanted == batch && verl_plan_replica(plan, edge->plan->reader, k) == replica)
            return true;
    }
    return false;
}

// The weights as they are, as a batch under an update's number.
static verl_batch_t *
s_give(seat_t *writer, int64_t update, verl_error_t *error)
{
    verl_batch_t *made = verl_batch_new_made(update, -1, 0, &writer->host->memory);
    if (!made) {
        verl_error_set(error, "out of memory");
        return NULL;
    }
    if (writer->host->kind->give_weights(&writer->stage, made) || verl_batch_seal(made, error)) {
        verl_error_set(error, "%s", verl_stage_reason(&writer->stage, "no weights were given"));
        verl_batch_destroy(&made);
    }
    return made;
}

static int
s_pack(const verl_batch_t *made, verl_buffer_t *body, verl_error_t *error)
{
    const char *names[VERL_MAX_COLUMNS];
    int count = verl_batch_columns(made);
    for (int i = 0; i < count && i < VERL_MAX_COLUMNS; i++)
        names[i] = verl_batch_column_at(made, i)->name;
    return verl_batch_pack(made, names, NULL, count, false, body, error);
}

static int
s_send(seat_t *writer, edge_out_t *edge, int64_t replica, int64_t update, output_t *output, const verl_buffer_t *body,
       verl_error_t *error)
{
    verl_message_t message = { .revision = writer->world->plan->revision, .batch = update, .parts = 1,
                               .time = verl_now(), .body = body->data, .body_size = body->size };
    return verl_publish_to(writer, edge, replica, &message, output, error);
}

// --- what is kept -------------------------------------------------------------------------------------------------

static int64_t
s_most_staleness(const seat_t *writer)
{
    int64_t most = 0;
    for (int i = 0; i < writer->out_count; i++)
        if (writer->out[i].plan->weights && writer->out[i].plan->staleness > most)
            most = writer->out[i].plan->staleness;
    return most;
}

// Of all revisions that are not retired: a checkpoint may lie where one ends and another begins.
static int64_t
s_most_of_all(host_t *host)
{
    int64_t most = 0;
    pthread_mutex_lock(&host->lock);
    for (const world_t *world = host->worlds; world; world = world->next)
        for (int i = 0; i < world->seats_count; i++)
            if (s_most_staleness(&world->seats[i]) > most)
                most = s_most_staleness(&world->seats[i]);
    pthread_mutex_unlock(&host->lock);
    return most;
}

static bool
s_has(const host_t *host, int64_t update)
{
    const version_t *version = host->versions;
    while (version && version->update != update)
        version = version->next;
    return version != NULL;
}

// The last versions stay, so that a checkpoint has those that batches behind it still want. A revision that begins
// publishes again what the one before it ended with.
static void
s_keep(seat_t *writer, int64_t update, output_t *output)
{
    host_t *host = writer->host;
    int64_t count = 1;
    if (s_has(host, update))
        return;
    version_t *version = malloc(sizeof *version);
    int64_t most = s_most_of_all(host);
    if (version && most > 0) {
        atomic_fetch_add(&output->refs, 1);
        *version = (version_t) { .next = host->versions, .update = update, .output = output };
        host->versions = version;
    } else {
        free(version);
    }
    for (version_t **link = &host->versions; *link;) {
        version = *link;
        if (count++ <= most + 1) {
            link = &version->next;
            continue;
        }
        *link = version->next;
        verl_output_release(version->output);
        free(version);
    }
}

void
verl_versions_forget(host_t *host)
{
    while (host->versions) {
        version_t *version = host->versions;
        host->versions = version->next;
        verl_output_release(version->output);
        free(version);
    }
}

// Publishes one version to every reader that wants it for a batch from `from` on. made: it, or NULL for the weights as
// they are, which are only asked for where somebody wants them.
static int
s_publish(seat_t *writer, int64_t update, int64_t from, verl_batch_t *made, verl_error_t *error)
{
    output_t *output = NULL;
    verl_buffer_t body = { 0 };
    int failed = 0;
    for (int i = 0; i < writer->out_count && !failed; i++) {
        edge_out_t *edge = &writer->out[i];
        for (int64_t replica = 0; edge->plan->weights && replica < edge->replicas && !failed; replica++) {
            if (!s_wants(writer, edge, replica, update, from))
                continue;
            if (!output) {
                made = made ? made : s_give(writer, update, error);
                output = made ? verl_output_new(writer->host, NULL, NULL, made) : NULL;
                failed = !output || s_pack(made, &body, error);
            }
            failed = failed || s_send(writer, edge, replica, update, output, &body, error);
        }
    }
    verl_buffer_done(&body);
    if (output && !failed)
        s_keep(writer, update, output);
    if (output)
        verl_output_release(output);
    else
        verl_batch_destroy(&made);
    return failed ? verl_error_set(error, "out of memory") : 0;
}

int
verl_publish_weights(seat_t *writer, int64_t batch, verl_error_t *error)
{
    return s_publish(writer, batch, batch + 1, NULL, error);
}

// --- in checkpoints -----------------------------------------------------------------------------------------------

typedef struct header {                     // of a file, and of each column in it
    uint64_t magic;
    int64_t  columns;
} header_t;

typedef struct column_header {
    char    name[VERL_BATCH_NAME + 1];
    int64_t dtype, rows, width;
} column_header_t;

static int
s_write(const char *path, const verl_batch_t *made, verl_error_t *error)
{
    FILE *file = fopen(path, "we");
    header_t header = { VERSION_MAGIC, verl_batch_columns(made) };
    bool bad = !file || fwrite(&header, sizeof header, 1, file) != 1;
    for (int i = 0; i < header.columns && !bad; i++) {
        const verl_column_t *column = verl_batch_column_at(made, i);
        column_header_t about = { .dtype = column->dtype, .rows = column->rows, .width = column->width };
        snprintf(about.name, sizeof about.name, "%s", column->name);
        size_t bytes = (size_t) (column->rows * column->width) * verl_dtype_bytes(column->dtype);
        bad = column->ragged || fwrite(&about, sizeof about, 1, file) != 1 ||
              (bytes && fwrite(column->data, bytes, 1, file) != 1);
    }
    bad = bad || fflush(file) || fsync(fileno(file));
    if (file && fclose(file))
        bad = true;
    return bad ? verl_error_errno(error, "cannot write %s", path) : 0;
}

static int
s_read_column(FILE *file, verl_batch_t *made, const char *path, verl_error_t *error)
{
    column_header_t about;
    struct stat info;
    if (fread(&about, sizeof about, 1, file) != 1 || fstat(fileno(file), &info) ||
        !memchr(about.name, 0, sizeof about.name) || about.dtype < 0 || about.dtype >= VERL_DTYPE_COUNT ||
        about.rows < 0 || about.width < 1 || about.rows > info.st_size || about.width > info.st_size ||
        (about.rows && about.width > info.st_size / about.rows))
        return verl_error_set(error, "%s is no version of weights", path);
    verl_batch_set_rows(made, about.rows);
    void *data = verl_batch_add(made, about.name, (verl_dtype_t) about.dtype, about.width);
    size_t bytes = (size_t) (about.rows * about.width) * verl_dtype_bytes((verl_dtype_t) about.dtype);
    if (!data || (bytes && fread(data, bytes, 1, file) != 1))
        return verl_error_set(error, "%s ends early, or there is no memory for it", path);
    return 0;
}

static verl_batch_t *
s_read(const seat_t *writer, int64_t update, verl_error_t *error)
{
    char path[4096];
    header_t header;
    snprintf(path, sizeof path, "%s/versions/%lld", writer->host->restored_path, (long long) update);
    FILE *file = fopen(path, "re");
    if (!file) {
        verl_error_errno(error, "the weights of update %lld, which are still wanted, cannot be read from %s",
                         (long long) update, path);
        return NULL;
    }
    verl_batch_t *made = verl_batch_new_made(update, -1, 0, &writer->host->memory);
    int failed = !made || fread(&header, sizeof header, 1, file) != 1 || header.magic != VERSION_MAGIC ||
                 header.columns < 0 || header.columns > VERL_MAX_COLUMNS
                     ? verl_error_set(error, "%s is no version of weights", path) : 0;
    for (int i = 0; !failed && i < header.columns; i++)
        failed = s_read_column(file, made, path, error);
    fclose(file);
    if (failed || verl_batch_seal(made, error))
        verl_batch_destroy(&made);
    return made;
}

int
verl_save_versions(host_t *host, int64_t step, const char *directory, verl_error_t *error)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/versions", directory);
    for (const version_t *version = host->versions; version; version = version->next) {
        if (version->update >= step)
            continue;                       // made behind the cut: it is made again
        if (mkdir(path, 0700) && errno != EEXIST)
            return verl_error_errno(error, "cannot make %s", path);
        char file[4300];
        snprintf(file, sizeof file, "%s/%lld", path, (long long) version->update);
        if (s_write(file, version->output->made, error))
            return -1;
    }
    return 0;
}

// --- the beginning ------------------------------------------------------------------------------------------------

static bool
s_base_wanted(const seat_t *writer, int64_t update)
{
    bool wanted = false;
    for (int i = 0; i < writer->out_count; i++)
        for (int64_t replica = 0; writer->out[i].plan->weights && replica < writer->out[i].replicas; replica++)
            wanted |= s_wants(writer, &writer->out[i], replica, update, writer->start);
    return wanted;
}

int
verl_publish_base(seat_t *writer, verl_error_t *error)
{
    const verl_plan_t *plan = writer->world->plan;
    int64_t last = verl_span_previous(&writer->plan->span, plan->steps, writer->start);
    int64_t current = last >= writer->world->cut ? last : writer->world->cut - 1, most = s_most_staleness(writer);
    for (int64_t update = current; update >= 0 && update >= writer->world->cut - 1 && update >= current - most;
         update--) {
        if (!s_base_wanted(writer, update))
            continue;
        verl_batch_t *made = update == current ? NULL : s_read(writer, update, error);
        if ((update != current && !made) || s_publish(writer, update, writer->start, made, error))
            return -1;
    }
    return 0;
}
