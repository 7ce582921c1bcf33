// spy_follow_merge.c: see spy_follow_merge.h.
#include "tools/spy_follow_merge.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/base/clock.h"

typedef struct party {
    char                routing[256];
    size_t              routing_size;
    char                label[VERL_TRACE_NAME];
    verl_trace_counts_t counts;
    uint64_t            came;
    uint64_t            used, used_bytes;   // taken of its credit
    uint64_t            told, told_bytes;   // of these, when its credit was moved last
    bool                finished;
} party_t;

typedef struct frame {
    int                 party;
    char               *bytes;
    verl_reader_t       reader;             // behind `record`
    size_t              record_bytes;       // of `record`
    verl_trace_record_t record;
} frame_t;

struct verl_spy_merge {
    uint64_t  records, bytes;
    int       parties_count, parties_room;
    party_t **parties;
    int       count, room;                  // frames with records left
    frame_t **frames;
    int       best;                         // frame of the record that verl_spy_merge_next gave; -1: none
    uint64_t  malformed;
};

verl_spy_merge_t *
verl_spy_merge_new(uint64_t records, uint64_t bytes)
{
    verl_spy_merge_t *merge = calloc(1, sizeof *merge);
    if (merge) {
        merge->records = records;
        merge->bytes = bytes;
        merge->best = -1;
    }
    return merge;
}

static void
s_free_frame(frame_t *frame)
{
    free(frame->bytes);
    free(frame);
}

void
verl_spy_merge_destroy(verl_spy_merge_t **merge_p)
{
    verl_spy_merge_t *merge = *merge_p;
    *merge_p = NULL;
    if (!merge)
        return;
    for (int i = 0; i < merge->count; i++)
        s_free_frame(merge->frames[i]);
    for (int i = 0; i < merge->parties_count; i++)
        free(merge->parties[i]);
    free(merge->frames);
    free(merge->parties);
    free(merge);
}

// Room for one more pointer.
static int
s_grow(void *list_p, int count, int *room)
{
    if (count < *room)
        return 0;
    void **list = *(void ***) list_p;
    int larger = *room ? *room * 2 : 64;
    void **grown = realloc(list, (size_t) larger * sizeof *grown);
    if (!grown)
        return -1;
    *(void ***) list_p = grown;
    *room = larger;
    return 0;
}

static int
s_party(verl_spy_merge_t *merge, const char *routing, size_t size)
{
    for (int i = 0; i < merge->parties_count; i++)
        if (merge->parties[i]->routing_size == size && memcmp(merge->parties[i]->routing, routing, size) == 0)
            return i;
    party_t *party = size <= sizeof party->routing ? calloc(1, sizeof *party) : NULL;
    if (!party || s_grow(&merge->parties, merge->parties_count, &merge->parties_room)) {
        free(party);
        return -1;
    }
    memcpy(party->routing, routing, size);
    party->routing_size = size;
    merge->parties[merge->parties_count] = party;
    return merge->parties_count++;
}

// Reads the next record of a frame. False: there is none, or what there is cannot be read (counted).
static bool
s_advance(verl_spy_merge_t *merge, frame_t *frame)
{
    const char *before = frame->reader.at;
    if (!verl_reader_left(&frame->reader))
        return false;
    if (verl_trace_read_record(&frame->reader, &frame->record, NULL)) {
        merge->malformed++;
        return false;
    }
    frame->record_bytes = (size_t) (frame->reader.at - before);
    merge->parties[frame->party]->came++;
    return true;
}

