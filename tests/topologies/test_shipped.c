// The topologies that we ship are valid as they are, and repeat themselves to the bit.
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tools/run.h"

#define FOLDER VERL_SOURCE_DIR "/topologies"

// Runs verl-run with these arguments; its exit code, and what it said (freed by the caller).
static int
s_verl_run(const char *arguments, char **said)
{
    char command[1024];
    size_t size = 0, got;
    snprintf(command, sizeof command, "%s/bin/verl-run %s 2>&1 < /dev/null", VERL_BINARY_DIR, arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe);
    *said = calloc(1, 65536);
    while ((got = fread(*said + size, 1, 65535 - size, pipe)) > 0)
        size += got;
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// smollm2-grpo.toml needs a model that a script fetches, those in Python its packages: without them, that is the one
// thing wrong.
Test(shipped, each_topology_is_checked_without_a_mistake)
{
    glob_t found;
    bool model = access(FOLDER "/models/smollm2-135m/model.gguf", R_OK) == 0;
    bool packages = system("python3 -c 'import zmq, msgpack, numpy' >/dev/null 2>&1") == 0;
    cr_assert_eq(glob(FOLDER "/*.toml", 0, NULL, &found), 0);
    cr_assert_geq(found.gl_pathc, 5);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char arguments[512], *said;
        bool smollm2 = strstr(found.gl_pathv[i], "smollm2"), python = strstr(found.gl_pathv[i], "python");
        bool lacks = (smollm2 && !model) || (python && !packages);
        snprintf(arguments, sizeof arguments, "--check %s", found.gl_pathv[i]);
        int code = s_verl_run(arguments, &said);
        cr_expect_eq(code, lacks ? 2 : 0, "exit %d: %s", code, said);
        cr_expect(!lacks || strstr(said, python ? "pip install" : "smollm2-135m"), "%s", said);
        free(said);
    }
    globfree(&found);
}

// The metrics of three steps without what depends on time.
static char *
s_metrics_of(const char *name)
{
    char folder[] = "/tmp/verl-shipped-XXXXXX", arguments[512], *said;
    cr_assert(mkdtemp(folder));
    snprintf(arguments, sizeof arguments, "--quiet --steps 3 --run-dir %s/run " FOLDER "/%s", folder, name);
    int code = s_verl_run(arguments, &said);
    run_t run = { .said = said };
    snprintf(run.folder, sizeof run.folder, "%s", folder);
    snprintf(run.mark, sizeof run.mark, "no process has this: %s", folder);
    cr_assert_eq(code, 0, "exit %d: %s", code, said);
    char *metrics = run_timeless_metrics(&run);
    run_done(&run);
    return metrics;
}

static void
s_repeats(const char *name)
{
    char *first = s_metrics_of(name), *second = s_metrics_of(name);
    cr_assert_eq(run_lines(first), 4, "three steps, and the held-out set once after them: %s", first);
    cr_assert_str_eq(first, second);
    cr_assert(strstr(first, "actor/pg_loss"), "%s", first);
    cr_assert(strstr(first, "val-core/addition/mean@1"), "%s", first);
    free(first);
    free(second);
}

Test(shipped, the_quickstart_repeats_itself)
{
    s_repeats("quickstart.toml");
}

Test(shipped, the_asynchronous_run_repeats_itself)
{
    s_repeats("grpo-async.toml");
}
