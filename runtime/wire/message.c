// message.c: see message.h.
#include "runtime/wire/message.h"
#include "runtime/wire/pack.h"

int
verl_message_write(verl_buffer_t *frame, const verl_message_t *message)
{
    verl_pack_array(frame, VERL_MESSAGE_FIELDS + 1);
    verl_pack_int(frame, VERL_PROTOCOL);
    verl_pack_int(frame, message->type);
    verl_pack_int(frame, message->edge);
    verl_pack_uint(frame, message->from);
    verl_pack_uint(frame, message->to);
    verl_pack_uint(frame, message->seq);
    verl_pack_int(frame, message->revision);
    verl_pack_int(frame, message->batch);
    verl_pack_int(frame, message->part);
    verl_pack_int(frame, message->parts);
    verl_pack_int(frame, message->time);
    return verl_pack_bin(frame, message->body, message->body_size);
}

static int
s_read_fields(verl_reader_t *frame, verl_message_t *m)
{
    return verl_read_int(frame, &m->type) || verl_read_int(frame, &m->edge) || verl_read_uint(frame, &m->from) ||
           verl_read_uint(frame, &m->to) || verl_read_uint(frame, &m->seq) || verl_read_int(frame, &m->revision) ||
           verl_read_int(frame, &m->batch) || verl_read_int(frame, &m->part) || verl_read_int(frame, &m->parts) ||
           verl_read_int(frame, &m->time) || verl_read_bin(frame, &m->body, &m->body_size);
}

int
verl_message_read(verl_reader_t *frame, verl_message_t *ret_message, verl_error_t *error)
{
    uint32_t fields;
    int64_t protocol;
    if (verl_read_array(frame, &fields) || fields < 1 || verl_read_int(frame, &protocol))
        return verl_error_set(error, "a frame does not begin with a message");
    if (protocol != VERL_PROTOCOL)
        return verl_error_set(error, "a message of protocol %lld came; this party speaks protocol %d",
                              (long long) protocol, VERL_PROTOCOL);
    if (fields != VERL_MESSAGE_FIELDS + 1 || s_read_fields(frame, ret_message))
        return verl_error_set(error, "a message is malformed");
    if (ret_message->type < VERL_MESSAGE_DATA || ret_message->type > VERL_MESSAGE_PONG)
        return verl_error_set(error, "a message has the unknown type %lld", (long long) ret_message->type);
    if (ret_message->type == VERL_MESSAGE_DATA &&
        (ret_message->seq == 0 || ret_message->parts < 1 || ret_message->part < 0 ||
         ret_message->part >= ret_message->parts))
        return verl_error_set(error, "a message has seq %llu and part %lld of %lld",
                              (unsigned long long) ret_message->seq, (long long) ret_message->part,
                              (long long) ret_message->parts);
    return 0;
}
