// Any bytes as the profile that a run.log holds: refused, or diagnosed with figures that are numbers and sentences that
// end, and laid out with every stage in a place of its own.
#include "tools/spy_report_causes.c"
#include "tools/spy_report_model.c"
#include "tools/spy_views.c"
#include "tools/spy_words.c"
#define s_stage s_diagnosis_stage           // files of their own share these names
#include "tools/spy_report_diagnosis.c"
#undef s_stage
#define s_compare s_layout_compare
#define s_weigh   s_layout_weigh
#include "tools/spy_graph_layout.c"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void
s_check(const verl_diagnosis_t *found)
{
    if (!(found->rate > 0) || !isfinite(found->rate) || found->count < 0 || found->count > VERL_CAUSES_MOST)
        abort();
    for (int i = 0; i < found->count; i++)
        if (!(found->causes[i].gain >= 1) || !found->causes[i].text[0] || !found->causes[i].help[0] ||
            found->causes[i].saved < 0)
            abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static verl_diagnosis_t found;
    verl_graph_layout_t layout;
    json_t *profile = json_loadb((const char *) bytes, size, 0, NULL);
    if (!profile)
        return 0;
    if (verl_diagnose(profile, &found) == 0)
        s_check(&found);
    if (verl_graph_layout(&layout, profile) == 0)
        for (int i = 0; i < layout.places_count; i++)
            if (layout.places[i].row < 0 || layout.places[i].row >= layout.rows[layout.places[i].layer])
                abort();
    verl_graph_done(&layout);
    json_decref(profile);
    return 0;
}
