// test_options.c: option tables, the grammar of columns, the registry of kinds, devices, the TOML shim.
#include "helper.h"
#include "runtime/topology/devices.h"
#include "runtime/topology/grammar.h"
#include "runtime/topology/nearest.h"
#include "runtime/topology/toml.h"
#include "runtime/topology/value.h"

typedef struct {
    bool flag;
    int64_t count;
    double ratio;
    const char *name, *path;
    int choice;
    verl_strings_t list, paths;
    verl_weights_t weights;
} all_t;

static const verl_option_t s_all[] = { VERL_BOOL(all_t, flag, true, "a flag"),
                                       VERL_INT(all_t, count, 3, 0, 10, "", "a count"),
                                       VERL_REAL(all_t, ratio, 0.5, 0, 1, "", "a ratio"),
                                       VERL_STRING(all_t, name, "x", "a name"),
                                       VERL_CHOICE(all_t, choice, "b", "a|b|c", "a choice"),
                                       VERL_OPTION_OF(PATH, all_t, path, "a path", .optional = true),
                                       VERL_OPTION_OF(STRINGS, all_t, list, "a list", .fallback = "['p', 'q']"),
                                       VERL_OPTION_OF(PATHS, all_t, paths, "paths", .optional = true),
                                       VERL_OPTION_OF(WEIGHTS, all_t, weights, "weights",
                                                      .fallback = "{ a = 1, b = 0.5 }"),
                                       VERL_OPTIONS_END };

Test(fill, defaults)
{
    all_t all = { 0 };
    verl_value_t none = { .type = VERL_VALUE_TABLE };
    verl_error_t error = { "" };
    cr_assert(verl_options_fill(s_all, &none, &all, &error) == 0, "%s", error.text);
    cr_assert(all.flag);
    cr_assert_eq(all.count, 3);
    cr_assert_float_eq(all.ratio, 0.5, 0);
    cr_assert_str_eq(all.name, "x");
    cr_assert_str_eq(all.path, "");
    cr_assert_eq(all.choice, 1);
    cr_assert_eq(all.list.count, 2);
    cr_assert_str_eq(all.list.items[1], "q");
    cr_assert_eq(all.paths.count, 0);
    cr_assert_eq(all.weights.count, 2);
    cr_assert_str_eq(all.weights.names[1], "b");
    cr_assert_float_eq(all.weights.values[1], 0.5, 0);
    verl_options_done(s_all, &all);
    cr_assert_null(all.list.items);
    verl_options_done(s_all, &all);
}

static int
s_fill_text(const char *text, all_t *all, verl_error_t *error)
{
    static verl_pool_t pool; // the strings of the struct point into it
    verl_toml_error_t why;
    verl_node_t *root = verl_toml_parse(text, strlen(text), &pool, &why);
    cr_assert_not_null(root);
    verl_value_t *values = verl_pool_try(&pool, sizeof *values);
    *values = verl_value_from_node(&pool, root);
    return verl_options_fill(s_all, values, all, error);
}

Test(fill, values)
{
    all_t all = { 0 };
    verl_error_t error = { "" };
    int rc = s_fill_text("flag = false\ncount = 10\nratio = 1\nname = 'n'\nchoice = 'c'\npath = '/p'\nlist = []\n"
                         "paths = ['/a', 'b']\nweights = ['u', 'v']\n",
                         &all, &error);
    cr_assert(rc == 0, "%s", error.text);
    cr_assert(!all.flag);
    cr_assert_float_eq(all.ratio, 1, 0);
    cr_assert_eq(all.choice, 2);
    cr_assert_eq(all.list.count, 0);
    cr_assert_str_eq(all.paths.items[1], "b");
    cr_assert_str_eq(all.weights.names[0], "u");
    cr_assert_float_eq(all.weights.values[1], 1, 0);
    verl_options_done(s_all, &all);
}

