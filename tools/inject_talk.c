// inject_talk.c: asks a run for something, and shows what it answers. See inject.h. A request belongs to the run once it
// is sent: who interrupts this program only stops listening.
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "tools/display_text.h"
#include "tools/inject.h"

static int s_signal_fd = -1;

// --- words --------------------------------------------------------------------------------------------------------

static void
s_say(const char *text)
{
    verl_text_lines(stderr, "verl-inject: ", text);
}

int
verl_inject_failed(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    s_say(text ? text : "out of memory");
    free(text);
    return INJECT_FAILED;
}

int
verl_inject_usage(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    verl_inject_failed("%s: see verl-inject --help", text ? text : "out of memory");
    free(text);
    return INJECT_WRONG;
}

const char *
verl_inject_who(void)
{
    static char who[128];
    const struct passwd *user = getpwuid(getuid());
    if (user)
        snprintf(who, sizeof who, "%.60s (verl-inject, process %d)", user->pw_name, (int) getpid());
    else
        snprintf(who, sizeof who, "user %u (verl-inject, process %d)", (unsigned) getuid(), (int) getpid());
    return who;
}

static void
s_print_json(const json_t *answer)
{
    json_t *copy = json_copy((json_t *) answer);
    json_object_del(copy, "id");
    char *text = json_dumps(copy, JSON_COMPACT);
    json_decref(copy);
    if (text)
        puts(text);
    fflush(stdout);
    free(text);
}

// --- asking -------------------------------------------------------------------------------------------------------

static int
s_catch(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

verl_client_t *
verl_inject_open(const verl_inject_options_t *options)
{
    verl_error_t error = { "" };
    s_signal_fd = s_catch();
    verl_client_t *client = verl_client_open(options->run, true, &error);
    if (client)
        verl_client_interrupt_by(client, s_signal_fd);
    else
        verl_inject_failed("%s", error.text);
    return client;
}

void
verl_inject_close(verl_client_t **client_p)
{
    verl_client_close(client_p);
    if (s_signal_fd >= 0)
        close(s_signal_fd);
    s_signal_fd = -1;
}

// What the run waits for, told once.
static void
s_progress(const verl_inject_options_t *options, const json_t *answer, char said[256])
{
    const char *waiting = json_string_value(json_object_get(answer, "waiting"));
    if (options->json)
        s_print_json(answer);
    else if (waiting && strcmp(waiting, said) != 0) {
        snprintf(said, 256, "%s", waiting);
        verl_inject_failed("waiting for %s …", said);
    }
}

json_t *
verl_inject_ask(verl_client_t *client, const verl_inject_options_t *options, json_t *request)
{
    char said[256] = "";
    verl_error_t error = { "" };
    json_t *answer = verl_client_ask(client, request, -1, &error);
    while (answer && verl_client_more(answer)) {
        s_progress(options, answer, said);
        json_decref(answer);
        answer = verl_client_next(client, -1, &error);
    }
    if (!answer && verl_client_why(client) == VERL_CLIENT_INTERRUPTED)
        verl_inject_failed("interrupted: the request belongs to the run in %s, which goes on with it "
                           "(verl-inject list shows it)", verl_client_directory(client));
    else if (!answer)
        verl_inject_failed("%s", error.text);
    return answer;
}

// --- telling ------------------------------------------------------------------------------------------------------

void
verl_inject_text(const char *text)
{
    verl_text_lines(stdout, "", text);
}

int
verl_inject_refused(const verl_inject_options_t *options, json_t *answer)
{
    if (options->json)
        s_print_json(answer);
    s_say(verl_client_refusal(answer));
    json_decref(answer);
    return fflush(stdout) || ferror(stdout) ? verl_inject_failed("cannot write to standard output") : INJECT_FAILED;
}

int
verl_inject_tell(verl_client_t *client, const verl_inject_options_t *options, json_t *answer,
                 verl_inject_print_t print)
{
    if (!answer)
        return verl_client_why(client) == VERL_CLIENT_INTERRUPTED ? INJECT_INTERRUPTED : INJECT_FAILED;
    if (verl_client_refusal(answer))
        return verl_inject_refused(options, answer);
    if (options->json)
        s_print_json(answer);
    else
        print(answer);
    json_decref(answer);
    if (fflush(stdout) || ferror(stdout))
        return verl_inject_failed("cannot write to standard output");
    return INJECT_DONE;
}
