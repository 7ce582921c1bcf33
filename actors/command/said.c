// said.c: what programs said about themselves, as long as their files stay what they are; and, for a few seconds, that
// one of them did not. See kind.h.
//
// A topology with ten commands is checked again with each change of a running run, in the thread that grants permits:
// an interpreter that starts takes that thread a tenth of a second each time. What a file includes may have changed
// without it; the program itself refuses a table then that was made for other columns (it fails before the change is in
// force). One that hangs is asked once for all the stages that name it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include "actors/command/kind.h"

#define S_KEPT     64
#define S_FAILED_S 5                        // seconds for which a failure is believed: what it lacked may be there then

typedef struct said {
    char           *key;
    json_t         *what;                   // NULL: it failed, and …
    char           *why;                    // … this is why
    struct timespec at;                     // it was known
} said_t;

static struct {
    pthread_mutex_t mutex;
    said_t          kept[S_KEPT];
    int             next;                   // whose place the next one takes
} s_said = { .mutex = PTHREAD_MUTEX_INITIALIZER };

// The words, and of each that is a file when and how long it was written. NULL without memory.
static char *
s_key(const verl_strings_t *command)
{
    size_t size = 1, used = 0;
    for (int i = 0; i < command->count; i++)
        size += strlen(command->items[i]) + 120;
    char *key = malloc(size);
    for (int i = 0; key && i < command->count; i++) {
        struct stat file = { 0 };
        if (stat(command->items[i], &file) != 0 || !S_ISREG(file.st_mode))
            file = (struct stat) { 0 };
        used += (size_t) snprintf(key + used, size - used, "%zu:%s %llu %lld %lld.%09ld\n", strlen(command->items[i]),
                                  command->items[i], (unsigned long long) file.st_ino, (long long) file.st_size,
                                  (long long) file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
    }
    return key;
}

static bool
s_is_old(const said_t *said)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return !said->what && now.tv_sec - said->at.tv_sec >= S_FAILED_S;
}

// Of what is kept under a key a copy: 0 with *ret, or -1 with the sentence; 1: nothing is, or no memory.
static int
s_find(const char *key, json_t **ret, char *error, size_t size)
{
    int found = 1;
    pthread_mutex_lock(&s_said.mutex);
    for (int i = 0; i < S_KEPT && found == 1; i++) {
        const said_t *said = &s_said.kept[i];
        if (!said->key || strcmp(said->key, key) != 0 || s_is_old(said))
            continue;
        found = said->what ? 0 : -1;
        if (found)
            snprintf(error, size, "%s", said->why);
        else if (!(*ret = json_deep_copy(said->what)))
            found = 1;
    }
    pthread_mutex_unlock(&s_said.mutex);
    return found;
}

// Takes the key. what: NULL where it failed.
static void
s_keep(char *key, const json_t *what, const char *why)
{
    said_t said = { .key = key, .what = json_deep_copy(what), .why = what ? NULL : strdup(why) };
    clock_gettime(CLOCK_MONOTONIC, &said.at);
    if (!said.what && !said.why) {
        free(key);
        return;
    }
    pthread_mutex_lock(&s_said.mutex);
    said_t *place = &s_said.kept[s_said.next];
    s_said.next = (s_said.next + 1) % S_KEPT;
    free(place->key);
    free(place->why);
    json_decref(place->what);
    *place = said;
    pthread_mutex_unlock(&s_said.mutex);
}

int
verl_command_describe(const verl_strings_t *command, json_t **ret, char *error, size_t size)
{
    char *key = s_key(command);
    *ret = NULL;
    int found = key ? s_find(key, ret, error, size) : 1;
    if (found <= 0) {
        free(key);
        return found;
    }
    bool killed;
    int failed = verl_command_ask(command, ret, &killed, error, size);
    if (key && !killed)
        s_keep(key, *ret, error);
    else
        free(key);
    return failed;
}
