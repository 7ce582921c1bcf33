// test_difference.c: what a change makes of a topology, and what it cannot change.
#include "helper.h"
#include <stdio.h>
#include "runtime/topology/difference.h"

// `keeper` keeps state and hands it over; `diary` keeps state and does not. (Both beside the small kinds.)
typedef struct hoard {
    int64_t size, origin;
} hoard_t;

static int
s_hoard(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    (void) stage;
    (void) in;
    (void) out;
    return 0;
}

static int
s_state(verl_stage_t *stage, const char *directory)
{
    (void) stage;
    (void) directory;
    return 0;
}

static const verl_option_t s_hoard_options[] = {
    VERL_INT(hoard_t, size, 1, 0, 100, "", "how much"),
    VERL_INT(hoard_t, origin, 1, 0, 100, "", "what it begins with", .of_weights = true),
    VERL_OPTIONS_END
};

static const verl_kind_t s_keeper = {
    .name = "keeper", .about = "keeps state that it hands over", .state_size = sizeof(hoard_t),
    .options = s_hoard_options, .stages = { { .name = "keep", .handler = s_hoard } }, .keeps_state = true,
    .snapshot = s_state, .restore = s_state,
};
static const verl_kind_t s_diary = {
    .name = "diary", .about = "keeps state for itself", .state_size = sizeof(hoard_t),
    .options = s_hoard_options, .stages = { { .name = "keep", .handler = s_hoard } }, .keeps_state = true,
};
static const verl_kind_t *const s_hoards[] = { &s_keeper, &s_diary, NULL };

#define BASE RUN SOURCE                                                     \
    "[stage.mid]\nkind = 'synthetic'\ndepends_on = ['src']\nbusy_ms = 1\n"  \
    "[stage.keep]\nkind = 'keeper'\ndepends_on = ['mid']\n"                 \
    "[stage.note]\nkind = 'diary'\ndoes = 'keep'\ndepends_on = ['mid']\n"

typedef struct changed {
    verl_plan_t       *before, *after;
    verl_difference_t *difference;
    verl_error_t       error;
} changed_t;

static changed_t
s_change(const char *base, const char *fragment, const char *swap)
{
    verl_error_t error = { "" };
    verl_topology_errors_t errors;
    changed_t self = { .error = { "" } };
    s_register();
    cr_assert(verl_kind_register_all(s_hoards, &error) == 0, "%s", error.text);
    self.before = s_good(base);
    self.after = verl_topology_load_change(base, strlen(base), "t.toml", fragment, strlen(fragment), "change", &errors);
    s_print(&errors);
    cr_assert(self.after);
    self.difference = verl_difference_new(self.before, self.after, &swap, swap ? 1 : 0, &self.error);
    return self;
}

static void
s_done(changed_t *self)
{
    verl_difference_destroy(&self->difference);
    verl_plan_destroy(&self->before);
    verl_plan_destroy(&self->after);
}

static const verl_change_item_t *
s_item(const verl_change_item_t *items, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(items[i].name, name) == 0)
            return &items[i];
    cr_assert(0, "no item %s", name);
    return NULL;
}

static const verl_change_item_t *
s_actor(const changed_t *self, const char *name)
{
    return s_item(self->difference->actors, self->difference->actors_count, name);
}

static const verl_change_item_t *
s_stage_item(const changed_t *self, const char *name)
{
    return s_item(self->difference->stages, self->difference->stages_count, name);
}

static void
s_has_key(const verl_change_item_t *item, const char *key, const char *before, const char *after)
{
    for (int i = 0; i < item->keys_count; i++)
        if (strcmp(item->keys[i].key, key) == 0) {
            cr_assert_str_eq(item->keys[i].before, before);
            cr_assert_str_eq(item->keys[i].after, after);
            return;
        }
    cr_assert(0, "%s has no changed key %s", item->name, key);
}

static char *
s_printed(const changed_t *self)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    verl_difference_print(self->difference, out);
    fclose(out);
    return text;
}

