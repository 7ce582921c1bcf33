// cache_sweep.c: what nobody has used for long leaves the cache, and what it holds stays below a size.
//
// Only regular files whose names are those of images (or of images that were never finished) are touched. A process
// that has one mapped keeps its pages: a name is all that goes.
#include "actors/text/cache.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_DIGITS = 32, NAME_MOST = 80, FILES_MOST = 4096, DAY = 24 * 3600 };

typedef struct {
    char    name[NAME_MOST];
    int64_t used, bytes;
    bool    whole;                          // not one that is being written
} s_file_t;

// KEY.img, or KEY.img.PROCESS.NUMBER, which is renamed when it is whole.
static bool
s_is_image(const char *name, bool *ret_whole)
{
    size_t digits = strspn(name, "0123456789abcdef");
    if (digits != KEY_DIGITS || strncmp(name + digits, ".img", 4) != 0 || strlen(name) >= NAME_MOST)
        return false;
    const char *rest = name + digits + 4;
    *ret_whole = *rest == 0;
    return *ret_whole || (*rest == '.' && rest[strspn(rest, "0123456789.")] == 0);
}

static int
s_by_use(const void *a, const void *b)
{
    const s_file_t *x = a, *y = b;
    return x->used != y->used ? (x->used > y->used) - (x->used < y->used) : strcmp(x->name, y->name);
}

static int
s_list(DIR *folder, s_file_t *files)
{
    int count = 0;
    for (struct dirent *entry; count < FILES_MOST && (entry = readdir(folder));) {
        s_file_t *file = &files[count];
        struct stat status;
        if (!s_is_image(entry->d_name, &file->whole) ||
            fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISREG(status.st_mode))
            continue;
        memcpy(file->name, entry->d_name, strlen(entry->d_name) + 1);
        file->used = status.st_mtime;
        file->bytes = status.st_size;
        count++;
    }
    return count;
}

// Oldest first: those of before `now - seconds`, those that nobody finishes any more, and the oldest beyond the size.
static void
s_remove(int folder, s_file_t *files, int count, const char *keep, const verl_cache_limits_t *limits, int64_t now)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += files[i].bytes;
    for (int i = 0; i < count; i++) {
        int64_t age = now - files[i].used;
        bool old = age > limits->seconds || (!files[i].whole && age > DAY);
        bool much = files[i].whole && bytes > limits->bytes;
        if ((!old && !much) || (keep && strcmp(files[i].name, keep) == 0))
            continue;
        if (unlinkat(folder, files[i].name, 0) == 0)
            bytes -= files[i].bytes;
    }
}

void
verl_cache_sweep(const char *path, const char *keep, const verl_cache_limits_t *limits, int64_t now)
{
    DIR *folder = opendir(path);
    s_file_t *files = folder ? malloc(FILES_MOST * sizeof *files) : NULL;
    if (files) {
        int count = s_list(folder, files);
        qsort(files, (size_t) count, sizeof *files, s_by_use);
        s_remove(dirfd(folder), files, count, keep, limits, now);
    }
    free(files);
    if (folder)
        closedir(folder);
}
