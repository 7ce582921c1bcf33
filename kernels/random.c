// random.c: counter-based random numbers, a function of (key, index) alone.
#include <math.h>
#include "kernels/sampling.h"

// Ten rounds of Philox on the counter (index, 0) under key.
static void
s_philox(uint64_t key, uint64_t index, uint32_t out[4])
{
    uint32_t c[4] = { (uint32_t) index, (uint32_t) (index >> 32), 0, 0 };
    uint32_t k0 = (uint32_t) key, k1 = (uint32_t) (key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t) 0xD2511F53u * c[0], p1 = (uint64_t) 0xCD9E8D57u * c[2];
        uint32_t next[4] = { (uint32_t) (p1 >> 32) ^ c[1] ^ k0, (uint32_t) p1, (uint32_t) (p0 >> 32) ^ c[3] ^ k1,
                             (uint32_t) p0 };
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

static double
s_uniform(uint32_t high, uint32_t low)
{
    return (double) (((uint64_t) high << 32 | low) >> 11) * 0x1p-53;
}

double
verl_keyed_uniform(uint64_t key, uint64_t index)
{
    uint32_t r[4];
    s_philox(key, index, r);
    return s_uniform(r[0], r[1]);
}

void
verl_keyed_normal(uint64_t key, uint64_t index, double ret_pair[2])
{
    uint32_t r[4];
    s_philox(key, index, r);
    double radius = sqrt(-2 * log(1 - s_uniform(r[0], r[1]))), angle = 2 * M_PI * s_uniform(r[2], r[3]);
    ret_pair[0] = radius * cos(angle);
    ret_pair[1] = radius * sin(angle);
}
