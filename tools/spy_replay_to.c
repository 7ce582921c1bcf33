// spy_replay_to.c: verl-spy replay --to ACTOR: one actor of a recorded run, alone, fed what it was sent.
//
// This program is the director and all the peers of that actor: each peer is an endpoint that sends what was recorded
// and is done at once with what it gets. What the actor gives is seen as in a live run, by its tap.
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>
#include "runtime/base/clock.h"
#include "runtime/topology/kinds.h"
#include "runtime/wire/pack.h"
#include "tools/kinds.h"
#include "tools/spy_replay_impl.h"

#define NAME      "verl-spy replay"
#define PATIENCE  60.0                      // seconds without any progress, where --timeout says nothing else
#define TURN_MS   5
#define ENDING_NS (5 * VERL_S)

// --- what it gives ------------------------------------------------------------------------------------------------

static void
s_show(play_t *play, int64_t until)
{
    char routing[256];
    int size;
    while ((size = zmq_recv(play->router, routing, sizeof routing, ZMQ_DONTWAIT)) >= 0) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, play->router, 0) >= 0 && (size_t) size <= sizeof routing)
            verl_spy_merge_add(play->merge, routing, (size_t) size, zmq_msg_data(&message), zmq_msg_size(&message));
        zmq_msg_close(&message);
    }
    const verl_trace_record_t *record;
    while ((record = verl_spy_merge_next(play->merge, until))) {
        play->broken |= verl_spy_show(play->to->view, record) != 0;
        play->shown++;
        verl_spy_merge_pop(play->merge);
    }
    verl_spy_credit_t credit;
    while (verl_spy_merge_credit(play->merge, &credit)) {
        verl_buffer_t body = { 0 };
        verl_pack_array(&body, 2);
        verl_pack_uint(&body, credit.records);
        verl_pack_uint(&body, credit.bytes);
        if (zmq_send(play->router, credit.routing, credit.routing_size, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
            zmq_send(play->router, body.data, body.size, ZMQ_DONTWAIT);
        verl_buffer_done(&body);
    }
    play->broken |= fflush(stdout) != 0;
}

// --- life ---------------------------------------------------------------------------------------------------------

static int
s_actor_program(char *path, size_t size, verl_error_t *error)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    char *slash = length > 0 ? (path[length] = 0, strrchr(path, '/')) : NULL;
    if (!slash || (size_t) (slash - path) + sizeof "/verl-actor" > size)
        return verl_error_set(error, "cannot find verl-actor beside this program");
    memcpy(slash, "/verl-actor", sizeof "/verl-actor");
    return access(path, X_OK) ? verl_error_errno(error, "cannot run %s", path) : 0;
}

static int
s_open_router(play_t *play)
{
    int none = 0, uid = (int) getuid();
    snprintf(play->address, sizeof play->address, "ipc://@verl-%d-replay-%d", uid, (int) getpid());
    play->router = zmq_socket(play->zmq, ZMQ_ROUTER);
    if (!play->router || zmq_setsockopt(play->router, ZMQ_LINGER, &none, sizeof none) ||
        zmq_setsockopt(play->router, ZMQ_RCVHWM, &none, sizeof none) ||
        zmq_setsockopt(play->router, ZMQ_IPC_FILTER_UID, &uid, sizeof uid) || zmq_bind(play->router, play->address))
        return verl_error_set(&play->error, "cannot bind %s: %s", play->address, zmq_strerror(zmq_errno()));
    return 0;
}

static int
s_open_folder(play_t *play)
{
    char path[96];
    snprintf(play->directory, sizeof play->directory, "/tmp/verl-replay-XXXXXX");
    if (!mkdtemp(play->directory))
        return play->directory[0] = 0, verl_error_errno(&play->error, "cannot make a folder in /tmp");
    snprintf(path, sizeof path, "%s/logs", play->directory);
    return mkdir(path, 0700) ? verl_error_errno(&play->error, "cannot make %s", path) : 0;
}

static int
s_open(play_t *play)
{
    char program[4096];
    uint64_t random;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    play->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    play->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    play->zmq = zmq_ctx_new();
    play->merge = verl_spy_merge_new(8192, 1 << 20);
    if (!play->zmq || !play->merge || play->epoll_fd < 0 || play->signal_fd < 0 ||
        getrandom(&random, sizeof random, 0) != sizeof random)
        return verl_error_set(&play->error, "out of memory");
    snprintf(play->run_id, sizeof play->run_id, "%016" PRIx64, random);
    if (s_actor_program(program, sizeof program, &play->error) || s_open_folder(play) || s_open_router(play) ||
        verl_spy_play_director(play) || verl_spy_play_peers(play))
        return -1;
    play->node = verl_node_new(play->run_id, play->directory, program, play->zmq, play->epoll_fd, &play->error);
    play->progress_at = verl_now();
    return play->node && verl_node_start(play->node, &play->plan->actors[play->actor], 0, ACTOR, &play->error) ? 0 : -1;
}

static int
s_remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void) status;
    (void) type;
    (void) walk;
    return remove(path);
}

