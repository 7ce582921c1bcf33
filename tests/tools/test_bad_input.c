// Wrong options, names, environments and places to write to: one sentence, and nothing left.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "tools/bad.h"

#define CHAIN                                        \
    "[run]\nname = \"chain\"\nsteps = 5\n"           \
    "[stage.a]\nkind = \"synthetic\"\nbusy_ms = 1\n" \
    "[stage.b]\nkind = \"synthetic\"\nbusy_ms = 1\ndepends_on = [\"a\"]\nas = { payload = \"b\" }\n"

static void
s_refuses_set(const char *set, const char *words)
{
    char arguments[300], place[300];
    snprintf(arguments, sizeof arguments, "--set '%s'", set);
    snprintf(place, sizeof place, "--set %s: ", set);
    s_refuses(FILES, RIGHT, arguments, place);
    s_refuses(FILES, RIGHT, arguments, words);
}

// --- values -------------------------------------------------------------------------------------------------------

Test(bad_input, batches_of_nothing)
{
    s_refuses_set("stage.generate.samples=0", "it must be from 1");
    s_refuses_set("run.steps=0", "it must be from 1");
    s_refuses_set("stage.update.passes=0", "it must be from 1");
    s_refuses_set("stage.prompts.every=0", "it must be from 1");
    s_refuses_set("stage.reward.replicas=0", "it must be from 1");
    s_refuses_set("stage.update.mini_batch=-1", "it must be from 0");
}

Test(bad_input, numbers_that_are_none)
{
    s_refuses_set("stage.update.lr=nan", "`lr` is nan");
    s_refuses_set("stage.update.lr=inf", "`lr` is inf");
    s_refuses_set("stage.update.lr=-1", "it must be from 0");
    s_refuses_set("stage.generate.temperature=-1", "it must be from 0");
    s_refuses_set("stage.generate.temperature=nan", "`temperature` is nan");
    s_refuses_set("run.drain_timeout=inf", "`drain_timeout` is inf");
}

Test(bad_input, numbers_that_are_too_large)
{
    s_refuses_set("run.steps=9223372036854775807", "`steps` is 9223372036854775807 batches");
    s_refuses_set("run.steps=99999999999999999999", "64 bits");
    s_refuses_set("run.seed=-1", "`seed` is -1");
    s_refuses_set("stage.update.lr=1e10", "it must be from 0 to 10");
    s_refuses_set("stage.prompts.rows=1000000000000", "it must be from 0");
    s_refuses_set("actor.policy.threads=4096", "0, all of them, would be right");
}

Test(bad_input, a_context_without_room_for_a_prompt)
{
    s_refuses_set("stage.generate.max_new_tokens=64", "leaves no room for a prompt in the context of 64");
    s_fails(FILES, RIGHT, "--set stage.generate.max_new_tokens=63",
            "row 0: a prompt of 4 tokens and max_new_tokens = 63");
}

Test(bad_input, a_temperature_that_makes_numbers_overflow)
{
    s_refuses_set("stage.generate.temperature=1e-30", "0 (always the likeliest token)");
}

// Of other systems one key sets both bounds: who took one for it would clip unevenly.
Test(bad_input, a_key_of_another_system_that_is_two_of_ours)
{
    s_refuses_set("stage.update.clip_ratio=0.3", "here it is `clip_low` and `clip_high`");
    s_refuses_set("stage.update.eps_clip=0.3", "here it is `clip_low` and `clip_high`");
    s_refuses_set("stage.update.betas=0.9", "here it is `beta1` and `beta2`");
}

Test(bad_input, an_option_that_counts_for_nothing)
{
    s_refuses(FILES, GRPO("", "", "", "loss_scale = 512\n"), "", "and only loss_agg = \"seq-mean-token-sum-norm\"");
    s_works(FILES, GRPO("", "", "", "loss_scale = 512\nloss_agg = \"seq-mean-token-sum-norm\"\n"), "");
    s_works(FILES, GRPO("", "", "", "total_steps = 9\nmin_lr_ratio = 0.1\n"), "");
}

Test(bad_input, a_decay_that_would_blow_weights_up)
{
    s_refuses(FILES, RIGHT, "--set stage.update.lr=10 --set stage.update.weight_decay=10",
              "less than 1 would be right");
}

Test(bad_input, a_mini_batch_that_does_not_divide)
{
    s_refuses_set("stage.update.mini_batch=5", "8 rows of a batch (4 of `prompts` × 2 of `generate`) do not divide");
    s_refuses_set("stage.update.mini_batch=1000", "8 would be right");
    s_refuses_set("stage.update.mini_batch=3", "`mini_batch` is 3, and the 8 rows of a batch");
    s_refuses(FILES, RIGHT, "--set stage.prompts.rows=0 --set stage.update.mini_batch=1000", "rows of a batch");
}

