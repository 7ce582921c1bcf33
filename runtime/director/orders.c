// orders.c: what the director says to actors: one message each, on the control channel. PROTOCOL.md lists the words.
#include "runtime/director/director_impl.h"

void
verl_order(director_t *self, party_t *party, int64_t revision, verl_buffer_t *body)
{
    verl_message_t message = { .revision = revision, .batch = -1, .parts = 1, .time = verl_now(), .body = body->data,
                               .body_size = body->size };
    if (body->failed || verl_outbound_send(party->control, &message, NULL))
        verl_error_set(&self->error, "out of memory");
    verl_outbound_flush(party->control);
    verl_buffer_done(body);
}

void
verl_order_number(director_t *self, party_t *party, int64_t revision, const char *word, int64_t number)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, word);
    verl_pack_int(&body, number);
    verl_order(self, party, revision, &body);
}

void
verl_order_path(director_t *self, party_t *party, const char *word, int64_t step, const char *path)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, step < 0 ? 2 : 3);
    verl_pack_cstr(&body, word);
    if (step >= 0)
        verl_pack_int(&body, step);
    verl_pack_cstr(&body, path);
    verl_order(self, party, 0, &body);
}

void
verl_order_table(director_t *self, party_t *party, const revision_t *revision)
{
    verl_buffer_t body = { 0 };
    size_t size;
    verl_plan_t plan = *revision->plan;
    if (party->replica > 0)
        plan.save_every = 0;                // the first replica saves for all of them
    char *table = verl_plan_encode(&plan, &size);
    if (!table) {
        verl_error_set(&self->error, "out of memory");
        return;
    }
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, "table");
    verl_pack_bin(&body, table, size);
    free(table);
    verl_order(self, party, revision->plan->revision, &body);
}

void
verl_order_peers(director_t *self, party_t *party, const revision_t *revision)
{
    verl_buffer_t body = { 0 };
    uint32_t count = 0;
    for (int i = 0; i < revision->slots_count; i++)
        count += revision->slots[i].party != NULL;
    verl_pack_array(&body, 2);
    verl_pack_cstr(&body, "peers");
    verl_pack_array(&body, count);
    for (int i = 0; i < revision->slots_count; i++) {
        const party_t *peer = revision->slots[i].party;
        if (!peer)
            continue;
        verl_pack_array(&body, 3);
        verl_pack_uint(&body, peer->incarnation);
        verl_pack_cstr(&body, peer->name);
        verl_pack_int(&body, peer->replica);
    }
    verl_order(self, party, revision->plan->revision, &body);
}

void
verl_order_begin(director_t *self, party_t *party, const revision_t *revision, const int64_t *starts)
{
    verl_buffer_t body = { 0 };
    verl_pack_array(&body, 4);
    verl_pack_cstr(&body, "begin");
    verl_pack_int(&body, revision->cut);
    verl_pack_array(&body, (uint32_t) revision->plan->stages_count);
    for (int i = 0; i < revision->plan->stages_count; i++)
        verl_pack_int(&body, starts[i]);
    verl_pack_array(&body, (uint32_t) revision->plan->stages_count);
    for (int i = 0; i < revision->plan->stages_count; i++)
        verl_pack_int(&body, revision->base[i]);
    verl_order(self, party, revision->plan->revision, &body);
}
