// verl-run: checks a topology, starts its actors, runs it to its end.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "runtime/director/director.h"
#include "runtime/topology/describe.h"
#include "runtime/topology/kinds.h"
#include "runtime/topology/topology.h"
#include "tools/checked.h"
#include "tools/crash.h"
#include "tools/display.h"
#include "tools/display_text.h"
#include "tools/kinds.h"
#include "tools/limits.h"
#include "tools/program.h"
#include "tools/rundir.h"
#include "tools/script.h"
#include "tools/usage.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_WRONG = 2, EXIT_INTERRUPTED = 130 };
enum { MAX_SETS = 256 };

typedef enum { ACTION_RUN, ACTION_CHECK, ACTION_PLAN, ACTION_KINDS } action_t;

typedef struct arguments {
    action_t    action;
    const char *topology, *run_directory, *resume;
    const char *sets[MAX_SETS];
    int         sets_count;
    bool        json, quiet;
} arguments_t;

static const char s_help[] =
    "usage: verl-run [options] topology.toml (-: standard input)\n"
    "       verl-run --resume DIR\n"
    "\n"
    "Trains a language model with reinforcement learning as the actors that a topology wires.\n"
    "\n"
    "  --check            check the topology only\n"
    "  --plan             show its stages, columns, devices and routes, and start nothing\n"
    "  --kinds            list the kinds of actors\n"
    "  --help KIND        options, columns and defaults of one kind\n"
    "  --set KEY=VALUE    override one key, such as stage.update.lr=1e-5 (VALUE is TOML; a bare word is a string)\n"
    "  --steps N          the same as --set run.steps=N\n"
    "  --run-dir DIR      where the run leaves its metrics, logs and checkpoints (default: runs/NAME-TIME)\n"
    "  --resume DIR       go on with the run in DIR from its last checkpoint\n"
    "  --json             one JSON object a line on standard output: of a run, of --check, --plan, --kinds\n"
    "  --quiet            errors and the closing paragraph only\n"
    "  --version, --help\n"
    "\n"
    "Ctrl-C finishes the batches under way, saves and ends; a second one ends at once.\n"
    "Exit code: 0 done, 1 failed, 2 wrong topology or usage, 130 interrupted.\n";

static int
s_wrong_usage(const char *what, const char *which)
{
    fprintf(stderr, "verl-run: %s%s: see verl-run --help\n", what, which);
    return EXIT_WRONG;
}

// `code`, unless what was printed did not arrive (a full disk, a closed output).
static int
s_printed(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "verl-run: cannot write to standard output\n");
    return EXIT_FAILED;
}

static int
s_kinds(bool json)
{
    int failed = json ? verl_checked_kinds(stdout) : verl_describe_kinds(stdout);
    return s_printed(failed ? EXIT_FAILED : EXIT_DONE);
}

static int
s_help_kind(const char *name)
{
    verl_error_t error = { "" };
    if (verl_describe_help(name, stdout, &error)) {
        fprintf(stderr, "verl-run: %s\n", error.text);
        return ferror(stdout) ? EXIT_FAILED : EXIT_WRONG;
    }
    return s_printed(EXIT_DONE);
}

// --steps N is --set run.steps=N.
static const char *
s_steps(const char *steps)
{
    static char text[64];
    snprintf(text, sizeof text, "run.steps=%.40s", steps);
    return text;
}

static const struct option s_options[] = {
    { "check", no_argument, NULL, VERL_LONG('c') },
    { "plan", no_argument, NULL, VERL_LONG('p') },
    { "kinds", no_argument, NULL, VERL_LONG('k') },
    { "help", optional_argument, NULL, VERL_LONG('h') },
    { "set", required_argument, NULL, VERL_LONG('s') },
    { "steps", required_argument, NULL, VERL_LONG('n') },
    { "run-dir", required_argument, NULL, VERL_LONG('d') },
    { "resume", required_argument, NULL, VERL_LONG('r') },
    { "json", no_argument, NULL, VERL_LONG('j') },
    { "quiet", no_argument, NULL, VERL_LONG('q') },
    { "version", no_argument, NULL, VERL_LONG('v') },
    { 0 },
};