Test(difference, nothing_differs_where_nothing_changes)
{
    changed_t self = s_change(BASE, "", NULL);
    cr_assert(self.difference->empty);
    for (int i = 0; i < self.difference->actors_count; i++)
        cr_assert_eq(self.difference->actors[i].fate, VERL_FATE_KEPT);
    char *text = s_printed(&self), brief[100];
    cr_assert(strstr(text, "nothing changes\n"), "%s", text);
    cr_assert_str_eq(verl_difference_brief(self.difference, brief, sizeof brief), "nothing changed");
    free(text);
    s_done(&self);
}

Test(difference, a_swap_replaces_one_actor_and_leaves_the_others)
{
    changed_t self = s_change(BASE, "", "mid");
    cr_assert(!self.difference->empty);
    cr_assert_eq(s_actor(&self, "mid")->fate, VERL_FATE_REPLACED);
    cr_assert_eq(s_actor(&self, "mid")->state, VERL_STATE_NONE);
    cr_assert(s_actor(&self, "mid")->before >= 0);
    cr_assert_eq(s_actor(&self, "src")->fate, VERL_FATE_KEPT);
    cr_assert_eq(s_actor(&self, "keep")->fate, VERL_FATE_KEPT);
    cr_assert_eq(s_stage_item(&self, "mid")->fate, VERL_FATE_KEPT);
    char brief[100];
    cr_assert_str_eq(verl_difference_brief(self.difference, brief, sizeof brief), "replaced mid");
    s_done(&self);
}

Test(difference, a_stage_may_be_named_for_its_actor)
{
    changed_t self = s_change(GRPO RUN, "", "generate");
    cr_assert(self.difference, "%s", self.error.text);
    cr_assert_eq(s_actor(&self, "policy")->fate, VERL_FATE_REPLACED);
    s_done(&self);
}

Test(difference, a_name_to_swap_that_is_none_is_answered_with_the_nearest)
{
    changed_t self = s_change(BASE, "", "midd");
    cr_assert(!self.difference);
    cr_assert(strstr(self.error.text, "no actor or stage is called \"midd\": did you mean \"mid\"?"), "%s",
              self.error.text);
    s_done(&self);
}

Test(difference, an_option_of_work_changes_the_stage_and_not_its_actor)
{
    changed_t self = s_change(GRPO RUN, "[stage.update]\nlr = 5e-6\n", NULL);
    const verl_change_item_t *stage = s_stage_item(&self, "update");
    cr_assert_eq(stage->fate, VERL_FATE_CHANGED);
    cr_assert_eq(stage->keys_count, 1);
    s_has_key(stage, "lr", "0.0001", "5e-06");
    cr_assert_eq(s_actor(&self, "policy")->fate, VERL_FATE_KEPT);
    char brief[100];
    cr_assert_str_eq(verl_difference_brief(self.difference, brief, sizeof brief), "set update.lr=5e-06");
    s_done(&self);
}

Test(difference, an_option_of_state_replaces_the_actor_and_hands_its_state_over_where_the_kind_can)
{
    changed_t self = s_change(BASE, "[stage.keep]\nsize = 7\n[stage.note]\nsize = 8\n", NULL);
    s_has_key(s_actor(&self, "keep"), "size", "1", "7");
    cr_assert_eq(s_actor(&self, "keep")->fate, VERL_FATE_REPLACED);
    cr_assert_eq(s_actor(&self, "keep")->state, VERL_STATE_HANDED);
    cr_assert_eq(s_actor(&self, "note")->fate, VERL_FATE_REPLACED);
    cr_assert_eq(s_actor(&self, "note")->state, VERL_STATE_FRESH);
    char *text = s_printed(&self);
    cr_assert(strstr(text, "replaced  actor keep  size 1 -> 7  (its state goes to the new one)\n"), "%s", text);
    cr_assert(strstr(text, "replaced  actor note  size 1 -> 8  (its state begins anew)\n"), "%s", text);
    cr_assert(strstr(text, "goes on   src, mid\n"), "%s", text);
    free(text);
    char brief[100];
    cr_assert_str_eq(verl_difference_brief(self.difference, brief, sizeof brief),
                     "replaced keep (size=7), replaced note (size=8, begins anew)");
    s_done(&self);
}

