// python.h: a Python that has what the package needs, for the tests that run one.
#ifndef VERL_TEST_PYTHON_H
#define VERL_TEST_PYTHON_H
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

// Its name for a shell: $VERL_PYTHON, python3, or Debian's own. Skips the test where none has pyzmq, msgpack and numpy.
static inline const char *
python_or_skip(void)
{
    const char *candidates[] = { getenv("VERL_PYTHON"), "python3", "/usr/bin/python3" };
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        char command[600];
        if (!candidates[i])
            continue;
        snprintf(command, sizeof command, "%s -c 'import zmq, msgpack, numpy' > /dev/null 2>&1", candidates[i]);
        if (system(command) == 0)
            return candidates[i];
    }
    cr_skip_test(
        "no python3 here has pyzmq, msgpack and numpy: apt-get install python3-zmq python3-msgpack python3-numpy");
    return NULL;
}

// Runs a command of a shell in the root of the sources. Its exit code; what it said is printed where that is not 0.
static inline int
python_run(const char *command)
{
    char whole[4096], *said = calloc(1, 65536);
    size_t size = 0, got;
    snprintf(whole, sizeof whole,
             "cd '%s' && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='%s/actors/python' %s 2>&1 < /dev/null", VERL_SOURCE_DIR,
             VERL_SOURCE_DIR, command);
    FILE *pipe = popen(whole, "r");
    cr_assert(pipe && said);
    while ((got = fread(said + size, 1, 65535 - size, pipe)) > 0)
        size += got;
    int status = pclose(pipe), code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code)
        fprintf(stderr, "%s\n%s\n", command, said);
    free(said);
    return code;
}
#endif
