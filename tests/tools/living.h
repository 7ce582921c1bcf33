// living.h: real runs that are changed while they live: says something to verl-inject, and asks a run about itself.
#ifndef VERL_TEST_LIVING_H
#define VERL_TEST_LIVING_H
#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/base/clock.h"
#include "tools/client.h"
#include "tools/run.h"

typedef struct said {
    int  code;                              // exit code; 128 + signal where it was killed
    char text[8000];                        // both outputs
} said_t;

// A source, a stage in the middle, and a recorder behind it. Each may be given more lines.
#define CHAIN(RUN, SOURCE, MID, RECORD)                                                                    \
    "[run]\nname = \"chain\"\n" RUN                                                                        \
    "[stage.src]\nkind = \"synthetic\"\n" SOURCE                                                           \
    "[stage.mid]\nkind = \"synthetic\"\ndepends_on = [\"src\"]\nreads = [\"payload\"]\n" MID               \
    "[stage.rec]\nkind = \"recorder\"\nfile = \"out.jsonl\"\ncolumns = [\"id\", \"payload\"]\n"            \
    "depends_on = [\"mid\"]\n" RECORD
#define FOREVER "steps = 100000000\n"

// Waits until the run can be spoken to.
static inline void
s_await(const run_t *run)
{
    char path[128];
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    snprintf(path, sizeof path, "%s/run/control.json", run->folder);
    while (access(path, F_OK) != 0) {
        cr_assert(verl_now() < limit && waitpid(run->pid, NULL, WNOHANG) == 0, "the run in %s does not begin",
                  run->folder);
        usleep(2000);
    }
}

// Starts verl-inject with the words of a shell; its output goes to FOLDER/NAME.
static inline pid_t
s_begin(const run_t *run, const char *name, const char *words)
{
    char command[4000];
    int length = snprintf(command, sizeof command, "cd %s; exec >%s 2>&1; exec %s/bin/verl-inject --run run %s",
                          run->folder, name, VERL_BINARY_DIR, words);
    cr_assert(length < (int) sizeof command);
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    return pid;
}

// Its end, within `seconds`.
static inline said_t
s_end(const run_t *run, const char *name, pid_t pid, double seconds)
{
    said_t said = { 0 };
    char path[128];
    int status = 0;
    int64_t limit = verl_now() + (int64_t) (seconds * SLOWER * 1e9);
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && verl_now() < limit)
        usleep(1000);
    snprintf(path, sizeof path, "%s/%s", run->folder, name);
    FILE *file = fopen(path, "re");
    size_t got = file ? fread(said.text, 1, sizeof said.text - 1, file) : 0;
    said.text[got] = 0;
    if (file)
        fclose(file);
    if (ended == 0)
        kill(pid, SIGKILL);
    cr_assert(ended == pid, "verl-inject does not end within %.0f s; it said: %s", seconds, said.text);
    said.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return said;
}

