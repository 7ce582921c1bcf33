// Whoever speaks the protocol keeps its rules: the host in C and the package in Python, by the same suite.
#include <criterion/criterion.h>
#include "actors/python/python.h"

Test(conformance, the_host_in_c_keeps_every_rule)
{
    char command[1024];
    snprintf(command, sizeof command, "%s tests/conformance/conformance.py host '%s/bin/verl-actor'", python_or_skip(),
             VERL_BINARY_DIR);
    cr_assert_eq(python_run(command), 0);
}

Test(conformance, the_package_in_python_keeps_every_rule)
{
    const char *python = python_or_skip();
    char command[1024];
    snprintf(command, sizeof command, "%s tests/conformance/conformance.py command %s tests/conformance/actor.py",
             python, python);
    cr_assert_eq(python_run(command), 0);
}
