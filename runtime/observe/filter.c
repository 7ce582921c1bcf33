// filter.c: see filter.h.
#include "runtime/observe/filter.h"
#include <ctype.h>
#include <string.h>
#include "runtime/wire/pack.h"

enum { FIELDS = 11, RECORDS = 16384, BYTES = 2 << 20 };

void
verl_filter_init(verl_filter_t *filter)
{
    memset(filter, 0, sizeof *filter);
    filter->kinds = 1u << VERL_TRACE_DATA | 1u << VERL_TRACE_WEIGHTS | 1u << VERL_TRACE_ORDER | 1u << VERL_TRACE_REPORT;
    filter->every = 1;
    filter->records = RECORDS;
    filter->bytes = BYTES;
}

// --- matching -----------------------------------------------------------------------------------------------------

// Is `name` what a label "actor.replica#incarnation" begins with, up to one of its marks, or all of it but the replica?
static bool
s_is_actor(const char *name, const char *label)
{
    const char *incarnation = strchr(name, '#');
    size_t length = incarnation ? (size_t) (incarnation - name) : strlen(name);
    if (strncmp(name, label, length) != 0)
        return false;
    label += length;
    if (*label == '.') {                    // a replica, unless the actor's own name has a dot
        label++;
        if (!isdigit((unsigned char) *label))
            return false;
        while (isdigit((unsigned char) *label))
            label++;
    }
    return incarnation ? strcmp(label, incarnation) == 0 : *label == 0 || *label == '#';
}

static bool
s_has_actor(const verl_filter_names_t *names, const char *label)
{
    for (int i = 0; label && i < names->count; i++)
        if (s_is_actor(names->items[i], label))
            return true;
    return false;
}

static bool
s_has(const verl_filter_names_t *names, const char *name)
{
    for (int i = 0; name && i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    return false;
}

// Is an end of an edge the stage or the actor that the filter names?
static bool
s_is_end(const char *name, const char *stage, const char *label)
{
    return !*name || (stage && strcmp(name, stage) == 0) || (label && s_is_actor(name, label));
}

static bool
s_on_edge(const verl_filter_t *filter, const verl_filter_message_t *message)
{
    for (int i = 0; i < filter->makers.count; i++)
        if (s_is_end(filter->makers.items[i], message->stage, message->from) &&
            s_is_end(filter->readers.items[i], message->reader, message->to))
            return true;
    return false;
}

static bool
s_in_range(const verl_filter_t *filter, const verl_filter_message_t *message)
{
    bool batch = message->kind == VERL_TRACE_DATA || message->kind == VERL_TRACE_WEIGHTS ||
                 message->kind == VERL_TRACE_RAN;
    for (int i = 0; batch && i < filter->ranges; i++)
        if (message->batch >= filter->from[i] && message->batch <= filter->to[i])
            return true;
    return false;
}

bool
verl_filter_matches(const verl_filter_t *filter, const verl_filter_message_t *message)
{
    if (!(filter->kinds >> message->kind & 1u))
        return false;
    if (filter->ranges && !s_in_range(filter, message))
        return false;
    if (filter->stages.count && !s_has(&filter->stages, message->stage) && !s_has(&filter->stages, message->reader))
        return false;
    if (filter->actors.count && !s_has_actor(&filter->actors, message->from) &&
        !s_has_actor(&filter->actors, message->to))
        return false;
    return !filter->makers.count || s_on_edge(filter, message);
}

// --- the form in orders -------------------------------------------------------------------------------------------

static void
s_write_names(verl_buffer_t *buffer, const verl_filter_names_t *names)
{
    verl_pack_array(buffer, (uint32_t) names->count);
    for (int i = 0; i < names->count; i++)
        verl_pack_cstr(buffer, names->items[i]);
}

int
verl_filter_write(verl_buffer_t *buffer, const verl_filter_t *filter)
{
    verl_pack_array(buffer, FIELDS);
    s_write_names(buffer, &filter->actors);
    s_write_names(buffer, &filter->stages);
    s_write_names(buffer, &filter->makers);
    s_write_names(buffer, &filter->readers);
    verl_pack_uint(buffer, filter->kinds);
    verl_pack_array(buffer, (uint32_t) filter->ranges * 2);
    for (int i = 0; i < filter->ranges; i++) {
        verl_pack_int(buffer, filter->from[i]);
        verl_pack_int(buffer, filter->to[i]);
    }
    verl_pack_uint(buffer, filter->first);
    verl_pack_uint(buffer, filter->every);
    verl_pack_int(buffer, filter->values);
    verl_pack_bool(buffer, filter->stats);
    verl_pack_array(buffer, 2);
    verl_pack_uint(buffer, filter->records);
    verl_pack_uint(buffer, filter->bytes);
    return buffer->failed ? -1 : 0;
}

static int
s_read_names(verl_reader_t *reader, verl_filter_names_t *ret)
{
    uint32_t count;
    if (verl_read_array(reader, &count) || count > VERL_FILTER_NAMES)
        return -1;
    ret->count = (int) count;
    for (uint32_t i = 0; i < count; i++)
        if (verl_read_cstr(reader, ret->items[i], sizeof ret->items[i]))
            return -1;
    return 0;
}

static int
s_read_ranges(verl_reader_t *reader, verl_filter_t *ret)
{
    uint32_t count;
    if (verl_read_array(reader, &count) || count > VERL_FILTER_RANGES * 2 || count % 2)
        return -1;
    ret->ranges = (int) count / 2;
    for (int i = 0; i < ret->ranges; i++)
        if (verl_read_int(reader, &ret->from[i]) || verl_read_int(reader, &ret->to[i]))
            return -1;
    return 0;
}

int
verl_filter_read(verl_reader_t *reader, verl_filter_t *ret, verl_error_t *error)
{
    uint32_t count;
    int64_t values;
    uint64_t kinds;
    memset(ret, 0, sizeof *ret);
    if (verl_read_array(reader, &count) || count != FIELDS || s_read_names(reader, &ret->actors) ||
        s_read_names(reader, &ret->stages) || s_read_names(reader, &ret->makers) ||
        s_read_names(reader, &ret->readers) || ret->makers.count != ret->readers.count ||
        verl_read_uint(reader, &kinds) || kinds >> VERL_TRACE_KINDS || s_read_ranges(reader, ret) ||
        verl_read_uint(reader, &ret->first) || verl_read_uint(reader, &ret->every) || ret->every < 1 ||
        verl_read_int(reader, &values) || values < VERL_VALUES_NONE || values > VERL_VALUES_WHOLE ||
        verl_read_bool(reader, &ret->stats) || verl_read_array(reader, &count) || count != 2 ||
        verl_read_uint(reader, &ret->records) || verl_read_uint(reader, &ret->bytes) ||
        ret->records > VERL_FILTER_RECORDS_MAX || ret->bytes > VERL_FILTER_CREDIT_MAX)
        return verl_error_set(error, "a trace's filter is malformed");
    ret->kinds = (uint32_t) kinds;
    ret->values = (verl_filter_values_t) values;
    return 0;
}
