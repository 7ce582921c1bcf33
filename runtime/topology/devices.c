// devices.c: see devices.h.
#include "runtime/topology/devices.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define S_MAX 1024 // devices of a role

static pthread_once_t s_once = PTHREAD_ONCE_INIT;
static int s_count;

// Asks the driver, which is there wherever a device is; nothing of CUDA is needed to build this.
static void
s_ask_driver(void)
{
    typedef int (*init_t)(unsigned flags);
    typedef int (*count_t)(int *count);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        return;
    init_t init = NULL;
    count_t count = NULL;
    *(void **) &init = dlsym(driver, "cuInit");
    *(void **) &count = dlsym(driver, "cuDeviceGetCount");
    if (!init || !count || init(0) != 0 || count(&s_count) != 0)
        s_count = 0;
}

int
verl_device_count(void)
{
    pthread_once(&s_once, s_ask_driver);
    return s_count;
}

int
verl_core_count(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : (int) count;
}

bool
verl_devices_looks_like(const char *text)
{
    size_t length = strcspn(text, ":");
    return (length == 3 && strncmp(text, "cpu", 3) == 0) || (length == 4 && strncmp(text, "cuda", 4) == 0) ||
           strcmp(text, "auto") == 0;
}

typedef struct list {
    int count;
    int items[S_MAX];
    bool seen[S_MAX];
} list_t;

static int
s_add(list_t *list, long from, long to, const char *text, verl_error_t *error)
{
    for (long i = from; i <= to; i++) {
        if (i < 0 || i >= S_MAX)
            return verl_error_set(error, "'%.100s' names device %ld: they count from 0 to %d", text, i, S_MAX - 1);
        if (list->seen[i])
            return verl_error_set(error, "'%.100s' names device %ld twice: once would be right", text, i);
        list->seen[i] = true;
        list->items[list->count++] = (int) i;
    }
    return 0;
}

// "0", "0-3", "0, 2-3".
static int
s_parse(const char *at, const char *text, list_t *list, verl_error_t *error)
{
    for (;;) {
        char *end;
        at += strspn(at, " ");
        if (*at < '0' || *at > '9')
            break;
        long from = strtol(at, &end, 10), to = from;
        at = end;
        if (*at == '-' && at[1] >= '0' && at[1] <= '9') {
            to = strtol(at + 1, &end, 10);
            at = end;
        }
        at += strspn(at, " ");
        if (to < from)
            break;
        if (s_add(list, from, to, text, error) != 0)
            return -1;
        if (!*at)
            return 0;
        if (*at++ != ',')
            break;
    }
    return verl_error_set(error,
                          "'%.100s' is no list of devices: \"cpu\", \"cpu:0-3\", \"cuda:0,2-3\", \"0,1\" (of CUDA) or "
                          "\"auto\" would be right",
                          text);
}

static void
s_print(const char *kind, const list_t *list, char *ret, size_t size)
{
    size_t used = (size_t) snprintf(ret, size, "%s:", kind);
    for (int i = 0; i < list->count && used < size;) {
        int last = i;
        while (last + 1 < list->count && list->items[last + 1] == list->items[last] + 1)
            last++;
        used += (size_t) snprintf(ret + used, size - used, "%s%d", i ? "," : "", list->items[i]);
        if (last > i && used < size)
            used += (size_t) snprintf(ret + used, size - used, "-%d", list->items[last]);
        i = last + 1;
    }
}

static int
s_check_there(const char *text, const list_t *list, bool cuda, verl_error_t *error)
{
    int there = cuda ? verl_device_count() : verl_core_count();
    const char *what = cuda ? "CUDA device" : "core";
    for (int i = 0; i < list->count; i++) {
        if (list->items[i] < there)
            continue;
        if (there == 0)
            return verl_error_set(error,
                                  "'%.100s' asks for a CUDA device, and this machine has none: \"cpu\" or \"auto\" "
                                  "would be right",
                                  text);
        return verl_error_set(error, "'%.100s' asks for %s %d, and this machine has %d: %s %s-%d would be right", text,
                              what, list->items[i], there, "at most", cuda ? "cuda:0" : "cpu:0", there - 1);
    }
    return 0;
}

int
verl_devices_resolve(const char *text, char *ret, size_t size, verl_error_t *error)
{
    size_t word = strcspn(text, ":");
    list_t list = { 0 };
    bool numbers = *text >= '0' && *text <= '9';
    bool cuda = numbers || (strncmp(text, "cuda", word) == 0 && word == 4),
         cpu = strncmp(text, "cpu", word) == 0 && word == 3;
    if (strcmp(text, "auto") == 0)
        cuda = verl_device_count() > 0, cpu = !cuda;
    else if (numbers || (text[word] == ':' && (cuda || cpu))) {
        if (s_parse(numbers ? text : text + word + 1, text, &list, error) != 0 ||
            s_check_there(text, &list, cuda, error) != 0)
            return -1;
        s_print(cuda ? "cuda" : "cpu", &list, ret, size);
        return 0;
    }
    if (!cuda && !cpu)
        return s_parse("", text, &list, error);
    if (cpu) {
        snprintf(ret, size, "cpu");
        return 0;
    }
    list_t first = { .count = 1 };
    if (s_check_there(text, &first, true, error) != 0 || s_add(&list, 0, verl_device_count() - 1, text, error) != 0)
        return -1;
    s_print("cuda", &list, ret, size);
    return 0;
}