Test(bad_input, wrong_types_and_unknown_keys)
{
    s_refuses_set("stage.update.lr=\"1e-4\"", "`lr` is a string");
    s_refuses_set("stage.generate.samples=1.5", "it must be an integer");
    s_refuses_set("stage.update.learning_rate=1", "here it is `lr`");
    s_refuses_set("stage.update.nonsense=1", "there is no key `nonsense`");
    s_refuses_set("stages.update.lr=1", "there is no section `stages`");
    s_refuses_set("stage.advantage.depends_on=\"reward\"", "it must be an array of strings");
    s_refuses_set("run", "this is not of the form KEY=VALUE");
    s_refuses_set("run.steps", "this is not of the form KEY=VALUE");
    s_refuses_set("run.=1", "a key such as stage.update.lr");
}

Test(bad_input, keys_of_another_system_are_answered_with_ours)
{
    s_refuses_set("actor_rollout_ref.rollout.n=8", "`samples` in a stage that does `generate` of kind `policy`");
    s_refuses_set("data.train_files=x", "`files` in a stage of kind `loader`");
    s_refuses_set("trainer.save_freq=5", "`save_every` in [run]");
    s_refuses_set("run.total_epochs=3", "`epochs` in a stage of kind `loader`");
}

Test(bad_input, a_kind_that_was_not_said_is_proposed)
{
    s_refuses_set("stage.reward.kind=my.lua", "kind = \"lua\" and file = \"my.lua\" would be right");
    s_refuses_set("stage.more.command=[\"x\"]", "`kind = \"command\"` for an actor of its own");
}

// --- the file -----------------------------------------------------------------------------------------------------

static void
s_refuses_file(const char *spoil, const char *words)
{
    char setup[500];
    snprintf(setup, sizeof setup, "%s", spoil);
    s_refuses(setup, CHAIN, "", words);
}

Test(bad_input, files_that_are_no_topology)
{
    s_refuses_file("printf '# \\377\\n' >>topology.toml", "topology.toml:12:2: this is no TOML");
    s_refuses_file("printf '\\000\\000' >>topology.toml", "this is no TOML");
    s_refuses_file("iconv -t UTF-16 topology.toml >t && mv t topology.toml", "this is no TOML");
    s_refuses_file(": >topology.toml", "0 stages");
    s_refuses_file("head -c 10000000 /dev/zero | tr '\\0' '#' >>topology.toml", "larger than 4 MiB");
    s_refuses_file("rm topology.toml; mkdir topology.toml", "is no regular file");
    s_refuses_file("rm topology.toml; mkfifo topology.toml", "is no regular file");
    s_refuses_file("rm topology.toml; ln -s /dev/zero topology.toml", "is no regular file");
    s_refuses_file("rm topology.toml", "cannot be read");
}

Test(bad_input, files_that_nest_too_deeply)
{
    s_refuses_file("{ printf 'x = '; head -c 200000 /dev/zero | tr '\\0' '['; } >>topology.toml", "too deep");
    s_refuses_file("{ printf 'x = '; for i in $(seq 5000); do printf '{a='; done; } >>topology.toml", "too deep");
    s_refuses_file("{ printf '['; for i in $(seq 5000); do printf 'a.'; done; printf 'a]'; } >>topology.toml",
                   "too many dots");
}

Test(bad_input, a_byte_order_mark_and_carriage_returns_are_no_mistake)
{
    s_works("sed -i '1s/^/\\xef\\xbb\\xbf/; s/$/\\r/' topology.toml", CHAIN, "");
}

Test(bad_input, more_stages_than_any_run_has)
{
    s_refuses_file("for i in $(seq 1100); do printf '[stage.s%d]\\nkind = \"synthetic\"\\n' $i; done >>topology.toml",
                   "1102 stages");
}

Test(bad_input, names_that_a_path_or_a_terminal_would_trip_over)
{
    static const char *const names[] = { "a/b", "..", "", "a b", "a\\u001b[31mb", "ä", "a\\nb" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[600];
        snprintf(text, sizeof text, "[run]\nname = \"%s\"\nsteps = 1\n[stage.a]\nkind = \"synthetic\"\n", names[i]);
        s_refuses("", text, "", "topology.toml:2:8: `name` is");
        snprintf(text, sizeof text, "[run]\nname = \"n\"\nsteps = 1\n[stage.\"%s\"]\nkind = \"synthetic\"\n", names[i]);
        s_refuses("", text, "", "cannot be the name of a stage");
    }
}

Test(bad_input, columns_that_collide)
{
    s_refuses("",
              CHAIN "[stage.c]\nkind = \"synthetic\"\ndepends_on = [\"a\"]\nas = { payload = \"b\" }\n"
                    "[stage.d]\nkind = \"recorder\"\nfile = \"x\"\ncolumns = [\"b\"]\ndepends_on = [\"b\", \"c\"]\n",
              "", "is made by `b` and by `c`");
}

