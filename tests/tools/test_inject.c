// test_inject.c: what each command of verl-inject does to a run that lives, and what it says where it cannot.
#include "tools/living.h"

#define SLOW CHAIN(FOREVER, "busy_ms = 2\n", "busy_ms = 1\n", "")

static void
s_begin_run(run_t *run, const char *topology)
{
    run_start(run, topology, "");
    s_await(run);
}

// A program that says what it is and never hello.
Test(inject, a_run_that_still_starts_has_given_no_permit_and_is_interrupted_before_any_batch, .timeout = 60)
{
    run_t run;
    run_start_after(&run, "echo '{\"protocol\": 1, \"keeps_state\": false, \"stages\": [{\"name\": \"b\", "
                    "\"needs\": [], \"gives\": []}]}' >said.json; "
                    "printf '%s\\n' '[ \"$VERL_DESCRIBE\" ] || exec sleep 100' 'cat said.json' >b.sh\n",
                    "[run]\nsteps = 5\n[stage.a]\nkind = \"synthetic\"\n[stage.b]\nkind = \"command\"\n"
                    "command = [\"sh\", \"b.sh\"]\ndepends_on = [\"a\"]\nliveness = 60\n", "");
    s_await(&run);
    said_t said = s_inject(&run, "list");
    DOES(said, "no batch has a permit yet");
    kill(run.pid, SIGINT);
    run_wait(&run, 30);
    cr_assert_eq(run.code, 130, "exit %d: %s", run.code, run.said);
    cr_assert(run_said(&run, "interrupted before any batch began"), "%s", run.said);
    run_done(&run);
}

Test(inject, set_changes_a_value_from_one_batch_on_and_touches_no_process)
{
    run_t run;
    s_begin_run(&run, SLOW);
    s_until_done(&run, 5);
    json_int_t before[3] = { s_actor(&run, "src", "pid"), s_actor(&run, "mid", "pid"), s_actor(&run, "rec", "pid") };
    said_t said = s_inject(&run, "set stage.mid.bytes=3");
    DOES(said, "revision 2 is in force from batch ");
    cr_assert(strstr(said.text, "set mid.bytes=3"), "%s", said.text);
    long long first = s_number(&said, "from batch ");
    s_until_done(&run, first + 5);
    json_int_t after[3] = { s_actor(&run, "src", "pid"), s_actor(&run, "mid", "pid"), s_actor(&run, "rec", "pid") };
    cr_assert_arr_eq(before, after, sizeof before);
    s_interrupt(&run);
    s_each_once(&run);
    char *out = run_file(&run, "out.jsonl"), *line = out;
    for (long long batch = 0; *line; batch++, line = strchr(line, '\n') + 1) {
        json_t *object = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        cr_assert_eq(json_array_size(json_object_get(object, "payload")), batch < first ? 8 : 3, "batch %lld", batch);
        json_decref(object);
    }
    free(out);
    run_done(&run);
}

Test(inject, a_short_name_means_a_stage_or_an_actor)
{
    run_t run;
    s_begin_run(&run, SLOW);
    said_t said = s_inject(&run, "set mid.busy_ms=0");
    DOES(said, "set mid.busy_ms=0");
    said = s_inject(&run, "set mid.liveness=9");
    DOES(said, "changed mid");
    s_interrupt(&run);
    run_done(&run);
}

// As pause and resume have it, and as TOML writes a key.
Test(inject, a_name_may_say_whether_it_is_a_stages_or_an_actors)
{
    run_t run;
    s_begin_run(&run, SLOW);
    said_t said = s_inject(&run, "swap stage.mid bytes=5");
    DOES(said, "replaced mid");
    said = s_inject(&run, "set '\"mid\".bytes=6'");
    DOES(said, "mid");
    said = s_inject(&run, "remove stage.rec");
    DOES(said, "removed rec");
    s_interrupt(&run);
    run_done(&run);
}

