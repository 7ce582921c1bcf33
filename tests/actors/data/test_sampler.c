// Batches of record numbers: coverage, epoch borders, ends, and what is refused.
#include <criterion/criterion.h>
#include <string.h>

#include "actors/data/sampler.h"

Test(sampler, in_order_without_shuffle)
{
    verl_sampler_t sampler = { .records = 5, .rows = 2, .epochs = 2 };
    int64_t expected[] = { 0, 1, 2, 3, 4, 0, 1, 2, 3, 4 }, epoch = -1;
    cr_assert_eq(verl_sampler_batches(&sampler), 5);
    for (int64_t i = 0; i < 10; i++) {
        cr_assert_eq(verl_sampler_record(&sampler, i / 2, i % 2, &epoch), expected[i]);
        cr_assert_eq(epoch, i / 5);
    }
}

Test(sampler, a_shuffled_epoch_has_each_record_once)
{
    verl_sampler_t sampler = { .records = 97, .rows = 8, .seed = 7, .shuffle = true };
    int seen[3][97] = { { 0 } };
    for (int64_t id = 0; id * 8 < 3 * 97; id++)
        for (int64_t row = 0; row < 8; row++) {
            int64_t epoch, record = verl_sampler_record(&sampler, id, row, &epoch);
            if (epoch < 3)
                seen[epoch][record]++;
        }
    for (int epoch = 0; epoch < 3; epoch++)
        for (int i = 0; i < 97; i++)
            cr_assert_eq(seen[epoch][i], 1, "record %d came %d times in epoch %d", i, seen[epoch][i], epoch);
}

Test(sampler, the_last_batch_is_short_and_nothing_follows)
{
    verl_sampler_t sampler = { .records = 5, .rows = 3, .epochs = 1, .seed = 1, .shuffle = true };
    cr_assert_eq(verl_sampler_batches(&sampler), 2);
    cr_assert_eq(verl_sampler_rows(&sampler, 0), 3);
    cr_assert_eq(verl_sampler_rows(&sampler, 1), 2);
    cr_assert_eq(verl_sampler_rows(&sampler, 2), 0);
    cr_assert_eq(verl_sampler_rows(&sampler, -1), 0);
    cr_assert_eq(verl_sampler_record(&sampler, 1, 2, NULL), -1);
    cr_assert_eq(verl_sampler_record(&sampler, 0, -1, NULL), -1);
}

Test(sampler, drop_last_keeps_epochs_apart)
{
    verl_sampler_t sampler = { .records = 10, .rows = 4, .epochs = 3, .seed = 1, .shuffle = true, .drop_last = true };
    cr_assert_eq(verl_sampler_batches(&sampler), 6);
    for (int64_t id = 0; id < 6; id++)
        for (int64_t row = 0; row < 4; row++) {
            int64_t epoch, record = verl_sampler_record(&sampler, id, row, &epoch);
            cr_assert_eq(epoch, id / 2);
            cr_assert(record >= 0 && record < 10);
        }
}

Test(sampler, a_batch_larger_than_the_data_spans_epochs)
{
    verl_sampler_t sampler = { .records = 2, .rows = 5 };
    int64_t expected[] = { 0, 1, 0, 1, 0 };
    for (int64_t row = 0; row < 5; row++)
        cr_assert_eq(verl_sampler_record(&sampler, 0, row, NULL), expected[row]);
}

Test(sampler, seeds_and_epochs_give_other_orders)
{
    verl_sampler_t one = { .records = 1000, .rows = 1000, .seed = 1, .shuffle = true }, two = one;
    two.seed = 2;
    int same_seed = 0, same_epoch = 0;
    for (int64_t row = 0; row < 1000; row++) {
        same_seed += verl_sampler_record(&one, 0, row, NULL) == verl_sampler_record(&two, 0, row, NULL);
        same_epoch += verl_sampler_record(&one, 0, row, NULL) == verl_sampler_record(&one, 1, row, NULL);
    }
    cr_assert_lt(same_seed, 10);
    cr_assert_lt(same_epoch, 10);
}

Test(sampler, ids_far_out_do_not_overflow)
{
    verl_sampler_t sampler = { .records = 10, .rows = 1 << 20, .seed = 1, .shuffle = true };
    int64_t record = verl_sampler_record(&sampler, (int64_t) 1 << 42, 7, NULL);
    cr_assert(record >= 0 && record < 10);
    cr_assert_eq(verl_sampler_record(&sampler, INT64_MAX - 1, 0, NULL), -1);
}

static void
s_check_refused(verl_sampler_t sampler, const char *word)
{
    char error[256] = "";
    cr_assert_eq(verl_sampler_check(&sampler, error, sizeof error), -1);
    cr_assert(strstr(error, word), "\"%s\" does not say \"%s\"", error, word);
}

Test(sampler, what_makes_no_sense_is_refused)
{
    char error[256] = "";
    cr_assert_eq(verl_sampler_check(&(verl_sampler_t){ .records = 1, .rows = 1 }, error, sizeof error), 0);
    s_check_refused((verl_sampler_t){ .records = 0, .rows = 1 }, "no records");
    s_check_refused((verl_sampler_t){ .records = 1, .rows = 0 }, "rows is 0");
    s_check_refused((verl_sampler_t){ .records = 1, .rows = 1, .epochs = -1 }, "epochs is -1");
    s_check_refused((verl_sampler_t){ .records = 3, .rows = 4, .drop_last = true }, "drop_last");
    s_check_refused((verl_sampler_t){ .records = 3, .rows = 4, .epochs = INT64_MAX }, "epochs");
}
