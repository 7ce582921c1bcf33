// verl-spy top: what it says of a live run, for people and for programs.
#include "tests/tools/views.h"
#include <math.h>

static const char s_endless[] =
    "[run]\nname = \"endless\"\nsteps = 1000000\n[stage.a]\nkind = \"synthetic\"\nbusy_ms = 5\n"
    "[stage.b]\nkind = \"synthetic\"\nbusy_ms = 10\nreplicas = 2\ndepends_on = [\"a\"]\nreads = [\"id\"]\n"
    "[stage.c]\nkind = \"synthetic\"\nbusy_ms = 2\ndepends_on = [\"b\"]\nreads = [\"id\"]\n";

static double
s_sum(const json_t *shares)
{
    const char *key;
    json_t *value;
    double sum = 0;
    json_object_foreach((json_t *) (uintptr_t) shares, key, value)
        sum += json_number_value(value);
    return sum;
}

Test(top, says_what_stages_and_actors_do)
{
    run_t run;
    run_start(&run, s_endless, "");
    run_until_steps(&run, 50);
    json_t *status = show_json(&run, "top --once --run run --json");
    cr_expect_str_eq(text(status, "run"), "endless");
    cr_expect_str_eq(text(status, "phase"), "running");
    cr_expect_geq(number(status, "done"), 50);
    cr_expect_leq(number(status, "done"), number(status, "granted") + 1);
    cr_expect_eq(json_array_size(json_object_get(status, "stages")), 3);
    cr_expect_eq(json_array_size(json_object_get(status, "actors")), 4);
    for (size_t i = 0; i < 3; i++) {
        const json_t *stage = json_array_get(json_object_get(status, "stages"), i);
        cr_expect_float_eq(s_sum(json_object_get(stage, "shares")), 1, 1e-6);
        cr_expect_geq(number(stage, "done"), 50);
    }
    for (size_t i = 0; i < 4; i++) {
        const json_t *actor = json_array_get(json_object_get(status, "actors"), i);
        cr_expect_gt(number(actor, "memory"), 1 << 20);
        cr_expect_eq(kill((pid_t) number(actor, "pid"), 0), 0);
    }
    json_decref(status);
    run_cut(&run);
}

Test(top, is_a_plain_table_where_there_is_no_terminal)
{
    run_t run;
    run_start(&run, s_endless, "");
    run_until_steps(&run, 20);
    shown_t shown = show(&run, "top --run run");
    cr_expect_eq(shown.code, 0, "%s", shown.said);
    cr_expect(strstr(shown.out, "\nstage") && strstr(shown.out, "\nactor") && strstr(shown.out, "\nb ") &&
              strstr(shown.out, "b.1#"), "%s", shown.out);
    cr_expect_null(strchr(shown.out, '\x1b'));
    shown_done(&shown);
    run_cut(&run);
}

// It says what it is, and never hello.
Test(top, has_the_process_of_an_actor_that_is_a_program_not_its_guards)
{
    run_t run;
    char path[128], cell[32], name[16] = "";
    double pid = 0, program = 0;
    run_start_after(&run,
                    "echo '{\"protocol\": 1, \"keeps_state\": false, \"stages\": [{\"name\": \"b\", \"needs\": [], "
                    "\"gives\": []}]}' >said.json; "
                    "printf '%s\\n' '[ \"$VERL_DESCRIBE\" ] || exec sleep 100' 'cat said.json' >b.sh\n",
                    "[run]\nsteps = 5\n[stage.a]\nkind = \"synthetic\"\n[stage.b]\nkind = \"command\"\n"
                    "command = [\"sh\", \"b.sh\"]\ndepends_on = [\"a\"]\nliveness = 60\n", "");
    snprintf(path, sizeof path, "%s/run/control.json", run.folder);
    for (int64_t limit = verl_now() + 20 * SLOWER * VERL_S; !program && verl_now() < limit; usleep(20000)) {
        json_t *status = access(path, F_OK) == 0 ? show_json(&run, "top --once --run run --json") : NULL;
        const json_t *actor = status ? named(status, "actors", "b") : NULL;
        pid = actor ? number(actor, "pid") : 0;
        program = json_number_value(json_object_get(actor, "program"));
        json_decref(status);
    }
    cr_assert(program && program != pid, "%.0f %.0f", program, pid);
    snprintf(path, sizeof path, "/proc/%.0f/comm", program);
    FILE *file = fopen(path, "re");
    cr_assert(file && fgets(name, sizeof name, file) && fclose(file) == 0);
    cr_expect(strncmp(name, "sh", 2) == 0 || strncmp(name, "sleep", 5) == 0, "%s", name);
    shown_t shown = show(&run, "top --run run");
    snprintf(cell, sizeof cell, " %.0f  ", program);
    cr_expect(strstr(shown.out, cell), "%s: %s", cell, shown.out);
    shown_done(&shown);
    run_cut(&run);
}

