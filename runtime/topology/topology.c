// topology.c: see topology.h. Runs the passes of draft.h over a document, in memory that is the plan's if all went
// well.
#include "runtime/topology/topology.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/topology/draft.h"
#include "runtime/topology/draft_fit.h"
#include "runtime/topology/plan_box.h"
#include "runtime/topology/toml.h"

typedef struct text {
    const char *bytes;
    size_t size;
} text_t;

typedef struct load {
    verl_draft_t draft;
    verl_plan_t *plan;
    verl_sources_t sources;
    text_t text, fragment;
} load_t;

static void
s_folder(verl_draft_t *draft)
{
    char whole[PATH_MAX];
    const char *slash = strrchr(draft->file, '/');
    const char *folder = !slash ? "."
                         : slash == draft->file
                             ? "/"
                             : verl_pool_copy_n(draft->pool, draft->file, (size_t) (slash - draft->file));
    draft->folder = verl_pool_copy(draft->pool, realpath(folder, whole) ? whole : folder);
}

static verl_node_t *
s_parse(verl_draft_t *draft, const text_t *text, int origin)
{
    verl_toml_error_t error;
    verl_node_t *root = verl_toml_parse(text->bytes, text->size, draft->pool, &error);
    verl_at_t at = { .origin = origin, .line = error.line, .column = error.column };
    const char *kind = !root && error.line && !error.bound ? "this is no TOML: " : "";
    if (!root)
        verl_problem_add(&draft->problems, at, "%s%s", kind, error.text);
    else if (origin != -1)
        verl_node_originate(root, origin);
    return root;
}

// Reads the document and what is put over it. False, reported, where that is no TOML.
static bool
s_read(load_t *self)
{
    verl_draft_t *draft = &self->draft;
    draft->root = s_parse(draft, &self->text, -1);
    if (!draft->root)
        return false;
    draft->lives = self->fragment.bytes;
    if (draft->lives) {
        verl_node_t *fragment = s_parse(draft, &self->fragment, -2);
        if (!fragment)
            return false;
        const verl_node_t *had = verl_draft_fit_actors(draft);
        verl_draft_fit(draft, fragment);
        const verl_node_t *unset = verl_node_get(fragment, "unset");
        if (unset)
            verl_draft_unset(draft, unset);
        verl_node_remove(fragment, "unset");
        verl_node_merge(draft->pool, draft->root, fragment);
        verl_draft_fit_orphans(draft, had);
    }
    verl_draft_sets(draft, self->sources.sets, self->sources.sets_count);
    return true;
}

static void
s_work(void *argument)
{
    load_t *self = argument;
    verl_draft_t *draft = &self->draft;
    s_folder(draft);
    if (!s_read(self))
        return;
    verl_draft_run(draft);
    verl_draft_actors(draft);
    verl_draft_stages(draft);
    verl_draft_weights(draft);
    verl_draft_order(draft);
    verl_draft_columns(draft);
    verl_draft_spans(draft);
    verl_draft_limits(draft);
    if (draft->problems.count == 0)
        verl_draft_plan(draft, self->plan);
}

static void
s_one_error(verl_topology_errors_t *ret_errors, const char *path, const char *text)
{
    *ret_errors = (verl_topology_errors_t){ .items = calloc(1, sizeof *ret_errors->items) };
    if (ret_errors->items && asprintf(&ret_errors->items[0], "%s: %s", path, text) > 0)
        ret_errors->count = 1;
}

// What is wrong with a script is found by those who can run it.
static void
s_place_script(load_t *self)
{
    const verl_node_t *run = verl_node_get(self->draft.root, "run");
    char *place = verl_problem_place(verl_draft_at(run, "script", (verl_at_t){ .origin = -1 }), &self->sources);
    self->plan->script_at = place ? verl_pool_try(self->draft.pool, strlen(place) + 1) : NULL;
    if (self->plan->script_at)
        strcpy(self->plan->script_at, place);
    free(place);
}

static verl_plan_t *
s_load(load_t *self, verl_topology_errors_t *ret_errors)
{
    *ret_errors = (verl_topology_errors_t){ 0 };
    self->plan = verl_plan_new();
    bool done = false;
    if (self->plan) {
        self->draft.pool = self->draft.problems.pool = verl_plan_pool(self->plan);
        self->draft.file = self->sources.file;
        done = verl_pool_run(self->draft.pool, s_work, self);
    }
    if (done && self->draft.problems.count == 0) {
        s_place_script(self);
        return self->plan;
    }
    if (done)
        verl_problems_report(&self->draft.problems, &self->sources, ret_errors);
    else
        s_one_error(ret_errors, self->sources.file, "no memory to check the topology");
    verl_plan_destroy(&self->plan);
    return NULL;
}

verl_plan_t *
verl_topology_load_text(const char *text, size_t size, const char *path, const char *const *sets, int sets_count,
                        verl_topology_errors_t *ret_errors)
{
    load_t self = { .sources = { .file = path, .sets = sets, .sets_count = sets_count }, .text = { text, size } };
    return s_load(&self, ret_errors);
}

verl_plan_t *
verl_topology_load_change(const char *text, size_t size, const char *path, const char *fragment, size_t fragment_size,
                          const char *fragment_path, verl_topology_errors_t *ret_errors)
{
    load_t self = { .sources = { .file = path, .fragment = fragment_path },
                    .text = { text, size },
                    .fragment = { fragment, fragment_size } };
    return s_load(&self, ret_errors);
}

// The whole of a regular file, malloc'ed, or NULL with the reason.
static char *
s_slurp(const char *path, size_t *ret_size, verl_error_t *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat info;
    char *bytes = NULL;
    if (fd < 0 || fstat(fd, &info) != 0)
        verl_error_errno(error, "cannot be read");
    else if (!S_ISREG(info.st_mode))
        verl_error_set(error, "is no regular file: a topology file would be right");
    else if (info.st_size > (off_t) VERL_TOML_MAX_BYTES)
        verl_error_set(error, "is larger than 4 MiB: a topology is a few kilobytes");
    else if (!(bytes = malloc((size_t) info.st_size + 1)))
        verl_error_set(error, "no memory to read it");
    size_t size = 0;
    while (bytes && size < (size_t) info.st_size) {
        ssize_t more = read(fd, bytes + size, (size_t) info.st_size - size);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            break;
        size += (size_t) more;
    }
    if (fd >= 0)
        close(fd);
    *ret_size = size;
    return bytes;
}

verl_plan_t *
verl_topology_load(const char *path, const char *const *sets, int sets_count, verl_topology_errors_t *ret_errors)
{
    verl_error_t error = { "" };
    size_t size = 0;
    char *text = s_slurp(path, &size, &error);
    if (!text) {
        s_one_error(ret_errors, path, error.text);
        return NULL;
    }
    verl_plan_t *plan = verl_topology_load_text(text, size, path, sets, sets_count, ret_errors);
    free(text);
    return plan;
}
