// test_soak.c: a learning run to which random things happen: changes, kills, pauses, watchers. It goes on, learns, ends
// when it is told to, and leaves nothing behind.
//
// VERL_SOAK_SECONDS: how long (100); VERL_SOAK_SEED: of the random choices (1). tools/soak.sh runs it for an hour.
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include "tools/living.h"

#define SETUP   "ln -s " VERL_SOURCE_DIR "/topologies/models models; ln -s " VERL_SOURCE_DIR "/topologies/data data; "
#define COMMAND 40                          // s until one ends
#define STEPS   50                          // it needs to learn
#define LATEST  100                         // s, whatever is missing
#define KILLS   4                           // of one actor within a minute: the run takes five

// --- chance -------------------------------------------------------------------------------------------------------

static uint64_t s_random;

static unsigned
s_below(unsigned count)
{
    s_random = s_random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned) ((s_random >> 33) % count);
}

static long
s_setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

// --- the run ------------------------------------------------------------------------------------------------------

typedef struct kill_at {
    char    actor[64];
    int64_t at;
} kill_at_t;

typedef struct soak {
    run_t     run;
    int       ids_count;
    char      ids[512][40];                 // of the run's lives
    int       kills_count;
    kill_at_t kills[1 << 14];
    bool      extra, slower;                // a stage was added; the learning rate was lowered
    int       changes, refusals, pauses, spies;
} soak_t;

// The quickstart, without an end, each actor restarted when it dies.
static char *
s_topology(void)
{
    FILE *file = fopen(VERL_SOURCE_DIR "/topologies/quickstart.toml", "re");
    char *line = NULL, *text = NULL;
    size_t room = 0, size = 0;
    cr_assert(file);
    FILE *memory = open_memstream(&text, &size);
    while (getline(&line, &room, file) > 0) {
        if (strncmp(line, "steps ", 6) == 0)
            fprintf(memory, "steps = 1000000\nsave_every = 10\nkeep = 2\ndrain_timeout = %d\n", 60 * SLOWER);
        else
            fputs(line, memory);
        if (strncmp(line, "kind ", 5) == 0)
            fputs("on_failure = \"restart\"\n", memory);
    }
    fclose(memory);
    fclose(file);
    free(line);
    return text;
}

// The name that this life of the run goes by: part of the names of its sockets.
static void
s_note_id(soak_t *self)
{
    char *text = run_file(&self->run, "control.json");
    json_t *control = json_loads(text, 0, NULL);
    const char *id = json_string_value(json_object_get(control, "run_id"));
    bool known = !id;
    for (int i = 0; i < self->ids_count; i++)
        known |= id && strcmp(self->ids[i], id) == 0;
    if (!known && self->ids_count < 512)
        snprintf(self->ids[self->ids_count++], sizeof self->ids[0], "%s", id);
    json_decref(control);
    free(text);
}

static void
s_check_lives(soak_t *self)
{
    s_note_id(self);
    if (waitpid(self->run.pid, NULL, WNOHANG) == 0)
        return;
    char path[128], text[8000];
    snprintf(path, sizeof path, "%s/said", self->run.folder);
    FILE *file = fopen(path, "re");
    text[file ? fread(text, 1, sizeof text - 1, file) : 0] = 0;
    cr_assert_fail("the run has ended: %s", text);
}

static int
s_steps(const soak_t *self)
{
    char *metrics = run_file(&self->run, "metrics.jsonl");
    int steps = run_lines(metrics);
    free(metrics);
    return steps;
}

// A process of the run that is an actor, at random, and its actor's name. 0: there is none just now.
static pid_t
s_some_actor(const soak_t *self, char *name, size_t size)
{
    pid_t all[64];
    int count = run_processes(&self->run, all, 64), tries = 8;
    count = count > 64 ? 64 : count;
    while (count > 0 && tries-- > 0) {
        char path[64], words[400] = "";
        pid_t pid = all[s_below((unsigned) count)];
        snprintf(path, sizeof path, "/proc/%d/cmdline", (int) pid);
        FILE *file = fopen(path, "re");
        size_t got = file ? fread(words, 1, sizeof words - 1, file) : 0;
        if (file)
            fclose(file);
        const char *label = got > 0 ? words + strlen(words) + 1 : words;
        const char *mark = strchr(label, '#');
        if (!mark || !strstr(words, "verl-actor"))
            continue;
        snprintf(name, size, "%.*s", (int) (mark - label), label);
        return pid;
    }
    return 0;
}

// --- what happens to it -------------------------------------------------------------------------------------------