int
verl_spy_merge_add(verl_spy_merge_t *merge, const char *routing, size_t routing_size, const char *bytes, size_t size)
{
    verl_trace_head_t head;
    frame_t *frame = calloc(1, sizeof *frame);
    int index = s_party(merge, routing, routing_size);
    if (!frame || index < 0 || !(frame->bytes = malloc(size ? size : 1)) ||
        s_grow(&merge->frames, merge->count, &merge->room)) {
        if (frame)
            s_free_frame(frame);
        return -1;
    }
    party_t *party = merge->parties[index];
    memcpy(frame->bytes, bytes, size);
    frame->party = index;
    verl_reader_init(&frame->reader, frame->bytes, size);
    if (verl_trace_read_head(&frame->reader, &head, NULL)) {
        merge->malformed++;
        s_free_frame(frame);
        return -1;
    }
    memcpy(party->label, head.party, sizeof party->label);
    party->counts = head.counts;
    party->finished |= head.last;
    if (!verl_reader_left(&frame->reader))
        party->used++;                      // a frame without any record
    if (s_advance(merge, frame))
        merge->frames[merge->count++] = frame;
    else
        s_free_frame(frame);
    return 0;
}

const verl_trace_record_t *
verl_spy_merge_next(verl_spy_merge_t *merge, int64_t until)
{
    merge->best = -1;
    for (int i = 0; i < merge->count; i++)
        if (merge->best < 0 || merge->frames[i]->record.t < merge->frames[merge->best]->record.t)
            merge->best = i;
    if (merge->best >= 0 && merge->frames[merge->best]->record.t > until)
        merge->best = -1;
    return merge->best < 0 ? NULL : &merge->frames[merge->best]->record;
}

void
verl_spy_merge_pop(verl_spy_merge_t *merge)
{
    if (merge->best < 0)
        return;
    frame_t *frame = merge->frames[merge->best];
    party_t *party = merge->parties[frame->party];
    party->used++;
    party->used_bytes += frame->record_bytes;
    if (!s_advance(merge, frame)) {
        // The order of frames stays, so that of equal times the first to come is the first to go.
        memmove(&merge->frames[merge->best], &merge->frames[merge->best + 1],
                (size_t) (--merge->count - merge->best) * sizeof *merge->frames);
        s_free_frame(frame);
    }
    merge->best = -1;
}

int
verl_spy_merge_wait_ms(const verl_spy_merge_t *merge)
{
    int64_t oldest = INT64_MAX;
    for (int i = 0; i < merge->count; i++)
        if (merge->frames[i]->record.t < oldest)
            oldest = merge->frames[i]->record.t;
    if (!merge->count)
        return -1;
    int64_t left = oldest + VERL_SPY_HOLD_NS - verl_now();
    return left <= 0 ? 0 : left > VERL_S ? 1000 : (int) (left / VERL_MS) + 1;
}

bool
verl_spy_merge_credit(verl_spy_merge_t *merge, verl_spy_credit_t *ret)
{
    for (int i = 0; i < merge->parties_count; i++) {
        party_t *party = merge->parties[i];
        bool moved = (party->used - party->told) * 4 >= merge->records && party->used > party->told;
        moved |= (party->used_bytes - party->told_bytes) * 4 >= merge->bytes && party->used_bytes > party->told_bytes;
        if (!moved)
            continue;
        party->told = party->used;
        party->told_bytes = party->used_bytes;
        *ret = (verl_spy_credit_t) { party->routing, party->routing_size, party->used + merge->records,
                                     party->used_bytes + merge->bytes };
        return true;
    }
    return false;
}

void
verl_spy_merge_totals(const verl_spy_merge_t *merge, verl_spy_totals_t *ret)
{
    *ret = (verl_spy_totals_t) { .parties = merge->parties_count, .malformed = merge->malformed };
    for (int i = 0; i < merge->parties_count; i++) {
        const party_t *party = merge->parties[i];
        ret->unfinished += !party->finished;
        ret->counts.seen += party->counts.seen;
        ret->counts.matched += party->counts.matched;
        ret->counts.sent += party->counts.sent;
        ret->counts.dropped += party->counts.dropped;
        ret->came += party->came;
        if (party->counts.dropped > ret->slowest_dropped) {
            ret->slowest_dropped = party->counts.dropped;
            memcpy(ret->slowest, party->label, sizeof ret->slowest);
        }
    }
}

int
verl_spy_merge_finished(const verl_spy_merge_t *merge)
{
    int count = 0;
    for (int i = 0; i < merge->parties_count; i++)
        count += merge->parties[i]->finished;
    return count;
}
