// script.c: see script.h. The loop of a script: steps come in, and what they make due is called, in order of the step.
#include "tools/script.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "actors/text/utf8.h"
#include "tools/inject.h"
#include "tools/script_impl.h"

#define S_MEMORY       (INT64_C(256) << 20)
#define S_INSTRUCTIONS INT64_C(500000000) // of one function that is called

// The text without what a terminal or a log would take amiss: a blank for a control character, '?' for what is no
// UTF-8. A long one is cut between two characters.
static void
s_clean(const char *text, char *line, size_t size)
{
    const uint8_t *at = (const uint8_t *) text, *end = at + strlen(text);
    size_t used = 0, skip = 0, length;
    for (; at < end && used + 4 < size; at += length ? length : skip) {
        uint32_t code = 0;
        length = verl_utf8_next(at, (size_t) (end - at), &code, &skip);
        bool control = (code < ' ' && code != '\t') || (code >= 0x7f && code < 0xa0);
        if (length == 0 || control)
            line[used++] = length ? ' ' : '?';
        else
            memcpy(line + used, at, length);
        used += length && !control ? length : 0;
    }
    line[used] = '\0';
}

static void
s_print(const script_t *self, const char *name, const char *text)
{
    json_t *object = self->json ? json_pack("{s:s, s:s}", "script", name, "text", text) : NULL;
    char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    if (!self->json)
        printf("%s: %s\n", name, text);
    else if (line)
        puts(line);
    fflush(stdout);
    free(line);
    json_decref(object);
}

void
verl_script_say(script_t *self, const char *text)
{
    verl_error_t ignored = { "" };
    char name[64], clean[1000], line[1100];
    s_clean(self->name, name, sizeof name);
    s_clean(text, clean, sizeof clean);
    s_print(self, name, clean);
    snprintf(line, sizeof line, "%s: %s", name, clean);
    if (!self->ended)
        json_decref(verl_script_ask(self, json_pack("{s:s, s:s, s:s}", "do", "script", "state", "log", "text", line),
                                    false, &ignored));
}

typedef struct {
    int function;
    void (*push)(lua_State *state, void *argument);
    void *argument;
} s_call_t;

static int
s_do_call(lua_State *state)
{
    const s_call_t *call = lua_touserdata(state, 1);
    lua_rawgeti(state, LUA_REGISTRYINDEX, call->function);
    if (call->push)
        call->push(state, call->argument);
    lua_getglobal(state, "run");
    lua_call(state, call->push ? 2 : 1, 0);
    return 0;
}

// Runs in the sandbox, with a limit of what it computes. A function of the string library that goes back and forth
// without end counts no instructions: it ends with the process, which the guard tells.
static int
s_compute(script_t *self, lua_CFunction function, void *argument, char *text, size_t size)
{
    const struct itimerspec limit = { .it_value = { .tv_sec = verl_script_seconds() } }, none = { 0 };
    if (timer_settime(self->timer, 0, &limit, NULL) != 0) {
        snprintf(text, size, "no timer for a script: %s", strerror(errno));
        return -1;
    }
    int rc = verl_lua_run(self->lua, function, argument, text, size);
    timer_settime(self->timer, 0, &none, NULL);
    return rc;
}

int
verl_script_call(script_t *self, int function, void (*push)(lua_State *, void *), void *argument, verl_error_t *error)
{
    s_call_t call = { function, push, argument };
    char text[VERL_LUA_SENTENCE];
    if (s_compute(self, s_do_call, &call, text, sizeof text) == 0)
        return 0;
    return verl_error_set(error, "%s", text);
}

// ---------------------------------------------------------------------------------------------------------------
// What is due

static int
s_moment(script_t *self, verl_error_t *error)
{
    script_moment_t *moment = self->moments;
    verl_error_t ignored = { "" };
    self->moments = moment->next;
    self->at = moment->batch;
    int rc = verl_script_call(self, moment->function, NULL, NULL, error);
    self->at = -1;
    if (rc == 0)
        verl_script_note(self, json_pack("{s:I}", "moment", (json_int_t) moment->batch));
    if (verl_script_let_go(self, moment->batch, rc == 0 ? error : &ignored) != 0)
        rc = -1;
    free(moment);
    return rc;
}

// Branches that end and moments that have come, in the order of their batches.
static int
s_all_due(script_t *self, verl_error_t *error)
{
    for (;;) {
        script_branch_t *branch = verl_script_branch_due(self);
        const script_moment_t *moment = self->moments && self->moments->batch <= self->done ? self->moments : NULL;
        int rc = 0;
        if (branch && (!moment || branch->until <= moment->batch))
            rc = verl_script_branch_end(self, branch, error);
        else if (moment)
            rc = s_moment(self, error);
        else
            return 0;
        if (rc != 0 || self->interrupted)
            return -1;
    }
}

static bool
s_fires(script_t *self, script_watch_t *watch)
{
    if (watch->over)
        return false;
    bool new = self->done - 1 > watch->fired; // else the run went back, and makes this step again
    if (!watch->condition)
        return new && self->done % watch->period == 0;
    bool held = watch->held;
    watch->held = verl_condition_true(watch->condition, verl_script_metric, self);
    return new && watch->held && !held;
}

