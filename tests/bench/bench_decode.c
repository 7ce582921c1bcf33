// Decoding one row on CPU in f32, with the shape of SmolLM2-135M: tokens a second, beside what reading every weight
// once a token would allow at the rate at which this machine reads that very memory, and beside PyTorch.
#include <omp.h>
#include <stdlib.h>
#include "tests/bench/bench.h"
#include "tests/bench/llama.h"

#define TURNS  7
#define LAYERS 30
#define VOCAB  49152
#define PROMPT 16
#define TOKENS 16

typedef struct times {
    double first, last;                     // when a token was there
    int64_t tokens;                         // at `last`
} times_t;

static int
s_on_token(void *context, int64_t tokens, int64_t rows)
{
    times_t *times = context;
    (void) rows;
    times->last = verl_bench_now();
    times->tokens = tokens;
    if (tokens == 1)
        times->first = times->last;
    return 0;
}

// Seconds a token, the prompt aside.
static int
s_ours(const verl_bench_llama_t *llama, double *ret_seconds, verl_error_t *error)
{
    int32_t prompt[PROMPT], ids[TOKENS];
    int64_t offsets[2] = { 0, PROMPT }, length;
    uint64_t key = 7;
    char text[256] = "";
    times_t times = { 0 };
    verl_bench_llama_tokens(llama, prompt, PROMPT);
    verl_lm_prompts_t prompts = { prompt, offsets, 1 };
    verl_lm_generated_t generated = { .ids = ids, .lengths = &length };
    verl_lm_generate_options_t options = { .samples = 1, .max_new_tokens = TOKENS, .temperature = 0, .top_p = 1,
                                           .progress = s_on_token, .context = &times };
    if (verl_lm_generate(llama->lm, &prompts, &options, &key, &generated, text, sizeof text))
        return verl_error_set(error, "decoding failed: %s", text);
    if (times.tokens != TOKENS)
        return verl_error_set(error, "%lld tokens were decoded, not %d", (long long) times.tokens, TOKENS);
    *ret_seconds = (times.last - times.first) / (TOKENS - 1);
    return 0;
}

// Reads bytes [begin, end) in several streams at once, which is faster than one from end to end.
static uint64_t
s_read_part(const char *begin, const char *end)
{
    typedef uint64_t lanes_t __attribute__((vector_size(16)));
    enum { STREAMS = 4, LINE = 4 };         // lanes of a line
    int64_t lines = (end - begin) / (64 * STREAMS);
    const lanes_t *from = (const lanes_t *) (const void *) begin;
    lanes_t sums[LINE] = { 0 };
    for (int64_t i = 0; i < lines; i++)
        for (int stream = 0; stream < STREAMS; stream++) {
            const lanes_t *line = from + (stream * lines + i) * LINE;
            #pragma GCC unroll 4
            for (int k = 0; k < LINE; k++)
                sums[k] ^= line[k];
        }
    lanes_t sum = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
    return sum[0] ^ sum[1];
}

// Reads all weights as often as a turn of decoding does, with all processors: seconds of one reading.
static uint64_t
s_read(const verl_bench_llama_t *llama, double *ret_seconds)
{
    const char *bytes = (const char *) llama->params;
    int64_t lines = llama->layout.total * (int64_t) sizeof(float) / 64, parts = omp_get_num_procs();
    uint64_t all = 0;
    double begin = verl_bench_now();
    for (int time = 1; time < TOKENS; time++) {
        #pragma omp parallel for num_threads(parts) schedule(static) reduction(^ : all)
        for (int64_t part = 0; part < parts; part++)
            all ^= s_read_part(bytes + lines * part / parts * 64, bytes + lines * (part + 1) / parts * 64);
    }
    *ret_seconds = (verl_bench_now() - begin) / (TOKENS - 1);
    return all;
}

static int
s_measure(const verl_bench_llama_t *llama, verl_bench_peer_t *torch, double (*seconds)[TURNS], verl_error_t *error)
{
    volatile uint64_t kept;                  // or the reading would be left out
    double first[3];
    for (int i = -1; i < TURNS; i++) {
        double *to[3];
        for (int k = 0; k < 3; k++)
            to[k] = i < 0 ? &first[k] : &seconds[k][i];
        if (s_ours(llama, to[0], error))
            return -1;
        kept = s_read(llama, to[1]);
        (void) kept;
        if (torch->pid && verl_bench_peer_ask(torch, "decode", to[2], error))
            return -1;
    }
    return 0;
}

static int
s_decode(verl_bench_run_t *run, verl_error_t *error)
{
    verl_bench_llama_t llama;
    verl_bench_peer_t torch = { 0 };
    double seconds[3][TURNS];
    int rc = verl_bench_llama_init(&llama, LAYERS, VOCAB, error);
    if (rc == 0) {
        verl_bench_llama_peer(&llama, &torch, "decode.torch", 1, 1, PROMPT, TOKENS);
        rc = s_measure(&llama, &torch, seconds, error);
    }
    if (rc == 0) {
        double ours = 1 / verl_bench_median(seconds[0], TURNS);
        verl_bench_report(run, "weights", ours, "tokens/s", "reading every weight once a token",
                          1 / verl_bench_median(seconds[1], TURNS));
        if (torch.pid)
            verl_bench_report(run, "torch", ours, "tokens/s", verl_bench_llama_peer_name(&torch),
                              1 / verl_bench_median(seconds[2], TURNS));
    }
    verl_bench_peer_end(&torch);
    verl_bench_llama_done(&llama);
    return rc;
}

VERL_BENCH(decode, "decoding one row reaches 0.7 of what reading the weights once a token allows", s_decode)
