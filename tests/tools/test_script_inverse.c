// A change and the change that takes it back, applied one after the other, leave the plan as it was.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/difference.h"
#include "runtime/topology/topology.h"
#include "tools/kinds.h"
#include "tools/script_inverse.h"

#define S_PATH VERL_SOURCE_DIR "/topologies/t.toml"

static const char s_topology[] =
    "[run]\nname = \"inverse\"\nsteps = 20\nmax_in_flight = 4\nmax_bytes = 1048576\n"
    "[actor.rows]\nkind = \"synthetic\"\n[stage.rows]\nactor = \"rows\"\ndoes = \"work\"\nrows = 4\n"
    "[actor.middle]\nkind = \"synthetic\"\n"
    "[stage.middle]\nactor = \"middle\"\ndoes = \"work\"\ndepends_on = [\"rows\"]\nbusy_ms = 2.0\nas = { payload = "
    "\"middle\" }\n"
    "[actor.last]\nkind = \"synthetic\"\n[stage.last]\nactor = \"last\"\ndoes = \"work\"\ndepends_on = [\"middle\"]\n";

static void
s_set_up(void)
{
    verl_error_t error = { "" };
    cr_assert_eq(verl_kind_register_all(verl_kinds, &error), 0, "%s", error.text);
}

TestSuite(inverse, .init = s_set_up);

// The plan of a topology and a fragment.
static verl_plan_t *
s_plan(const char *text, const char *fragment)
{
    verl_topology_errors_t errors;
    verl_plan_t *plan =
        verl_topology_load_change(text, strlen(text), S_PATH, fragment, strlen(fragment), "fragment", &errors);
    cr_assert(plan, "%s\n%s", fragment, errors.count ? errors.items[0] : "");
    return plan;
}

// The plan as a topology that says everything.
static char *
s_resolved(const verl_plan_t *plan)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    cr_assert(out && verl_topology_write_resolved(plan, out) == 0 && fclose(out) == 0);
    return text;
}

static bool
s_same(const verl_plan_t *one, const verl_plan_t *other)
{
    verl_error_t error = { "" };
    verl_difference_t *difference = verl_difference_new(one, other, NULL, 0, &error);
    cr_assert(difference, "%s", error.text);
    bool same = difference->empty;
    verl_difference_destroy(&difference);
    return same;
}

static void
s_comes_back(const char *fragment)
{
    verl_error_t error = { "" };
    verl_plan_t *before = s_plan(s_topology, "");
    char *text = s_resolved(before), *inverse = verl_script_inverse(text, fragment, &error);
    cr_assert(inverse, "%s", error.text);
    verl_plan_t *changed = s_plan(text, fragment);
    char *changed_text = s_resolved(changed);
    verl_plan_t *after = s_plan(changed_text, inverse);
    cr_assert(!s_same(before, changed), "%s", fragment);
    cr_assert(s_same(before, after), "%s\ntaken back by\n%s", fragment, inverse);
    verl_plan_destroy(&before);
    verl_plan_destroy(&changed);
    verl_plan_destroy(&after);
    free(changed_text);
    free(inverse);
    free(text);
}

Test(inverse, a_key_has_its_value_again)
{
    s_comes_back("[stage.middle]\nbusy_ms = 9.5\n");
    s_comes_back("[stage.rows]\nrows = 8\nbytes = 100\n[run]\nmax_in_flight = 2\n");
}

Test(inverse, a_table_in_a_line_is_replaced)
{
    s_comes_back("[stage.middle]\nas = { payload = \"other\" }\n");
    s_comes_back("[stage.last]\nas = { payload = \"other\" }\n");
}

Test(inverse, what_was_added_goes)
{
    s_comes_back("[actor.extra]\nkind = \"synthetic\"\n[stage.extra]\nactor = \"extra\"\ndoes = \"work\"\ndepends_on = "
                 "[\"rows\"]\nas = { payload = \"extra\" }\n[stage.last]\ndepends_on = [\"middle\", \"extra\"]\n");
}

Test(inverse, what_was_taken_away_stands_again)
{
    s_comes_back("unset = [\"stage.last\", \"actor.last\"]\n");
    s_comes_back("unset = [\"stage.middle.busy_ms\"]\n");
}

Test(inverse, a_change_that_is_no_toml_is_said)
{
    verl_error_t error = { "" };
    cr_assert_null(verl_script_inverse("", "[stage", &error));
    cr_assert(strstr(error.text, "no TOML"), "%s", error.text);
}
