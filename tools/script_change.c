// script_change.c: how a script changes its run: the way of writing a change down that is right, the change itself, and
// the topology that is in force. See script_talk.c for what asking means.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tools/inject.h"
#include "tools/script_impl.h"

#define S_PLAN_MS 30000 // for what takes the run no time

static json_t *
s_request(const script_t *self, const script_change_t *change, const char *fragment, bool plan)
{
    char who[128];
    snprintf(who, sizeof who, "script %s (process %d)", self->name, (int) getpid());
    json_t *request = json_pack("{s:s, s:s, s:s, s:s, s:b}", "do", "apply", "fragment", fragment, "path", change->place,
                                "who", who, "plan", plan);
    if (request && change->at >= 0)
        json_object_set_new(request, "at", json_integer(change->at));
    if (request && change->swap)
        json_object_set_new(request, "swap", json_pack("[s]", change->swap));
    return request;
}

// What the run says of a change: a mistake in what no script wrote has the script's place alone.
static void
s_explain(const script_change_t *change, const char *why, verl_error_t *error)
{
    char *text = change->text ? NULL : verl_inject_unplaced(why, change->place, NULL, 0);
    verl_error_set(error, "%s", text ? text : why);
    free(text);
}

// The first way that is right: 1; 0: it is, and nothing would change; -1: none is, and what is wrong with the first.
static int
s_choose(script_t *self, const script_change_t *change, const char **ret_fragment, verl_error_t *error)
{
    for (int i = 0; i < change->ways; i++) {
        verl_error_t why = { "" };
        json_t *answer = verl_script_ask(self, s_request(self, change, change->fragments[i], true), false, &why);
        if (answer) {
            bool empty = json_is_true(json_object_get(json_object_get(answer, "difference"), "empty"));
            *ret_fragment = change->fragments[i];
            json_decref(answer);
            return empty ? 0 : 1;
        }
        s_explain(change, why.text, error); // the first one stays
        if (self->ended || self->interrupted)
            break;
    }
    return -1;
}

int
verl_script_apply(script_t *self, script_change_t *change, int64_t *ret_revision, int64_t *ret_first,
                  verl_error_t *error)
{
    const char *fragment = NULL;
    int chosen = s_choose(self, change, &fragment, error);
    if (chosen <= 0)
        return chosen;
    verl_error_t why = { "" };
    change->asked = true;
    json_t *answer = verl_script_ask(self, s_request(self, change, fragment, false), false, &why);
    if (!answer && strncmp(why.text, "nothing would change", 20) == 0)
        return 0; // the run went back, and has made it again itself
    if (!answer) {
        s_explain(change, why.text, error);
        return -1;
    }
    *ret_revision = json_integer_value(json_object_get(answer, "revision"));
    *ret_first = json_integer_value(json_object_get(answer, "first"));
    json_decref(answer);
    return 1;
}

static char *
s_slurp(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    char *text = fd >= 0 && fstat(fd, &info) == 0 && info.st_size < 1 << 26 ? malloc((size_t) info.st_size + 1) : NULL;
    ssize_t got = text ? read(fd, text, (size_t) info.st_size) : -1;
    int reason = errno;
    if (fd >= 0)
        close(fd);
    errno = reason;
    if (got < 0) {
        free(text);
        return NULL;
    }
    text[got] = '\0';
    return text;
}

char *
verl_script_topology(script_t *self, verl_error_t *error)
{
    char path[4400];
    json_t *answer = verl_script_ask(self, json_pack("{s:s}", "do", "list"), false, error);
    if (!answer)
        return NULL;
    const json_t *revisions = json_object_get(answer, "revisions");
    const json_t *newest = json_array_get(revisions, json_array_size(revisions) - 1);
    int64_t revision = json_integer_value(json_object_get(newest, "revision"));
    json_decref(answer);
    const char *directory = verl_client_directory(self->change);
    snprintf(path, sizeof path, "%s/topology-%lld.toml", directory, (long long) revision);
    char *text = s_slurp(path);
    if (!text && errno == ENOENT && revision <= 1) {
        snprintf(path, sizeof path, "%s/topology.toml", directory);
        text = s_slurp(path);
    }
    if (!text)
        verl_error_errno(error, "cannot read the running topology, %s", path);
    return text;
}

// By a client of its own: the one that watches listens to steps.
json_t *
verl_script_plan(const script_t *self, verl_error_t *error)
{
    verl_client_t *client = verl_client_open(verl_client_directory(self->change), false, error);
    if (!client)
        return NULL;
    verl_client_interrupt_by(client, self->signal_fd);
    json_t *plan = verl_client_ask(client, json_pack("{s:s}", "do", "plan"), S_PLAN_MS, error);
    const char *refusal = plan ? verl_client_refusal(plan) : NULL;
    verl_client_close(&client);
    if (!refusal)
        return plan;
    verl_error_set(error, "%s", refusal);
    json_decref(plan);
    return NULL;
}
