// kinds.c: see kinds.h.
#include "runtime/topology/kinds.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/topology/nearest.h"
#include "runtime/topology/options.h"

#define S_MAX 256

static struct {
    pthread_mutex_t mutex;
    int count;
    const verl_kind_t *kinds[S_MAX];
    char *paths[S_MAX]; // of a shared object; NULL: of this program
} s_list = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static const verl_kind_t *
s_find(const char *name)
{
    for (int i = 0; i < s_list.count; i++)
        if (s_list.paths[i] ? strcmp(s_list.paths[i], name) == 0 : verl_same_name(s_list.kinds[i]->name, name))
            return s_list.kinds[i];
    return NULL;
}

static int
s_add(const verl_kind_t *kind, const char *path, verl_error_t *error)
{
    if (s_list.count == S_MAX)
        return verl_error_set(error, "more than %d kinds", S_MAX);
    char *copy = path ? strdup(path) : NULL;
    if (path && !copy)
        return verl_error_set(error, "no memory for the kind '%s'", path);
    s_list.kinds[s_list.count] = kind;
    s_list.paths[s_list.count++] = copy;
    return 0;
}

int
verl_kind_register_all(const verl_kind_t *const *kinds, verl_error_t *error)
{
    int rc = 0;
    pthread_mutex_lock(&s_list.mutex);
    for (; *kinds; kinds++) {
        bool there = false;
        for (int i = 0; i < s_list.count; i++)
            there = there || s_list.kinds[i] == *kinds;
        if (there)
            continue;
        if (verl_kind_check(*kinds, error) != 0)
            rc = -1;
        else if (s_find((*kinds)->name))
            rc = verl_error_set(error, "two kinds are called `%s`: another name would be right", (*kinds)->name);
        else if (s_add(*kinds, NULL, error) != 0)
            rc = -1;
    }
    pthread_mutex_unlock(&s_list.mutex);
    return rc;
}

int
verl_kind_count(void)
{
    pthread_mutex_lock(&s_list.mutex);
    int count = s_list.count;
    pthread_mutex_unlock(&s_list.mutex);
    return count;
}

const verl_kind_t *
verl_kind_at(int index)
{
    pthread_mutex_lock(&s_list.mutex);
    const verl_kind_t *kind = index >= 0 && index < s_list.count ? s_list.kinds[index] : NULL;
    pthread_mutex_unlock(&s_list.mutex);
    return kind;
}

const verl_kind_t *
verl_kind_known(const char *name)
{
    pthread_mutex_lock(&s_list.mutex);
    const verl_kind_t *kind = s_find(name);
    pthread_mutex_unlock(&s_list.mutex);
    return kind;
}

bool
verl_kind_is_path(const char *name)
{
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".so") == 0;
}

// verl_kind_length_reward for DIR/length-reward.so or DIR/liblength_reward.so's own stem.
static void
s_symbol(const char *path, char *symbol, size_t size)
{
    const char *slash = strrchr(path, '/'), *stem = slash ? slash + 1 : path;
    snprintf(symbol, size, "verl_kind_%.*s", (int) (strlen(stem) - 3), stem);
    for (char *c = symbol; *c; c++)
        if (*c == '-')
            *c = '_';
}

// Functions are looked up when they are first called: the program that checks a topology need not have all of them.
static const verl_kind_t *
s_load(const char *path, verl_error_t *error)
{
    char whole[4096], symbol[256];
    snprintf(whole, sizeof whole, "%s%s", strchr(path, '/') ? "" : "./", path);
    void *library = dlopen(whole, RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        verl_error_set(error, "cannot load the kind '%.300s': %.400s", path, dlerror());
        return NULL;
    }
    s_symbol(path, symbol, sizeof symbol);
    const verl_kind_t *kind = dlsym(library, symbol);
    if (!kind)
        verl_error_set(error, "'%.300s' has no symbol %s: VERL_KIND (%s, …) in its source would be right", path, symbol,
                       symbol + strlen("verl_kind_"));
    if (!kind || verl_kind_check(kind, error) != 0 || s_add(kind, path, error) != 0) {
        dlclose(library);
        return NULL;
    }
    return kind;
}

// The kind that a file is for: the one that its ending is the name of, and that has an option `file`. NULL: none.
static const verl_kind_t *
s_host(const char *name)
{
    const char *dot = strrchr(name, '.');
    const verl_kind_t *kind = dot ? s_find(dot + 1) : NULL;
    return kind && verl_option_find(kind->options, "file") ? kind : NULL;
}

static void
s_refuse(const char *name, verl_error_t *error)
{
    verl_nearest_t nearest;
    verl_nearest_init(&nearest, name);
    for (int i = 0; i < s_list.count; i++)
        if (!s_list.paths[i])
            verl_nearest_offer(&nearest, s_list.kinds[i]->name);
    char shown[128] = "";
    const verl_kind_t *host = s_host(name);
    if (host) {
        verl_error_set(error, "there is no kind `%.100s`: kind = \"%s\" and file = \"%.100s\" would be right", name,
                       verl_kind_shown(host, shown, sizeof shown), name);
        return;
    }
    for (size_t i = 0; nearest.best && nearest.best[i] && i + 1 < sizeof shown; i++)
        shown[i] = nearest.best[i] == '_' ? '-' : nearest.best[i];
    if (*shown)
        verl_error_set(error, "there is no kind `%.100s`: did you mean `%s`?", name, shown);
    else
        verl_error_set(error, "there is no kind `%.100s`: verl-run --kinds lists them", name);
}

const verl_kind_t *
verl_kind_find(const char *name, verl_error_t *error)
{
    pthread_mutex_lock(&s_list.mutex);
    const verl_kind_t *kind = s_find(name);
    if (!kind && verl_kind_is_path(name))
        kind = s_load(name, error);
    else if (!kind)
        s_refuse(name, error);
    pthread_mutex_unlock(&s_list.mutex);
    return kind;
}

const verl_stage_kind_t *
verl_stage_kind_find(const verl_kind_t *kind, const char *name)
{
    for (int i = 0; i < verl_stage_kind_count(kind); i++)
        if (verl_same_name(kind->stages[i].name, name))
            return &kind->stages[i];
    return NULL;
}

const verl_stage_kind_t *
verl_stage_kind_function(const verl_kind_t *kind)
{
    const verl_option_t *option = verl_option_find(kind->stages[0].options, "function");
    return verl_stage_kind_count(kind) == 1 && option && option->type == VERL_OPTION_STRING ? &kind->stages[0] : NULL;
}

int
verl_stage_kind_count(const verl_kind_t *kind)
{
    int count = 0;
    while (count < VERL_MAX_STAGES && kind->stages[count].name)
        count++;
    return count;
}

const char *
verl_kind_shown(const verl_kind_t *kind, char *text, size_t size)
{
    snprintf(text, size, "%s", kind->name);
    for (char *c = text; *c; c++)
        if (*c == '_')
            *c = '-';
    return text;
}
