// The package's parts, by package.py beside this file; and whether its types are clean, where mypy is there to say so.
#include <criterion/criterion.h>
#include "actors/python/python.h"

Test(python_package, its_parts_do_what_they_say)
{
    char command[600];
    snprintf(command, sizeof command, "%s tests/actors/python/package.py", python_or_skip());
    cr_assert_eq(python_run(command), 0);
}

Test(python_package, its_types_are_clean)
{
    char command[600];
    const char *python = python_or_skip();
    snprintf(command, sizeof command, "%s -m mypy --version > /dev/null", python);
    if (python_run(command) != 0)
        cr_skip_test("mypy is not there: apt-get install mypy");
    snprintf(command, sizeof command,
             "%s -m mypy --strict --cache-dir=/dev/null --config-file actors/python/pyproject.toml "
             "actors/python/verl",
             python);
    cr_assert_eq(python_run(command), 0);
}
