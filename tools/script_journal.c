// script_journal.c: what the run's own script has done, in script.jsonl of the run directory, so that the script of a
// run that is resumed goes on from there.
//
// A run that is resumed makes the changes of its first life again by itself; what the script adds is what is still to
// come: branches that are open are taken back at their batch, and nothing fires twice at one step. A script's own
// variables begin anew.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tools/script_impl.h"

#define S_MOST (64 << 20) // bytes of a journal that are read

void
verl_script_note(const script_t *self, json_t *line)
{
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (text && self->journal_fd >= 0 && dprintf(self->journal_fd, "%s\n", text) > 0)
        fdatasync(self->journal_fd);
    free(text);
    json_decref(line);
}

static script_branch_t *
s_branch(const script_t *self, int64_t number)
{
    script_branch_t *branch = self->branches;
    while (branch && branch->number != number)
        branch = branch->next;
    return branch;
}

static void
s_recall_branch(script_t *self, const json_t *line)
{
    const char *inverse = json_string_value(json_object_get(line, "inverse"));
    const char *place = json_string_value(json_object_get(line, "place"));
    script_branch_t *branch = inverse && place ? calloc(1, sizeof *branch) : NULL;
    if (!branch || !(branch->inverse = strdup(inverse))) {
        free(branch);
        return;
    }
    branch->number = json_integer_value(json_object_get(line, "branch"));
    branch->until = json_integer_value(json_object_get(line, "until"));
    branch->function = LUA_NOREF;
    snprintf(branch->place, sizeof branch->place, "%s", place);
    branch->next = self->branches;
    self->branches = branch;
    if (branch->number > self->branches_begun)
        self->branches_begun = branch->number;
}

static void
s_recall(script_t *self, const json_t *line)
{
    const json_t *over = json_object_get(line, "over"), *watch = json_object_get(line, "watch");
    json_t *moment = json_object_get(line, "moment");
    script_branch_t *branch = json_is_integer(over) ? s_branch(self, json_integer_value(over)) : NULL;
    char key[32];
    if (branch)
        branch->over = true;
    if (json_object_get(line, "branch"))
        s_recall_branch(self, line);
    snprintf(key, sizeof key, "%s%lld", moment ? "moment " : "watch ",
             (long long) json_integer_value(moment ? moment : watch));
    if (moment || watch)
        json_object_set(self->recalled, key, moment ? moment : json_object_get(line, "step"));
}

void
verl_script_recall(script_t *self, char *lines)
{
    for (char *line = lines ? strsep(&lines, "\n") : NULL; line && lines; line = strsep(&lines, "\n")) {
        json_t *told = json_loads(line, 0, NULL);
        s_recall(self, told);
        json_decref(told);
    }
}

static void
s_read(script_t *self)
{
    off_t size = lseek(self->journal_fd, 0, SEEK_END);
    char *text = size > 0 && size <= S_MOST ? malloc((size_t) size + 1) : NULL;
    ssize_t got = text ? pread(self->journal_fd, text, (size_t) size, 0) : 0;
    if (text && got >= 0)
        text[got] = '\0';
    verl_script_recall(self, got > 0 ? text : NULL);
    free(text);
}

int
verl_script_journal_open(script_t *self, verl_error_t *error)
{
    char path[4200];
    self->recalled = json_object();
    if (!self->own)
        return 0;
    snprintf(path, sizeof path, "%s/script.jsonl", verl_client_directory(self->change));
    self->journal_fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (self->done == 0 ? O_TRUNC : 0), 0600);
    if (self->journal_fd < 0 || !self->recalled)
        return verl_error_errno(error, "cannot write '%s'", path);
    s_read(self);
    for (script_branch_t *branch = self->branches; branch; branch = branch->next) {
        if (branch->over)
            continue;
        branch->until = branch->until > self->done ? branch->until : self->done;
        branch->first = self->done;
        if (verl_script_hold(self, branch->until, error) != 0)
            return -1;
    }
    return 0;
}

// The step at which a watch has fired last, in an earlier life too; -1: it has not.
int64_t
verl_script_recalled_watch(const script_t *self, int64_t number)
{
    char key[32];
    snprintf(key, sizeof key, "watch %lld", (long long) number);
    const json_t *step = json_object_get(self->recalled, key);
    return json_is_integer(step) ? json_integer_value(step) : -1;
}

bool
verl_script_recalled_moment(const script_t *self, int64_t batch)
{
    char key[32];
    snprintf(key, sizeof key, "moment %lld", (long long) batch);
    return json_object_get(self->recalled, key) != NULL;
}