#define RECORDER(NAME, FILE)                                                           \
    "[stage." NAME "]\nkind = \"recorder\"\nfile = \"" FILE "\"\ncolumns = [\"id\"]\n" \
    "depends_on = [\"a\"]\n"

Test(bad_input, a_recorder_writes_only_where_it_may)
{
    s_refuses("", CHAIN RECORDER("r", "../x"), "", "is no name of a file in the run directory");
    s_refuses("", CHAIN RECORDER("r", "/dev/null"), "", "is no name of a file in the run directory");
    s_refuses("", CHAIN RECORDER("r", "a/../../x"), "", "is no name of a file in the run directory");
    s_refuses("", CHAIN RECORDER("r", "a//x"), "", "is no name of a file in the run directory");
    s_refuses("", CHAIN RECORDER("r", "a/"), "", "is no name of a file in the run directory");
    s_refuses("", CHAIN RECORDER("r", "logs/x"), "", "is what the run itself writes");
    s_refuses("", CHAIN RECORDER("r", "metrics.jsonl"), "", "is what the run itself writes");
    s_refuses("", CHAIN RECORDER("r", "script.jsonl"), "", "is what the run itself writes");
    s_refuses("", CHAIN RECORDER("r", "topology-2.toml"), "", "is what the run itself writes");
    s_refuses("", CHAIN RECORDER("r", "x.jsonl") RECORDER("q", "x.jsonl"), "", "'x.jsonl' is what `r` writes already");
    s_refuses("", CHAIN RECORDER("r", "x"), "--set 'stage.r.columns=[\"id\", \"id\"]'", "a line has 'id' already");
}

// --- options and output -------------------------------------------------------------------------------------------

Test(bad_input, options_that_are_none_are_named_in_one_line)
{
    static const char *const wrong[][2] = { { "--stesp 5", "there is no option --stesp" },
                                            { "-xq", "there is no option -x" },
                                            { "--json=3", "--json takes no value" } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        run_t run;
        run_start(&run, CHAIN, wrong[i][0]);
        run_wait(&run, 30);
        s_ended(&run, 2, wrong[i][1]);
        cr_assert_eq(run_lines(run.said), 1, "%s", run.said);
        run_done(&run);
    }
}

// --- the machine --------------------------------------------------------------------------------------------------

Test(bad_input, devices_from_the_environment_that_are_none)
{
    static const char *const lists[] = {
        "", "nonsense", "cuda:", ",", "0,0", "-1", "99999999999999999999", "cpu:0-9999"
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char setup[100];
        snprintf(setup, sizeof setup, "export VERL_ACTOR_GPUS='%s'", lists[i]);
        s_refuses(setup, CHAIN "mesh = \"actor\"\n[mesh]\nactor = \"cpu\"\n", "",
                  "VERL_ACTOR_GPUS, which the devices of `actor`");
    }
}

Test(bad_input, few_open_files)
{
    if (SANITIZED)
        cr_skip_test("not under a sanitizer, which opens files of its own");
    s_fails("ulimit -n 24", CHAIN, "", "2 actors and their replicas need 44 open files, and this shell allows 24");
    s_works("ulimit -n 64", CHAIN, "");
    s_works("ulimit -S -n 32", CHAIN, "--set stage.b.replicas=20");
}

// Where memory ends nobody knows before; but the run works, or ends and says why. A sanitizer needs far more of it.
Test(bad_input, little_memory)
{
    if (SANITIZED)
        cr_skip_test("not under a sanitizer");
    for (int megabytes = 40; megabytes <= 160; megabytes += 20) {
        run_t run;
        char setup[100];
        snprintf(setup, sizeof setup, "ulimit -v %d", megabytes * 1000);
        run_start_after(&run, setup, CHAIN, "");
        run_wait(&run, 20);
        bool loaded = run.code != 127; // else the system could not even load it
        cr_assert(!loaded || run.code == 0 || (run.code == 1 && run_said(&run, "verl-run: ")), "exit %d at %d MB: %s",
                  run.code, megabytes, run.said);
        run_done(&run);
    }
}

Test(bad_input, small_stacks)
{
    s_works("ulimit -S -s 64", CHAIN, "");
}

Test(bad_input, files_that_may_not_grow)
{
    s_fails("ulimit -f 8", CHAIN, "--steps 1000 --set stage.a.busy_ms=0 --set stage.b.busy_ms=0", "cannot write");
}

