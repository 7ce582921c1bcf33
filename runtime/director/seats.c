// seats.c: what the stages of an actor wait for at this moment, and how much their readers would take, as actors answer
// a ping.
//
// Nothing is decided by it: it is for whoever watches. An actor need not say it.
#include "runtime/director/director_impl.h"

#define SEATS_MOST 65536                    // of one actor

// In the numbers of a pong: data, weights, room, the worker.
static const char *const s_words[] = { NULL, "data", "weights", "room", "worker" };
#define WORDS ((int64_t) (sizeof s_words / sizeof *s_words))

static int
s_read(verl_reader_t *reader, seat_view_t *ret)
{
    uint32_t fields;
    return verl_read_array(reader, &fields) || fields != 4 || verl_read_int(reader, &ret->revision) ||
           verl_read_int(reader, &ret->stage) || verl_read_int(reader, &ret->state) ||
           verl_read_int(reader, &ret->credit) || ret->stage < 0 || ret->stage > INT32_MAX;
}

void
verl_hear_seats(party_t *party, verl_reader_t *reader)
{
    uint32_t count;
    if (verl_read_array(reader, &count) || count > SEATS_MOST)
        count = 0;
    seat_view_t *seats = count ? calloc(count, sizeof *seats) : NULL;
    for (uint32_t i = 0; seats && i < count; i++)
        if (s_read(reader, &seats[i]))
            count = i;
    free(party->seats);
    party->seats = seats;
    party->seats_count = seats ? count : 0;
}

void
verl_view_seats(const director_t *self, const revision_t *revision, int stage, const char **ret_waits,
                int64_t *ret_credit)
{
    const char *name = revision->plan->stages[stage].name;
    int64_t waits = 0;
    *ret_credit = -1;
    for (const party_t *party = self->parties; party; party = party->next) {
        for (uint32_t i = 0; i < party->seats_count && !party->dead; i++) {
            const seat_view_t *seat = &party->seats[i];
            if (seat->state < 0 || seat->state >= WORDS ||          // not in force yet, or over
                strcmp(verl_stage_label(self, seat->revision, (int) seat->stage), name) != 0)
                continue;
            waits = seat->state > waits ? seat->state : waits;
            if (seat->credit >= 0 && (*ret_credit < 0 || seat->credit < *ret_credit))
                *ret_credit = seat->credit;
        }
    }
    *ret_waits = waits == 1 && revision->plan->stages[stage].in_count == 0 ? "permit" : s_words[waits];
}