static inline said_t __attribute__((format(printf, 2, 3)))
s_inject(const run_t *run, const char *format, ...)
{
    char words[3000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return s_end(run, "injected", s_begin(run, "injected", words), 30);
}

#define DOES(said, words_) \
    cr_assert((said).code == 0 && strstr((said).text, words_), "exit %d: %s", (said).code, (said).text)
#define REFUSES(said, code_, words_) \
    cr_assert((said).code == (code_) && strstr((said).text, words_), "exit %d: %s", (said).code, (said).text)

// The number behind a word of what it said; -1: the word is not there.
static inline long long
s_number(const said_t *said, const char *word)
{
    const char *at = strstr(said->text, word);
    return at ? strtoll(at + strlen(word), NULL, 10) : -1;
}

static inline json_t *
s_status(const run_t *run)
{
    char path[128];
    verl_error_t error = { "" };
    snprintf(path, sizeof path, "%s/run", run->folder);
    verl_client_t *client = verl_client_open(path, false, &error);
    cr_assert(client, "%s", error.text);
    json_t *status = verl_client_ask(client, json_pack("{s:s}", "do", "status"), 20000 * SLOWER, &error);
    cr_assert(status, "%s", error.text);
    verl_client_close(&client);
    return status;
}

// Of the newest incarnation of an actor: "pid" or "incarnation"; 0: there is none.
static inline json_int_t
s_actor(const run_t *run, const char *name, const char *key)
{
    json_t *status = s_status(run), *actor;
    json_int_t newest = 0, value = 0;
    size_t i;
    json_array_foreach(json_object_get(status, "actors"), i, actor) {
        json_int_t incarnation = json_integer_value(json_object_get(actor, "incarnation"));
        if (strcmp(json_string_value(json_object_get(actor, "name")), name) == 0 && incarnation > newest) {
            newest = incarnation;
            value = json_integer_value(json_object_get(actor, key));
        }
    }
    json_decref(status);
    return value;
}

static inline json_int_t
s_done_batches(const run_t *run)
{
    json_t *status = s_status(run);
    json_int_t done = json_integer_value(json_object_get(status, "done"));
    json_decref(status);
    return done;
}

static inline void
s_until_done(const run_t *run, json_int_t batches)
{
    int64_t limit = verl_now() + 30 * SLOWER * VERL_S;
    while (s_done_batches(run) < batches) {
        cr_assert(verl_now() < limit, "the run does not come to batch %lld", (long long) batches);
        usleep(2000);
    }
}

// Does what it is told, and says so.
static inline void
s_does(const run_t *run, const char *words, const char *answer)
{
    said_t said = s_inject(run, "%s", words);
    DOES(said, answer);
}

static inline void
s_until_checkpoint(const run_t *run, int step)
{
    char path[128];
    int64_t limit = verl_now() + 30 * SLOWER * VERL_S;
    snprintf(path, sizeof path, "%s/run/checkpoints/step-%d/manifest.json", run->folder, step);
    while (access(path, F_OK) != 0) {
        cr_assert(verl_now() < limit, "there is no checkpoint of step %d", step);
        usleep(1000);
    }
}

// Ends verl-run as kill -9 does, and resumes it.
static inline void
s_kill_and_resume(run_t *run)
{
    kill(run->pid, SIGKILL);
    run_wait(run, 20);
    run_resume(run);
}

// The same, to its end.
static inline void
s_resume(run_t *run)
{
    s_kill_and_resume(run);
    run_wait(run, 60);
    cr_assert_eq(run->code, 0, "the run cannot be resumed: %s", run->said);
}

// Ends the run as Ctrl-C does, and waits for it.
static inline void
s_interrupt(run_t *run)
{
    kill(run->pid, SIGINT);
    run_wait(run, 60);
    cr_assert_eq(run->code, 130, "exit %d: %s", run->code, run->said);
}

// The lines of a JSON-lines file: calls `see` with each and its number. Returns how many there are.
static inline int64_t
s_lines(const run_t *run, const char *name, void (*see)(const json_t *line, int64_t number, void *context),
        void *context)
{
    char path[160], *line = NULL;
    size_t room = 0;
    int64_t count = 0;
    snprintf(path, sizeof path, "%s/run/%s", run->folder, name);
    FILE *file = fopen(path, "re");
    cr_assert(file, "there is no %s", path);
    while (getline(&line, &room, file) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        cr_assert(object, "a line of %s is no JSON: %s", name, line);
        if (see)
            see(object, count, context);
        json_decref(object);
        count++;
    }
    free(line);
    fclose(file);
    return count;
}

static inline void
s_see_in_order(const json_t *line, int64_t number, void *context)
{
    (void) context;
    cr_assert_eq(json_integer_value(json_object_get(line, "batch")), number, "line %lld has batch %lld",
                 (long long) number, (long long) json_integer_value(json_object_get(line, "batch")));
    cr_assert_eq(json_integer_value(json_object_get(line, "id")), number);
}

// Each batch stands in out.jsonl once, in order. Returns how many there are.
static inline int64_t
s_each_once(const run_t *run)
{
    return s_lines(run, "out.jsonl", s_see_in_order, NULL);
}
#endif
