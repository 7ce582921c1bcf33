// test_wire.c: a plan goes over the wire and into the run directory, and comes back as the same plan; what is malformed
// is refused.
#include "helper.h"
#include "runtime/topology/describe.h"

static const char s_rich[] =
    "[run]\nsteps = 10\nseed = 7\nmax_in_flight = 5\nmax_bytes = 2000000\nname = 'rich'\n" GRPO
    "[stage.held_out]\nkind = 'loader'\nfiles = ['/dev/null']\nevery = 4\nas = 'h_'\n"
    "[stage.l]\nactor = 'policy'\ndoes = 'logprobs'\nstaleness = 1\nreplicas = 3\non_error = 'skip'\n"
    "depends_on = ['generate']\n"
    "[stage.f]\nkind = 'filter'\ndepends_on = ['reward']\n"
    "[stage.cut]\nkind = 'synthetic'\ndepends_on = ['prompts']\nparts = 2\n"
    "[stage.rec]\nkind = 'recorder'\ncolumns = ['prompt', 'logprobs']\nfile = \"a \\\"b\\\" \\u00e9\"\n"
    "depends_on = ['f', 'l']\n"
    "[stage.r2]\nkind = 'rule-reward'\nuses = { response = 'answer' }\nas = { score = 's2' }\ndepends_on = "
    "['generate']\n";

static char *
s_encode(const verl_plan_t *plan, size_t *size)
{
    char *bytes = verl_plan_encode(plan, size);
    cr_assert_not_null(bytes);
    return bytes;
}

static void
s_assert_same(const verl_plan_t *a, const verl_plan_t *b)
{
    size_t size_a, size_b;
    char *one = s_encode(a, &size_a), *other = s_encode(b, &size_b);
    cr_assert_eq(size_a, size_b);
    cr_assert(memcmp(one, other, size_a) == 0);
    free(one);
    free(other);
}

Test(wire, there_and_back)
{
    verl_plan_t *plan = s_good(s_rich);
    size_t size;
    char *bytes = s_encode(plan, &size);
    verl_error_t error = { "" };
    verl_plan_t *back = verl_plan_decode(bytes, size, &error);
    cr_assert(back != NULL, "%s", error.text);
    s_assert_same(plan, back);
    for (int i = 0; i < plan->stages_count; i++) {
        cr_assert_eq(plan->stages[i].handler, back->stages[i].handler);
        cr_assert_eq(plan->stages[i].in_count, back->stages[i].in_count);
        for (int e = 0; e < plan->stages[i].in_count; e++)
            cr_assert_eq(plan->stages[i].in_edges[e], back->stages[i].in_edges[e]);
    }
    verl_plan_destroy(&back);
    verl_plan_destroy(&plan);
    free(bytes);
}

Test(wire, any_prefix_is_refused)
{
    verl_plan_t *plan = s_good(s_rich);
    size_t size;
    char *bytes = s_encode(plan, &size);
    for (size_t cut = 0; cut < size; cut++) {
        char *copy = malloc(cut + 1);
        memcpy(copy, bytes, cut);
        verl_error_t error = { "" };
        cr_assert_null(verl_plan_decode(copy, cut, &error));
        cr_assert_neq(error.text[0], '\0');
        free(copy);
    }
    verl_plan_destroy(&plan);
    free(bytes);
}

// Whatever one byte becomes: refused with a reason, or a plan that can be used and encoded again.
Test(wire, any_changed_byte_is_survived)
{
    verl_plan_t *plan = s_good(s_rich);
    size_t size;
    char *bytes = s_encode(plan, &size);
    int refused = 0;
    for (size_t at = 0; at < size; at++)
        for (int flip = 1; flip < 256; flip = flip * 3 + 1) {
            bytes[at] = (char) (bytes[at] ^ flip);
            verl_error_t error = { "" };
            verl_plan_t *back = verl_plan_decode(bytes, size, &error);
            refused += !back;
            if (back) {
                size_t again;
                free(s_encode(back, &again));
                for (int i = 0; i < back->stages_count; i++)
                    verl_plan_replica(back, i, back->steps - 1);
                verl_plan_last(back);
            }
            cr_assert_neq(back == NULL, error.text[0] == '\0');
            verl_plan_destroy(&back);
            bytes[at] = (char) (bytes[at] ^ flip);
        }
    cr_assert_gt(refused, 1000);
    verl_plan_destroy(&plan);
    free(bytes);
}

