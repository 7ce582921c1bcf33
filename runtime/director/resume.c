// resume.c: where a run goes on: its last whole checkpoint, the revision of that time, and the changes that came later.
//
// A change is made again at the batch at which it came into force, so that the run is the same as if it had never ended.
#include <dirent.h>
#include <errno.h>
#include <unistd.h>
#include "runtime/director/director_impl.h"
#include "runtime/topology/topology.h"

static int64_t
s_last_step(const char *directory)
{
    char path[4200];
    long long step;
    int64_t last = 0;
    snprintf(path, sizeof path, "%s/checkpoints", directory);
    DIR *checkpoints = opendir(path);
    for (struct dirent *entry; checkpoints && (entry = readdir(checkpoints));) {
        int end = 0;
        if (sscanf(entry->d_name, "step-%lld%n", &step, &end) == 1 && !entry->d_name[end] && step > last)
            last = step;
    }
    if (checkpoints)
        closedir(checkpoints);
    return last;
}

static verl_plan_t *
s_load(const char *directory, int64_t revision, verl_error_t *error)
{
    char path[4200];
    verl_topology_errors_t errors = { 0 };
    if (revision > 1)
        snprintf(path, sizeof path, "%s/topology-%" PRId64 ".toml", directory, revision);
    else
        snprintf(path, sizeof path, "%s/topology.toml", directory);
    verl_plan_t *plan = verl_topology_load(path, NULL, 0, &errors);
    if (!plan)
        verl_error_set(error, "%s", errors.count ? errors.items[0] : "out of memory");
    else
        plan->revision = revision;
    verl_topology_errors_done(&errors);
    return plan;
}

// Whoever left its state in the checkpoint has to find it there.
static int
s_look_for_states(const verl_resume_t *from, verl_error_t *error)
{
    char path[4600];
    size_t i;
    json_t *actor;
    json_array_foreach(from->actors, i, actor) {
        const char *name = json_string_value(actor);
        snprintf(path, sizeof path, "%s/%s", from->checkpoint, name ? name : "");
        if (!name)
            return verl_error_set(error, "%s/manifest.json names an actor that is no text", from->checkpoint);
        if (access(path, R_OK | X_OK))
            return verl_error_set(error, "cannot read %s, the state of actor `%s`: %s; without %s the run would go on "
                                  "from an earlier step", path, name, strerror(errno), from->checkpoint);
    }
    return 0;
}

static int
s_read_manifest(verl_resume_t *from, int64_t *ret_revision, verl_error_t *error)
{
    char path[4300];
    json_error_t wrong;
    snprintf(path, sizeof path, "%s/manifest.json", from->checkpoint);
    json_t *manifest = json_load_file(path, 0, &wrong);
    const json_t *step = json_object_get(manifest, "step"), *revision = json_object_get(manifest, "revision"),
                 *cut = json_object_get(manifest, "cut");
    json_t *actors = json_object_get(manifest, "actors");
    int failed = 0;
    if (!json_is_integer(step) || json_integer_value(step) != from->step || !json_is_integer(revision) ||
        json_integer_value(revision) < 1 || !json_is_integer(cut) || json_integer_value(cut) < 0 ||
        json_integer_value(cut) > from->step || !json_is_array(actors))
        failed = verl_error_set(error, "%s is no manifest of step %" PRId64 "%s%s; without %s the run would go on from "
                                "an earlier step", path, from->step, manifest ? "" : ": ", manifest ? "" : wrong.text,
                                from->checkpoint);
    from->cut = json_integer_value(cut);
    from->actors = failed ? NULL : json_incref(actors);
    from->base = json_incref(json_object_get(manifest, "base"));
    from->owners = json_incref(json_object_get(manifest, "metrics"));
    *ret_revision = failed ? 0 : json_integer_value(revision);
    json_decref(manifest);
    return failed ? -1 : s_look_for_states(from, error);
}

bool
verl_resume_has(const verl_resume_t *from, const char *actor)
{
    bool has = false;
    for (size_t i = 0; i < json_array_size(from->actors); i++)
        has |= strcmp(json_string_value(json_array_get(from->actors, i)), actor) == 0;
    return has;
}

// --- the changes that came later ----------------------------------------------------------------------------------

static void
s_free(verl_resume_cut_t *cut)
{
    json_decref(cut->event);
    free(cut);
}

static void
s_forget(verl_resume_t *from)
{
    while (from->cuts) {
        verl_resume_cut_t *cut = from->cuts;
        from->cuts = cut->next;
        s_free(cut);
    }
}

// A change that is made again takes the place of what it was before.
static void
s_made_again(verl_resume_t *from, int64_t first)
{
    verl_resume_cut_t **link = &from->cuts;
    while (*link && !((*link)->pending && (*link)->first == first))
        link = &(*link)->next;
    verl_resume_cut_t *cut = *link;
    if (!cut)
        return;
    *link = cut->next;
    s_free(cut);
}

