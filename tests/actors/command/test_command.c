// A program that describes itself badly, or not at all, is one sentence at check time, and nothing of it is left.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "actors/command/kind.h"
#include "runtime/base/clock.h"
#include "tools/run.h"

#define ONE                                                                                                           \
    "{\"protocol\":1,\"keeps_state\":false,\"stages\":[{\"name\":\"it\",\"needs\":[\"id\"],\"gives\":[\"x:i64[n]\"]," \
    "\"by_row\":true,\"options\":{\"a\":{\"type\":\"real\",\"default\":1,\"min\":0,\"max\":2},"                       \
    "\"b\":{\"type\":\"string\",\"default\":\"u\",\"choices\":[\"u\",\"v\"]}}}]}"

// Asks `sh -c script`.
static json_t *
s_ask(const char *script, char *error, size_t size)
{
    const char *words[] = { "sh", "-c", script };
    json_t *said = NULL;
    bool killed;
    int failed = verl_command_ask(&(verl_strings_t) { .count = 3, .items = words }, &said, &killed, error, size);
    cr_assert_eq(failed, said ? 0 : -1);
    cr_assert_eq(killed, strstr(script, "kill -9") != NULL, "%s", script);
    cr_assert(said || error[0]);
    return said;
}

static void
s_refused(const char *script, const char *words)
{
    char error[1000] = "";
    json_t *said = s_ask(script, error, sizeof error);
    cr_assert(!said, "%s was believed", script);
    cr_assert(strstr(error, words), "%s: %s", script, error);
    cr_assert(!strchr(error, '\n'), "one line: %s", error);
}

Test(command, a_description_is_read)
{
    char error[1000] = "";
    json_t *said = s_ask("test \"$VERL_DESCRIBE\" = 1 && ! read x && echo '" ONE "'", error, sizeof error);
    cr_assert(said, "%s", error);
    const json_t *stage = verl_command_find(said, "", "whatever", error, sizeof error);
    cr_assert(stage, "the only stage goes by every name: %s", error);
    cr_assert(!verl_command_find(said, "other", "it", error, sizeof error));
    cr_assert(strstr(error, "`it`"), "%s", error);
    json_decref(said);
}

Test(command, what_is_no_description_is_refused_with_its_last_words)
{
    s_refused("exit 0", "no description");
    s_refused("echo hello", "no description");
    s_refused("echo '[1]'", "no object");
    s_refused("echo '{\"a\":1,\"a\":2}'", "no description");
    s_refused("echo first >&2; echo the last words >&2; exit 3",
              "status 3 when it was asked to describe itself: the last words");
    s_refused("kill -9 $$", "signal 9");
    s_refused("printf '\\000\\377'", "no description");
    s_refused("yes", "more than 1 MiB");
    s_refused("yes >&2 & wait", "did not describe itself within 20 s");
    s_refused("sleep 1000 & echo why >&2; exit 3", "status 3 when it was asked to describe itself: why");
    s_refused("printf '{}\nhello\n'", "no description");
    s_refused("printf 'hello\n[1]\n'", "no description");
    s_refused("printf 'hello\n{\"a\": nothing}\n'", "near 'nothing'");
}

Test(command, last_words_of_python_have_their_place)
{
    s_refused("printf '  File \"%s\", line 9\n  File \"%s\", line 3\n    foo bar\nSyntaxError: bad\n' a.py b.py "
              ">&2; exit 1", "itself: SyntaxError: bad (File \"b.py\", line 3)");
}

Test(command, a_package_of_the_same_name_or_none_is_told_which_is_meant)
{
    s_refused("echo \"ModuleNotFoundError: No module named 'verl'\" >&2; exit 1", "PYTHONPATH=.../actors/python");
    s_refused("echo \"AttributeError: module 'verl' has no attribute 'stage'\" >&2; exit 1", "not PyPI's");
}

Test(command, a_description_may_stand_behind_what_is_printed_first)
{
    char error[1000] = "";
    json_t *said = s_ask("echo loading; echo '{}'; echo '" ONE "'; echo", error, sizeof error);
    cr_assert_eq(json_integer_value(json_object_get(said, "protocol")), 1, "%s", error);
    json_decref(said);
    said = s_ask("echo '" ONE "' | sed 's/,/,\\n/g'", error, sizeof error);
    cr_assert(said, "on several lines: %s", error);
    json_decref(said);
}

