// What passes a filter, and its two forms: as a client asks and as an order carries it.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/observe/filter.h"

static verl_filter_t s_filter;

static bool
s_passes(const char *json, const verl_filter_message_t *message)
{
    verl_error_t error = { "" };
    json_error_t where;
    json_t *object = json_loads(json, 0, &where);
    cr_assert(object, "%s: %s", json, where.text);
    cr_assert_eq(verl_filter_from_json(object, &s_filter, &error), 0, "%s: %s", json, error.text);
    json_decref(object);
    return verl_filter_matches(&s_filter, message);
}

static const verl_filter_message_t s_data = { VERL_TRACE_DATA, "loader.1#12", "policy.generate#4",
                                              "prompts",       "generate",    17 };
static const verl_filter_message_t s_order = { VERL_TRACE_ORDER, "director#1", "loader.1#12", NULL, NULL, -1 };

Test(filter, an_empty_one_passes_data_and_orders_and_not_the_chatter)
{
    const verl_filter_message_t status = { VERL_TRACE_STATUS, "a#2", "b#3", NULL, NULL, 3 };
    cr_assert(s_passes("{}", &s_data));
    cr_assert(s_passes("{}", &s_order));
    cr_assert_not(s_passes("{}", &status));
    cr_assert(s_passes("{\"kinds\": [\"status\"]}", &status));
    cr_assert_not(s_passes("{\"kinds\": [\"status\"]}", &s_data));
}

Test(filter, an_actor_is_named_whole_by_replica_or_by_incarnation)
{
    cr_assert(s_passes("{\"actors\": [\"loader\"]}", &s_data));
    cr_assert(s_passes("{\"actors\": [\"loader.1\"]}", &s_data));
    cr_assert(s_passes("{\"actors\": [\"loader.1#12\"]}", &s_data));
    cr_assert(s_passes("{\"actors\": [\"loader#12\"]}", &s_data), "the incarnation alone says which replica");
    cr_assert_not(s_passes("{\"actors\": [\"loader#1\"]}", &s_data));
    cr_assert_not(s_passes("{\"actors\": [\"load#12\"]}", &s_data));
    cr_assert(s_passes("{\"actors\": [\"x\", \"policy.generate\"]}", &s_data), "the receiver counts too");
    cr_assert(s_passes("{\"actors\": [\"policy.generate#4\"]}", &s_data));
    cr_assert_not(s_passes("{\"actors\": [\"policy\"]}", &s_data), "policy.generate is another actor");
    cr_assert_not(s_passes("{\"actors\": [\"load\"]}", &s_data));
    cr_assert_not(s_passes("{\"actors\": [\"loader.12\"]}", &s_data));
    cr_assert_not(s_passes("{\"actors\": [\"loader.1#1\"]}", &s_data));
}

Test(filter, stages_and_edges_and_batches)
{
    cr_assert(s_passes("{\"stages\": [\"generate\"]}", &s_data));
    cr_assert_not(s_passes("{\"stages\": [\"generat\"]}", &s_data));
    cr_assert_not(s_passes("{\"stages\": [\"generate\"]}", &s_order));
    cr_assert(s_passes("{\"edges\": [[\"prompts\", \"generate\"]]}", &s_data));
    cr_assert(s_passes("{\"edges\": [[\"x\", \"y\"], [\"loader\", \"\"]]}", &s_data));
    cr_assert_not(s_passes("{\"edges\": [[\"generate\", \"prompts\"]]}", &s_data), "an edge has a direction");
    cr_assert(s_passes("{\"edges\": [[\"director\", \"loader\"]]}", &s_order));
    cr_assert(s_passes("{\"batches\": [[3, 4], [17, 17]]}", &s_data));
    cr_assert_not(s_passes("{\"batches\": [[18, 90]]}", &s_data));
    cr_assert_not(s_passes("{\"batches\": [[-5, 90]]}", &s_order), "an order is of no batch");
}

Test(filter, all_lists_have_to_match)
{
    cr_assert(s_passes("{\"actors\": [\"loader\"], \"stages\": [\"prompts\"], \"batches\": [[0, 20]]}", &s_data));
    cr_assert_not(s_passes("{\"actors\": [\"loader\"], \"stages\": [\"reward\"], \"batches\": [[0, 20]]}", &s_data));
}

Test(filter, both_forms_carry_all_of_it)
{
    const char *text = "{\"actors\":[\"a\",\"b#3\"],\"stages\":[\"s\"],\"edges\":[[\"m\",\"\"],[\"\",\"r\"]],"
                       "\"kinds\":[\"data\",\"pong\",\"ran\"],\"batches\":[[1,2],[9,9]],\"first\":7,\"every\":3,"
                       "\"values\":\"whole\",\"stats\":true,\"records\":100,\"bytes\":5000}";
    json_t *object = json_loads(text, 0, NULL);
    verl_filter_t filter, again;
    verl_buffer_t buffer = { 0 };
    verl_reader_t reader;
    verl_error_t error = { "" };
    cr_assert_eq(verl_filter_from_json(object, &filter, &error), 0, "%s", error.text);
    cr_assert_eq(verl_filter_write(&buffer, &filter), 0);
    verl_reader_init(&reader, buffer.data, buffer.size);
    cr_assert_eq(verl_filter_read(&reader, &again, &error), 0, "%s", error.text);
    cr_assert_eq(verl_reader_left(&reader), 0);
    json_t *back = verl_filter_to_json(&again);
    cr_assert(json_equal(object, back));
    for (size_t cut = 0; cut < buffer.size; cut++) {
        verl_reader_init(&reader, buffer.data, cut);
        cr_assert_eq(verl_filter_read(&reader, &again, NULL), -1, "cut at %zu", cut);
    }
    json_decref(object);
    json_decref(back);
    verl_buffer_done(&buffer);
}

Test(filter, what_is_wrong_is_refused_by_name)
{
    static const char *const wrong[] = {
        "{\"actor\": []}", "{\"actors\": \"a\"}", "{\"actors\": [\"\"]}", "{\"kinds\": [\"dada\"]}", "{\"kinds\": 3}",
        "{\"batches\": [[4, 3]]}", "{\"batches\": [4]}", "{\"edges\": [[\"a\"]]}", "{\"every\": 0}", "{\"first\": -1}",
        "{\"values\": \"all\"}", "{\"stats\": 1}", "{\"records\": 0}", "{\"bytes\": 99999999999}", "{\"records\": 1.5}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        verl_error_t error = { "" };
        json_t *object = json_loads(wrong[i], 0, NULL);
        cr_assert_eq(verl_filter_from_json(object, &s_filter, &error), -1, "%s", wrong[i]);
        cr_assert(strncmp(error.text, "filter.", 7) == 0, "%s", error.text);
        json_decref(object);
    }
}