// A command that ends in time: done, or refused with a sentence.
static bool __attribute__((format(printf, 2, 3)))
s_command(soak_t *self, const char *format, ...)
{
    char words[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    said_t said = s_end(&self->run, "injected", s_begin(&self->run, "injected", words), COMMAND);
    cr_assert(said.code == 0 || (said.code == 1 && said.text[0]), "verl-inject %s: exit %d: %s", words, said.code,
              said.text);
    if (said.code == 0)
        self->changes++;
    else
        self->refusals++;
    if (said.code == 1)
        cr_log_info("verl-inject %s: %s", words, said.text);
    return said.code == 0;
}

static void
s_change(soak_t *self)
{
    static const char *const swaps[] = { "reward", "advantage", "prompts", "policy", "val_reward" };
    switch (s_below(6)) {
    case 0:
        s_command(self, "swap %s", swaps[s_below(5)]);
        break;
    case 1:
        s_command(self, "--now swap %s", swaps[s_below(2)]);
        break;
    case 2:
        s_command(self, "set stage.generate.staleness=%u", s_below(2));
        break;
    case 3:
        if (self->extra)
            self->extra = !s_command(self, "remove extra");
        else
            self->extra = s_command(self, "apply - <<'END'\n[stage.extra]\nkind = \"synthetic\"\nbusy_ms = 1\n"
                                          "depends_on = [\"reward\"]\non_failure = \"restart\"\nEND");
        break;
    case 4:
        if (!self->slower && s_steps(self) > 2 * STEPS)
            self->slower = s_command(self, "set stage.update.lr=5e-6");
        else
            s_command(self, "--timeout 5 swap %s", swaps[s_below(5)]);
        break;
    default:
        s_command(self, "set run.max_in_flight=%u", 2 + s_below(5));
    }
}

static void
s_kill_one(soak_t *self)
{
    char name[64];
    int lately = 0;
    pid_t pid = s_some_actor(self, name, sizeof name);
    for (int i = 0; pid && i < self->kills_count; i++)
        lately += strcmp(self->kills[i].actor, name) == 0 && verl_now() - self->kills[i].at < 65 * VERL_S;
    if (!pid || lately >= KILLS || self->kills_count == (int) (sizeof self->kills / sizeof *self->kills))
        return;
    kill_at_t *one = &self->kills[self->kills_count++];
    snprintf(one->actor, sizeof one->actor, "%s", name);
    one->at = verl_now();
    kill(pid, s_below(3) ? SIGKILL : SIGSEGV);
}

// Shorter than what counts as dead.
static void
s_freeze_one(const soak_t *self)
{
    char name[64];
    pid_t pid = s_some_actor(self, name, sizeof name);
    if (!pid)
        return;
    kill(pid, SIGSTOP);
    usleep(1000 * (50 + s_below(500)));
    kill(pid, SIGCONT);
}

static void
s_pause_one(soak_t *self)
{
    static const char *const names[] = { "reward", "policy", "prompts", "advantage" };
    const char *name = names[s_below(4)];
    self->pauses += s_command(self, "pause %s", name);
    usleep(1000 * s_below(800));
    s_command(self, "resume %s", name);
}

// Watches for a while; ends by itself, is killed, or is stopped first and then killed.
static void
s_spy(soak_t *self)
{
    pid_t pid = fork();
    if (pid == 0) {
        char directory[128];
        snprintf(directory, sizeof directory, "%s/run", self->run.folder);
        int nothing = open("/dev/null", O_WRONLY);
        dup2(nothing, 1);
        dup2(nothing, 2);
        execl(VERL_BINARY_DIR "/bin/verl-spy", "verl-spy", "--run", directory, "--timeout", "2", "follow", NULL);
        _exit(127);
    }
    unsigned how = s_below(3);
    usleep(1000 * s_below(600));
    if (how == 1)
        kill(pid, SIGSTOP);
    if (how >= 1) {
        usleep(1000 * s_below(400));
        kill(pid, SIGKILL);
    }
    int status;
    int64_t limit = verl_now() + COMMAND * SLOWER * VERL_S;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && verl_now() < limit)
        usleep(2000);
    if (ended == 0)
        kill(pid, SIGKILL);
    cr_assert(ended == pid, "verl-spy does not end");
    self->spies++;
}

static void
s_something(soak_t *self)
{
    unsigned what = s_below(10);
    s_check_lives(self);
    if (what < 4)
        s_change(self);
    else if (what < 6)
        s_kill_one(self);
    else if (what < 7)
        s_pause_one(self);
    else if (what < 8)
        s_freeze_one(self);
    else
        s_spy(self);
    usleep(1000 * s_below(700));
}