Test(command, a_program_that_is_not_there_is_refused)
{
    const char *words[] = { "no-such-program-anywhere" };
    char error[1000] = "";
    json_t *said = NULL;
    bool killed;
    int failed = verl_command_ask(&(verl_strings_t) { .count = 1, .items = words }, &said, &killed, error, sizeof error);
    cr_assert_eq(failed, -1);
    cr_assert(strstr(error, "cannot be started"), "%s", error);
}

Test(command, nothing_that_a_check_started_is_left)
{
    char error[1000] = "", mark[64], command[200];
    snprintf(mark, sizeof mark, "VERL_TEST_COMMAND=%d", (int) getpid());
    putenv(mark);
    json_t *said = s_ask("sleep 1000 > /dev/null 2>&1 & echo '" ONE "'", error, sizeof error);
    cr_assert(said, "%s", error);
    json_decref(said);
    s_ask("sleep 1000 & echo nothing", error, sizeof error);
    snprintf(command, sizeof command, "for p in /proc/[0-9]*; do grep -qsz '^%s$' $p/environ && cat $p/comm; done | "
             "grep -q sleep", mark);
    cr_assert_neq(system(command), 0, "a child is left");
}

Test(command, the_time_that_a_program_has_is_bounded)
{
    int64_t begin = verl_now();
    s_refused("trap '' TERM INT HUP; exec > /dev/null; sleep 1000", "within 3.5 s in which it did nothing else");
    s_refused("sleep 1000", "within 3.5 s in which it did nothing else");
    cr_assert_lt(verl_now() - begin, 14 * VERL_S);
}

Test(command, a_program_that_works_has_longer, .timeout = 60)
{
    char error[1000] = "";
    json_t *said = s_ask("timeout 5 yes >/dev/null; echo '" ONE "'", error, sizeof error);
    cr_assert(said, "%s", error);
    json_decref(said);
}

Test(command, a_program_is_asked_again_when_its_file_has_changed)
{
    char folder[] = "/tmp/verl-command-XXXXXX", path[64], error[1000] = "";
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/p.sh", folder);
    const char *words[] = { "sh", path };
    verl_strings_t command = { .count = 2, .items = words };
    for (int i = 0; i < 4; i++) {           // asked, kept, asked, kept
        json_t *said = NULL;
        if (i % 2 == 0) {
            FILE *file = fopen(path, "we");
            fprintf(file, "echo x >> %s/asked\necho '{\"turn\": %d}' # %.*s\n", folder, i, i, "....");
            fclose(file);
        }
        cr_assert_eq(verl_command_describe(&command, &said, error, sizeof error), 0, "%s", error);
        cr_assert_eq(json_integer_value(json_object_get(said, "turn")), i / 2 * 2);
        json_decref(said);
    }
    snprintf(error, sizeof error, "test $(wc -l < %s/asked) = 2 && rm -r %s", folder, folder);
    cr_assert_eq(system(error), 0, "it was not asked twice");
}

Test(command, a_program_that_failed_is_believed_for_a_while_and_asked_again_later, .timeout = 60)
{
    char asked[] = "/tmp/verl-command-XXXXXX", script[200];
    int fd = mkstemp(asked);
    cr_assert(fd >= 0);
    snprintf(script, sizeof script, "echo x >> %s; echo not today >&2; exit 3", asked);
    const char *words[] = { "sh", "-c", script };
    verl_strings_t command = { .count = 3, .items = words };
    int64_t begin = verl_now();
    for (off_t size = 0; size < 4;) {       // until it was asked twice
        char error[1000] = "";
        json_t *said = NULL;
        cr_assert_eq(verl_command_describe(&command, &said, error, sizeof error), -1);
        cr_assert(!said && strstr(error, "status 3") && strstr(error, "not today"), "%s", error);
        cr_assert_lt(verl_now() - begin, 50 * VERL_S);
        size = lseek(fd, 0, SEEK_END);
        cr_assert(size == 2 || verl_now() - begin > 2 * VERL_S, "it was asked again at once");
        usleep(20000);
    }
    close(fd);
    unlink(asked);
}

