// spy_follow_options.c: see spy_follow_options.h.
#include "tools/spy_follow_options.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/spy.h"

const char verl_spy_filter_help[] =
    "  --actor A       messages from or to an actor, reward; one replica of it, reward.1; one incarnation, reward#7\n"
    "  --stage S       made or read by a stage\n"
    "  --edge A:B      from a stage or actor to another; either side may be empty\n"
    "  --kind K,…      data, weights, status, ping, pong, order, report, ran (a handler ran), all\n"
    "                  (default: data,weights,order,report)\n"
    "  --batch N|A-B   of these batches\n"
    "  --every K       of those that match only each K-th, counted by each sender\n"
    "  --stats         numbers of big columns too: read by the sender\n"
    "  --values        the beginning of each column too; of record the whole of it\n"
    "                  (--actor, --stage, --edge and --batch may be given up to 16 times)\n";

const char verl_spy_count_help[] =
    "  -n COUNT        end after so many; exit code 1 where there were fewer\n";

int64_t
verl_spy_whole(const char *text, int64_t least)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return errno || end == text || *end || value < least ? -1 : value;
}

static int
s_add_name(const char *command, const char *option, const char *value, verl_filter_names_t *names)
{
    if (!*value || strlen(value) >= VERL_FILTER_BYTES)
        return verl_spy_usage(command, "%s names nothing that can be found", option), -1;
    if (names->count == VERL_FILTER_NAMES)
        return verl_spy_usage(command, "%s is given more than %d times", option, VERL_FILTER_NAMES), -1;
    snprintf(names->items[names->count++], VERL_FILTER_BYTES, "%s", value);
    return 1;
}

static int
s_add_edge(const char *command, const char *value, verl_filter_t *filter)
{
    const char *colon = strchr(value, ':');
    int index = filter->makers.count;
    if (!colon || (size_t) (colon - value) >= VERL_FILTER_BYTES || strlen(colon + 1) >= VERL_FILTER_BYTES)
        return verl_spy_usage(command, "--edge is MAKER:READER, not '%s'", value), -1;
    if (index == VERL_FILTER_NAMES)
        return verl_spy_usage(command, "--edge is given more than %d times", VERL_FILTER_NAMES), -1;
    snprintf(filter->makers.items[index], VERL_FILTER_BYTES, "%.*s", (int) (colon - value), value);
    snprintf(filter->readers.items[index], VERL_FILTER_BYTES, "%s", colon + 1);
    filter->makers.count = filter->readers.count = index + 1;
    return 1;
}

static int
s_set_kinds(const char *command, const char *value, verl_filter_t *filter)
{
    filter->kinds = 0;
    while (true) {
        char word[32];
        size_t length = strcspn(value, ",");
        snprintf(word, sizeof word, "%.*s", (int) (length < sizeof word ? length : sizeof word - 1), value);
        int kind = verl_trace_kind_of(word);
        if (strcmp(word, "all") == 0)
            filter->kinds |= (1u << VERL_TRACE_KINDS) - 1;
        else if (kind < 0)
            return verl_spy_usage(command,
                                  "--kind is some of data,weights,status,ping,pong,order,report,ran or all, not "
                                  "'%.*s'",
                                  (int) length, value),
                   -1;
        else
            filter->kinds |= 1u << kind;
        if (!value[length])
            return 1;
        value += length + 1;
    }
}

static int
s_add_batches(const char *command, const char *value, verl_filter_t *filter)
{
    char from[32];
    const char *dash = strchr(value, '-');
    size_t length = dash ? (size_t) (dash - value) : strlen(value);
    snprintf(from, sizeof from, "%.*s", (int) (length < sizeof from ? length : sizeof from - 1), value);
    int64_t first = verl_spy_whole(from, 0), last = dash ? verl_spy_whole(dash + 1, 0) : first;
    if (first < 0 || last < first)
        return verl_spy_usage(command, "--batch is a batch N or a range A-B, not '%s'", value), -1;
    if (filter->ranges == VERL_FILTER_RANGES)
        return verl_spy_usage(command, "--batch is given more than %d times", VERL_FILTER_RANGES), -1;
    filter->from[filter->ranges] = first;
    filter->to[filter->ranges++] = last;
    return 1;
}

static int
s_set_every(const char *command, const char *value, verl_filter_t *filter)
{
    int64_t every = verl_spy_whole(value, 1);
    if (every < 0)
        return verl_spy_usage(command, "--every is a whole number from 1 on, not '%s'", value), -1;
    filter->every = (uint64_t) every;
    return 1;
}

int
verl_spy_filter_option(const char *command, int count, char **words, int *at, verl_filter_t *filter)
{
    bool missing = false;
    const char *value, *word = words[*at];
    if (strcmp(word, "--stats") == 0) {
        filter->stats = true;
        return 1;
    }
    if (strcmp(word, "--values") == 0) {
        filter->values = VERL_VALUES_HEAD;
        return 1;
    }
    if ((value = verl_spy_value(count, words, at, "--actor", &missing)))
        return s_add_name(command, "--actor", value, &filter->actors);
    if ((value = verl_spy_value(count, words, at, "--stage", &missing)))
        return s_add_name(command, "--stage", value, &filter->stages);
    if ((value = verl_spy_value(count, words, at, "--edge", &missing)))
        return s_add_edge(command, value, filter);
    if ((value = verl_spy_value(count, words, at, "--kind", &missing)))
        return s_set_kinds(command, value, filter);
    if ((value = verl_spy_value(count, words, at, "--batch", &missing)))
        return s_add_batches(command, value, filter);
    if ((value = verl_spy_value(count, words, at, "--every", &missing)))
        return s_set_every(command, value, filter);
    return missing ? (verl_spy_usage(command, "%s needs a value", word), -1) : 0;
}

int
verl_spy_count_option(const char *command, int count, char **words, int *at, uint64_t *ret)
{
    bool missing = false;
    const char *value = verl_spy_value(count, words, at, "-n", &missing);
    int64_t whole = value ? verl_spy_whole(value, 1) : 0;
    if (missing)
        return verl_spy_usage(command, "-n needs a value"), -1;
    if (whole < 0)
        return verl_spy_usage(command, "-n is a whole number from 1 on, not '%s'", value), -1;
    *ret = value ? (uint64_t) whole : *ret;
    return value != NULL;
}

int
verl_spy_count_missed(const char *command, uint64_t wanted, uint64_t came)
{
    if (came >= wanted)
        return 0;
    fprintf(stderr, "%s: there were %" PRIu64 " messages, not the %" PRIu64 " of -n\n", command, came, wanted);
    return 1;
}