// No file has the line and the column that the run knows of it.
Test(inject, a_mistake_of_the_command_line_is_told_with_its_words)
{
    run_t run;
    s_begin_run(&run, SLOW);
    said_t said = s_inject(&run, "set src.bytes=5 mid.busy_ms=abc");
    REFUSES(said, 1, "verl-inject: set mid.busy_ms=abc: `busy_ms` is a string");
    said = s_inject(&run, "swap mid bytes=5 busy_ms=abc");
    REFUSES(said, 1, "verl-inject: swap busy_ms=abc: `busy_ms` is a string");
    said = s_inject(&run, "--json set mid.busy_ms=abc");
    REFUSES(said, 1, "\"set mid.busy_ms=abc: `busy_ms` is a string");
    said = s_inject(&run, "--json remove nobody 2>/dev/null");
    REFUSES(said, 1, "{\"error\":\"no actor or stage is called \\\"nobody\\\"");
    s_interrupt(&run);
    run_done(&run);
}

Test(inject, swap_replaces_one_actor_and_leaves_the_others)
{
    run_t run;
    s_begin_run(&run, SLOW);
    s_until_done(&run, 5);
    json_int_t mid = s_actor(&run, "mid", "incarnation"), src = s_actor(&run, "src", "incarnation");
    said_t said = s_inject(&run, "swap mid bytes=5");
    char followed[64];
    snprintf(followed, sizeof followed, "; mid#%d -> mid#%d", (int) mid, (int) s_actor(&run, "mid", "incarnation"));
    DOES(said, "replaced mid");
    DOES(said, followed);
    cr_assert_gt(s_actor(&run, "mid", "incarnation"), mid);
    cr_assert_eq(s_actor(&run, "src", "incarnation"), src);
    s_until_done(&run, s_number(&said, "from batch ") + 5);
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

Test(inject, a_fragment_adds_a_stage_and_remove_takes_it_away)
{
    run_t run;
    s_begin_run(&run, SLOW);
    said_t said = s_inject(&run, "apply - <<'END'\n"
                                 "[stage.more]\nkind = \"recorder\"\nfile = \"more.jsonl\"\ncolumns = [\"id\"]\n"
                                 "depends_on = [\"src\"]\nEND\n");
    DOES(said, "added more");
    long long first = s_number(&said, "from batch ");
    s_until_done(&run, first + 5);
    json_int_t src = s_actor(&run, "src", "incarnation");
    said = s_inject(&run, "remove more");
    DOES(said, "removed more");
    long long end = s_number(&said, "from batch ");
    s_until_done(&run, end + 5);
    int64_t limit = verl_now() + 10 * SLOWER * VERL_S;
    while (s_actor(&run, "more", "pid"))
        cr_assert(verl_now() < limit && usleep(2000) == 0, "its process is still there");
    cr_assert_eq(s_actor(&run, "src", "incarnation"), src);
    s_interrupt(&run);
    s_each_once(&run);
    char *more = run_file(&run, "more.jsonl"), beginning[64];
    snprintf(beginning, sizeof beginning, "{\"batch\": %lld,", first);
    cr_assert(strncmp(more, beginning, strlen(beginning)) == 0, "%.80s", more);
    cr_assert_eq(run_lines(more), end - first);
    free(more);
    run_done(&run);
}

Test(inject, plan_shows_what_would_change_and_changes_nothing)
{
    run_t run;
    s_begin_run(&run, SLOW);
    said_t said = s_inject(&run, "--plan swap mid bytes=5");
    DOES(said, "replaced  actor mid");
    cr_assert(strstr(said.text, "bytes 8 -> 5"), "%s", said.text);
    cr_assert(strstr(said.text, "goes on   src, rec"), "%s", said.text);
    said = s_inject(&run, "--json --plan set mid.bytes=5");
    DOES(said, "\"bytes\":[\"8\",\"5\"]");
    said = s_inject(&run, "list");
    DOES(said, "revision 1 from batch 0 on");
    cr_assert(!strstr(said.text, "revision 2"), "%s", said.text);
    s_interrupt(&run);
    run_done(&run);
}

Test(inject, at_a_batch_means_that_batch)
{
    run_t run;
    s_begin_run(&run, SLOW);
    s_until_done(&run, 1);
    json_int_t batch = s_done_batches(&run) + 300;
    said_t said = s_inject(&run, "--at %lld set mid.bytes=2", (long long) batch);
    DOES(said, "revision 2");
    cr_assert_eq(s_number(&said, "from batch "), batch, "%s", said.text);
    said = s_inject(&run, "--at 3 set mid.bytes=4");
    REFUSES(said, 1, "batch 3 has its permit already");
    s_interrupt(&run);
    run_done(&run);
}

Test(inject, two_runs_with_the_same_change_at_the_same_batch_are_the_same)
{
    char *outs[2];
    for (int i = 0; i < 2; i++) {
        run_t run;
        s_begin_run(&run, CHAIN("steps = 600\nseed = 3\n", "busy_ms = 1\n", "", ""));
        said_t said = s_inject(&run, "--at 400 swap mid bytes=3 busy_ms=1");
        DOES(said, "from batch 400 on");
        run_wait(&run, 60);
        cr_assert_eq(run.code, 0, "%s", run.said);
        cr_assert_eq(s_each_once(&run), 600);
        outs[i] = run_file(&run, "out.jsonl");
        run_done(&run);
    }
    cr_assert_str_eq(outs[0], outs[1]);
    free(outs[0]);
    free(outs[1]);
}

Test(inject, a_paused_actor_takes_no_new_batch_until_it_is_resumed)
{
    run_t run;
    s_begin_run(&run, SLOW);
    s_until_done(&run, 5);
    said_t said = s_inject(&run, "pause mid");
    DOES(said, "mid is paused");
    usleep(200000);                         // what it had taken is done by then
    json_int_t done = s_done_batches(&run);
    usleep(300000);
    cr_assert_eq(s_done_batches(&run), done);
    said = s_inject(&run, "list");
    DOES(said, "mid is paused by ");
    said = s_inject(&run, "resume mid");
    DOES(said, "mid goes on");
    s_until_done(&run, done + 20);
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

// How often `words` stand in a text.
static int
s_times(const char *text, const char *words)
{
    int count = 0;
    while ((text = strstr(text, words))) {
        text += strlen(words);
        count++;
    }
    return count;
}

Test(inject, who_paused_an_actor_first_stays_the_one_who_did)
{
    run_t run;
    s_begin_run(&run, SLOW);
    said_t said = s_inject(&run, "pause mid"), again = s_inject(&run, "pause stage.mid");
    DOES(said, "mid is paused: it takes no new batch");
    DOES(again, "mid was paused before, by ");
    said = s_inject(&run, "list");
    const char *who = strstr(again.text, " by ") + 4;
    char paused[200];
    snprintf(paused, sizeof paused, "mid is paused by %.*s), for", (int) strcspn(who, ")"), who);
    DOES(said, paused);
    s_does(&run, "resume mid", "mid goes on");
    s_interrupt(&run);
    run_done(&run);
}

Test(inject, who_follows_a_paused_actor_is_paused_by_the_same_person)
{
    run_t run;
    s_begin_run(&run, CHAIN(FOREVER, "busy_ms = 2\n", "on_failure = \"restart\"\n", ""));
    s_until_done(&run, 5);
    json_int_t old = s_actor(&run, "mid", "incarnation");
    said_t said = s_inject(&run, "pause mid");
    DOES(said, "mid is paused");
    said = s_inject(&run, "list");
    char who[200] = "", *begin = strstr(said.text, "mid is paused by "), *end = begin ? strstr(begin, ", for ") : NULL;
    cr_assert(end && end - begin < (int) sizeof who, "%s", said.text);
    memcpy(who, begin, (size_t) (end - begin));
    kill((pid_t) s_actor(&run, "mid", "pid"), SIGKILL);
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    while (s_actor(&run, "mid", "incarnation") == old)
        cr_assert(verl_now() < limit && usleep(2000) == 0, "nobody follows it");
    said = s_inject(&run, "list");
    cr_assert_eq(s_times(said.text, who), 1, "%s", said.text);
    said = s_inject(&run, "swap mid");
    DOES(said, "replaced mid");
    said = s_inject(&run, "list");          // the old one has batches left, which it does when it goes on
    cr_assert_eq(s_times(said.text, who), 2, "%s", said.text);
    said = s_inject(&run, "resume mid");
    DOES(said, "mid goes on");
    s_until_done(&run, s_done_batches(&run) + 20);
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

Test(inject, changes_go_one_at_a_time_in_their_order)
{
    run_t run;
    char name[8][16];
    pid_t pids[8];
    s_begin_run(&run, SLOW);
    s_until_done(&run, 5);
    for (int i = 0; i < 8; i++) {
        char words[64];
        snprintf(name[i], sizeof name[i], "said%d", i);
        snprintf(words, sizeof words, "set mid.bytes=%d", i + 1);
        pids[i] = s_begin(&run, name[i], words);
    }
    long long seen = 0;
    for (int i = 0; i < 8; i++) {
        said_t said = s_end(&run, name[i], pids[i], 30);
        if (i == 7) {                       // the value that it has already may come last
            cr_assert(said.code == 0 || strstr(said.text, "nothing would change"), "%s", said.text);
            continue;
        }
        DOES(said, "is in force");
        long long revision = s_number(&said, "revision ");
        cr_assert(revision >= 2 && revision <= 9 && !(seen & (1 << revision)), "%s", said.text);
        seen |= 1 << revision;
    }
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

Test(inject, what_cannot_be_is_refused_with_what_would_be_right)
{
    static const struct { const char *words, *sentence; int code; } wrong[] = {
        { "set mid.bussy_ms=2", "did you mean `busy_ms`", 1 },
        { "set mid.busy_ms=-2", "it must be from 0", 1 },
        { "set nobody.busy_ms=2", "no actor or stage is called \"nobody\"", 1 },
        { "set mod.busy_ms=2", "no actor or stage is called \"mod\": did you mean \"mid\"?", 1 },
        { "set stage.mod.busy_ms=2", "did you mean `mid`", 1 },
        { "swap nobody", "no actor or stage is called \"nobody\"", 1 },
        { "swap mit", "did you mean \"mid\"?", 1 },
        { "swap mid kind=synthetik", "did you mean `synthetic`", 1 },
        { "remove nobody", "no actor or stage is called \"nobody\"", 1 },
        { "remove mid", "the running topology: ", 1 },
        { "remove mid", "`rec` depends on `mid`, which would be gone: to take away `rec` with it", 1 },
        { "pause nobody", "there is no actor or stage \"nobody\"", 1 },
        { "set run.steps=5", "[run] steps cannot change", 1 },
        { "set run.seed=5", "[run] seed cannot change", 1 },
        { "set mid.busy_ms=1.0", "nothing would change", 1 },
        { "apply /nowhere.toml", "cannot read /nowhere.toml", 1 },
        { "apply - </dev/null", "nothing would change", 1 },
        { "apply - <<'END'\n[stage.mid\nEND\n", "standard input:1:", 1 },
        { "apply - <<'END'\nunset = ['stage.src']\nEND\n", "`mid` depends on `src`, which would be gone", 1 },
        { "set stage.zzzzz.lr=1", "there is no stage `zzzzz` (there are `src`, `mid`, `rec`)", 1 },
        { "apply - <<'END'\nunset = ['stage.x']\nEND\n", "standard input:1:10: there is no `stage.x` to take away", 1 },
        { "apply - <<'END'\n[stage.x]\nkind = 'recorder'\nEND\n", "standard input:", 1 },
        { "set mid", "NAME.KEY=VALUE", 2 },
        { "set", "set names no key", 2 },
        { "swap", "swap names no actor", 2 },
        { "swap mid busy_ms", "KEY=VALUE", 2 },
        { "dance", "there is no command 'dance'", 2 },
        { "--at x swap mid", "--at is the number of a batch", 2 },
        { "--timeout -1 swap mid", "--timeout is a number of seconds", 2 },
        { "--at 999999999999 swap mid", "the run ends with batch 99999999", 1 },
        { "list more", "list takes no word", 2 },
        { "pause mid --plan", "pause takes none of --plan", 2 },
        { "list --at 5", "list takes none of --plan", 2 },
        { "script x.lua --timeout 5", "script takes none of --plan", 2 },
        { "--json list -xy", "there is no option -x:", 2 },
        { "--nwo swap mid", "there is no option --nwo", 2 },
        { "swap mid --now=1", "--now takes no value", 2 },
        { "swap mid --at", "--at needs a value", 2 },
        { "apply - <<'END'\n# \xff\nEND\n", "standard input is no text: its byte 3 is not UTF-8", 1 },
    };
    run_t run;
    s_begin_run(&run, SLOW);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        said_t said = s_inject(&run, "%s", wrong[i].words);
        REFUSES(said, wrong[i].code, wrong[i].sentence);
        cr_assert(strncmp(said.text, "verl-inject: ", 13) == 0, "%s", said.text);
    }
    said_t said = s_inject(&run, "list");
    DOES(said, "revision 1 from batch 0 on\n");
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

Test(inject, a_change_that_is_late_is_given_up_without_a_trace)
{
    run_t run;
    s_begin_run(&run, SLOW);
    said_t said = s_inject(&run, "--timeout 0.5 --at 90000000 swap mid");
    REFUSES(said, 1, "was not in force within its time");
    said = s_inject(&run, "swap mid");
    DOES(said, "replaced mid");
    s_until_done(&run, s_number(&said, "from batch ") + 5);
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

Test(inject, who_interrupts_it_leaves_the_change_to_the_run)
{
    run_t run;
    s_begin_run(&run, SLOW);
    s_until_done(&run, 1);
    json_int_t batch = s_done_batches(&run) + 1500;
    char words[64];
    snprintf(words, sizeof words, "--at %lld set mid.bytes=2", (long long) batch);
    pid_t pid = s_begin(&run, "told", words);
    char *said = NULL;
    int64_t limit = verl_now() + 20 * SLOWER * VERL_S;
    do {
        said_t list = s_inject(&run, "list");
        free(said);
        said = strdup(list.text);
    } while (!strstr(said, "a change by ") && verl_now() < limit);
    cr_assert(strstr(said, "a change by "), "%s", said);
    free(said);
    kill(pid, SIGINT);
    said_t end = s_end(&run, "told", pid, 5);
    REFUSES(end, 130, "goes on with it");
    s_until_done(&run, batch + 5);
    said_t list = s_inject(&run, "list");
    DOES(list, "revision 2 from batch ");
    s_interrupt(&run);
    s_each_once(&run);
    run_done(&run);
}

Test(inject, a_run_that_has_ended_is_told_from_one_that_never_was)
{
    run_t run;
    run_whole(&run, CHAIN("steps = 3\n", "", "", ""), "");
    said_t said = s_inject(&run, "list");
    REFUSES(said, 1, "the run in run has ended");
    said = s_inject(&run, "--run nowhere list");
    REFUSES(said, 1, "there is no run in nowhere");
    said = s_inject(&run, "--run / list");
    REFUSES(said, 1, "/ holds no run");
    run_done(&run);
}
