// inject_states.c: the commands that change no topology: pause, resume, list. See inject.h.
#include <stdio.h>
#include <string.h>
#include "tools/inject.h"

static int
s_ask(const verl_inject_options_t *options, json_t *request)
{
    verl_client_t *client = verl_inject_open(options);
    if (!client) {
        json_decref(request);
        return INJECT_FAILED;
    }
    int code = verl_inject_tell(client, options, verl_inject_ask(client, options, request));
    verl_inject_close(&client);
    return code;
}

static int
s_name(int count, char **words, const verl_inject_options_t *options)
{
    if (count != 2)
        return verl_inject_usage(count < 2 ? "%s names no actor" : "%s takes one name at a time", words[0]);
    json_t *request = json_pack("{s:s, s:s, s:s}", "do", words[0], "name", words[1], "who", verl_inject_who());
    return request ? s_ask(options, request) : verl_inject_usage("no actor has such a name");
}

int
verl_inject_pause(int count, char **words, const verl_inject_options_t *options)
{
    return s_name(count, words, options);
}

int
verl_inject_resume(int count, char **words, const verl_inject_options_t *options)
{
    return s_name(count, words, options);
}

int
verl_inject_list(int count, char **words, const verl_inject_options_t *options)
{
    if (count != 1)
        return verl_inject_usage("list takes no word such as '%s'", words[1]);
    return s_ask(options, json_pack("{s:s}", "do", "list"));
}