static int
s_add(verl_resume_t *from, int64_t revision, json_t *event, verl_error_t *error)
{
    verl_resume_cut_t *cut = calloc(1, sizeof *cut), **link = &from->cuts;
    if (!cut)
        return verl_error_set(error, "out of memory");
    cut->revision = revision;
    cut->first = json_integer_value(json_object_get(event, "first"));
    cut->event = json_incref(event);
    s_made_again(from, cut->first);
    while (*link && (*link)->first <= cut->first)
        link = &(*link)->next;
    cut->next = *link;
    *link = cut;
    return 0;
}

// A life began at `step`: what came into force from there on is made again. A successor that took over the last batches,
// so that none was left to be the first of its revision, is in force as early as the order of the changes lets it.
static void
s_begin_again(verl_resume_t *from, int64_t step)
{
    int64_t last = verl_plan_last(from->plan), before = step;
    for (verl_resume_cut_t *cut = from->cuts; cut; cut = cut->next) {
        if (cut->first < step)
            continue;
        cut->pending = true;
        cut->first = before = cut->first > last ? before : cut->first;
    }
}

static int
s_read_event(verl_resume_t *from, json_t *line, verl_error_t *error)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    int64_t revision = json_integer_value(json_object_get(line, "revision"));
    if (!event)
        return 0;
    if (strcmp(event, "begun") == 0)
        s_forget(from);
    const json_t *step = strcmp(event, "resumed") == 0 ? json_object_get(line, "from") : NULL;   // a life, no pause
    if (step)
        s_begin_again(from, json_integer_value(step));
    from->numbers = revision > from->numbers ? revision : from->numbers;
    return strcmp(event, "cut") == 0 ? s_add(from, revision, line, error) : 0;
}

// Whole lines; a torn last one was never acted upon. A run that has not come to a checkpoint may have none.
static int
s_read_log(const char *directory, verl_resume_t *from, verl_error_t *error)
{
    char path[4200], *text = NULL;
    size_t room = 0;
    int failed = 0;
    snprintf(path, sizeof path, "%s/run.log", directory);
    FILE *file = fopen(path, "re");
    if (!file && (errno != ENOENT || from->step > 0))
        return verl_error_errno(error, "cannot read %s, which says how the run was changed", path);
    while (file && !failed && getline(&text, &room, file) > 0) {
        json_t *line = json_loads(text, 0, NULL);
        if (line)
            failed = s_read_event(from, line, error);
        json_decref(line);
    }
    free(text);
    if (file && ferror(file))
        failed = verl_error_errno(error, "cannot read %s, which says how the run was changed", path);
    if (file)
        fclose(file);
    return failed;
}

void
verl_resume_done(verl_resume_t *from)
{
    s_forget(from);
    json_decref(from->actors);
    from->actors = NULL;
    json_decref(from->base);
    from->base = NULL;
    json_decref(from->owners);
    from->owners = NULL;
    verl_plan_destroy(&from->owned);
    from->plan = NULL;
}

int
verl_resume_last(const char *directory, verl_resume_t *from, verl_error_t *error)
{
    int64_t revision = 1;
    s_forget(from);
    json_decref(from->actors);
    json_decref(from->base);
    json_decref(from->owners);
    *from = (verl_resume_t) { .plan = from->plan, .owned = from->owned, .step = s_last_step(directory), .numbers = 1 };
    if (from->step > 0) {
        snprintf(from->checkpoint, sizeof from->checkpoint, "%s/checkpoints/step-%" PRId64, directory, from->step);
        if (s_read_manifest(from, &revision, error))
            return -1;
    }
    verl_plan_t *plan = s_load(directory, revision, error);
    if (!plan)
        return -1;
    verl_plan_destroy(&from->owned);
    from->plan = from->owned = plan;
    if (s_read_log(directory, from, error))
        return -1;
    s_begin_again(from, from->step);
    // What came into force before the checkpoint is in its revision already.
    for (verl_resume_cut_t **link = &from->cuts; *link;) {
        verl_resume_cut_t *cut = *link;
        bool later = cut->first >= from->step && cut->revision != revision;
        *link = later ? cut : cut->next;
        if (later)
            link = &cut->next;
        else
            s_free(cut);
    }
    return 0;
}

static int
s_change(const verl_resume_cut_t *cut, change_t *change)
{
    const char *text = json_string_value(json_object_get(cut->event, "fragment"));
    const char *path = json_string_value(json_object_get(cut->event, "path"));
    change->at = cut->first;
    snprintf(change->who, sizeof change->who, "resumed");
    if (verl_change_swaps(change, json_object_get(cut->event, "swap")))
        return -1;
    return text && path && (change->text = strdup(text)) && (change->path = strdup(path)) ? 0 : -1;
}

int
verl_resume_changes(director_t *self, const verl_resume_t *from, verl_error_t *error)
{
    for (const verl_resume_cut_t *cut = from->cuts; cut; cut = cut->next) {
        change_t *change = calloc(1, sizeof *change);
        if (!change)
            return verl_error_set(error, "out of memory");
        verl_changes_add(self, change);
        if (s_change(cut, change))
            return verl_error_set(error, "run.log does not say what revision %" PRId64 " changed", cut->revision);
        change->hold = change->at;
    }
    return 0;
}
