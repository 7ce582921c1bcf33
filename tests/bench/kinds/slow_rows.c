// slow_rows.c: takes so many milliseconds for each row that it is given, asleep, and gives it on.
#include <time.h>
#include <verl.h>

typedef struct {
    double ms;
} slow_rows_t;

static const verl_option_t s_options[] = {
    VERL_REAL(slow_rows_t, ms, 1, 0, 1e6, "ms", "time that a row takes"),
    VERL_OPTIONS_END
};

static int
s_work(verl_stage_t *stage, const verl_batch_t *in, verl_batch_t *out)
{
    const slow_rows_t *self = verl_stage_options(stage);
    float *payload = verl_batch_add_f32(out, "payload");
    double ms = self->ms * (double) verl_batch_rows(in);
    if (!payload)
        return -1;
    for (int64_t row = 0; row < verl_batch_rows(in); row++)
        payload[row] = (float) (verl_batch_first_row(in) + row);
    time_t seconds = (time_t) (ms / 1000);
    struct timespec time = { .tv_sec = seconds, .tv_nsec = (long) ((ms - 1000 * (double) seconds) * 1e6) };
    nanosleep(&time, NULL);
    return 0;
}

VERL_KIND(slow_rows,
    .about  = "takes a given time a row",
    .stages = { { "work", s_work, .about = "works on rows", .options_size = sizeof(slow_rows_t), .options = s_options,
                  .needs = { "payload" }, .gives = { "payload:f32[n]" }, .by_row = true } })
