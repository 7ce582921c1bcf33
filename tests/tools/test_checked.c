// test_checked.c: what is asked of verl-run without a run: topologies are checked, kinds are listed; for people and for
// programs.
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define TOPOLOGY \
    "[run]\\nname = \"asked\"\\nsteps = 3\\n[stage.src]\\nkind = \"synthetic\"\\n" \
    "[stage.mid]\\nkind = \"synthetic\"\\ndepends_on = [\"src\"]\\nas = \"m_\"\\n"
#define WRONG "[run]\\nname = \"asked\"\\nsteps = 3\\n[stage.src]\\nkind = \"synthetic\"\\nbusy = 1\\n"

typedef struct asked {
    int  code;
    char said[40000];                       // what stands on standard output
} asked_t;

// `words` of bash, in which $V is verl-run; standard error is left out unless they say where it goes.
static asked_t
s_ask(const char *words)
{
    asked_t asked = { 0 };
    char *command = NULL;
    cr_assert(asprintf(&command, "V=%s/bin/verl-run; cd /tmp; exec 2>/dev/null; %s", VERL_BINARY_DIR, words) > 0);
    setenv("WORDS", command, 1);
    FILE *out = popen("exec bash -c \"$WORDS\"", "r");
    cr_assert(out);
    size_t got = fread(asked.said, 1, sizeof asked.said - 1, out);
    asked.said[got] = 0;
    int status = pclose(out);
    asked.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    free(command);
    return asked;
}

// The one object of it.
static json_t *
s_object(const asked_t *asked)
{
    json_t *object = json_loads(asked->said, 0, NULL);
    cr_assert(json_is_object(object), "it is no JSON: %s", asked->said);
    return object;
}

static const char *
s_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

Test(checked, a_right_topology_is_an_object_for_programs)
{
    asked_t asked = s_ask("printf '" TOPOLOGY "' | $V --check --json -");
    json_t *object = s_object(&asked);
    cr_expect_eq(asked.code, 0);
    cr_expect(json_is_true(json_object_get(object, "ok")), "%s", asked.said);
    cr_expect_eq(json_integer_value(json_object_get(object, "stages")), 2, "%s", asked.said);
    json_decref(object);
}

Test(checked, each_mistake_has_its_place_for_programs)
{
    asked_t asked = s_ask("printf '" WRONG "' | $V --check --json -");
    json_t *object = s_object(&asked), *error = json_array_get(json_object_get(object, "errors"), 0);
    cr_expect_eq(asked.code, 2);
    cr_expect(json_is_false(json_object_get(object, "ok")), "%s", asked.said);
    cr_expect_str_eq(s_of(error, "file"), "standard input");
    cr_expect_eq(json_integer_value(json_object_get(error, "line")), 6, "%s", asked.said);
    cr_expect_eq(json_integer_value(json_object_get(error, "column")), 1, "%s", asked.said);
    cr_expect(strstr(s_of(error, "text"), "busy"), "%s", asked.said);
    json_decref(object);
}

Test(checked, a_wrong_script_has_the_place_of_its_key)
{
    asked_t asked = s_ask("printf '[run]\\nsteps = 1\\nscript = \".\"\\n[stage.src]\\nkind = \"synthetic\"\\n' | "
                          "$V --check --json -");
    json_t *object = s_object(&asked), *error = json_array_get(json_object_get(object, "errors"), 0);
    cr_expect_eq(asked.code, 2);
    cr_expect_eq(json_integer_value(json_object_get(error, "line")), 3, "%s", asked.said);
    cr_expect_eq(json_integer_value(json_object_get(error, "column")), 10, "%s", asked.said);
    cr_expect(strstr(s_of(error, "text"), "`script`: "), "%s", asked.said);
    json_decref(object);
    asked = s_ask("cd /tmp && printf '" TOPOLOGY "' | $V --check --set run.script=. - 2>&1");
    cr_expect(strstr(asked.said, "--set run.script=.: `script`: "), "%s", asked.said);
}

