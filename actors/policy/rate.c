// rate.c: the learning rate of one optimizer step.
//
// Warm-up and total_steps count the actor's optimizer steps, which a checkpoint has. A schedule of the whole run goes
// by the share that is done of the batches of its stage: nobody knows how many steps the batches to come will have.
#include "actors/policy/policy.h"

#define S_EXACT 9007199254740992.0          // integers of a double end to be exact here

// What of the schedule behind warm-up is done, `step` optimizer steps after the start. If the batches to come have as
// many steps as those so far, the run has step / share of them, and (step - warmup) / (step / share - warmup) is done.
// That is the share itself where there is no warm-up, and goes from 0 to 1 whatever batches have. Both sides of the
// fraction are whole numbers here, so that it is exact.
static void
s_follow_run(verl_schedule_t *schedule, const verl_policy_place_t *place, int64_t *step)
{
    double steps = *step > 0 ? (double) *step : 1, warmup = (double) schedule->warmup;
    double done = ((double) place->batch * (double) place->passes + (double) place->pass) * (double) place->groups +
                  (double) place->turn;
    double whole = (double) place->batches * (double) place->passes * (double) place->groups;
    double length = steps * whole - warmup * done, behind = done * (steps - warmup);
    double scale = length > S_EXACT ? S_EXACT / length : 1;
    schedule->warmup = 0;
    schedule->total = (int64_t) (length * scale);
    *step = (int64_t) (behind * scale);
}

double
verl_policy_rate(const verl_policy_update_t *options, int64_t step, const verl_policy_place_t *place)
{
    verl_schedule_t schedule = { .type = (verl_schedule_type_t) options->schedule, .warmup = options->warmup_steps,
                                 .total = options->total_steps, .min_ratio = options->min_lr_ratio };
    if (options->total_steps == 0 && step >= options->warmup_steps)
        s_follow_run(&schedule, place, &step);
    return options->lr * verl_schedule_factor(&schedule, step);
}