// On a terminal of its own (by script(1) of util-linux), which it leaves as it was.
Test(top, draws_over_itself_on_a_terminal_and_ends_with_its_time)
{
    run_t run;
    char command[600];
    run_start(&run, s_endless, "");
    run_until_steps(&run, 20);
    snprintf(command, sizeof command,
             "cd %s && TERM=xterm timeout 60 script -qec '%s/bin/verl-spy top --run run --every 0.1 "
             "--timeout 1' shown.tty >/dev/null 2>&1 </dev/null",
             run.folder, VERL_BINARY_DIR);
    cr_assert_eq(system(command), 0);
    char *drawn = s_shown_file(&run, "shown.tty");
    int frames = 0;
    for (const char *at = drawn; (at = strstr(at, "\x1b[H")); at++)
        frames++;
    cr_expect_geq(frames, 2, "%d frames", frames);
    cr_expect(strstr(drawn, "\x1b[?1049h") && strstr(drawn, "\x1b[?1049l") && strstr(drawn, "endless"));
    free(drawn);
    run_cut(&run);
}

Test(top, names_who_paused_an_actor)
{
    run_t run;
    char command[400];
    run_start(&run, s_endless, "");
    run_until_steps(&run, 20);
    snprintf(command, sizeof command, "cd %s && %s/bin/verl-inject --run run pause c >/dev/null 2>&1", run.folder,
             VERL_BINARY_DIR);
    cr_assert_eq(system(command), 0);
    json_t *status = show_json(&run, "top --once --run run --json"), *actors = json_object_get(status, "actors");
    const json_t *paused = json_object_get(named(status, "actors", "c"), "paused");
    cr_assert(paused);
    cr_expect(*text(paused, "who"));
    cr_expect_geq(number(paused, "seconds"), 0);
    for (size_t i = 0; i < json_array_size(actors); i++)
        if (strcmp(text(json_array_get(actors, i), "name"), "c") != 0)
            cr_expect_null(json_object_get(json_array_get(actors, i), "paused"));
    json_decref(status);
    run_cut(&run);
}

static const char s_held_up[] =
    "[run]\nname = \"held-up\"\nsteps = 1000000\nmax_in_flight = 20\nmax_bytes = 3000000\n"
    "[stage.a]\nkind = \"synthetic\"\nrows = 1\nbytes = 400000\nbusy_ms = 1\n"
    "[stage.c]\nkind = \"synthetic\"\ndepends_on = [\"a\"]\nreads = [\"payload\"]\n";

// Looks until a stage waits for this, at most 30 s. Owned by the caller.
static json_t *
s_until_waits(const run_t *run, const char *stage, const char *what)
{
    int64_t limit = verl_now() + 30 * SLOWER * VERL_S;
    while (true) {
        json_t *status = show_json(run, "top --once --run run --json");
        const char *waits = json_string_value(json_object_get(named(status, "stages", stage), "waits"));
        if (waits && strcmp(waits, what) == 0)
            return status;
        json_decref(status);
        cr_assert_lt(verl_now(), limit, "%s waits for %s within 30 s", stage, what);
    }
}

// Who is held up by its readers is told from who has nothing to do.
Test(top, a_blocked_stage_is_told_from_a_waiting_one, .timeout = 120)
{
    run_t run;
    char command[400];
    run_start(&run, s_held_up, "");
    run_until_steps(&run, 20);
    json_t *status = s_until_waits(&run, "c", "data");
    cr_expect_gt(number(named(status, "stages", "a"), "credit"), 0);
    cr_expect(json_is_null(json_object_get(named(status, "stages", "c"), "credit")), "nobody reads what it gives");
    json_decref(status);
    snprintf(command, sizeof command, "cd %s && %s/bin/verl-inject --run run pause c >/dev/null 2>&1", run.folder,
             VERL_BINARY_DIR);
    cr_assert_eq(system(command), 0);
    status = s_until_waits(&run, "a", "room");
    cr_expect_lt(number(named(status, "stages", "a"), "credit"), 64, "its reader takes no more");
    json_decref(status);
    shown_t shown = show(&run, "top --run run");
    cr_expect(strstr(shown.out, "\na      full "), "%s", shown.out);
    shown_done(&shown);
    run_cut(&run);
}

Test(top, ends_with_a_sentence_where_there_is_no_run_or_a_wrong_word)
{
    run_t run;
    run_whole(&run, "[run]\nname = \"short\"\nsteps = 2\n[stage.a]\nkind = \"synthetic\"\n", "");
    shown_t shown = show(&run, "top --run run");
    cr_expect_eq(shown.code, 1);
    cr_expect(strlen(shown.said) > 20 && !*shown.out, "%s", shown.said);
    shown_done(&shown);
    const char *const wrong[] = { "top twice", "top --every 0", "top --every", "top --every x" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        shown = show(&run, wrong[i]);
        cr_expect_eq(shown.code, 2, "%s", wrong[i]);
        shown_done(&shown);
    }
    run_done(&run);
}