Test(difference, who_is_to_begin_otherwise_is_handed_no_state)
{
    changed_t self = s_change(BASE, "[stage.keep]\nsize = 7\norigin = 2\n", NULL);
    cr_assert_eq(s_actor(&self, "keep")->fate, VERL_FATE_REPLACED);
    cr_assert_eq(s_actor(&self, "keep")->state, VERL_STATE_FRESH);
    char *text = s_printed(&self), brief[100];
    cr_assert(strstr(text, "replaced  actor keep  size 1 -> 7, origin 1 -> 2  (its state begins anew)\n"), "%s", text);
    cr_assert_str_eq(verl_difference_brief(self.difference, brief, sizeof brief),
                     "replaced keep (size=7, origin=2, begins anew)");
    free(text);
    s_done(&self);
}

Test(difference, another_kind_begins_with_a_state_of_its_own)
{
    changed_t self = s_change(BASE, "[stage.note]\nkind = 'keeper'\n", NULL);
    s_has_key(s_actor(&self, "note"), "kind", "\"diary\"", "\"keeper\"");
    cr_assert_eq(s_actor(&self, "note")->state, VERL_STATE_FRESH);
    s_done(&self);
}

Test(difference, the_options_of_a_kind_go_with_it_without_a_word)
{
    changed_t self = s_change(BASE, "unset = ['stage.mid.busy_ms']\n[stage.mid]\nkind = 'keeper'\nsize = 3\n", NULL);
    char brief[400];
    cr_assert(self.difference, "%s", self.error.text);
    cr_assert_str_eq(verl_difference_brief(self.difference, brief, sizeof brief),
                     "replaced mid (kind=\"keeper\", size=3, origin=1, begins anew), "
                     "set mid.does=\"keep\", unset mid.as.payload");
    s_done(&self);
}

Test(difference, limits_that_the_director_holds_need_no_fresh_process)
{
    changed_t self = s_change(BASE, "[stage.keep]\nliveness = 9\n", NULL);
    cr_assert_eq(s_actor(&self, "keep")->fate, VERL_FATE_CHANGED);
    s_has_key(s_actor(&self, "keep"), "liveness", "5.0", "9.0");
    cr_assert(!self.difference->empty);
    s_done(&self);
}

Test(difference, what_is_added_and_what_is_taken_away_are_told_with_the_stages)
{
    changed_t self = s_change(BASE, "unset = ['stage.note']\n[stage.more]\nkind = 'synthetic'\ndepends_on = ['keep']\n",
                              NULL);
    cr_assert_eq(s_actor(&self, "more")->fate, VERL_FATE_ADDED);
    cr_assert_eq(s_actor(&self, "more")->before, -1);
    cr_assert_eq(s_stage_item(&self, "more")->fate, VERL_FATE_ADDED);
    cr_assert_eq(self.difference->gone_actors_count, 1);
    cr_assert_eq(self.difference->gone_stages_count, 1);
    cr_assert_str_eq(self.before->actors[self.difference->gone_actors[0]].name, "note");
    char brief[100];
    cr_assert_str_eq(verl_difference_brief(self.difference, brief, sizeof brief), "added more, removed note");
    json_t *json = verl_difference_json(self.difference);
    const json_t *actors = json_object_get(json, "actors");
    cr_assert_str_eq(json_string_value(json_object_get(json_object_get(actors, "note"), "fate")), "removed");
    cr_assert_str_eq(json_string_value(json_object_get(json_object_get(actors, "more"), "fate")), "added");
    cr_assert_eq(json_object_size(actors), 2);
    cr_assert(json_is_false(json_object_get(json, "empty")));
    json_decref(json);
    s_done(&self);
}

Test(difference, new_dependencies_show_where_columns_come_from_now)
{
    changed_t self = s_change(GRPO RUN,
                              "[stage.reward2]\nkind = 'rule-reward'\ndepends_on = ['generate']\n"
                              "as = { score = 'score2' }\n[stage.advantage]\ndepends_on = ['reward', 'reward2']\n"
                              "uses = { score = 'score2' }\n", NULL);
    const verl_change_item_t *stage = s_stage_item(&self, "advantage");
    s_has_key(stage, "depends_on", "[\"reward\"]", "[\"reward\", \"reward2\"]");
    s_has_key(stage, "uses.score", "reward.score", "reward2.score2");
    cr_assert_eq(s_actor(&self, "advantage")->fate, VERL_FATE_KEPT);
    s_done(&self);
}