Test(command, options_are_held_to_what_the_program_declares)
{
    char error[1000] = "";
    json_t *said = json_loads(ONE, 0, NULL);
    const json_t *options = json_object_get(verl_command_find(said, "", "it", error, sizeof error), "options");
    const struct { const char *given, *words; } cases[] = {
        { "{\"a\": 3}", "from 0 to 2" },       { "{\"a\": \"x\"}", "must be a real" },
        { "{\"c\": 1}", "it has `a`, `b`" },   { "{\"b\": \"w\"}", "one of [\"u\",\"v\"]" },
        { "{\"b\": 1}", "must be a string" },  { "{\"a\": true}", "must be a real" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(verl_command_check_options(options, cases[i].given, error, sizeof error), -1, "%s",
                     cases[i].given);
        cr_assert(strstr(error, cases[i].words), "%s: %s", cases[i].given, error);
    }
    cr_assert_eq(verl_command_check_options(options, "{\"a\": 1, \"b\": \"v\"}", error, sizeof error), 0, "%s", error);
    cr_assert_eq(verl_command_check_options(options, NULL, error, sizeof error), 0);
    json_decref(said);
}

#define TOPOLOGY(more) \
    "[run]\nname = \"c\"\nsteps = 3\n[stage.ids]\nkind = \"synthetic\"\n[stage.it]\nkind = \"command\"\n" more

static void
s_check(const char *topology, const char *words)
{
    run_t run;
    run_start_after(&run, "echo '" ONE "' > said.json; printf 'cat said.json\\n' > it.sh", topology, "--check");
    run_wait(&run, 30);
    cr_assert_eq(run.code, words ? 2 : 0, "%s", run.said);
    cr_assert(!words || run_said(&run, words), "%s", run.said);
    run_done(&run);
}

Test(command, a_topology_is_checked_against_what_its_program_says)
{
    s_check(TOPOLOGY("command = [\"sh\", \"it.sh\"]\ndepends_on = [\"ids\"]\noptions = { a = 2 }\n"), NULL);
    s_check(TOPOLOGY("command = [\"sh\", \"it.sh\"]\ndepends_on = [\"ids\"]\noptions = { a = 5 }\n"),
            "topology.toml:10:");
    s_check(TOPOLOGY("command = [\"sh\", \"it.sh\"]\n"), "depends_on would be right");
    s_check(TOPOLOGY("command = []\ndepends_on = [\"ids\"]\n"), "`command` is empty");
    s_check(TOPOLOGY("depends_on = [\"ids\"]\n"), "`command`");
    s_check(TOPOLOGY("command = [\"sh\", \"it.sh\"]\nfunction = \"no\"\ndepends_on = [\"ids\"]\n"),
            "has no stage `no`");
    s_check("[run]\nname = \"c\"\nsteps = 3\n[stage.ids]\nkind = \"synthetic\"\n[stage.it]\nkind = \"command-state\"\n"
            "command = [\"sh\", \"it.sh\"]\ndepends_on = [\"ids\"]\n", "kind = \"command\" would be right");
}

// The words of a description go into the same checks as those of a kind in C.
Test(command, a_column_that_cannot_be_read_is_named)
{
    char setup[900], *bad[] = { "x:f16[n]", "x:f32[m]", "", "*command", "x if", "y:f32[n,zzz]", "x y" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        run_t run;
        snprintf(setup, sizeof setup, "echo '{\"protocol\":1,\"stages\":[{\"name\":\"it\",\"needs\":[\"id\"],"
                 "\"gives\":[\"%s\"]}]}' > said.json; printf 'cat said.json\\n' > it.sh", bad[i]);
        run_start_after(&run, setup, TOPOLOGY("command = [\"sh\", \"it.sh\"]\ndepends_on = [\"ids\"]\n"), "--check");
        run_wait(&run, 30);
        cr_assert_eq(run.code, 2, "%s: exit %d: %s", bad[i], run.code, run.said);
        run_done(&run);
    }
}
