// said.c: what programs said about themselves, as long as their files stay what they are. See kind.h.
//
// A topology with ten commands is checked again with each change of a running run, in the thread that grants permits:
// an interpreter that starts takes that thread a tenth of a second each time. What a file includes may have changed
// without it; the program itself refuses a table then that was made for other columns (it fails before the change is in
// force).
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "actors/command/kind.h"

#define S_KEPT 64

typedef struct said {
    char   *key;
    json_t *what;
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

// What is kept under a key, a copy; NULL: nothing.
static json_t *
s_find(const char *key)
{
    json_t *found = NULL;
    pthread_mutex_lock(&s_said.mutex);
    for (int i = 0; i < S_KEPT && !found; i++)
        if (s_said.kept[i].key && strcmp(s_said.kept[i].key, key) == 0)
            found = json_deep_copy(s_said.kept[i].what);
    pthread_mutex_unlock(&s_said.mutex);
    return found;
}

// Takes the key.
static void
s_keep(char *key, const json_t *what)
{
    json_t *copy = json_deep_copy(what);
    if (!copy) {
        free(key);
        return;
    }
    pthread_mutex_lock(&s_said.mutex);
    said_t *place = &s_said.kept[s_said.next];
    s_said.next = (s_said.next + 1) % S_KEPT;
    free(place->key);
    json_decref(place->what);
    *place = (said_t) { .key = key, .what = copy };
    pthread_mutex_unlock(&s_said.mutex);
}

int
verl_command_describe(const verl_strings_t *command, json_t **ret, char *error, size_t size)
{
    char *key = s_key(command);
    *ret = key ? s_find(key) : NULL;
    if (*ret) {
        free(key);
        return 0;
    }
    int failed = verl_command_ask(command, ret, error, size);
    if (!failed && key)
        s_keep(key, *ret);
    else
        free(key);
    return failed;
}