Test(bad_input, a_full_disk)
{
    run_t run;
    char path[128];
    run_start_after(&run, "mkdir run; mount -t tmpfs -o size=48k none run 2>/dev/null", CHAIN,
                    "--steps 100000 --set stage.a.busy_ms=0 --set stage.b.busy_ms=0");
    snprintf(path, sizeof path, "%s/run", run.folder);
    struct stat inside, outside;
    usleep(300000);
    bool mounted = stat(path, &inside) == 0 && stat(run.folder, &outside) == 0 && inside.st_dev != outside.st_dev;
    if (!mounted)
        kill(run.pid, SIGKILL); // only root may mount
    run_wait(&run, 20);
    if (mounted) {
        char *metrics = run_file(&run, "metrics.jsonl"), unmount[200];
        size_t length = strlen(metrics);
        cr_assert(length > 0 && metrics[length - 1] == '\n', "half a line of metrics");
        free(metrics);
        snprintf(unmount, sizeof unmount, "umount %s", path);
        cr_assert_eq(system(unmount), 0);
        s_ended(&run, 1, "No space left on device");
    }
    run_done(&run);
}

Test(bad_input, a_run_directory_that_is_none)
{
    run_t run;
    run_start_after(&run, "echo x >file", CHAIN, "--run-dir ./file");
    run_wait(&run, 10);
    s_ended(&run, 1, "is no directory");
    run_done(&run);
    run_start_after(&run, "echo x >file", CHAIN, "--run-dir ./file/run");
    run_wait(&run, 10);
    s_ended(&run, 1, "Not a directory");
    run_done(&run);
    run_start_after(&run, "", CHAIN, "--run-dir ''");
    run_wait(&run, 10);
    s_ended(&run, 2, "--run-dir names no directory");
    run_done(&run);
}

Test(bad_input, two_runs_in_one_directory)
{
    run_t one, two;
    char arguments[200];
    run_start(&one, CHAIN, "--steps 300");
    snprintf(arguments, sizeof arguments, "--run-dir %s/run", one.folder);
    run_until_steps(&one, 3);
    run_start(&two, CHAIN, arguments);
    run_wait(&two, 10);
    s_ended(&two, 1, "holds a run already");
    run_wait(&one, 30);
    s_ended(&one, 0, "");
    char *metrics = run_file(&one, "metrics.jsonl");
    cr_assert_eq(run_lines(metrics), 300);
    free(metrics);
    run_done(&two);
    run_done(&one);
}

Test(bad_input, an_actor_program_that_is_missing_or_none)
{
    static const struct {
        const char *setup, *words;
    } cases[] = {
        { "", "No such file or directory" },
        { "echo x >bin/verl-actor;", "Permission denied" },
        { "echo x >bin/verl-actor; chmod +x bin/verl-actor;", "Exec format error" },
        { "cp /bin/true bin/verl-actor;", "ended with exit code 0" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_t run;
        char setup[400];
        snprintf(setup, sizeof setup,
                 "mkdir bin; cp %s/bin/verl-run bin; %s exec bin/verl-run --run-dir other "
                 "topology.toml >said 2>&1",
                 VERL_BINARY_DIR, cases[i].setup);
        run_start_after(&run, setup, CHAIN, "");
        run_wait(&run, 20);
        s_ended(&run, 1, cases[i].words);
        run_done(&run);
    }
}

// --- standard streams ---------------------------------------------------------------------------------------------

// The exit code of verl-run with `words`, a topology CHAIN behind them, and redirections.
static int
s_shell(const char *words, const char *redirections)
{
    char folder[] = "/tmp/verl-bad-XXXXXX", command[1000];
    cr_assert(mkdtemp(folder));
    snprintf(command, sizeof command,
             "cd %s && printf '%%s' '%s' >t.toml && %s/bin/verl-run --run-dir run %s t.toml %s; "
             "code=$?; cd /; rm -r %s; exit $code",
             folder, CHAIN, VERL_BINARY_DIR, words, redirections, folder);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(bad_input, closed_streams_do_not_stop_a_run)
{
    cr_assert_eq(s_shell("", "<&- >&- 2>&-"), 0);
    cr_assert_eq(s_shell("--quiet", ">&-"), 0);
    cr_assert_eq(s_shell("--json", "<&- >/dev/null 2>&-"), 0);
    cr_assert_eq(s_shell("--steps 50", "| head -n 1 >/dev/null"), 0);
    cr_assert_eq(s_shell("", ">&- && ! grep \"steps done\" run/lock run/run.log run/metrics.jsonl"), 0);
}

Test(bad_input, an_answer_that_does_not_arrive_is_a_failure)
{
    cr_assert_eq(s_shell("--check", ">/dev/full 2>/dev/null"), 1);
    cr_assert_eq(s_shell("--plan", ">/dev/full 2>/dev/null"), 1);
    cr_assert_eq(s_shell("--kinds", ">/dev/full 2>/dev/null"), 1);
    cr_assert_eq(s_shell("--json", ">/dev/full 2>/dev/null"), 1);
    cr_assert_eq(s_shell("--check", ">&- 2>/dev/null"), 1);
}
