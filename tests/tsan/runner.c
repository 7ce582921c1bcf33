// runner.c: runs the tests of a program under the thread sanitizer, one after the other, each in a forked process.
//
// The program has one thread when it forks, so that the sanitizer follows the child. What the sanitizer finds makes the
// child end with a status of its own (66), and the test counts as crashed. With an argument, only tests whose
// "suite/name" matches it (a pattern of the shell) run.
#include <criterion/criterion.h>
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { S_FAILED = 99, S_SLOWER = 20 }; // the status of a failed test; how much longer than it says a test may take

typedef struct s_totals {
    int tested, passing, failing, crashing;
} s_totals_t;

static verl_test_t *s_first, **s_last = &s_first;
static jmp_buf s_end;
static pid_t s_thread;       // that runs the test
static atomic_bool s_failed; // some check of this process did
static const char *s_running = "";

void
verl_test_register(verl_test_t *test)
{
    *s_last = test;
    s_last = &test->next;
}

void
verl_test_failed(bool fatal, const char *file, int line, const char *what, const char *format, ...)
{
    char message[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    fprintf(stderr, "[----] %s:%d: %s: failed: %s:%s\n", file, line, s_running, what, message);
    atomic_store(&s_failed, true);
    if (fatal && gettid() != s_thread)
        _exit(S_FAILED);
    if (fatal)
        longjmp(s_end, 1);
}

void
verl_test_skip(const char *format, ...)
{
    va_list list;
    fprintf(stderr, "[SKIP] %s:", s_running);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    longjmp(s_end, 1);
}

static void
s_take_suite(verl_test_t *test)
{
    verl_test_options_t *own = &test->options;
    for (const verl_test_t *suite = s_first; suite; suite = suite->next) {
        if (suite->name || strcmp(suite->suite, test->suite) != 0)
            continue;
        own->init = own->init ? own->init : suite->options.init;
        own->fini = own->fini ? own->fini : suite->options.fini;
        own->timeout = own->timeout > 0 ? own->timeout : suite->options.timeout;
        own->disabled = own->disabled || suite->options.disabled;
    }
}

// One step of a test, and back here also where a check of it ended it.
static void
s_step(void (*run)(void))
{
    if (run && setjmp(s_end) == 0)
        run();
}

static void
s_be_test(const verl_test_t *test)
{
    s_thread = gettid();
    s_step(test->options.init);
    if (!atomic_load(&s_failed))
        s_step(test->run);
    s_step(test->options.fini);
    exit(atomic_load(&s_failed) ? S_FAILED : 0);
}

// Waits for the test's process; the status as waitpid gives it, and whether it had to be killed.
static int
s_wait(pid_t pid, double timeout, bool *ret_late)
{
    int status = 0;
    int handle = (int) syscall(SYS_pidfd_open, pid, 0);
    struct pollfd end = { .fd = handle, .events = POLLIN };
    int limit = timeout > 0 ? (int) (timeout * S_SLOWER * 1000) : -1;
    *ret_late = handle >= 0 && poll(&end, 1, limit) == 0;
    if (*ret_late)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    close(handle);
    return status;
}

static void
s_count(s_totals_t *totals, int status, bool late)
{
    totals->tested++;
    if (status == 0) {
        totals->passing++;
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == S_FAILED) {
        totals->failing++;
        fprintf(stderr, "[FAIL] %s\n", s_running);
    } else {
        totals->crashing++;
        const char *how = late ? "took too long" : WIFEXITED(status) ? "exit status" : "signal";
        int number = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
        fprintf(stderr, "[CRASH] %s: %s (%d)\n", s_running, how, number);
    }
}

static void
s_run(s_totals_t *totals, verl_test_t *test, const char *pattern)
{
    char name[512];
    bool late;
    snprintf(name, sizeof name, "%s/%s", test->suite, test->name);
    s_take_suite(test);
    if (test->options.disabled || (pattern && fnmatch(pattern, name, 0) != 0))
        return;
    s_running = name;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        s_be_test(test);
    if (pid < 0) {
        perror("fork");
        exit(1);
    }
    int status = s_wait(pid, test->options.timeout, &late);
    s_count(totals, status, late);
    s_running = "";
}

int
main(int argc, char **argv)
{
    s_totals_t totals = { 0, 0, 0, 0 };
    for (verl_test_t *test = s_first; test; test = test->next)
        if (test->name)
            s_run(&totals, test, argc > 1 ? argv[1] : NULL);
    fprintf(stderr, "[====] Synthesis: Tested: %d | Passing: %d | Failing: %d | Crashing: %d\n", totals.tested,
            totals.passing, totals.failing, totals.crashing);
    return totals.failing || totals.crashing || totals.tested == 0;
}
