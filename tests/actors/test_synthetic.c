// test_synthetic.c: cost, content and misbehaviour of the synthetic stage.
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "actors/data/random.h"
#include "rig.h"

static double
s_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e3 + (double) now.tv_nsec / 1e6;
}

static double
s_took(rig_t *rig, int64_t batch)
{
    double begin = s_ms();
    cr_assert_eq(rig_run(rig, NULL, batch), 0, "%s", rig->failure);
    return s_ms() - begin;
}

Test(synthetic, a_source_makes_rows_ids_and_a_payload_that_can_be_checked)
{
    rig_t rig;
    rig_open(&rig, "synthetic", "work", "source", "", "rows = 3\nbytes = 20", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 4), 0, "%s", rig.failure);
    cr_assert_eq(verl_batch_rows(rig.out), 3);
    const verl_column_t *payload = verl_batch_column(rig.out, "payload"), *id = verl_batch_column(rig.out, "id");
    cr_assert_eq(payload->width, 20);
    for (int64_t row = 0; row < 3; row++) {
        verl_random_t stream = verl_random_stream(rig.stage.seed, NULL, 4, row);
        uint64_t head = verl_random_u64(&stream);
        const uint8_t *bytes = verl_column_u8(payload, row);
        cr_assert_eq(memcmp(bytes, &head, 8), 0);
        for (int i = 8; i < 20; i++)
            cr_assert_eq(bytes[i], bytes[0]);
        cr_assert_eq(*verl_column_i64(id, row), 12 + row);
    }
    rig_close(&rig);
}

Test(synthetic, a_stage_with_input_keeps_its_rows_and_names_none)
{
    rig_t rig;
    rig_open(&rig, "synthetic", "work", "left", "", "rows = 3", NULL);
    verl_batch_t *in = verl_batch_new_given(1, 5, 10);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    cr_assert_eq(verl_batch_rows(rig.out), 5);
    cr_assert_null(verl_batch_column(rig.out, "id"));
    verl_random_t stream = verl_random_stream(rig.stage.seed, NULL, 1, 12);
    uint64_t head = verl_random_u64(&stream);
    cr_assert_eq(memcmp(verl_column_u8(verl_batch_column(rig.out, "payload"), 2), &head, 8), 0);
    verl_batch_destroy(&in);
    rig_close(&rig);
}

// Only what is too short is wrong: how long a busy machine takes is not the actor's doing.
Test(synthetic, takes_the_time_that_it_was_given)
{
    rig_t rig;
    rig_open(&rig, "synthetic", "work", "source", "", "busy_ms = 120", NULL);
    cr_assert_geq(s_took(&rig, 0), 120);
    rig_close(&rig);
    rig_open(&rig, "synthetic", "work", "source", "", "busy_ms = 30\nmode = \"spin\"", NULL);
    cr_assert_geq(s_took(&rig, 0), 30);
    rig_close(&rig);
}

Test(synthetic, takes_the_jitter_that_its_stream_says)
{
    rig_t rig;
    rig_open(&rig, "synthetic", "work", "source", "", "busy_ms = 5\njitter_ms = 80", NULL);
    for (int batch = 0; batch < 4; batch++) {
        verl_random_t stream = verl_random_stream(rig.stage.seed, "jitter", batch, 0);
        cr_assert_geq(s_took(&rig, batch), 5 + 80 * verl_random_uniform(&stream));
    }
    rig_close(&rig);
}

Test(synthetic, a_stop_is_heard_while_it_sleeps)
{
    static const atomic_bool stopping = true;
    rig_t rig;
    rig_open(&rig, "synthetic", "work", "source", "", "busy_ms = 5000", NULL);
    rig.stage.stopping = &stopping;
    double begin = s_ms();
    cr_assert_eq(rig_run(&rig, NULL, 0), -1);
    cr_assert(s_ms() - begin < 500);
    rig_close(&rig);
}

Test(synthetic, fails_at_the_batch_that_was_named)
{
    rig_t rig;
    rig_open(&rig, "synthetic", "work", "source", "", "fail_at = 2", NULL);
    cr_assert_eq(rig_run(&rig, NULL, 1), 0);
    cr_assert_eq(rig_run(&rig, NULL, 2), -1);
    cr_assert(strstr(rig.failure, "fail_at"), "%s", rig.failure);
    rig_close(&rig);
}

