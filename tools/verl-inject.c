// verl-inject: changes a run while it lives: swaps, adds, removes, sets, pauses. A table of commands, each in a file of
// its own.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/crash.h"
#include "tools/inject.h"
#include "tools/limits.h"
#include "tools/usage.h"

// To add one: a line here, its function in inject.h.
static const verl_inject_command_t s_commands[] = {
    { "apply", verl_inject_apply, "FRAGMENT.toml|-", "merge a fragment of a topology into the running one", true },
    { "swap", verl_inject_swap, "NAME [KEY=VALUE …]", "a fresh process for an actor, with other keys", true },
    { "set", verl_inject_set, "NAME.KEY=VALUE …", "other values: set stage.update.lr=5e-6", true },
    { "remove", verl_inject_remove, "NAME", "take away a stage, or an actor", true },
    { "pause", verl_inject_pause, "NAME", "an actor takes no new batch", false },
    { "resume", verl_inject_resume, "NAME", "… and goes on", false },
    { "list", verl_inject_list, "", "revisions, changes under way, what is paused and by whom", false },
    { "script", verl_inject_script, "FILE.lua", "changes at a step or when a metric says so, written in Lua", false },
    { NULL, NULL, NULL, NULL, false },
};

static const char s_about[] =
    "usage: verl-inject [options] COMMAND …\n"
    "\n"
    "Changes a run of this user while it goes on. A change is checked like a whole topology before anything moves, and\n"
    "is in force from one batch on; nothing is lost or done twice, and no other actor is touched.\n"
    "\n";

static const char s_options_help[] =
    "\n"
    "  --run DIR      the directory of the run (default: the newest run of this user that lives)\n"
    "  --json         one JSON object a line on standard output\n"
    "  --version, --help\n"
    "of apply, swap, set and remove:\n"
    "  --plan         only show what would change\n"
    "  --at BATCH     in force from this batch on, which waits until the change is ready\n"
    "  --now          end what is replaced at once: its unfinished batches go to the new one, which is of its kind\n"
    "  --timeout S    give up what is not in force after S seconds\n"
    "\n"
    "VALUE is TOML; a bare word is a string. In a fragment, unset = [\"stage.x\", \"stage.y.key\"] takes away. Paths are\n"
    "relative to the topology file of the run, in a fragment too.\n"
    "A change belongs to the run once it is asked for: Ctrl-C only stops waiting for it.\n"
    "Exit code: 0 done, 1 failed, 2 usage, 130 interrupted.\n";

static const struct option s_options[] = {
    { "run", required_argument, NULL, VERL_LONG('r') },
    { "json", no_argument, NULL, VERL_LONG('j') },
    { "plan", no_argument, NULL, VERL_LONG('p') },
    { "now", no_argument, NULL, VERL_LONG('n') },
    { "at", required_argument, NULL, VERL_LONG('a') },
    { "timeout", required_argument, NULL, VERL_LONG('t') },
    { "help", no_argument, NULL, VERL_LONG('h') },
    { "version", no_argument, NULL, VERL_LONG('v') },
    { 0 },
};

static int
s_printed(void)
{
    return fflush(stdout) || ferror(stdout) ? verl_inject_failed("cannot write to standard output") : INJECT_DONE;
}

static int
s_help(void)
{
    fputs(s_about, stdout);
    for (const verl_inject_command_t *command = s_commands; command->word; command++) {
        char line[80];
        int bytes = snprintf(line, sizeof line, "%s %s", command->word, command->arguments), width = 0;
        for (int i = 0; i < bytes; i++)
            width += ((unsigned char) line[i] & 0xc0) != 0x80;
        printf("  %s%*s%s\n", line, width < 26 ? 26 - width : 2, "", command->about);
    }
    fputs(s_options_help, stdout);
    return s_printed();
}

static int
s_batch(const char *text, int64_t *ret)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (!*text || *end || errno || value < 0 || value > INT64_C(1000000000000))
        return verl_inject_usage("--at is the number of a batch, from 0 on, not '%s'", text);
    *ret = value;
    return 0;
}

static int
s_seconds(const char *text, double *ret)
{
    char *end;
    *ret = strtod(text, &end);
    if (!*text || *end || !(*ret > 0 && *ret <= 1e9))
        return verl_inject_usage("--timeout is a number of seconds above 0, not '%s'", text);
    return 0;
}

// Returns -1 to go on, else the exit code.
static int
s_parse(int count, char **words, verl_inject_options_t *options)
{
    int option, wrong = 0;
    char what[200];
    opterr = 0;
    while ((option = getopt_long(count, words, ":h", s_options, NULL)) >= 0 && !wrong) {
        switch (option) {
        case VERL_LONG('r'):
            options->run = optarg;
            wrong = *optarg ? 0 : verl_inject_usage("--run names no directory");
            break;
        case VERL_LONG('j'): options->json = true; break;
        case VERL_LONG('p'): options->plan = true; break;
        case VERL_LONG('n'): options->now = true; break;
        case VERL_LONG('a'): wrong = s_batch(optarg, &options->at); break;
        case VERL_LONG('t'): wrong = s_seconds(optarg, &options->timeout); break;
        case 'h':
        case VERL_LONG('h'): return s_help();
        case VERL_LONG('v'):
            printf("verl-inject %s\n", VERL_VERSION);
            return s_printed();
        default: wrong = verl_inject_usage("%s", verl_usage_wrong(option, words, s_options, what, sizeof what)); break;
        }
    }
    return wrong ? wrong : -1;
}

static int
s_run(const verl_inject_command_t *command, int count, char **words, const verl_inject_options_t *options)
{
    if (!command->changes && (options->plan || options->now || options->at >= 0 || options->timeout > 0))
        return verl_inject_usage("%s takes none of --plan, --at, --now and --timeout, which apply, swap, set and remove "
                                 "take", command->word);
    return command->run(count, words, options);
}

int
main(int count, char **words)
{
    verl_inject_options_t options = { .at = -1 };
    verl_limits_widen();
    verl_crash_speak("verl-inject");
    int code = s_parse(count, words, &options);
    if (code >= 0)
        return code;
    if (optind == count)
        return verl_inject_usage("what is to be done is not said: apply, swap, set, remove, pause, resume, list or script");
    for (const verl_inject_command_t *command = s_commands; command->word; command++)
        if (strcmp(command->word, words[optind]) == 0)
            return s_run(command, count - optind, words + optind, &options);
    return verl_inject_usage("there is no command '%s'", words[optind]);
}