Test(wire, something_behind_the_end_is_refused)
{
    verl_plan_t *plan = s_good(s_rich);
    size_t size;
    char *bytes = s_encode(plan, &size);
    bytes = realloc(bytes, size + 1);
    bytes[size] = 1;
    verl_error_t error = { "" };
    cr_assert_null(verl_plan_decode(bytes, size + 1, &error));
    cr_assert_not_null(strstr(error.text, "behind its end"));
    verl_plan_destroy(&plan);
    free(bytes);
}

Test(wire, a_kind_that_is_not_known_here_is_left_out)
{
    verl_plan_t *plan = s_good(RUN SOURCE);
    strcpy(plan->actors[0].kind_name, "elsewhere");
    size_t size;
    char *bytes = s_encode(plan, &size);
    verl_error_t error = { "" };
    verl_plan_t *back = verl_plan_decode(bytes, size, &error);
    cr_assert_not_null(back);
    cr_assert_null(back->actors[0].kind);
    cr_assert_null(back->stages[0].handler);
    cr_assert_eq(verl_plan_bind(back, 0, &error), -1);
    cr_assert_not_null(strstr(error.text, "no kind `elsewhere`"));
    verl_plan_destroy(&back);
    verl_plan_destroy(&plan);
    free(bytes);
}

static void
s_without_places(verl_plan_t *plan)
{
    for (int i = 0; i < plan->actors_count; i++)
        plan->actors[i].line = plan->actors[i].column = 0;
    for (int i = 0; i < plan->stages_count; i++)
        plan->stages[i].line = plan->stages[i].column = 0;
}

static void
s_check_resolved(const char *text)
{
    verl_plan_t *plan = s_good(text);
    char *resolved = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&resolved, &size);
    cr_assert_eq(verl_topology_write_resolved(plan, out), 0);
    fclose(out);
    verl_topology_errors_t errors;
    verl_plan_t *back = verl_topology_load_text(resolved, size, "t.toml", NULL, 0, &errors);
    s_print(&errors);
    cr_assert(back != NULL, "%s", resolved);
    s_without_places(plan);
    s_without_places(back);
    s_assert_same(plan, back);
    verl_plan_destroy(&back);
    verl_plan_destroy(&plan);
    free(resolved);
}

Test(resolved, reads_back_as_the_same_plan)
{
    s_check_resolved(s_rich);
}
Test(resolved, of_a_small_run)
{
    s_check_resolved(RUN SOURCE "every = 1\nbusy_ms = 0.1\n");
}
Test(resolved, of_a_column_that_was_chosen_though_another_goes_along)
{
    s_check_resolved(RUN GRPO "[stage.first]\nkind = 'synthetic'\ndepends_on = ['prompts']\nas = { payload = 'group' }\n"
                              "[stage.again]\nactor = 'policy'\ndoes = 'generate'\ndepends_on = ['prompts', 'first']\n"
                              "as = 'roll_'\n[stage.p]\nkind = 'pupil'\ndepends_on = ['again', 'first']\n"
                              "uses = { response_ids = 'roll_response_ids', group = 'group' }\n");
}
Test(resolved, of_weights_of_another_actor)
{
    s_check_resolved(RUN GRPO "[stage.l]\nkind = 'policy'\ndoes = 'logprobs'\nweights = 'update'\ntimeout = 9\n"
                              "depends_on = ['generate']\n");
}

static char *
s_describe(int (*describe)(const verl_plan_t *plan, FILE *out), const verl_plan_t *plan)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    cr_assert_eq(describe(plan, out), 0);
    fclose(out);
    return text;
}

