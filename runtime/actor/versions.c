// versions.c: the weights that a writer publishes: after each update and, at the beginning of a revision and after a
// restart, those of before that some batch still wants.
//
// Version n is the weights after all updates up to n, whichever revision publishes it.
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
    int64_t base = writer->world->base[edge->plan->reader];
    return update > base ? update : base;
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

// The lowest update above `after` whose weights an edge's reader wants for a batch from `from` on; -1: none.
static int64_t
s_next_of(const seat_t *writer, const edge_out_t *edge, int64_t after, int64_t from)
{
    const verl_plan_t *plan = writer->world->plan;
    int64_t k = edge->plan->weights ? verl_span_next(&edge->reader->span, plan->steps, from - 1) : -1;
    while (k >= 0 && s_wanted(writer, edge, k) <= after)
        k = verl_span_next(&edge->reader->span, plan->steps, k);
    return k >= 0 ? s_wanted(writer, edge, k) : -1;
}

// The same of all its readers.
static int64_t
s_next(const seat_t *writer, int64_t after, int64_t from)
{
    int64_t lowest = -1;
    for (int i = 0; i < writer->out_count; i++) {
        int64_t update = s_next_of(writer, &writer->out[i], after, from);
        if (update >= 0 && (lowest < 0 || update < lowest))
            lowest = update;
    }
    return lowest;
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

// Takes what was made; NULL where that is NULL.
static output_t *
s_output(seat_t *writer, verl_batch_t *made, verl_error_t *error)
{
    output_t *output = made ? verl_output_new(writer->host, NULL, NULL, made) : NULL;
    if (made && !output) {
        verl_error_set(error, "out of memory");
        verl_batch_destroy(&made);
    }
    return output;
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

static version_t *
s_kept(const host_t *host, int64_t update)
{
    version_t *version = host->versions;
    while (version && version->update > update)
        version = version->next;
    return version && version->update == update ? version : NULL;
}

// Will the weights of an update be wanted for a batch from `from` on, when they are no more the newest? Of all
// revisions in force that are not retired: a checkpoint may lie where one ends and another begins.
static bool
s_to_keep(host_t *host, int64_t update, int64_t from)
{
    bool keep = false;
    pthread_mutex_lock(&host->lock);
    for (const world_t *world = host->worlds; world; world = world->next)
        for (int i = 0; i < world->seats_count && world->ordered; i++)
            for (int j = 0; j < world->seats[i].out_count && !keep; j++) {
                const edge_out_t *edge = &world->seats[i].out[j];
                keep = edge->plan->weights && edge->plan->staleness > 0 &&
                       s_next_of(&world->seats[i], edge, update - 1, from) == update;
            }
    pthread_mutex_unlock(&host->lock);
    return keep;
}

// So that a checkpoint, and a revision that begins, have what later batches want. The newest first. Also where a
// revision of later batches is given this version, the batches next to it are still to come, and a checkpoint of them.
static void
s_keep(host_t *host, int64_t update, output_t *output)
{
    version_t **link = &host->versions, *version = s_kept(host, update) ? NULL : malloc(sizeof *version);
    while (version && *link && (*link)->update > update)
        link = &(*link)->next;
    if (version) {
        atomic_fetch_add(&output->refs, 1);
        *version = (version_t) { .next = *link, .update = update, .output = output };
        *link = version;
    }
    for (link = &host->versions; *link;) {
        version = *link;
        if (s_to_keep(host, version->update, update + 1)) {
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

// Publishes one version to every reader that wants it for a batch from `from` on. Takes the output.
static int
s_publish(seat_t *writer, int64_t update, int64_t from, output_t *output, verl_error_t *error)
{
    verl_buffer_t body = { 0 };
    int failed = s_pack(output->made, &body, error);
    for (int i = 0; i < writer->out_count && !failed; i++) {
        edge_out_t *edge = &writer->out[i];
        for (int64_t replica = 0; edge->plan->weights && replica < edge->replicas && !failed; replica++)
            if (s_wants(writer, edge, replica, update, from))
                failed = s_send(writer, edge, replica, update, output, &body, error);
    }
    verl_buffer_done(&body);
    if (!failed)
        s_keep(writer->host, update, output);
    verl_output_release(output);
    return failed;
}

// The weights as they are are asked for only where somebody wants them.
int
verl_publish_weights(seat_t *writer, int64_t batch, verl_error_t *error)
{
    if (s_next(writer, batch - 1, batch + 1) != batch)
        return 0;
    output_t *output = s_output(writer, s_give(writer, batch, error), error);
    return output ? s_publish(writer, batch, batch + 1, output, error) : -1;
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

// One of before the beginning: as it was published, as the weights are, or from the checkpoint.
static output_t *
s_past(seat_t *writer, int64_t update, verl_error_t *error)
{
    version_t *kept = s_kept(writer->host, update);
    if (kept) {
        atomic_fetch_add(&kept->output->refs, 1);
        return kept->output;
    }
    int64_t last = verl_span_previous(&writer->plan->span, writer->world->plan->steps, writer->start);
    return s_output(writer, update >= last ? s_give(writer, update, error) : s_read(writer, update, error), error);
}

// kept: only what is kept. Returns how many versions went, or -1.
static int
s_publish_past(seat_t *writer, bool kept, verl_error_t *error)
{
    int64_t update;
    for (int count = 0;; count++) {
        update = s_next(writer, writer->passed, writer->start);
        if (update < 0 || update >= writer->start || (kept && !s_kept(writer->host, update)))
            return count;
        output_t *output = s_past(writer, update, error);
        if (!output || s_publish(writer, update, writer->start, output, error))
            return -1;
        writer->passed = update;
    }
}

int
verl_publish_base(seat_t *writer, verl_error_t *error)
{
    return s_publish_past(writer, false, error) < 0 ? -1 : 0;
}

int
verl_pass_on_versions(world_t *world, verl_error_t *error)
{
    int count = 0;
    for (int i = 0; i < world->seats_count; i++) {
        int went = world->seats[i].plan->handler->writes_weights ? s_publish_past(&world->seats[i], true, error) : 0;
        if (went < 0)
            return -1;
        count += went;
    }
    return count;
}
