// Any bytes as a fragment that is merged into a running topology: refused with sentences that name a place, or a plan
// whose difference to the one before can be told, printed and written, and that is no difference to itself.
#include "runtime/topology/difference.h"
#include "runtime/topology/topology.h"
#include "tests/runtime/topology/small_kinds.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char s_before[] =
    "[run]\nname = \"fuzz\"\nsteps = 20\n"
    "[actor.shared]\nkind = \"synthetic\"\n"
    "[stage.source]\nkind = \"synthetic\"\n"
    "[stage.left]\nactor = \"shared\"\ndoes = \"work\"\ndepends_on = [\"source\"]\nas = { payload = \"l\" }\n"
    "[stage.right]\nkind = \"synthetic\"\ndepends_on = [\"source\"]\nreplicas = 2\nas = { payload = \"r\" }\n"
    "[stage.sink]\nkind = \"synthetic\"\ndepends_on = [\"left\", \"right\"]\nas = { payload = \"s\" }\n";

static void
s_tell(const verl_difference_t *difference)
{
    char *text = NULL, brief[128];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    verl_difference_print(difference, out);
    fclose(out);
    free(text);
    json_t *object = verl_difference_json(difference);
    if (!object || strlen(verl_difference_brief(difference, brief, sizeof brief)) >= sizeof brief)
        abort();
    json_decref(object);
}

static void
s_compare(const verl_plan_t *before, const verl_plan_t *after)
{
    verl_error_t error = { "" };
    verl_difference_t *difference = verl_difference_new(before, after, NULL, 0, &error);
    if (!difference && !error.text[0])
        abort();
    if (difference)
        s_tell(difference);
    verl_difference_destroy(&difference);
    difference = verl_difference_new(after, after, NULL, 0, &error);
    if (!difference || !difference->empty)
        abort();
    verl_difference_destroy(&difference);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static verl_plan_t *before;
    static int registered;
    verl_error_t error = { "" };
    verl_topology_errors_t errors;
    if (!registered++ && verl_kind_register_all(s_kinds, &error) != 0)
        abort();
    if (!before) {
        before = verl_topology_load_text(s_before, strlen(s_before), "run.toml", NULL, 0, &errors);
        if (!before) {
            fprintf(stderr, "fuzz_change: %s\n", errors.count ? errors.items[0] : "no plan");
            abort();
        }
    }
    verl_plan_t *after = verl_topology_load_change(s_before, strlen(s_before), "run.toml", (const char *) bytes, size,
                                                   "fragment.toml", &errors);
    if (!after && (errors.count == 0 || !strchr(errors.items[0], ':')))
        abort();
    verl_topology_errors_done(&errors);
    if (after)
        s_compare(before, after);
    verl_plan_destroy(&after);
    return 0;
}