// Returns -1 to go on, else the exit code.
static int
s_parse(int count, char **words, arguments_t *arguments)
{
    int option;
    char what[200];
    opterr = 0;
    while ((option = getopt_long(count, words, ":h", s_options, NULL)) >= 0) {
        switch (option) {
        case VERL_LONG('c'): arguments->action = ACTION_CHECK; break;
        case VERL_LONG('p'): arguments->action = ACTION_PLAN; break;
        case VERL_LONG('k'): arguments->action = ACTION_KINDS; break;
        case VERL_LONG('v'): return s_printed(printf("verl-run %s\n", VERL_VERSION) > 0 ? EXIT_DONE : EXIT_FAILED);
        case VERL_LONG('d'):
            if (!*optarg)
                return s_wrong_usage("--run-dir names no directory", "");
            arguments->run_directory = optarg;
            break;
        case VERL_LONG('r'): arguments->resume = optarg; break;
        case VERL_LONG('j'): arguments->json = true; break;
        case VERL_LONG('q'): arguments->quiet = true; break;
        case 'h':
        case VERL_LONG('h'):
            if (optarg || optind < count)
                return s_help_kind(optarg ? optarg : words[optind]);
            fputs(s_help, stdout);
            return s_printed(EXIT_DONE);
        case VERL_LONG('s'):
        case VERL_LONG('n'):
            if (arguments->sets_count == MAX_SETS)
                return s_wrong_usage("too many --set", "");
            arguments->sets[arguments->sets_count++] = option == VERL_LONG('s') ? optarg : s_steps(optarg);
            break;
        default:
            return s_wrong_usage(verl_usage_wrong(option, words, s_options, what, sizeof what), "");
        }
    }
    if (arguments->action == ACTION_KINDS)
        return s_kinds(arguments->json);
    if (arguments->resume)
        return arguments->run_directory || arguments->sets_count || optind < count
                   ? s_wrong_usage("--resume goes on with a run as it is: no topology, --set, --steps or --run-dir", "")
                   : -1;
    if (optind == count)
        return s_wrong_usage("no topology is named", "");
    if (optind + 1 < count)
        return s_wrong_usage("one topology at a time; not understood: ", words[optind + 1]);
    arguments->topology = words[optind];
    return -1;
}

