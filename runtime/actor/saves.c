// saves.c: the state of an actor to disk and back: checkpoints, and what a successor takes over. W's.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "runtime/actor/host_impl.h"

bool
verl_save_due(const host_t *host)
{
    if (host->save_now >= 0)
        return true;
    if (host->save_next < 0)
        return false;
    for (const world_t *world = host->worlds; world; world = world->next)
        for (int i = 0; i < world->seats_count && world->ordered; i++) {
            const seat_t *seat = &world->seats[i];
            if (verl_seat_changes_state(seat) && !verl_seat_over(seat) && seat->next < host->save_next)
                return false;
        }
    return true;
}

// Makes a directory and the one above it.
static int
s_make(char *directory, verl_error_t *error)
{
    char *slash = strrchr(directory, '/');
    *slash = 0;
    (void) mkdir(directory, 0700);          // there already, where another actor saved first
    *slash = '/';
    return mkdir(directory, 0700) && errno != EEXIST ? verl_error_errno(error, "cannot make %s", directory) : 0;
}

static int
s_write(host_t *host, int64_t step, char *directory, verl_error_t *error)
{
    verl_stage_t *stage = &verl_host_first_seat(host)->stage;
    if (!host->kind->snapshot)
        return 0;
    if (s_make(directory, error))
        return -1;
    if (host->kind->snapshot(stage, directory)) {
        verl_error_set(error, "%s", verl_stage_reason(stage, "the checkpoint could not be written"));
        stage->error.text[0] = 0;           // or the stage's next batch would have failed
        return -1;
    }
    return verl_save_versions(host, step, directory, error);
}

void
verl_save(host_t *host)
{
    bool asked = host->save_now >= 0;
    int64_t step = asked ? host->save_now : host->save_next;
    char directory[4096];
    verl_error_t error = { "" };
    if (asked)
        snprintf(directory, sizeof directory, "%s", host->save_path);
    else
        snprintf(directory, sizeof directory, "%s/checkpoints/step-%lld.tmp/%s", host->config.run_directory,
                 (long long) step, host->config.actor);
    pthread_mutex_unlock(&host->lock);
    verl_host_set_task(host, VERL_TASK_SAVE, step);
    if (s_write(host, step, directory, &error) == 0)
        verl_report_saved(host, step);
    else if (asked)                         // what follows, the director knows: the state is as it was
        verl_report_failed(host, NULL, step, error.text);
    else
        verl_host_fail(host, NULL, step, error.text);
    verl_host_set_task(host, VERL_TASK_NONE, -1);
    pthread_mutex_lock(&host->lock);
    if (asked && host->save_now == step)    // else another was ordered meanwhile
        host->save_now = -1;
    else if (!asked)
        host->save_next += host->save_every;
    if (host->save_next >= host->worlds->plan->steps)
        host->save_next = -1;
}

void
verl_restore(host_t *host)
{
    char *path = host->restore_path;
    host->restore_path = NULL;
    pthread_mutex_unlock(&host->lock);
    verl_stage_t *stage = &verl_host_first_seat(host)->stage;
    verl_host_set_task(host, VERL_TASK_PREPARE, -1);
    if (host->kind->restore && host->kind->restore(stage, path)) {
        verl_host_fail(host, NULL, -1, verl_stage_reason(stage, "its state could not be read back"));
        free(path);
    } else {
        free(host->restored_path);
        host->restored_path = path;
        verl_report_word(host, "restored", 0);
    }
    verl_host_set_task(host, VERL_TASK_NONE, -1);
    pthread_mutex_lock(&host->lock);
}