static void
s_close(play_t *play)
{
    verl_node_destroy(&play->node);
    for (int i = 0; i < play->peers_count; i++)
        verl_endpoint_destroy(&play->peers[i].endpoint);
    free(play->peers);
    verl_endpoint_destroy(&play->director);
    if (play->router)
        zmq_close(play->router);
    if (play->zmq)
        zmq_ctx_term(play->zmq);
    verl_spy_merge_destroy(&play->merge);
    if (play->epoll_fd >= 0)
        close(play->epoll_fd);
    if (play->signal_fd >= 0)
        close(play->signal_fd);
    if (play->directory[0])
        nftw(play->directory, s_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// --- playing ------------------------------------------------------------------------------------------------------

static void
s_turn(play_t *play)
{
    verl_endpoint_step(play->director, -1, TURN_MS);
    verl_endpoint_acknowledge(play->director, true);
    for (int i = 0; i < play->peers_count; i++) {
        verl_endpoint_step(play->peers[i].endpoint, -1, 0);
        verl_endpoint_acknowledge(play->peers[i].endpoint, true);
    }
}

// Is there a reason to stop: it died, failed, stands still, was interrupted?
static bool
s_stopped(play_t *play)
{
    struct signalfd_siginfo info;
    verl_death_t death;
    double patience = play->to->timeout > 0 ? play->to->timeout : PATIENCE;
    if (verl_node_reap(play->node, &death))
        verl_error_set(&play->error, WIFSIGNALED(death.status) ? "%s was killed by signal %d; its last words: %s"
                                                              : "%s ended with exit code %d; its last words: %s",
                       play->to->actor, WIFSIGNALED(death.status) ? WTERMSIG(death.status) : WEXITSTATUS(death.status),
                       death.tail);
    else if (read(play->signal_fd, &info, sizeof info) == sizeof info)
        verl_error_set(&play->error, "interrupted");
    else if ((double) (verl_now() - play->progress_at) / 1e9 > patience)
        verl_error_set(&play->error,
                       "%s is done with %" PRId64 " of %" PRId64 " messages and has stood still for %.0f s: "
                       "what it waits for was not recorded, or it takes longer (--timeout S)",
                       play->to->actor, play->done, play->sent, patience);
    return play->error.text[0] || play->broken;
}

static void
s_play(play_t *play)
{
    bool fed = false;
    while (!s_stopped(play) && !(fed && play->done == play->sent)) {
        s_turn(play);
        if (play->wired && !fed) {
            fed = true;
            if (verl_spy_play_feed(play))
                return;
        }
        s_show(play, verl_now() - VERL_SPY_HOLD_NS);
    }
}

// Lets it end by itself, so that it sends what waits in its tap.
static void
s_finish(play_t *play)
{
    int64_t limit = verl_now() + ENDING_NS;
    verl_death_t death;
    if (play->control && verl_node_alive(play->node))
        verl_spy_play_stop(play);
    while (verl_node_alive(play->node) && !verl_node_reap(play->node, &death) && verl_now() < limit)
        s_turn(play);
    zmq_pollitem_t item = { play->router, 0, ZMQ_POLLIN, 0 };
    zmq_poll(&item, 1, 50);
    s_show(play, INT64_MAX);
}

// As every party of a run reckons it: max(64, (max_in_flight + 1) x the most parts).
static int64_t
s_window(const verl_plan_t *plan)
{
    int64_t parts = 1;
    for (int i = 0; i < plan->stages_count; i++)
        parts = plan->stages[i].parts > parts ? plan->stages[i].parts : parts;
    return (plan->max_in_flight + 1) * parts > 64 ? (plan->max_in_flight + 1) * parts : 64;
}

static int
s_load(play_t *play)
{
    verl_error_t *error = &play->error;
    if (verl_kind_register_all(verl_kinds, error) ||
        verl_spy_feed_read(&play->feed, play->to->path, play->to->actor, &play->plan, error))
        return -1;
    for (int i = 0; i < play->plan->actors_count; i++) {
        play->plan->actors[i].replicas = 1;             // whatever was sent to any of them goes to this one
        play->plan->actors[i].place = VERL_PLACE_PROCESS;
        if (strcmp(play->plan->actors[i].name, play->to->actor) == 0)
            play->actor = i;
    }
    play->window = s_window(play->plan);
    return 0;
}

int
verl_spy_replay_to(const verl_spy_replay_to_t *to)
{
    play_t play = { .to = to, .epoll_fd = -1, .signal_fd = -1 };
    if (s_load(&play) == 0 && s_open(&play) == 0) {
        if (!to->quiet)
            fprintf(stderr, "%s alone, batches %" PRId64 " to %" PRId64 ", %zu messages\n", to->actor, play.feed.first,
                    play.feed.last, play.feed.count);
        s_play(&play);
        s_finish(&play);
    }
    s_close(&play);
    if (!to->quiet && !play.error.text[0])
        fprintf(stderr, "%" PRId64 " messages fed, %" PRId64 " given\n", play.sent, play.shown);
    if (play.error.text[0])
        fprintf(stderr, NAME ": %s\n", play.error.text);
    verl_spy_feed_done(&play.feed);
    verl_plan_destroy(&play.plan);
    return play.error.text[0] || play.broken ? 1 : 0;
}