Test(fill, refuses_what_a_table_refuses)
{
    static const char *const texts[][2] = { { "flag = 1", "true or false" },
                                            { "count = 11", "from 0 to 10" },
                                            { "count = 2.0", "written 2" },
                                            { "ratio = nan", "from 0 to 1" },
                                            { "ratio = inf", "from 0 to 1" },
                                            { "name = 3", "a string" },
                                            { "choice = 'd'", "one of \"a\", \"b\", \"c\"" },
                                            { "list = 'p'", "[\"p\"]" },
                                            { "list = [1]", "a string" },
                                            { "weights = { a = 'x' }", "a table of numbers" },
                                            { "weights = { a = nan }", "no finite number" },
                                            { "weights = ['a', 'a']", "twice" },
                                            { "count = 9223372036854775807", "from 0 to 10" } };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        all_t all = { 0 };
        verl_error_t error = { "" };
        cr_assert_eq(s_fill_text(texts[i][0], &all, &error), -1);
        cr_assert(strstr(error.text, texts[i][1]) != NULL, "%s: %s", texts[i][0], error.text);
    }
}

Test(fill, missing)
{
    static const verl_option_t table[] = { VERL_OPTION_OF(STRING, all_t, name, "a name"), VERL_OPTIONS_END };
    verl_value_t none = { .type = VERL_VALUE_TABLE };
    all_t all = { 0 };
    verl_error_t error = { "" };
    cr_assert_eq(verl_options_fill(table, &none, &all, &error), -1);
    cr_assert_not_null(strstr(error.text, "`name` is missing"));
}

static void
s_parse_needs(void *argument)
{
    verl_pool_t *pool = argument;
    verl_need_text_t need;
    verl_error_t error = { "" };
    cr_assert_eq(verl_need_parse("values? if estimator = gae", pool, &need, &error), 0);
    cr_assert_str_eq(need.name, "values");
    cr_assert(need.optional);
    cr_assert_eq(need.condition.comparison, VERL_EQUAL);
    cr_assert_str_eq(need.condition.value, "gae");
    cr_assert_eq(verl_need_parse("old? of ids if strict", pool, &need, &error), 0);
    cr_assert_str_eq(need.name, "old");
    cr_assert_str_eq(need.of, "ids");
    cr_assert(need.optional && need.condition.comparison == VERL_TRUE);
    cr_assert_neq(verl_need_parse("old of ", pool, &need, &error), 0);
    cr_assert_eq(verl_need_parse("*scores", pool, &need, &error), 0);
    cr_assert(need.listed);
    cr_assert_eq(verl_need_parse("x if", pool, &need, &error), 0);
    cr_assert_str_eq(need.name, "x if");
    cr_assert_neq(verl_need_parse("x if a =", pool, &need, &error), 0);
    cr_assert_neq(verl_need_parse("x if ", pool, &need, &error), 0);
    cr_assert_neq(verl_need_parse("?", pool, &need, &error), 0);
    cr_assert_neq(verl_need_parse("", pool, &need, &error), 0);
}

Test(grammar, needs)
{
    verl_pool_t pool = { 0 };
    cr_assert(verl_pool_run(&pool, s_parse_needs, &pool));
    verl_pool_done(&pool);
}

static void
s_parse_gives(void *argument)
{
    verl_pool_t *pool = argument;
    static const char *const good[][3] = {
        { "a:f32[n]", "a", "f32[n]" },       { "a: i32[ n , * ]", "a", "i32[n,*]" },
        { "a:text", "a", "text" },           { "a:text[n]", "a", "text" },
        { "a:b:u8[n,7]", "a:b", "u8[n,7]" }, { "my field:bf16[n,*,3]", "my field", "bf16[n,*,3]" },
        { "a:text if x", "a", "text" },
        { "score", "score", "f32[n]" }
    };
    static const char *const bad[] = { "a[n]",       "a:",       "a:f32",        "a:f64[n]",
                                       "a:f32[]",    "a:f32[m]", "a:f32[n,*,*]", "a:f32[n",
                                       "a:f32[n] x", ":f32[n]",  "a:f32[n,]",    "a:f32[n,1,2,3,4,5]" };
    verl_give_text_t give;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        verl_error_t error = { "" };
        cr_assert(verl_give_parse(good[i][0], pool, &give, &error) == 0, "%s", error.text);
        cr_assert_str_eq(give.name, good[i][1]);
        cr_assert_str_eq(verl_give_type(&give, NULL, NULL, pool), good[i][2]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        verl_error_t error = { "" };
        cr_assert(verl_give_parse(bad[i], pool, &give, &error) != 0, "%s", bad[i]);
    }
}