// --- what is left -------------------------------------------------------------------------------------------------

typedef struct learned {
    int64_t count;
    double  first, last[10];                // mean of the first ten; the last ten
} learned_t;

static void
s_see_step(const json_t *line, int64_t number, void *context)
{
    learned_t *learned = context;
    double score = json_number_value(json_object_get(line, "critic/score/mean"));
    cr_assert_eq(json_integer_value(json_object_get(line, "step")), number, "line %lld of the metrics is of step %lld",
                 (long long) number, (long long) json_integer_value(json_object_get(line, "step")));
    learned->first += number < 10 ? score / 10 : 0;
    learned->last[number % 10] = score;
    learned->count = number + 1;
}

static void
s_check_learned(const soak_t *self)
{
    learned_t learned = { 0 };
    double last = 0;
    s_lines(&self->run, "metrics.jsonl", s_see_step, &learned);
    for (int i = 0; i < 10; i++)
        last += learned.last[i] / 10;
    cr_log_info("%lld steps; the mean score went from %.3f to %.3f", (long long) learned.count, learned.first, last);
    cr_assert_geq(learned.count, STEPS);
    cr_assert_gt(last, learned.first + 0.1, "it did not learn: %.3f, then %.3f", learned.first, last);
}

// No file that was never finished, nothing of a change that came to be or did not, no word that a run lives.
static void
s_check_files(const char *path)
{
    DIR *directory = opendir(path);
    cr_assert(directory, "there is no %s", path);
    for (struct dirent *entry; (entry = readdir(directory));) {
        cr_assert(!strstr(entry->d_name, ".tmp") && strncmp(entry->d_name, "handover", 8) != 0 &&
                  strcmp(entry->d_name, "control.json") != 0, "%s/%s is left", path, entry->d_name);
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            char below[PATH_MAX];
            snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
            s_check_files(below);
        }
    }
    closedir(directory);
}

// No socket of any of its lives has a name any more.
static void
s_check_sockets(const soak_t *self)
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen("/proc/net/unix", "re");
    cr_assert(file && self->ids_count > 0);
    while (getline(&line, &room, file) > 0)
        for (int i = 0; i < self->ids_count; i++)
            cr_assert(!strstr(line, self->ids[i]), "a socket is left: %s", line);
    free(line);
    fclose(file);
}

static int
s_shared_memory(void)
{
    int count = 0;
    DIR *directory = opendir("/dev/shm");
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        count += strstr(entry->d_name, "verl") != NULL;
    if (directory)
        closedir(directory);
    return count;
}

Test(soak, a_run_to_which_anything_happens_goes_on_and_learns, .timeout = 7200)
{
    soak_t *self = calloc(1, sizeof *self);
    long seconds = s_setting("VERL_SOAK_SECONDS", 100), seed = s_setting("VERL_SOAK_SEED", 1);
    int before = s_shared_memory();
    char *topology = s_topology(), path[128];
    fprintf(stderr, "soak: %ld s, seed %ld (VERL_SOAK_SEED)\n", seconds, seed);
    s_random = (uint64_t) seed * 2654435761u + 12345;
    run_start_after(&self->run, SETUP, topology, "");
    s_await(&self->run);
    run_until_steps(&self->run, 1);
    int64_t from = verl_now(), until = from + seconds * VERL_S, latest = from + (seconds + LATEST) * VERL_S * SLOWER;
    while (verl_now() < until || (s_steps(self) < STEPS && verl_now() < latest)) {
        if (verl_now() < until)
            s_something(self);
        else
            usleep(100000);
        s_check_lives(self);
    }
    kill(self->run.pid, SIGINT);
    run_wait(&self->run, 90);
    cr_assert_eq(self->run.code, 130, "seed %ld: exit %d: %s", seed, self->run.code, self->run.said);
    s_check_learned(self);
    snprintf(path, sizeof path, "%s/run", self->run.folder);
    s_check_files(path);
    s_check_sockets(self);
    cr_assert_eq(s_shared_memory(), before, "something is left in /dev/shm");
    fprintf(stderr, "soak: %d changes in force, %d refused, %d kills, %d pauses, %d watchers, %d lives\n", self->changes,
                self->refusals, self->kills_count, self->pauses, self->spies, self->ids_count);
    cr_assert(self->changes > 0 && self->kills_count > 0, "nothing happened to it");
    run_done(&self->run);
    free(topology);
    free(self);
}
