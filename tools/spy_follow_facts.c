// spy_follow_facts.c: see spy_follow_facts.h.
#include "tools/spy_follow_facts.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tools/spy.h"
#include "tools/spy_follow_batch.h"

#define BATCHES_MAX (1 << 30)               // beyond it batches are not told apart

int
verl_spy_tally_option(verl_spy_tally_t *tally, const char *command, int count, char **words, int *at)
{
    verl_error_t error = { "" };
    bool missing = false;
    const char *value = verl_spy_value(count, words, at, "--assert", &missing);
    if (missing)
        return verl_spy_usage(command, "--assert needs a value"), -1;
    if (!value)
        return 0;
    verl_spy_assert_destroy(&tally->assertion);
    tally->text = value;
    tally->assertion = verl_spy_assert_parse(value, &error);
    return tally->assertion ? 1 : (verl_spy_usage(command, "%s", error.text), -1);
}

bool
verl_spy_tally_needs_stats(const verl_spy_tally_t *tally)
{
    return verl_spy_assert_scalar(tally->assertion, VERL_SPY_SCALAR_nan);
}

static void
s_note_batch(verl_spy_tally_t *tally, int64_t batch)
{
    if (batch < 0 || batch >= BATCHES_MAX)
        return;
    size_t byte = (size_t) batch / 8;
    if (byte >= tally->batches_room) {
        size_t room = tally->batches_room ? tally->batches_room : 1024;
        while (room <= byte)
            room *= 2;
        uint8_t *grown = realloc(tally->batches, room);
        if (!grown)
            return;
        memset(grown + tally->batches_room, 0, room - tally->batches_room);
        tally->batches = grown;
        tally->batches_room = room;
    }
    uint8_t bit = (uint8_t) (1u << batch % 8);
    tally->facts.scalars[VERL_SPY_SCALAR_batches] += !(tally->batches[byte] & bit);
    tally->batches[byte] |= bit;
}

// What is in the columns, where it is asked for.
static void
s_note_columns(verl_spy_tally_t *tally, const verl_trace_record_t *record, double *bytes)
{
    verl_spy_batch_t batch;
    if (!record->bytes)
        return;                             // skipped
    if (!record->message.body_size || verl_spy_batch_read(record, &batch, NULL)) {
        tally->unseen++;
        return;
    }
    for (int i = 0; i < batch.count; i++) {
        const verl_spy_column_t *item = &batch.items[i];
        tally->unseen += (item->dtype == VERL_F32 || item->dtype == VERL_BF16) && !item->summed && !item->empty;
        if (item->summed)
            tally->facts.scalars[VERL_SPY_SCALAR_nan] += (double) item->summary.nans;
    }
    tally->unseen += (uint64_t) (batch.columns - batch.count);
    *bytes = (double) batch.bytes;
    verl_spy_batch_done(&batch);
}

void
verl_spy_tally_record(verl_spy_tally_t *tally, const verl_trace_record_t *record)
{
    const verl_spy_assert_t *assertion = tally->assertion;
    verl_spy_facts_t *facts = &tally->facts;
    bool data = record->kind == VERL_TRACE_DATA || record->kind == VERL_TRACE_WEIGHTS;
    double bytes = (double) record->bytes;
    if (tally->shown && verl_spy_assert_series(assertion, VERL_SPY_SERIES_gap_ms))
        verl_spy_facts_add(facts, VERL_SPY_SERIES_gap_ms, (double) (record->t - tally->last_t) / 1e6);
    tally->first_t = tally->shown ? tally->first_t : record->t;
    tally->last_t = record->t;
    tally->shown++;
    if (data && (verl_spy_assert_scalar(assertion, VERL_SPY_SCALAR_nan) ||
                 verl_spy_assert_scalar(assertion, VERL_SPY_SCALAR_bytes) ||
                 verl_spy_assert_series(assertion, VERL_SPY_SERIES_size)))
        s_note_columns(tally, record, &bytes);
    facts->scalars[VERL_SPY_SCALAR_bytes] += bytes;
    facts->scalars[VERL_SPY_SCALAR_skipped] += data && !record->bytes;
    if (data || record->kind == VERL_TRACE_RAN)
        s_note_batch(tally, record->message.batch);
    if (verl_spy_assert_series(assertion, VERL_SPY_SERIES_size))
        verl_spy_facts_add(facts, VERL_SPY_SERIES_size, bytes);
    if (data && record->message.time > 0 && verl_spy_assert_series(assertion, VERL_SPY_SERIES_age_ms))
        verl_spy_facts_add(facts, VERL_SPY_SERIES_age_ms, (double) (record->t - record->message.time) / 1e6);
    if (record->kind == VERL_TRACE_RAN && verl_spy_assert_series(assertion, VERL_SPY_SERIES_busy_ms))
        verl_spy_facts_add(facts, VERL_SPY_SERIES_busy_ms, (double) (record->end - record->begin) / 1e6);
}