Test(grammar, gives)
{
    verl_pool_t pool = { 0 };
    cr_assert(verl_pool_run(&pool, s_parse_gives, &pool));
    verl_pool_done(&pool);
}

static bool
s_holds(verl_pool_t *pool, const char *need, const verl_value_t *values)
{
    verl_need_text_t text;
    verl_error_t error = { "" };
    cr_assert_eq(verl_need_parse(need, pool, &text, &error), 0);
    return verl_condition_holds(&text.condition, values, NULL);
}

static void
s_conditions(void *argument)
{
    verl_pool_t *pool = argument;
    verl_value_t values = verl_value_table();
    verl_value_put(pool, &values, "kl", (verl_value_t){ .type = VERL_VALUE_REAL, .real = 0.5 });
    verl_value_put(pool, &values, "on", (verl_value_t){ .type = VERL_VALUE_BOOL, .boolean = true });
    verl_value_put(pool, &values, "how", verl_value_string(pool, "gae"));
    cr_assert(s_holds(pool, "x", &values));
    cr_assert(s_holds(pool, "x if kl > 0", &values));
    cr_assert(!s_holds(pool, "x if kl > 0.5", &values));
    cr_assert(s_holds(pool, "x if kl >= 0.5", &values));
    cr_assert(s_holds(pool, "x if on", &values));
    cr_assert(s_holds(pool, "x if on = true", &values));
    cr_assert(s_holds(pool, "x if how = gae", &values));
    cr_assert(s_holds(pool, "x if how != grpo", &values));
    cr_assert(!s_holds(pool, "x if nothing", &values));
}

Test(grammar, conditions)
{
    verl_pool_t pool = { 0 };
    cr_assert(verl_pool_run(&pool, s_conditions, &pool));
    verl_pool_done(&pool);
}

static void
s_refused_kind(const verl_kind_t *kind, const char *word)
{
    verl_error_t error = { "" };
    cr_assert_eq(verl_kind_check(kind, &error), -1);
    cr_assert(strstr(error.text, word) != NULL, "%s", error.text);
}

Test(kinds, that_are_not_whole_are_refused)
{
    static const verl_option_t late[] = { VERL_INT(all_t, count, 11, 0, 10, "", "a count"), VERL_OPTIONS_END };
    static const verl_option_t far[] = { VERL_OPTION_OF(STRINGS, all_t, list, "a list", .optional = true),
                                         VERL_OPTIONS_END };
    static const verl_option_t reserved[] = { { .name = "timeout", .type = VERL_OPTION_REAL, .fallback = "1" },
                                              VERL_OPTIONS_END };
    static const verl_option_t empty[] = { { .name = "c", .type = VERL_OPTION_CHOICE, .optional = true },
                                           VERL_OPTIONS_END };
    s_refused_kind(&(verl_kind_t){ .name = "" }, "without a name");
    s_refused_kind(&(verl_kind_t){ .name = "k" }, "no stage");
    s_refused_kind(&(verl_kind_t){ .name = "k", .stages = { { .name = "s" } } }, "no handler");
    s_refused_kind(&(verl_kind_t){ .name = "k", .stages = { { "s", s_handle }, { "s", s_handle } } }, "two stages");
    s_refused_kind(&(verl_kind_t){ .name = "k", .stages = { { "s", s_handle, .needs = { "x if y" } } } },
                   "in no table");
    s_refused_kind(&(verl_kind_t){ .name = "k", .stages = { { "s", s_handle, .needs = { "*y" } } } }, "lists columns");
    s_refused_kind(&(verl_kind_t){ .name = "k", .stages = { { "s", s_handle, .gives = { "x:" } } } }, "name:type[n]");
    s_refused_kind(
        &(verl_kind_t){ .name = "k", .state_size = sizeof(all_t), .options = late, .stages = { { "s", s_handle } } },
        "from 0 to 10");
    s_refused_kind(&(verl_kind_t){ .name = "k", .state_size = 8, .options = far, .stages = { { "s", s_handle } } },
                   "outside");
    s_refused_kind(&(verl_kind_t){ .name = "k", .state_size = 8, .options = reserved, .stages = { { "s", s_handle } } },
                   "key of every");
    s_refused_kind(&(verl_kind_t){ .name = "k", .state_size = 8, .options = empty, .stages = { { "s", s_handle } } },
                   "nothing to choose");
}

