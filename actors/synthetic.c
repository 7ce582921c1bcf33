// synthetic.c: a stage of a given cost, for planning a cluster and for testing the runtime: it takes time, gives bytes
// and, on demand, goes wrong.
//
// What it gives is a pure function of (stage seed, batch, row), so that a reader can check every byte: a row begins
// with the first eight bytes of its random stream (in the machine's order), the rest repeats the first of them.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <verl.h>
#include "actors/data/random.h"

enum { MODE_SLEEP, MODE_SPIN };
enum { LOAD_ONCE, LOAD_BATCH };

typedef struct {
    double  busy_ms, jitter_ms;
    int     mode;
    int64_t rows, bytes;
    verl_strings_t reads, copies;           // columns that travel to it; that it gives again
    double  load_ms;
    int     load;
    const char *loads;                      // what reports call it
    int64_t tokens;                         // of a row
    int64_t fail_at, crash_at, hang_at;     // batch ids; -1: never
} synthetic_t;

static const verl_option_t s_options[] = {
    VERL_REAL(synthetic_t, busy_ms, 0, 0, 1e9, "ms", "time that a batch takes"),
    VERL_REAL(synthetic_t, jitter_ms, 0, 0, 1e9, "ms", "up to so much more time, uniform, the same in every run"),
    VERL_CHOICE(synthetic_t, mode, "sleep", "sleep|spin", "whether the time passes asleep or computing"),
    VERL_INT(synthetic_t, rows, 1, 1, 16777216, "rows", "rows of a batch, where the stage is a source"),
    VERL_INT(synthetic_t, bytes, 8, 0, 4294967296, "bytes", "payload of a row"),
    VERL_OPTION_OF(STRINGS, synthetic_t, reads, "columns from upstream that travel to it", .optional = true),
    VERL_OPTION_OF(STRINGS, synthetic_t, copies, "columns of bytes that it copies, and gives again under their names",
                   .optional = true),
    VERL_REAL(synthetic_t, load_ms, 0, 0, 1e9, "ms", "time that loading what it works with takes"),
    VERL_CHOICE(synthetic_t, load, "once", "once|batch", "whether it loads that before its first batch or for each"),
    VERL_STRING(synthetic_t, loads, "\"data\"", "what reports call that which it loads"),
    VERL_INT(synthetic_t, tokens, 0, 0, 1e9, "tokens", "what a row counts in the metric tokens/sum; 0: no metric"),
    VERL_INT(synthetic_t, fail_at, -1, -1, 1e15, "batch", "batch at which the handler fails; -1: none"),
    VERL_INT(synthetic_t, crash_at, -1, -1, 1e15, "batch", "batch at which the process dies of a signal; -1: none"),
    VERL_INT(synthetic_t, hang_at, -1, -1, 1e15, "batch", "batch at which the handler never returns; -1: none"),
    VERL_OPTIONS_END
};

#define S_STEP 0.05                         // seconds between two looks at whether the run is being stopped

static int
s_spin(verl_stage_t *stage, double end)
{
    for (double now = verl_clock(), look = now + S_STEP; now < end; now = verl_clock())
        if (now >= look) {
            if (verl_progress(stage, 0))
                return -1;
            look = now + S_STEP;
        }
    return 0;
}

static int
s_take(verl_stage_t *stage, const synthetic_t *self, double ms)
{
    if (ms <= 0)
        return 0;
    if (self->mode == MODE_SPIN)
        return s_spin(stage, verl_clock() + ms / 1e3);
    return verl_sleep(stage, ms / 1e3) ? -1 : 0;
}

static int
s_load(verl_stage_t *stage, const synthetic_t *self)
{
    double begin = verl_clock();
    if (self->load_ms <= 0)
        return 0;
    if (s_take(stage, self, self->load_ms) != 0)
        return -1;
    verl_loaded(stage, self->loads, verl_clock() - begin);
    return 0;
}

static int
s_begin(verl_stage_t *stage)
{
    const synthetic_t *self = verl_stage_options(stage);
    return self->load == LOAD_ONCE ? s_load(stage, self) : 0;
}

// Takes the time that the batch costs. Returns -1 when the run is being stopped.
static int
s_be_busy(verl_stage_t *stage, const synthetic_t *self, int64_t batch)
{
    double ms = self->busy_ms;
    if (self->jitter_ms > 0) {
        verl_random_t stream = verl_random_stream(verl_stage_seed(stage), "jitter", batch, 0);
        ms += self->jitter_ms * verl_random_uniform(&stream);
    }
    return s_take(stage, self, ms);
}

