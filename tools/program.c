// program.c: see program.h.
#include "tools/program.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int
verl_program_beside(const char *name, char *ret, size_t size, verl_error_t *error)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return verl_error_errno(error, "cannot find this program");
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    if ((size_t) snprintf(ret, size, "%s/%s", self, name) >= size)
        return verl_error_set(error, "the path of %s beside this program is too long", name);
    return access(ret, X_OK) ? verl_error_errno(error, "cannot run %s", ret) : 0;
}