Test(checked, quiet_is_silent_where_nothing_is_wrong)
{
    asked_t asked = s_ask("printf '" TOPOLOGY "' | $V --check --quiet - 2>&1");
    cr_expect_eq(asked.code, 0);
    cr_expect_str_eq(asked.said, "");
    asked = s_ask("printf '" WRONG "' | $V --check --quiet - 2>&1");
    cr_expect_eq(asked.code, 2);
    cr_expect(strstr(asked.said, "standard input:6:1: "), "%s", asked.said);
}

Test(checked, kinds_are_an_object_a_line_for_programs)
{
    asked_t asked = s_ask("$V --kinds --json");
    bool loader = false;
    cr_expect_eq(asked.code, 0);
    for (char *line = strtok(asked.said, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *kind = json_loads(line, 0, NULL);
        cr_assert(json_is_object(kind), "%s", line);
        cr_expect(*s_of(kind, "about"), "%s", line);
        cr_expect_gt(json_array_size(json_object_get(kind, "stages")), 0, "%s", line);
        loader |= strcmp(s_of(kind, "kind"), "loader") == 0;
        json_decref(kind);
    }
    cr_expect(loader);
}

Test(checked, a_plan_for_programs_has_stages_actors_and_edges)
{
    asked_t asked = s_ask("printf '" TOPOLOGY "' | $V --plan --json - 2>&1");
    cr_assert_eq(asked.code, 0, "%s", asked.said);
    json_t *plan = json_loads(asked.said, 0, NULL);
    cr_assert(plan, "%s", asked.said);
    cr_expect_gt(json_array_size(json_object_get(plan, "stages")), 0);
    cr_expect_gt(json_array_size(json_object_get(plan, "actors")), 0);
    cr_expect(json_is_array(json_object_get(plan, "edges")));
    json_decref(plan);
}

Test(checked, what_is_wrong_with_a_plan_is_told_to_programs_too)
{
    asked_t asked = s_ask("printf '" TOPOLOGY "' | $V --plan --json --set run.stesp=1 - 2>/dev/null");
    cr_assert_eq(asked.code, 2);
    json_t *said = json_loads(asked.said, 0, NULL);
    cr_expect(json_is_false(json_object_get(said, "ok")), "%s", asked.said);
    cr_expect_eq(json_array_size(json_object_get(said, "errors")), 1);
    json_decref(said);
}

Test(checked, help_of_a_kind_may_be_joined_to_its_name)
{
    asked_t joined = s_ask("$V --help=loader"), apart = s_ask("$V --help loader");
    cr_expect_eq(joined.code, 0);
    cr_expect(strstr(joined.said, "loader: "), "%s", joined.said);
    cr_expect_str_eq(joined.said, apart.said);
}

Test(checked, a_topology_may_come_from_a_pipe)
{
    asked_t asked = s_ask("$V --check <(printf '" TOPOLOGY "')");
    cr_expect_eq(asked.code, 0);
    cr_expect_str_eq(asked.said, "pipe: 2 stages in 2 actors, no mistakes\n");
    asked = s_ask("printf '" TOPOLOGY "' | $V --check /dev/stdin");
    cr_expect_eq(asked.code, 0);
    asked = s_ask("printf '\\000' | $V --check - 2>&1");
    cr_expect_eq(asked.code, 2);
    cr_expect(strstr(asked.said, "standard input is no text"), "%s", asked.said);
}

Test(checked, a_stack_too_small_for_anything_is_refused_in_one_sentence)
{
    asked_t asked = s_ask("ulimit -s 64; $V --check /tmp/none.toml 2>&1");
    cr_expect_eq(asked.code, 1);
    cr_expect_str_eq(asked.said, "verl-run: this shell allows stacks of 64 KiB: a higher `ulimit -Hs`, of 256 or more, "
                     "would be right\n");
}