static int
s_look(script_t *self, verl_error_t *error)
{
    for (script_watch_t *watch = self->watches; watch; watch = watch->next) {
        if (!s_fires(self, watch))
            continue;
        watch->over = !watch->again;
        if (verl_script_call(self, watch->function, NULL, NULL, error) != 0)
            return -1;
        watch->fired = self->done - 1;
        verl_script_note(
            self, json_pack("{s:I, s:I}", "watch", (json_int_t) watch->number, "step", (json_int_t) watch->fired));
    }
    return 0;
}

// Is there anything left that can happen?
static bool
s_waits(const script_t *self)
{
    bool waits = self->moments != NULL;
    for (const script_watch_t *watch = self->watches; watch; watch = watch->next)
        waits = waits || !watch->over;
    for (const script_branch_t *branch = self->branches; branch; branch = branch->next)
        waits = waits || !branch->over;
    return waits;
}

// At the end of the run: what waited for a metric that it does not have, such as one whose name is misspelt.
static void
s_say_unmet(script_t *self)
{
    char text[400];
    for (const script_watch_t *watch = self->watches; watch && self->history_count; watch = watch->next) {
        const char *name = watch->over ? NULL : verl_condition_unmet(watch->condition);
        snprintf(text, sizeof text, "no step that it saw had `%s`, for which a `when` waited: metrics.jsonl shows the "
                 "names that there are", name ? name : "");
        if (name)
            verl_script_say(self, text);
    }
}

static int
s_loop(script_t *self, verl_error_t *error)
{
    while (s_all_due(self, error) == 0 && s_waits(self) && verl_script_wait(self)) {
        if (json_array_size(self->lines) == 0)
            continue;
        json_t *line = json_incref(json_array_get(self->lines, 0));
        json_array_remove(self->lines, 0);
        verl_script_remember(self, line);
        json_decref(line);
        if (s_look(self, error) != 0)
            break;
    }
    return error->text[0] ? -1 : 0;
}

// ---------------------------------------------------------------------------------------------------------------
// Life

// A signal ends what Lua does, too.
static bool
s_tick(void *context)
{
    return verl_script_signalled(context);
}

int
verl_script_ready(script_t *self, verl_error_t *error)
{
    if (!self->own)
        return 0;
    json_t *answer = verl_script_ask(
        self, json_pack("{s:s, s:s, s:s}", "do", "script", "state", "ready", "file", self->name), false, error);
    json_decref(answer);
    return answer ? 0 : -1;
}

static int
s_run(script_t *self, verl_error_t *error)
{
    char text[VERL_LUA_SENTENCE];
    self->lua = verl_lua_new(S_MEMORY, S_INSTRUCTIONS, self);
    if (!self->lua)
        return verl_error_set(error, "no memory for a sandbox of Lua");
    self->lua->tick = s_tick;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SCRIPT_OVERTIME };
    if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &self->timer) != 0)
        return verl_error_errno(error, "no timer for a script");
    if (s_compute(self, verl_script_load, self, text, sizeof text) != 0)
        return verl_error_set(error, "%s", text);
    return verl_script_ready(self, error) == 0 ? s_loop(self, error) : -1;
}

static void
s_free(script_t *self)
{
    while (self->moments) {
        script_moment_t *moment = self->moments;
        self->moments = moment->next;
        free(moment);
    }
    while (self->watches) {
        script_watch_t *watch = self->watches;
        self->watches = watch->next;
        verl_condition_destroy(&watch->condition);
        free(watch);
    }
    if (self->lua)
        verl_lua_destroy(&self->lua);
}

static int
s_compile(lua_State *state)
{
    verl_lua_load(state, lua_touserdata(state, 1));
    return 0;
}

int
verl_script_check(const char *file, verl_error_t *error)
{
    char text[VERL_LUA_SENTENCE] = "";
    verl_lua_t *lua = verl_lua_new(S_MEMORY, S_INSTRUCTIONS, NULL);
    if (!lua)
        return verl_error_set(error, "no memory for a sandbox of Lua");
    int rc = verl_lua_run(lua, s_compile, (void *) file, text, sizeof text);
    verl_lua_destroy(&lua);
    return rc == 0 ? 0 : verl_error_set(error, "%s", text);
}

void
verl_script_name(script_t *self)
{
    const char *slash = strrchr(self->file, '/');
    snprintf(self->name, sizeof self->name, "%.55s", slash ? slash + 1 : self->file);
}

// In the process of the script.
static int
s_script(const char *run_directory, const char *file, bool json, int guard_fd)
{
    script_t self = { .file = file, .json = json, .signal_fd = -1, .guard_fd = guard_fd, .journal_fd = -1, .at = -1 };
    verl_error_t error = { "" };
    verl_script_name(&self);
    int rc = verl_script_open(&self, run_directory, &error);
    rc = rc == 0 ? verl_script_journal_open(&self, &error) : rc;
    rc = rc == 0 ? s_run(&self, &error) : rc;
    if ((self.ending || self.ended) && rc != 0) {
        self.ended = true;
        verl_script_say(&self, error.text);
    }
    if (self.ended && rc == 0)
        s_say_unmet(&self);
    bool interrupted = self.interrupted, ended = self.ended;
    self.interrupted = false; // a second signal ends the taking back
    verl_script_take_all_back(&self);
    verl_script_close(&self);
    s_free(&self);
    close(guard_fd);
    if (ended)
        return INJECT_DONE;
    if (interrupted)
        return INJECT_INTERRUPTED;
    return rc == 0 ? INJECT_DONE : verl_inject_failed("%s", error.text);
}

int
verl_script_main(const char *run_directory, const char *file, bool json)
{
    return verl_script_guarded(run_directory, file, json, s_script);
}
