// verl-actor: hosts one actor process. Started by verl-run; not for people.
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/actor/host.h"
#include "runtime/topology/kinds.h"
#include "tools/guard.h"
#include "tools/kinds.h"
#include "tools/limits.h"

#define NODE_FD 3

static int
s_usage(void)
{
    fprintf(stderr, "verl-actor is started by verl-run: verl-run topology.toml\n");
    return 2;
}

// "reward#2" -> name and incarnation.
static int
s_parse_label(char *label, verl_host_config_t *config)
{
    char *hash = strrchr(label, '#'), *end;
    if (!hash || hash == label)
        return -1;
    *hash = 0;
    config->actor = label;
    config->incarnation = strtoull(hash + 1, &end, 10);
    return *end || !config->incarnation ? -1 : 0;
}

static int
s_parse(int count, char **arguments, verl_host_config_t *config, long *parent)
{
    static const struct option options[] = { { "replica", required_argument, NULL, 'r' },
                                             { "replicas", required_argument, NULL, 'n' },
                                             { "run-id", required_argument, NULL, 'i' },
                                             { "run-dir", required_argument, NULL, 'd' },
                                             { "parent", required_argument, NULL, 'p' },
                                             { 0 } };
    int option;
    while ((option = getopt_long(count, arguments, "", options, NULL)) >= 0) {
        if (option == 'r')
            config->replica = strtoll(optarg, NULL, 10);
        else if (option == 'n')
            config->replicas = strtoll(optarg, NULL, 10);
        else if (option == 'i')
            config->run_id = optarg;
        else if (option == 'd')
            config->run_directory = optarg;
        else if (option == 'p')
            *parent = strtol(optarg, NULL, 10);
        else
            return -1;
    }
    static char label[300];
    if (optind + 1 != count || !config->run_id || !config->run_directory)
        return -1;
    snprintf(label, sizeof label, "%s", arguments[optind]);
    return s_parse_label(label, config);
}

int
main(int count, char **arguments)
{
    verl_host_config_t config = { .node_fd = NODE_FD };
    verl_error_t error = { "" };
    long parent = 0;
    if (count > 3 && strcmp(arguments[1], "--guard") == 0)     // and a label, for who looks at the processes
        verl_guard(arguments + 3);
    if (s_parse(count, arguments, &config, &parent))
        return s_usage();
    verl_limits_widen();
    prctl(PR_SET_PDEATHSIG, SIGKILL);       // ends with verl-run, however that ends
    if (getppid() != parent)
        return 1;
    setenv("VERL_RUN_DIR", config.run_directory, 1);
    if (verl_kind_register_all(verl_kinds, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    config.zmq = zmq_ctx_new();
    zmq_ctx_set(config.zmq, ZMQ_MAX_SOCKETS, 16384);
    if (verl_host_run(&config, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    zmq_ctx_term(config.zmq);
    return 0;
}
