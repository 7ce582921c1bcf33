// guard.h: what stands between the node and an actor that is a program of its own, so that its children end with the
// run.
//
// A program's children may outlive it, and when verl-run is killed nobody is left to end them. The guard is the leader
// of their process group, and adopts those that leave it: it ends as the program ends, and ends all of them then, on
// SIGTERM, and when verl-run ends, however it does.
#ifndef VERL_GUARD_H
#define VERL_GUARD_H

// Runs the program that `words` name (NULL at the end), with descriptor 3 and the environment as they are, VERL_PARENT
// aside, which becomes the guard. Does not return: ends with the program's exit code, or of the program's signal.
void verl_guard(char *const *words) __attribute__((noreturn));
#endif
