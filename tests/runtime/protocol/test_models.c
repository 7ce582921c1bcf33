// The models of the protocol: what has to hold holds, and what has to fail is found.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define MISSING 77

// Runs one model with the bounds of its head; what was wrong is in the message.
static void
s_check(const char *model)
{
    char command[4300], text[16384];
    snprintf(command, sizeof command, "LIMIT=250 sh %s/runtime/protocol/check.sh %s 2>&1", VERL_SOURCE_DIR, model);
    FILE *pipe = popen(command, "re");
    cr_assert(pipe);
    size_t size = fread(text, 1, sizeof text - 1, pipe);
    int status = pclose(pipe);
    text[size] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == MISSING)
        cr_skip_test("%s", text);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", text);
    cr_assert(strstr(text, "holds") && strstr(text, "-DW_"), "%s was not checked both ways: %s", model, text);
}

Test(models, of_channels_and_restarts)
{
    s_check("channel");
}

Test(models, of_changes_of_a_running_topology)
{
    s_check("revisions");
}

Test(models, of_going_back_to_a_checkpoint)
{
    s_check("rollback");
}

Test(models, of_versions_of_weights)
{
    s_check("weights");
}

Test(models, of_stages_that_share_versions)
{
    s_check("shared");
}
