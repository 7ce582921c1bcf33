// verl-spy: watches a live run: its messages, its stages, one batch's way, where the time goes.
//
// A table of subcommands, each in a file of its own; without one of their words it follows the run's messages.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/display_text.h"
#include "tools/limits.h"
#include "tools/spy.h"

enum { EXIT_WRONG = 2 };

enum { RUN = VERL_SPY_TAKES_RUN, JSON = VERL_SPY_TAKES_JSON, TIMEOUT = VERL_SPY_TAKES_TIMEOUT };

// To add one: a line here, its function in spy.h and spy_WORD.c.
static const verl_spy_command_t s_commands[] = {
    { "follow", verl_spy_follow, RUN | JSON | TIMEOUT, "[FILTER…] [-n COUNT]",
      "show messages as they are sent (also without a command)" },
    { "top", verl_spy_top, RUN | JSON | TIMEOUT, "[--once]",
      "stages and actors, drawn again each second on a terminal" },
    { "batch", verl_spy_batch, RUN | JSON, "N", "one batch's way through the stages, and what it waits for" },
    { "graph", verl_spy_graph, RUN | JSON, "[dot|mermaid|svg] [--rates]", "the running topology" },
    { "timeline", verl_spy_timeline, RUN, "FILE [--seconds S]",
      "some seconds of a run for a viewer of timelines (Perfetto)" },
    { "report", verl_spy_report, RUN | JSON, "[--seconds S]",
      "where the time goes, what holds the run up, what would help" },
    { "record", verl_spy_record, RUN | TIMEOUT, "FILE [FILTER…]", "keep messages in a file" },
    { "replay", verl_spy_replay, JSON | TIMEOUT, "FILE [--to ACTOR]", "show a recording, or feed it to one actor" },
    { NULL, NULL, 0, NULL, NULL },
};

static const char s_about[] =
    "usage: verl-spy [options] [COMMAND …]\n"
    "\n"
    "Watches a live run of this user without touching it: what cannot be taken in time is dropped here, and counted.\n"
    "\n";

// The common options that not all commands take: which do is found in their table.
static const struct {
    int         takes;
    const char *name, *about;
} s_options[] = {
    { RUN, "--run", "--run DIR     the directory of the run (default: the newest live run of this user)" },
    { JSON, "--json", "--json        one JSON object a line" },
    { TIMEOUT, "--timeout", "--timeout S   end after S seconds; replay --to: after S seconds in which nothing moved" },
};

static const char s_rest[] =
    "  --quiet       no remarks and no closing summary\n"
    "  --version, --help\n"
    "\n"
    "verl-spy COMMAND --help says more. Exit code: 0 done, 1 the run is gone, an assertion failed or there were fewer\n"
    "messages than -n says, 2 usage.\n";

static int
s_help(void)
{
    fputs(s_about, stdout);
    for (const verl_spy_command_t *command = s_commands; command->word; command++) {
        int width = 12 + verl_text_width(command->word) + verl_text_width(command->arguments);
        printf("  verl-spy %s %s%*s%s\n", command->word, command->arguments, width < 56 ? 56 - width : 2, "",
               command->about);
    }
    printf("\noptions:\n");
    for (size_t i = 0; i < sizeof s_options / sizeof *s_options; i++) {
        const char *comma = "";
        printf("  %s\n                (", s_options[i].about);
        for (const verl_spy_command_t *command = s_commands; command->word; command++) {
            if (command->takes & s_options[i].takes) {
                printf("%s%s", comma, command->word);
                comma = ", ";
            }
        }
        printf(")\n");
    }
    fputs(s_rest, stdout);
    return verl_spy_written("verl-spy");
}

static const verl_spy_command_t *
s_find(const char *word)
{
    for (const verl_spy_command_t *command = s_commands; command->word; command++)
        if (strcmp(command->word, word) == 0)
            return command;
    return NULL;
}

// Takes one common option. Returns 1 where it was one, 0 where not, -1 where it is wrong.
static int
s_common_option(int count, char **words, int *at, verl_spy_options_t *options)
{
    bool missing = false;
    const char *value;
    char *end;
    if (strcmp(words[*at], "--json") == 0) {
        options->json = true;
    } else if (strcmp(words[*at], "--quiet") == 0) {
        options->quiet = true;
    } else if ((value = verl_spy_value(count, words, at, "--run", &missing))) {
        options->run = value;
        if (!*value) {
            verl_spy_usage("verl-spy", "--run names no directory");
            return -1;
        }
    } else if ((value = verl_spy_value(count, words, at, "--timeout", &missing))) {
        options->timeout = strtod(value, &end);
        if (end == value || *end || !(options->timeout > 0 && options->timeout <= 1e9)) {
            verl_spy_usage("verl-spy", "--timeout is a number of seconds above 0, not '%s'", value);
            return -1;
        }
    } else if (missing) {
        verl_spy_usage("verl-spy", "%s needs a value", words[*at]);
        return -1;
    } else {
        return 0;
    }
    return 1;
}

// Refuses what the command would pass over. Returns -1 to go on, else the exit code.
static int
s_check(const verl_spy_command_t *command, const verl_spy_options_t *options)
{
    int given = (options->run ? RUN : 0) | (options->json ? JSON : 0) | (options->timeout > 0 ? TIMEOUT : 0);
    for (size_t i = 0; i < sizeof s_options / sizeof *s_options; i++)
        if (given & ~command->takes & s_options[i].takes)
            return verl_spy_usage("verl-spy", "%s takes no %s", command->word, s_options[i].name);
    return -1;
}

int
main(int count, char **words)
{
    verl_spy_options_t options = { 0 };
    const verl_spy_command_t *command = NULL;
    int left = 1;
    verl_limits_widen();
    for (int i = 1; i < count; i++) {
        int taken = s_common_option(count, words, &i, &options);
        if (taken < 0)
            return EXIT_WRONG;
        if (taken)
            continue;
        if (!command && left == 1 && (command = s_find(words[i])))
            continue;
        if (!command && (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0))
            return s_help();
        if (strcmp(words[i], "--version") == 0) {
            printf("verl-spy %s\n", VERL_VERSION);
            return verl_spy_written("verl-spy");
        }
        words[left++] = words[i];
    }
    words[left] = NULL;
    if (!command)
        command = &s_commands[0];
    words[0] = (char *) (uintptr_t) command->word;
    int code = s_check(command, &options);
    return code < 0 ? command->run(left, words, &options) : code;
}
