// schedule.c: factors on the learning rate.
#include <math.h>
#include "actors/lm/optimizer.h"

double
verl_schedule_factor(const verl_schedule_t *schedule, int64_t step)
{
    if (step < schedule->warmup)
        return (double) step / (double) (schedule->warmup > 1 ? schedule->warmup : 1);
    if (schedule->type == VERL_SCHEDULE_CONSTANT)
        return 1;
    int64_t length = schedule->total - schedule->warmup;
    double progress = length > 0 ? (double) (step - schedule->warmup) / (double) length : 1;
    progress = progress > 1 ? 1 : progress;
    double left = schedule->type == VERL_SCHEDULE_LINEAR ? 1 - progress : 0.5 * (1 + cos(M_PI * progress));
    return schedule->min_ratio + (1 - schedule->min_ratio) * left;
}