static int
s_end_of(const char *options)
{
    pid_t pid = fork();
    if (pid == 0) {
        rig_t rig;
        alarm(1);
        signal(SIGALRM, SIG_DFL);
        rig_open(&rig, "synthetic", "work", "source", "", options, NULL);
        rig_run(&rig, NULL, 1);
        _exit(0);
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

Test(synthetic, dies_or_hangs_at_the_batch_that_was_named)
{
    cr_assert_eq(s_end_of("crash_at = 1"), SIGSEGV);
    cr_assert_eq(s_end_of("hang_at = 1"), SIGALRM);
    cr_assert_eq(s_end_of("hang_at = 2"), 0);
}

static int         s_loads;
static double      s_load_seconds;
static char        s_load_name[16];

static void
s_on_loaded(void *context, const verl_stage_t *stage, const char *what, double seconds)
{
    (void) context;
    (void) stage;
    s_loads++;
    s_load_seconds += seconds;
    snprintf(s_load_name, sizeof s_load_name, "%s", what);
}

Test(synthetic, loads_once_before_its_first_batch_or_for_each_and_says_so)
{
    rig_t rig;
    rig_open(&rig, "synthetic", "work", "source", "", "load_ms = 20\nload = \"batch\"\nloads = \"table\"", NULL);
    rig.stage.reporter.loaded = s_on_loaded;
    for (int batch = 0; batch < 3; batch++)
        cr_assert_eq(rig_run(&rig, NULL, batch), 0, "%s", rig.failure);
    cr_expect_eq(s_loads, 3);
    cr_expect_geq(s_load_seconds, 0.06);
    cr_expect_str_eq(s_load_name, "table");
    rig_close(&rig);
    rig_open(&rig, "synthetic", "work", "source", "", "load_ms = 20", NULL);
    rig.stage.reporter.loaded = s_on_loaded;
    s_loads = 0;
    cr_assert_eq(rig.stage.handler->begin(&rig.stage), 0);
    cr_assert_eq(rig_run(&rig, NULL, 0), 0, "%s", rig.failure);
    cr_expect_eq(s_loads, 1);
    rig_close(&rig);
}

Test(synthetic, copies_columns_of_bytes_and_refuses_others)
{
    rig_t rig, source;
    rig_open(&source, "synthetic", "work", "source", "", "rows = 3\nbytes = 1000", NULL);
    cr_assert_eq(rig_run(&source, NULL, 0), 0, "%s", source.failure);
    verl_batch_t *in = verl_batch_new_given(0, 3, 0);
    const verl_column_t *payload = verl_batch_column(source.out, "payload");
    cr_assert_eq(verl_batch_put(in, "images", payload, NULL, NULL, 0, 0, NULL), 0);
    cr_assert_eq(verl_batch_put(in, "id", verl_batch_column(source.out, "id"), NULL, NULL, 0, 0, NULL), 0);
    rig_open(&rig, "synthetic", "work", "copier", "", "copies = [\"images\"]", NULL);
    cr_assert_eq(rig_run(&rig, in, 0), 0, "%s", rig.failure);
    const verl_column_t *copy = verl_batch_column(rig.out, "images");
    cr_assert(copy && copy->ragged);
    for (int64_t row = 0; row < 3; row++) {
        cr_expect_eq(verl_column_length(copy, row), 1000);
        cr_expect_eq(memcmp(verl_column_at(copy, row), verl_column_at(payload, row), 1000), 0);
    }
    cr_expect_gt(rig.stage.moved, 0);
    rig_close(&rig);
    rig_open(&rig, "synthetic", "work", "copier", "", "copies = [\"id\"]", NULL);
    cr_expect_neq(rig_run(&rig, in, 0), 0);
    cr_expect(strstr(rig.failure, "u8 would be right"), "%s", rig.failure);
    rig_close(&rig);
    verl_batch_destroy(&in);
    rig_close(&source);
}