Test(kinds, dashes_and_underscores_are_the_same)
{
    s_register();
    verl_error_t error = { "" };
    cr_assert_eq(verl_kind_find("rule-reward", &error), &verl_kind_rule_reward);
    cr_assert_eq(verl_kind_find("rule_reward", &error), &verl_kind_rule_reward);
}

Test(kinds, registering_twice_changes_nothing)
{
    s_register();
    int count = verl_kind_count();
    s_register();
    cr_assert_eq(verl_kind_count(), count);
    cr_assert_null(verl_kind_at(count));
}

Test(nearest, distances)
{
    cr_assert_eq(verl_edit_distance("busy_mz", "busy_ms"), 1);
    cr_assert_eq(verl_edit_distance("rule-reward", "rule_reward"), 0);
    cr_assert_eq(verl_edit_distance("scr", "src"), 1);
    cr_assert_eq(verl_edit_distance("", "abc"), 3);
    cr_assert_eq(verl_edit_distance("abc", ""), 3);
    char longer[200];
    memset(longer, 'a', sizeof longer);
    longer[199] = '\0';
    cr_assert_eq(verl_edit_distance(longer, "a"), 62);
}

Test(devices, resolve)
{
    char text[64];
    verl_error_t error = { "" };
    cr_assert_eq(verl_devices_resolve("cpu", text, sizeof text, &error), 0);
    cr_assert_str_eq(text, "cpu");
    cr_assert_eq(verl_devices_resolve("cpu:0", text, sizeof text, &error), 0);
    cr_assert_str_eq(text, "cpu:0");
    cr_assert_eq(verl_devices_resolve("auto", text, sizeof text, &error), 0);
    cr_assert(verl_device_count() > 0 ? strncmp(text, "cuda:0", 6) == 0 : strcmp(text, "cpu") == 0);
    static const char *const bad[] = {
        "", "cpu:", "cpu:x", "cpu:0-", "cpu:-1", "cpu:0,", "cuda:999999999999999999999", "tpu"
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        verl_error_t why = { "" };
        cr_assert(verl_devices_resolve(bad[i], text, sizeof text, &why) != 0, "%s", bad[i]);
        cr_assert_neq(why.text[0], '\0');
    }
}

static void
s_refused_toml(const char *text, size_t size, const char *word)
{
    verl_pool_t pool = { 0 };
    verl_toml_error_t error;
    cr_assert_null(verl_toml_parse(text, size, &pool, &error));
    cr_assert(strstr(error.text, word) != NULL, "%s", error.text);
    verl_pool_done(&pool);
}

Test(toml, bounds)
{
    size_t size = 200000;
    char *text = malloc(size);
    memset(text, '[', size);
    s_refused_toml(text, size, "too deep");
    for (size_t i = 0; i < size; i++)
        text[i] = i % 2 ? '.' : 'a';
    s_refused_toml(text, size, "too many dots");
    free(text);
    char *huge = calloc(1, VERL_TOML_MAX_BYTES + 1);
    s_refused_toml(huge, VERL_TOML_MAX_BYTES + 1, "4 MiB");
    free(huge);
}

Test(toml, dots_in_strings_and_comments_are_no_key)
{
    char text[1024] = "a = '";
    memset(text + 5, '.', 100);
    strcpy(text + 105, "' # ..................................................\n"
                       "b = \"\"\"\n..............................\"\"\"\"\"\nc = 1\n");
    verl_pool_t pool = { 0 };
    verl_toml_error_t error;
    verl_node_t *root = verl_toml_parse(text, strlen(text), &pool, &error);
    cr_assert(root != NULL, "%d: %s", error.line, error.text);
    cr_assert_eq(root->count, 3);
    verl_pool_done(&pool);
}

