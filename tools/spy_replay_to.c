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
#include "tools/display_text.h"
#include "tools/kinds.h"
#include "tools/program.h"
#include "tools/spy.h"
#include "tools/spy_replay_impl.h"

#define NAME      "verl-spy replay"
#define PATIENCE  60.0                      // seconds without any progress, where --timeout says nothing else
#define TURN_MS   5
#define ENDING_NS (5 * VERL_S)

// --- what it gives ------------------------------------------------------------------------------------------------

static void
s_show(play_t *play, int64_t until)
{
    while (verl_spy_socket_receive(play->router, play->merge, NULL, NULL) > 0)
        ;
    const verl_trace_record_t *record;
    while ((record = verl_spy_merge_next(play->merge, until))) {
        play->broken |= verl_spy_show(play->to->view, record) != 0;
        verl_spy_tally_record(play->to->tally, record);
        verl_spy_merge_pop(play->merge);
    }
    verl_spy_socket_give_credit(play->router, play->merge);
    play->broken |= fflush(stdout) != 0;
}

// --- life ---------------------------------------------------------------------------------------------------------

static int
s_open_folder(play_t *play)
{
    char path[sizeof play->directory + 8];
    const char *folder = getenv("TMPDIR");
    folder = folder && *folder ? folder : "/tmp";
    snprintf(play->directory, sizeof play->directory, "%s/verl-replay-XXXXXX", folder);
    if (!mkdtemp(play->directory))
        return play->directory[0] = 0, verl_error_errno(&play->error, "cannot make a folder in %s", folder);
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
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    play->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    play->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    play->zmq = zmq_ctx_new();
    play->merge = verl_spy_merge_new(8192, 1 << 20);
    if (!play->zmq || !play->merge || play->epoll_fd < 0 || play->signal_fd < 0 ||
        getrandom(&random, sizeof random, 0) != sizeof random)
        return verl_error_set(&play->error, "out of memory");
    snprintf(play->run_id, sizeof play->run_id, "%016" PRIx64, random);
    if (verl_program_beside("verl-actor", program, sizeof program, &play->error) || s_open_folder(play) ||
        !(play->router = verl_spy_socket_open("replay", play->address, &play->error)) ||
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
    zsock_destroy(&play->router);
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
    verl_spy_socket_wait(play->router, 50);
    s_show(play, INT64_MAX);
}

static int
s_load(play_t *play)
{
    verl_error_t *error = &play->error;
    if (verl_kind_register_all(verl_kinds, error) ||
        verl_spy_feed_read(&play->feed, play->to->path, play->to->actor, play->to->revision, &play->plan, error))
        return -1;
    for (int i = 0; i < play->plan->actors_count; i++) {
        play->plan->actors[i].replicas = 1;             // whatever was sent to any of them goes to this one
        play->plan->actors[i].place = VERL_PLACE_PROCESS;
        if (strcmp(play->plan->actors[i].name, play->to->actor) == 0)
            play->actor = i;
    }
    play->window = verl_plan_window(play->plan);
    return 0;
}

// An actor's last words may be in it.
static void
s_say(const char *text)
{
    verl_buffer_t line = { 0 };
    verl_text_shown(&line, text, 2 * (int) sizeof((verl_error_t *) 0)->text, verl_text_unicode());
    fprintf(stderr, NAME ": %.*s\n", (int) line.size, line.data ? line.data : "out of memory");
    verl_buffer_done(&line);
}

static void
s_say_what(const play_t *play)
{
    const verl_kind_t *kind = play->plan->actors[play->actor].kind;
    fprintf(stderr, "%s alone, batches %" PRId64 " to %" PRId64 " of revision %" PRId64 ", %zu messages\n",
            play->to->actor, play->feed.first, play->feed.last, play->plan->revision, play->feed.count);
    if (play->feed.first > 0 && kind && (kind->snapshot || kind->keeps_state))
        fprintf(stderr, "%s keeps state, and begins without what it had before batch %" PRId64 ": what it gives may "
                "differ from what was recorded, and not fit it\n", play->to->actor, play->feed.first);
}

int
verl_spy_replay_to(const verl_spy_replay_to_t *to)
{
    play_t play = { .to = to, .epoll_fd = -1, .signal_fd = -1 };
    verl_spy_totals_t totals = { 0 };
    if (s_load(&play) == 0 && s_open(&play) == 0) {
        if (!to->quiet)
            s_say_what(&play);
        s_play(&play);
        s_finish(&play);
    }
    if (play.merge)
        verl_spy_merge_totals(play.merge, &totals);
    s_close(&play);
    if (!to->quiet && !play.error.text[0])
        fprintf(stderr, "%" PRId64 " messages fed, %" PRIu64 " given\n", play.sent, to->tally->shown);
    if (play.error.text[0])
        s_say(play.error.text);
    verl_spy_feed_done(&play.feed);
    verl_plan_destroy(&play.plan);
    int code = verl_spy_written(NAME);
    if (!verl_spy_tally_holds(to->tally, &totals, NAME) || play.error.text[0])
        code = 1;
    return code;
}