Test(describe, a_plan)
{
    verl_plan_t *plan = s_good(s_rich);
    char *text = s_describe(verl_describe_plan, plan);
    static const char *const words[] = { "run rich: 10 steps, seed 7, at most 5 batches",
                                         "policy.l",
                                         "3 replicas",
                                         "every batch",
                                         "batches 0, 4, … (every 4) "
                                         "and once after the last",
                                         "rows of `prompts`, makes new ones of them",
                                         "needs answer from `prompts`, through the map "
                                         "of `generate`",
                                         "prompts -> reward: answer text; inline",
                                         "update -> generate: in place in policy",
                                         "update -> l: published versions into policy.l, staleness 1",
                                         "cuts them into 2 parts",
                                         "its row map" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cr_assert(strstr(text, words[i]) != NULL, "'%s' is missing from:\n%s", words[i], text);
    free(text);
    verl_plan_destroy(&plan);
}

Test(describe, bytes_and_routes)
{
    verl_plan_t *plan =
        s_good(RUN SOURCE "rows = 10\nbytes = 1000\n[stage.r]\nkind = 'recorder'\ncolumns = ['payload', 'id']\n"
                          "depends_on = ['src']\n");
    cr_assert_eq(verl_describe_bytes(plan, 0), 10 * (1000 + 8));
    cr_assert_str_eq(verl_describe_route(plan, 0), "arena");
    verl_plan_destroy(&plan);
}

static char *
s_help(const char *name, verl_error_t *error)
{
    char *text = NULL;
    size_t size = 0;
    s_register();
    FILE *out = open_memstream(&text, &size);
    int rc = verl_describe_help(name, out, error);
    fclose(out);
    cr_assert_eq(rc != 0, error->text[0] != '\0');
    return text;
}

Test(describe, help_of_a_kind)
{
    verl_error_t error = { "" };
    char *text = s_help("policy", &error);
    static const char *const words[] = { "lr (real, from 0 to 1; default 1e-4)",
                                         "learning rate",
                                         "in trl: learning_rate",
                                         "needs ref_logprobs if kl_coef > 0",
                                         "gives response_ids:i32[n,*]",
                                         "keeps state" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cr_assert(strstr(text, words[i]) != NULL, "'%s' is missing from:\n%s", words[i], text);
    free(text);
}

Test(describe, help_of_what_all_have)
{
    verl_error_t error = { "" };
    char *text = s_help("run", &error);
    cr_assert_not_null(strstr(text, "max_in_flight"));
    free(text);
}

Test(describe, help_of_nothing)
{
    verl_error_t error = { "" };
    free(s_help("polcy", &error));
    cr_assert_not_null(strstr(error.text, "did you mean `policy`"));
}

Test(describe, kinds)
{
    char *text = NULL;
    size_t size = 0;
    s_register();
    FILE *out = open_memstream(&text, &size);
    cr_assert_eq(verl_describe_kinds(out), 0);
    fclose(out);
    cr_assert_not_null(strstr(text, "rule-reward  scores by a rule"));
    cr_assert_not_null(strstr(text, "(stages: generate, logprobs, update)"));
    free(text);
}

Test(resolved, a_script_is_written_where_it_is_and_no_part_of_the_table)
{
    verl_plan_t *plan = s_good(RUN "script = '/dev/null'\n" SOURCE);
    cr_assert_str_eq(plan->script, "/dev/null");
    char *resolved = NULL;
    size_t size = 0, bytes = 0;
    verl_error_t error = { "" };
    FILE *out = open_memstream(&resolved, &size);
    cr_assert_eq(verl_topology_write_resolved(plan, out), 0);
    fclose(out);
    cr_assert_not_null(strstr(resolved, "script = \"/dev/null\"\n"));
    char *table = verl_plan_encode(plan, &bytes);
    verl_plan_t *back = verl_plan_decode(table, bytes, &error);
    cr_assert(back && !back->script, "%s", error.text);
    verl_plan_destroy(&back);
    verl_plan_destroy(&plan);
    free(table);
    free(resolved);
}
