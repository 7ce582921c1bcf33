// views.h: verl-spy's subcommands that show a run as a whole, on real runs.
#ifndef VERL_TEST_VIEWS_H
#define VERL_TEST_VIEWS_H
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/base/clock.h"
#include "tools/run.h"

typedef struct shown {
    int   code;                             // exit code
    char *out, *said;                       // stdout, stderr; freed by shown_done
} shown_t;

static inline char *
s_shown_file(const run_t *run, const char *name)
{
    char path[200], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", run->folder, name);
    FILE *file = fopen(path, "re");
    if (!file || getdelim(&text, &size, 0, file) < 0) {
        free(text);
        text = strdup("");
    }
    if (file)
        fclose(file);
    return text;
}

// Runs verl-spy with these words of a shell, in the folder of the run, whose directory is "run". At most 60 s.
static inline shown_t
show(const run_t *run, const char *words)
{
    char command[1200];
    snprintf(command, sizeof command,
             "cd %s && LC_ALL=C.UTF-8 timeout 60 %s/bin/verl-spy %s >shown.out 2>shown.err </dev/null", run->folder,
             VERL_BINARY_DIR, words);
    int status = system(command);
    shown_t shown = { .code = WIFEXITED(status) ? WEXITSTATUS(status) : 128, .out = s_shown_file(run, "shown.out"),
                      .said = s_shown_file(run, "shown.err") };
    return shown;
}

static inline void
shown_done(shown_t *shown)
{
    free(shown->out);
    free(shown->said);
}

// The one object that it printed. Owned by the caller.
static inline json_t *
show_json(const run_t *run, const char *words)
{
    shown_t shown = show(run, words);
    json_error_t wrong;
    json_t *object = json_loads(shown.out, 0, &wrong);
    cr_assert_eq(shown.code, 0, "%s: exit %d: %s", words, shown.code, shown.said);
    cr_assert(object, "%s: %s in %s", words, wrong.text, shown.out);
    shown_done(&shown);
    return object;
}

static inline const json_t *
named(const json_t *object, const char *list, const char *name)
{
    const json_t *items = json_object_get(object, list);
    for (size_t i = 0; i < json_array_size(items); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(items, i), "name")), name) == 0)
            return json_array_get(items, i);
    cr_assert_fail("%s has no %s", list, name);
    return NULL;
}

static inline double
number(const json_t *object, const char *key)
{
    cr_assert(json_is_number(json_object_get(object, key)), "%s is no number", key);
    return json_number_value(json_object_get(object, key));
}

static inline const char *
text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    cr_assert(value, "%s is no text", key);
    return value;
}

// Ends a run that would go on for ever, at once. Signals that come close together are one, so it is asked until it is gone.
static inline void
run_cut(run_t *run)
{
    int64_t limit = verl_now() + 30 * SLOWER * VERL_S;
    siginfo_t ended = { 0 };
    while (waitid(P_PID, (id_t) run->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && !ended.si_pid &&
           verl_now() < limit) {
        kill(run->pid, SIGINT);
        usleep(50000);
    }
    run_wait(run, 1);
    run_done(run);
}

#define UNTIL(condition, seconds) do { \
        int64_t limit_ = verl_now() + (int64_t) (seconds) * VERL_S; \
        while (!(condition) && verl_now() < limit_) \
            usleep(20000); \
        cr_assert(condition, #condition " within " #seconds " s"); \
    } while (0)
#endif
