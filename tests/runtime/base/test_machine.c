// What memory the control groups of a process leave it: made-up trees of both versions.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "runtime/base/machine.h"

static char s_folder[32];

static void
s_setup(void)
{
    snprintf(s_folder, sizeof s_folder, "/tmp/verl-machine-XXXXXX");
    cr_assert(mkdtemp(s_folder));
}

static void
s_teardown(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", s_folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(machine, .init = s_setup, .fini = s_teardown);

static void
s_write(const char *path, const char *text)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s/%s", s_folder, path);
    for (char *slash = whole + sizeof "/tmp"; *slash; slash++)
        if (*slash == '/') {
            *slash = 0;
            mkdir(whole, 0700);
            *slash = '/';
        }
    FILE *out = fopen(whole, "w");
    cr_assert(out && fputs(text, out) >= 0 && fclose(out) == 0, "%s", whole);
}

static int64_t
s_limit(const char *list)
{
    char path[64];
    s_write("list", list);
    snprintf(path, sizeof path, "%s/list", s_folder);
    return verl_machine_group_limit(path, s_folder);
}

Test(machine, the_lowest_limit_of_a_group_and_those_around_it_counts)
{
    s_write("a/b/memory.max", "max\n");
    s_write("a/memory.max", "8388608\n");
    s_write("memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
    s_write("memory/x/memory.limit_in_bytes", "4194304\n");
    cr_assert_eq(s_limit("0::/a/b\n"), 8388608);
    cr_assert_eq(s_limit("5:devices:/\n4:memory:/x/y\n0::/\n"), 4194304);
    cr_assert_eq(s_limit("4:memory:/x/y\n0::/a/b\n"), 4194304);
    cr_assert_eq(s_limit("0::/\n"), INT64_MAX);
}

Test(machine, a_container_that_is_its_own_root_has_the_limit_of_the_root)
{
    s_write("memory/memory.limit_in_bytes", "2097152\n");
    cr_assert_eq(s_limit("4:memory:/docker/0123\n"), 2097152);
}

Test(machine, this_one_has_some_memory)
{
    cr_assert(verl_machine_memory() > 1 << 24 && verl_machine_memory() < INT64_MAX);
    cr_assert_geq(verl_machine_memory_swap(), verl_machine_memory());
    cr_assert_eq(verl_machine_group_limit("/nowhere", "/nowhere"), INT64_MAX);
}