void
verl_spy_tally_done(verl_spy_tally_t *tally)
{
    verl_spy_assert_destroy(&tally->assertion);
    verl_spy_facts_done(&tally->facts);
    free(tally->batches);
    tally->batches = NULL;
    tally->batches_room = 0;
}

static uint64_t
s_lost(const verl_spy_totals_t *totals)
{
    return totals->counts.sent > totals->came ? totals->counts.sent - totals->came : 0;
}

void
verl_spy_tally_summary(const verl_spy_tally_t *tally, const verl_spy_totals_t *totals, const char *verb, FILE *out)
{
    const verl_trace_counts_t *counts = &totals->counts;
    uint64_t lost = s_lost(totals);
    fprintf(out, "%" PRIu64 " %s\n", tally->shown, verb);
    fprintf(out, "%" PRIu64 " filtered\n", counts->seen - counts->matched);
    fprintf(out, "%" PRIu64 " dropped%s%s%s\n", counts->dropped, counts->dropped ? ", most of " : "",
            counts->dropped ? totals->slowest : "",
            counts->dropped ? ": their copies found no room, since this program was too slow; the run was not held up"
                            : "");
    if (totals->came > tally->shown)
        fprintf(out, "%" PRIu64 " came after the last one\n", totals->came - tally->shown);
    if (lost)
        fprintf(out, "%" PRIu64 " lost on the way\n", lost);
    if (totals->malformed)
        fprintf(out, "%" PRIu64 " frames could not be read\n", totals->malformed);
    if (totals->unfinished)
        fprintf(out, "%" PRId64 " of %" PRId64 " actors ended without telling their last counts\n", totals->unfinished,
                totals->parties);
}

bool
verl_spy_tally_holds(verl_spy_tally_t *tally, const verl_spy_totals_t *totals, const char *name)
{
    if (!tally->assertion)
        return true;
    double *scalars = tally->facts.scalars;
    char why[1000];
    double seconds = tally->shown > 1 ? (double) (tally->last_t - tally->first_t) / 1e9 : 0;
    scalars[VERL_SPY_SCALAR_shown] = (double) tally->shown;
    scalars[VERL_SPY_SCALAR_seen] = (double) totals->counts.seen;
    scalars[VERL_SPY_SCALAR_filtered] = (double) (totals->counts.seen - totals->counts.matched);
    scalars[VERL_SPY_SCALAR_dropped] = (double) totals->counts.dropped;
    scalars[VERL_SPY_SCALAR_lost] = (double) s_lost(totals);
    scalars[VERL_SPY_SCALAR_parties] = (double) totals->parties;
    scalars[VERL_SPY_SCALAR_seconds] = seconds;
    scalars[VERL_SPY_SCALAR_rate] = seconds > 0 ? (double) (tally->shown - 1) / seconds : 0;
    if (tally->unseen && verl_spy_tally_needs_stats(tally)) {
        fprintf(stderr,
                "%s: nan is not known: the numbers of %" PRIu64 " columns did not come (a recording has them with "
                "--stats or --values); the others have %.0f NaNs\n", name, tally->unseen, scalars[VERL_SPY_SCALAR_nan]);
        scalars[VERL_SPY_SCALAR_nan] = (double) NAN;
    }
    if (verl_spy_assert_holds(tally->assertion, &tally->facts, why, sizeof why))
        return true;
    fprintf(stderr, "%s: assertion failed: %s (%s)\n", name, tally->text, why);
    return false;
}
