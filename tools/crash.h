// crash.h: last words of a program that crashes.
#ifndef VERL_CRASH_H
#define VERL_CRASH_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VERL_CRASH_SPEAKS 0                 // the sanitizer says more
#else
#define VERL_CRASH_SPEAKS 1
#endif

// From now on a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) says on standard error which thread it was, in one line
// behind "program: ", and ends the process by the same signal. `program` is borrowed for ever. Nothing where not
// VERL_CRASH_SPEAKS.
void verl_crash_speak(const char *program);
#endif