Test(toml, keeps_the_order_and_the_places_of_the_file)
{
    const char *text = "z = 1\n[t]\n  y = [ 1,\n 2 ]\na = 'x'\n";
    verl_pool_t pool = { 0 };
    verl_toml_error_t error;
    verl_node_t *root = verl_toml_parse(text, strlen(text), &pool, &error);
    cr_assert_str_eq(root->keys[0], "z");
    const verl_node_t *y = verl_node_get(root->items[1], "y");
    cr_assert_eq(y->key_at.line, 3);
    cr_assert_eq(y->key_at.column, 3);
    cr_assert_eq(y->items[1]->at.line, 4);
    cr_assert_str_eq(root->items[1]->keys[1], "a");
    verl_pool_done(&pool);
}

static void
s_refused_at(const char *text, int line, const char *word)
{
    verl_pool_t pool = { 0 };
    verl_toml_error_t error;
    cr_assert_null(verl_toml_parse(text, strlen(text), &pool, &error));
    cr_assert_eq(error.line, line, "line %d: %s", error.line, error.text);
    cr_assert(strstr(error.text, word) != NULL, "%s", error.text);
    verl_pool_done(&pool);
}

// The parser asserts that a table's name begins well instead of checking it.
Test(toml, what_trips_the_parser_is_refused_at_its_line)
{
    s_refused_at("a = 1\nb = 2\n[&run]\nc = 3\nd = 4\n", 3, "cannot stand");
    s_refused_at("[&", 1, "cannot stand");
}

Test(toml, characters_outside_of_strings)
{
    s_refused_at("a = 1\n\xc3\xa9 = 2\n", 2, "only in a string");
    s_refused_at("a = 1 \x01\n", 1, "only in a string");
}

// The parser's tables of Unicode have places that are called unreachable, and are not.
Test(toml, letters_in_strings)
{
    const char *text = "\xef\xbb\xbf"
                       "a = \"\"\"\xc3\xa9\\\n\xc3\xa9 \"\"\"  # \xc3\xa9\nb = '\xe2\x80\xa8'\n";
    verl_pool_t pool = { 0 };
    verl_toml_error_t error;
    verl_node_t *root = verl_toml_parse(text, strlen(text), &pool, &error);
    cr_assert(root != NULL, "%d: %s", error.line, error.text);
    cr_assert_str_eq(root->items[0]->string, "\xc3\xa9\xc3\xa9 ");
    verl_pool_done(&pool);
}

static void
s_ask_too_much(void *argument)
{
    verl_pool_t *pool = argument;
    verl_pool_alloc(pool, 10);
    verl_pool_array(pool, SIZE_MAX / 8, 16);
    cr_assert(0, "memory that is not there was given");
}

static void
s_ask_nested(void *argument)
{
    verl_pool_t *pool = argument;
    bool inner = verl_pool_run(pool, s_ask_too_much, pool);
    cr_assert(!inner);
    cr_assert_str_eq(verl_pool_print(pool, "%d-%s", 7, "x"), "7-x");
}

Test(pool, memory_that_runs_out_ends_the_work_that_asked)
{
    verl_pool_t pool = { 0 };
    bool inner = verl_pool_run(&pool, s_ask_too_much, &pool), outer = verl_pool_run(&pool, s_ask_nested, &pool);
    cr_assert(!inner);
    cr_assert(outer);
    verl_pool_done(&pool);
    verl_pool_done(&pool);
}

static void
s_grow_list(void *argument)
{
    verl_pool_t *pool = argument;
    int *items = NULL;
    for (int i = 0; i < 1000; i++) {
        items = verl_pool_grow(pool, items, i, sizeof *items);
        items[i] = i;
    }
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(items[i], i);
}

Test(pool, lists_grow)
{
    verl_pool_t pool = { 0 };
    cr_assert(verl_pool_run(&pool, s_grow_list, &pool));
    verl_pool_done(&pool);
}
