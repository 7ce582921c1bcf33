// crash.c: see crash.h. A handler may call only what is safe in the middle of anything: write, prctl, raise.
#include "tools/crash.h"
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char *s_program = "";

static void
s_say(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void) written;
}

static void
s_on_crash(int number)
{
    char thread[17] = "?";
    prctl(PR_GET_NAME, thread);
    s_say(s_program);
    s_say(": crashed by ");
    s_say(number == SIGSEGV  ? "SIGSEGV"
          : number == SIGBUS ? "SIGBUS"
          : number == SIGFPE ? "SIGFPE"
          : number == SIGILL ? "SIGILL"
                             : "SIGABRT");
    s_say(" in its thread ");
    s_say(thread);
    s_say("\n");
    raise(number);                          // SA_RESETHAND: now it ends the process
}

void
verl_crash_speak(const char *program)
{
    static const int numbers[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    struct sigaction action = { .sa_handler = s_on_crash, .sa_flags = (int) (SA_RESETHAND | SA_NODEFER) };
    s_program = program;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; VERL_CRASH_SPEAKS && i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}