Test(difference, staleness_gives_a_stage_an_actor_of_its_own)
{
    changed_t self = s_change(GRPO RUN, "[stage.generate]\nstaleness = 1\n", NULL);
    cr_assert_eq(s_actor(&self, "policy.generate")->fate, VERL_FATE_ADDED);
    cr_assert_eq(s_actor(&self, "policy")->fate, VERL_FATE_KEPT);
    s_has_key(s_stage_item(&self, "generate"), "actor", "\"policy\"", "\"policy.generate\"");
    s_has_key(s_stage_item(&self, "generate"), "staleness", "0", "1");
    s_done(&self);
}

Test(difference, what_is_fed_with_versions_is_handed_nothing)
{
    changed_t self = s_change(RUN GRPO "[stage.late]\nactor = 'policy'\ndoes = 'generate'\ndepends_on = ['prompts']\n"
                                       "as = 'late_'\nstaleness = 1\n", "", "policy.late");
    cr_assert(self.difference, "%s", self.error.text);
    cr_assert_eq(s_actor(&self, "policy.late")->fate, VERL_FATE_REPLACED);
    cr_assert_eq(s_actor(&self, "policy.late")->state, VERL_STATE_NONE);
    s_done(&self);
}

Test(difference, what_a_stage_no_longer_says_is_unset)
{
    changed_t self = s_change("[actor.policy]\nkind = 'policy'\n"
                              "[stage.prompts]\nkind = 'loader'\nfiles = ['/dev/null']\nrows = 4\n"
                              "[stage.reward]\nkind = 'rule-reward'\ndepends_on = ['generate']\n"
                              "[stage.advantage]\nkind = 'advantage'\ndepends_on = ['reward']\n"
                              "[stage.update]\nactor = 'policy'\ndepends_on = ['advantage']\nlr = 1e-4\n"
                              "[stage.generate]\nactor = 'policy'\ndepends_on = ['prompts']\nsamples = 8\n"
                              "staleness = 1\n" RUN,
                              "[stage.generate]\nstaleness = 0\n", NULL);
    char brief[200];
    cr_assert(self.difference, "%s", self.error.text);
    cr_assert_str_eq(verl_difference_brief(self.difference, brief, sizeof brief),
                     "removed policy.generate, set generate.actor=\"policy\", unset generate.weights, "
                     "set generate.staleness=0");
    s_done(&self);
}

static void
s_refused(const char *fragment, const char *words)
{
    changed_t self = s_change(BASE, fragment, NULL);
    cr_assert(!self.difference);
    cr_assert(strstr(self.error.text, words), "expected \"%s\": %s", words, self.error.text);
    s_done(&self);
}

Test(difference, what_a_run_is_cannot_change_while_it_lives)
{
    s_refused("[run]\nseed = 5\n", "[run] seed cannot change from 0 to 5");
    s_refused("[run]\nname = 'x'\n", "[run] name cannot change from \"t\" to \"x\"");
    s_refused("[run]\nmax_bytes = 5000000\n", "[run] max_bytes cannot change");
    s_refused("[run]\nsave_every = 3\n", "[run] save_every cannot change from 0 to 3");
    s_refused("[run]\nkeep = 5\n", "[run] keep cannot change from 2 to 5");
    s_refused("[run]\ndrain_timeout = 5\n", "[run] drain_timeout cannot change from 60.0 to 5.0");
    s_refused("[run]\nscript = '/dev/null'\n", "[run] script cannot change from \"\" to \"/dev/null\"");
}

Test(difference, max_in_flight_may_change)
{
    changed_t self = s_change(BASE, "[run]\nmax_in_flight = 9\n", NULL);
    cr_assert(self.difference, "%s", self.error.text);
    cr_assert_eq(self.difference->run_count, 1);
    cr_assert_str_eq(self.difference->run[0].key, "max_in_flight");
    cr_assert(!self.difference->empty);
    s_done(&self);
}

Test(difference, words_are_cut_where_there_is_no_room)
{
    changed_t self = s_change(BASE, "[stage.more]\nkind = 'synthetic'\ndepends_on = ['keep']\n", "mid");
    for (size_t size = 1; size < 40; size++) {
        char *text = malloc(size);
        verl_difference_brief(self.difference, text, size);
        cr_assert_lt(strlen(text), size);
        free(text);
    }
    s_done(&self);
}