static void
s_crash(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    signal(SIGSEGV, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(SIGSEGV);
}

static int
s_misbehave(verl_stage_t *stage, const synthetic_t *self, int64_t batch)
{
    if (batch == self->crash_at)
        s_crash();
    while (batch == self->hang_at)
        pause();
    return batch == self->fail_at ? verl_fail(stage, "fail_at names this batch, %lld", (long long) batch) : 0;
}

static void
s_fill_row(uint8_t *row, size_t bytes, uint64_t seed, int64_t batch, int64_t index)
{
    verl_random_t stream = verl_random_stream(seed, NULL, batch, index);
    uint64_t head = verl_random_u64(&stream);
    memcpy(row, &head, bytes < sizeof head ? bytes : sizeof head);
    if (bytes > sizeof head)
        memset(row + sizeof head, row[0], bytes - sizeof head);
}

// A source makes rows, and names them.
static int
s_add_rows(const synthetic_t *self, int64_t batch, verl_batch_t *out)
{
    if (verl_batch_set_rows(out, self->rows) != 0)
        return -1;
    int64_t *id = verl_batch_add_i64(out, "id");
    if (!id)
        return -1;
    for (int64_t row = 0; row < self->rows; row++)
        id[row] = batch * self->rows + row;
    return 0;
}

// A column of bytes, given again: a copy that costs what copies cost.
static int
s_copy(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out, const char *name)
{
    const verl_column_t *column = verl_batch_column(in, name);
    int64_t rows = verl_batch_rows(in);
    double begin = verl_clock();
    if (column->dtype != VERL_U8)
        return verl_fail(stage, "copies names the column %s, which is of %s: one of u8 would be right", name,
                         verl_dtype_name(column->dtype));
    int64_t *lengths = malloc(((size_t) rows + 1) * sizeof *lengths);
    for (int64_t row = 0; lengths && row < rows; row++)
        lengths[row] = verl_column_length(column, row) * column->width;
    uint8_t *copy = lengths ? verl_batch_add_ragged(out, name, VERL_U8, 1, lengths) : NULL;
    for (int64_t row = 0; copy && row < rows; row++) {
        memcpy(copy, verl_column_at(column, row), (size_t) lengths[row]);
        copy += lengths[row];
    }
    free(lengths);
    verl_moved(stage, verl_clock() - begin);
    return copy ? 0 : -1;
}

// What it was sent, it looks at, and what it has to give again, it copies.
static int
s_take_columns(verl_stage_t *stage, const synthetic_t *self, const verl_batch_t *in, verl_batch_t *out)
{
    for (int i = 0; i < self->reads.count; i++)
        if (!verl_batch_column(in, self->reads.items[i]))
            return verl_fail(stage, "column %s did not come", self->reads.items[i]);
    for (int i = 0; i < self->copies.count; i++)
        if (s_copy(stage, in, out, self->copies.items[i]) != 0)
            return -1;
    return 0;
}

static int
s_work(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    const synthetic_t *self = verl_stage_options(stage);
    int64_t batch = verl_batch_id(in), rows = verl_batch_rows(in);
    if (s_misbehave(stage, self, batch) != 0 || (self->load == LOAD_BATCH && s_load(stage, self) != 0) ||
        s_be_busy(stage, self, batch) != 0 || s_take_columns(stage, self, in, out) != 0)
        return -1;
    if (rows == 0) {                        // a source: it was given none
        if (s_add_rows(self, batch, out) != 0)
            return -1;
        rows = self->rows;
    }
    uint8_t *payload = verl_batch_add(out, "payload", VERL_U8, self->bytes);
    if (!payload)
        return -1;
    for (int64_t row = 0; row < rows; row++)
        s_fill_row(payload + row * self->bytes, (size_t) self->bytes, verl_stage_seed(stage), batch,
                   verl_batch_first_row(in) + row);
    if (self->tokens > 0)
        verl_metric(stage, "tokens/sum", (double) (rows * self->tokens));
    return 0;
}

// Ids are born at a source; a stage that has them upstream leaves them alone.
static int
s_declare(verl_declaration_t *declaration, const void *state, const void *options)
{
    const synthetic_t *self = options;
    char give[300];
    (void) state;
    for (int i = 0; i < self->copies.count; i++) {
        if (strcmp(self->copies.items[i], "payload") == 0 || strcmp(self->copies.items[i], "id") == 0) {
            verl_declare_error(declaration, "copies",
                               "names `%s`, which it gives itself: another name (`as` on the stage "
                               "that makes the column) would be right",
                               self->copies.items[i]);
            continue;
        }
        snprintf(give, sizeof give, "%s:u8[n,*]", self->copies.items[i]);
        verl_declare_give(declaration, give);
    }
    if (!verl_declare_has_upstream(declaration, "id"))
        verl_declare_give(declaration, "id:i64[n]");
    return 0;
}

VERL_KIND(synthetic,
    .about = "takes a given time and gives a given number of bytes",
    .stages = { { "work", s_work, .about = "works on a batch",
                  .options_size = sizeof(synthetic_t), .options = s_options,
                  .needs = { "*reads", "*copies" }, .gives = { "payload:u8[n,bytes]" }, .declare = s_declare,
                  .begin = s_begin } })