static int
s_signal_fd(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

// Beside its place, and renamed: a run directory has a whole topology or none.
static int
s_write_resolved(const verl_plan_t *plan, const char *directory, verl_error_t *error)
{
    char path[4200], beside[4300];
    snprintf(path, sizeof path, "%s/topology.toml", directory);
    snprintf(beside, sizeof beside, "%s.tmp", path);
    FILE *file = fopen(beside, "we");
    if (!file)
        return verl_error_errno(error, "cannot write %s", beside);
    int failed = verl_topology_write_resolved(plan, file) || fflush(file) || fsync(fileno(file));
    int number = errno;
    if (fclose(file) == 0 && !failed && rename(beside, path) == 0)
        return 0;
    errno = failed ? number : errno;
    verl_error_errno(error, "cannot write %s", path);
    unlink(beside);
    return -1;
}

static int64_t
s_processes(const verl_plan_t *plan)
{
    int64_t count = 0;
    for (int i = 0; i < plan->actors_count; i++)
        count += plan->actors[i].replicas;
    return count;
}

// A directory of the run's own, or that of the run that goes on.
static int
s_directory(const arguments_t *arguments, const verl_plan_t *plan, verl_rundir_t *rundir, verl_error_t *error)
{
    if (arguments->resume)
        return verl_rundir_reopen(rundir, arguments->resume, error);
    return verl_rundir_open(rundir, arguments->run_directory, plan->name, error) ||
           s_write_resolved(plan, rundir->path, error);
}

// The run with its own script beside it, where it has one.
static int
s_direct(verl_run_config_t *config, verl_run_result_t *result, verl_error_t *error)
{
    char inject[PATH_MAX + 16];
    verl_script_child_t *script = NULL;
    verl_error_t why = { "" };
    config->script = config->plan->script != NULL;
    if (config->script &&
        (verl_program_beside("verl-inject", inject, sizeof inject, error) ||
         !(script = verl_script_start(config->run_directory, inject, config->plan->script, error))))
        return -1;
    int failed = verl_director_run(config, result, error);
    if (verl_script_finish(&script, &why))
        verl_text_lines(stderr, "verl-run: the script of the run failed: ", why.text);
    return failed;
}

// Was standard output open when we began? See verl_limits_widen.
static bool
s_is_heard(void)
{
    return (fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

static int
s_run(const arguments_t *arguments, verl_plan_t *plan)
{
    verl_error_t error = { "" };
    verl_rundir_t rundir;
    char program[PATH_MAX + 16];
    verl_run_result_t result = { 0 };
    if (verl_program_beside("verl-actor", program, sizeof program, &error) ||
        verl_limits_check(s_processes(plan), &error) || s_directory(arguments, plan, &rundir, &error)) {
        fprintf(stderr, "verl-run: %s\n", error.text);
        return EXIT_FAILED;
    }
    setenv("VERL_RUN_DIR", rundir.path, 1);
    // Threads of a product that wait for each other go to sleep soon: actors share the cores (OpenMP would spin for 1 ms).
    setenv("GOMP_SPINCOUNT", "2000", 0);
    int mode = arguments->json ? VERL_DISPLAY_JSON : arguments->quiet ? VERL_DISPLAY_QUIET : VERL_DISPLAY_AUTO;
    verl_display_t *display = verl_display_new(plan, mode, stdout);
    verl_run_config_t config = { .plan = plan, .run_directory = rundir.path, .actor_program = program,
                                 .resume = arguments->resume,
                                 .signal_fd = s_signal_fd(), .watched = mode == VERL_DISPLAY_AUTO && isatty(1) };
    verl_display_start(display, rundir.path);
    if (display) {
        verl_display_set_overridden(display, arguments->sets_count > 0);
        config.observer = verl_display_observer(display);
    }
    int failed = display ? s_direct(&config, &result, &error) : verl_error_set(&error, "out of memory");
    bool gone = verl_rundir_check(&rundir, &error) != 0;
    result.interrupted &= !gone;
    verl_display_finish(display, &result, gone ? NULL : rundir.path, failed || gone ? error.text : NULL);
    verl_display_destroy(&display);
    bool interrupted = result.interrupted;
    verl_run_result_done(&result);
    verl_rundir_close(&rundir);
    if (interrupted || failed || gone)
        return interrupted ? EXIT_INTERRUPTED : EXIT_FAILED;
    return s_is_heard() ? s_printed(EXIT_DONE) : EXIT_DONE;
}

// Says what is wrong with a topology, or with its script.
static bool
s_is_right(const verl_plan_t *plan, verl_topology_errors_t *errors)
{
    verl_error_t why = { "" };
    if (plan && plan->script && verl_script_check(plan->script, &why)) {
        errors->items = calloc(1, sizeof *errors->items);
        if (errors->items && asprintf(&errors->items[0], "%s: `script`: %s",
                                      plan->script_at ? plan->script_at : plan->file, why.text) > 0)
            errors->count = 1;
    }
    for (int i = 0; i < errors->count; i++)
        verl_text_lines(stderr, "", errors->items[i]);
    return plan && !why.text[0];
}

// What was found of a topology.
static int
s_check(const arguments_t *arguments, const verl_plan_t *plan, const verl_topology_errors_t *errors, bool right)
{
    int failed = 0;
    if (arguments->json)
        failed = verl_checked_print(arguments->topology, plan, errors, stdout);
    else if (right && !arguments->quiet)
        failed = printf("%s: %d stages in %d actors, no mistakes\n", verl_checked_name(arguments->topology),
                        plan->stages_count, plan->actors_count) < 0;
    return s_printed(failed ? EXIT_FAILED : right ? EXIT_DONE : EXIT_WRONG);
}

int
main(int count, char **words)
{
    arguments_t arguments = { 0 };
    verl_error_t error = { "" };
    verl_topology_errors_t errors = { 0 };
    verl_limits_widen();
    verl_crash_speak("verl-run");
    if (verl_kind_register_all(verl_kinds, &error)) {
        fprintf(stderr, "verl-run: %s\n", error.text);
        return EXIT_FAILED;
    }
    int code = s_parse(count, words, &arguments);
    if (code >= 0)
        return code;
    char topology[PATH_MAX + 32];
    if (arguments.resume) {
        snprintf(topology, sizeof topology, "%s/topology.toml", arguments.resume);
        arguments.topology = topology;
    }
    verl_plan_t *plan = verl_checked_load(arguments.topology, arguments.sets, arguments.sets_count, &errors);
    bool right = s_is_right(plan, &errors);
    if (arguments.action == ACTION_CHECK || (!right && arguments.action == ACTION_PLAN && arguments.json))
        code = s_check(&arguments, plan, &errors, right);
    else if (!right)
        code = EXIT_WRONG;
    else if (arguments.action == ACTION_PLAN)
        code = s_printed((arguments.json ? verl_checked_plan(plan, stdout) : verl_describe_plan(plan, stdout))
                             ? EXIT_FAILED : EXIT_DONE);
    else
        code = s_run(&arguments, plan);
    verl_topology_errors_done(&errors);
    verl_plan_destroy(&plan);
    return code;
}
