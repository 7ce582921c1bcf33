// An arena and the node in one process: blocks, growth, flat memory, views that are read-only, limits that are
// explained.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "runtime/bulk/arena.h"
#include "runtime/bulk/server.h"
#include "runtime/tensor/batch.h"

#define MIB ((uint64_t) 1 << 20)

static verl_bulk_server_t *s_server;

static void
s_setup(void)
{
    s_server = verl_bulk_server_new(1024 * MIB, NULL);
    cr_assert(s_server);
}

static void
s_teardown(void)
{
    verl_bulk_server_destroy(&s_server);
}

TestSuite(arena, .init = s_setup, .fini = s_teardown);

static verl_arena_t *
s_arena(uint64_t incarnation)
{
    verl_error_t error = {0};
    verl_arena_t *arena = verl_arena_new(verl_bulk_server_add(s_server, incarnation, &error), &error);
    cr_assert(arena, "%s", error.text);
    return arena;
}

static verl_block_t
s_take(verl_arena_t *arena, size_t bytes)
{
    verl_block_t block;
    verl_error_t error = {0};
    cr_assert_eq(verl_arena_take(arena, bytes, &block, &error), 0, "%s", error.text);
    cr_assert(block.bytes >= bytes && block.slab > 0 && (uintptr_t) block.data % VERL_BLOCK_ALIGN == 0);
    return block;
}

static double
s_ns(struct timespec from)
{
    struct timespec to;
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (double) (to.tv_sec - from.tv_sec) * 1e9 + (double) (to.tv_nsec - from.tv_nsec);
}

Test(arena, takes_no_slab_before_it_needs_one)
{
    verl_arena_t *arena = s_arena(1);
    cr_assert_eq(verl_bulk_server_bytes(s_server), 0);
    verl_block_t a = s_take(arena, 1), b = s_take(arena, 5 * MIB), c = s_take(arena, 9 * MIB), d = s_take(arena, 1);
    cr_assert_eq(verl_bulk_server_bytes(s_server), (4 + 8 + 16) * MIB);
    cr_assert_eq(d.slab, a.slab, "the lowest slab with room");
    cr_assert(a.slab < b.slab && b.slab < c.slab);
    cr_assert_eq(verl_arena_live_bytes(arena), 2 * 64 + 14 * MIB);
    verl_block_t large = s_take(arena, 300 * MIB + 1);
    cr_assert_eq(verl_bulk_server_bytes(s_server), (4 + 8 + 16 + 302) * MIB, "as much as one block needs, in 2 MiB");
    verl_arena_give(arena, &large);
    verl_arena_give(arena, &a);
    verl_arena_give(arena, &a);             // given already
    verl_arena_give(arena, &(verl_block_t) {.slab = 99});
    cr_assert_eq(verl_arena_live_bytes(arena), 64 + 14 * MIB);
    cr_assert_eq(s_take(arena, 64).offset, 0);
    verl_arena_destroy(&arena);
    verl_arena_destroy(&arena);
}

Test(arena, memory_stays_flat_over_thousands_of_blocks)
{
    verl_arena_t *arena = s_arena(1);
    verl_block_t live[4] = {{0}};
    uint64_t most = 0;
    for (int i = 0; i < 5000; i++) {
        verl_block_t *block = &live[(i * 7 + i / 3) % 4];
        if (block->data)
            verl_arena_give(arena, block);
        *block = s_take(arena, MIB);
        memset(block->data, i & 0xff, 4096);
        uint64_t bytes = verl_bulk_server_bytes(s_server);
        most = bytes > most ? bytes : most;
    }
    cr_assert(most < 16 * MIB, "%llu bytes for 4 MiB of blocks", (unsigned long long) most);
    cr_assert_eq(verl_bulk_server_stats(s_server).bytes_max, most);
    verl_arena_destroy(&arena);
}

Test(arena, empty_slabs_go_back_to_the_node)
{
    verl_arena_t *arena = s_arena(1);
    verl_block_t blocks[5];
    for (int i = 0; i < 5; i++)
        blocks[i] = s_take(arena, 4 * MIB << i);
    cr_assert_eq(verl_arena_stats(arena).slabs, 5);
    for (int i = 4; i >= 0; i--)
        verl_arena_give(arena, &blocks[i]);
    verl_arena_stats_t stats = verl_arena_stats(arena);
    cr_assert_eq(stats.slabs, 2, "two empty ones are kept");
    cr_assert(stats.slab_bytes >= 64 * MIB, "the largest among them");
    for (int i = 0; i < 2000 && verl_bulk_server_bytes(s_server) != stats.slab_bytes; i++)
        usleep(1000);
    cr_assert_eq(verl_bulk_server_bytes(s_server), stats.slab_bytes);
    verl_arena_destroy(&arena);
}

Test(arena, a_limit_is_explained_and_empty_slabs_make_room)
{
    verl_bulk_server_destroy(&s_server);
    s_server = verl_bulk_server_new(20 * MIB, NULL);
    verl_arena_t *arena = s_arena(1), *other = s_arena(2);
    verl_block_t a = s_take(arena, 4 * MIB), b = s_take(arena, 8 * MIB), c;
    verl_error_t error = {0};
    cr_assert_eq(verl_arena_take(arena, 12 * MIB, &c, &error), -1);
    cr_assert_str_eq(error.text, "16 MiB more are needed, and the run has 12 MiB of the 20 MiB of this machine in use: "
                     "a lower [run] max_in_flight, or smaller batches, would be right");
    c = s_take(arena, 7 * MIB);             // a slab of 16 MiB is refused, one of 8 is not
    verl_arena_give(arena, &a);
    verl_arena_give(arena, &b);
    b = s_take(arena, 10 * MIB);            // only after the empty slabs of 4 and 8 were given back
    error.text[0] = 0;
    cr_assert_eq(verl_arena_take(other, 4 * MIB, &a, &error), -1);
    cr_assert(strstr(error.text, "18 MiB of the 20 MiB"), "%s", error.text);
    cr_assert_eq(verl_arena_take(arena, SIZE_MAX, &a, NULL), -1);
    error.text[0] = 0;
    cr_assert_eq(verl_arena_take(arena, (size_t) 400 << 30, &a, &error), -1);
    cr_assert_str_eq(error.text, "409600 MiB are needed in one piece, and this machine has 20 MiB in all: fewer rows, or "
                     "shorter ones, would be right");
    verl_arena_destroy(&arena);
    verl_arena_destroy(&other);
}

Test(arena, a_reader_sees_what_is_written_and_lets_go_when_told)
{
    verl_arena_t *writer = s_arena(1), *reader = s_arena(2);
    verl_slabs_t slabs = verl_arena_slabs(reader);
    verl_block_t block = s_take(writer, 3 * MIB), keep = s_take(writer, 8 * MIB), more = s_take(writer, 16 * MIB);
    strcpy(block.data, "hello");
    uint64_t bytes;
    verl_error_t error = {0};
    const char *view = slabs.map(slabs.context, block.slab, &bytes, &error);
    cr_assert(view, "%s", error.text);
    cr_assert_eq(slabs.map(slabs.context, block.slab, &bytes, &error), view, "mapped once");
    cr_assert_str_eq(view + block.offset, "hello");
    strcpy(block.data, "again");
    cr_assert_str_eq(view + block.offset, "again");
    cr_assert_eq(verl_arena_stats(reader).read_bytes, bytes);
    verl_arena_give(writer, &block);
    verl_arena_give(writer, &keep);
    verl_arena_give(writer, &more);         // three are empty now: the smallest goes
    cr_assert_eq(verl_arena_stats(writer).slabs, 2);
    verl_arena_tend(reader);
    for (int i = 0; i < 2000 && verl_bulk_server_stats(s_server).retired != 1; i++)
        usleep(1000);
    verl_arena_tend(reader);
    cr_assert_eq(verl_arena_stats(reader).read_slabs, 1, "it is in use");
    slabs.release(slabs.context, block.slab);
    cr_assert_eq(verl_arena_stats(reader).read_slabs, 1);
    slabs.release(slabs.context, block.slab);
    cr_assert_eq(verl_arena_stats(reader).read_slabs, 0);
    for (int i = 0; i < 2000 && verl_bulk_server_stats(s_server).retired; i++)
        usleep(1000);
    cr_assert_eq(verl_bulk_server_stats(s_server).retired, 0);
    cr_assert_null(slabs.map(slabs.context, block.slab, &bytes, &error));
    cr_assert(strstr(error.text, "is not there"), "%s", error.text);
    verl_arena_destroy(&writer);
    verl_arena_destroy(&reader);
}

Test(arena, a_view_cannot_be_written)
{
    verl_arena_t *writer = s_arena(1), *reader = s_arena(2);
    verl_slabs_t slabs = verl_arena_slabs(reader);
    verl_block_t block = s_take(writer, 4096);
    uint64_t bytes;
    const char *view = slabs.map(slabs.context, block.slab, &bytes, NULL);
    cr_assert(view);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);           // a sanitizer has a handler of its own
        ((volatile char *) (uintptr_t) view)[block.offset] = 1;
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the view was written");
    verl_arena_destroy(&writer);
    verl_arena_destroy(&reader);
}

Test(arena, a_child_that_writes_is_seen_by_its_reader)
{
    verl_arena_t *reader = s_arena(2);
    int fd = verl_bulk_server_add(s_server, 1, NULL), pipes[2];
    cr_assert_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        verl_arena_t *writer = verl_arena_new(fd, NULL);
        verl_block_t block;
        if (verl_arena_take(writer, 3 * MIB, &block, NULL))
            _exit(1);
        memset(block.data, 'w', 3 * MIB);
        if (write(pipes[1], &block, sizeof block) != sizeof block)
            _exit(2);
        pause();
    }
    close(fd);
    verl_block_t block;
    cr_assert_eq(read(pipes[0], &block, sizeof block), sizeof block);
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    uint64_t bytes;
    verl_slabs_t slabs = verl_arena_slabs(reader);
    verl_error_t error = {0};
    const char *view = slabs.map(slabs.context, block.slab, &bytes, &error);    // first looked at after its death
    cr_assert(view, "%s", error.text);
    verl_bulk_server_gone(s_server, 1);
    for (uint64_t i = 0; i < 3 * MIB; i += 4096)
        cr_assert_eq(view[block.offset + i], 'w');
    verl_arena_tend(reader);
    cr_assert_eq(verl_bulk_server_bytes(s_server), bytes, "it stays for its reader");
    slabs.release(slabs.context, block.slab);
    for (int i = 0; i < 2000 && verl_bulk_server_bytes(s_server); i++)
        usleep(1000);
    cr_assert_eq(verl_bulk_server_bytes(s_server), 0);
    verl_arena_destroy(&reader);
}

Test(arena, what_is_no_connection_is_refused)
{
    verl_error_t error = {0};
    cr_assert_null(verl_arena_new(-1, &error));
    cr_assert(strstr(error.text, "descriptor -1 is no connection"));
    int pipes[2];
    cr_assert_eq(pipe(pipes), 0);
    cr_assert_null(verl_arena_new(pipes[0], NULL));
    cr_assert_eq(fcntl(pipes[0], F_GETFD), -1, "it was taken over");
    close(pipes[1]);
}

Test(arena, a_node_that_says_nonsense_is_as_good_as_gone)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    verl_arena_t *arena = verl_arena_new(pair[0], NULL);
    cr_assert_eq(write(pair[1], "nonsense", 8), 8);
    verl_block_t block;
    verl_error_t error = {0};
    cr_assert_eq(verl_arena_take(arena, 64, &block, &error), -1);
    cr_assert(strstr(error.text, "is gone"), "%s", error.text);
    verl_arena_destroy(&arena);
    close(pair[1]);
}

typedef struct s_job {
    verl_arena_t *arena;
    uint64_t      seed;
    int           failed;
} s_job_t;

// Takes, writes, checks and gives; a byte of another's block would show.
static void *
s_work(void *context)
{
    s_job_t *job = context;
    verl_slabs_t slabs = verl_arena_slabs(job->arena);
    verl_block_t live[8] = {{0}};
    uint64_t random = job->seed;
    for (int i = 0; i < 3000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        verl_block_t *block = &live[random >> 61];
        unsigned char mark = (unsigned char) (job->seed * 8 + (uint64_t) (block - live));
        if (block->data) {
            uint64_t bytes;
            const char *view = slabs.map(slabs.context, block->slab, &bytes, NULL);
            const unsigned char *seen = (const unsigned char *) view + block->offset;
            job->failed |= !view || seen[0] != mark || seen[block->bytes - 1] != mark;
            slabs.release(slabs.context, block->slab);
            verl_arena_give(job->arena, block);
            block->data = NULL;
        } else if (verl_arena_take(job->arena, 1 + (random >> 40) % (1 << 20), block, NULL) == 0) {
            memset(block->data, mark, block->bytes);
        } else {
            job->failed = 1;
        }
        if (i % 64 == 0)
            verl_arena_tend(job->arena);
    }
    for (int i = 0; i < 8; i++)
        if (live[i].data)
            verl_arena_give(job->arena, &live[i]);
    return NULL;
}

Test(arena, four_threads_share_it)
{
    verl_arena_t *arena = s_arena(1);
    pthread_t threads[4];
    s_job_t jobs[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (s_job_t) {.arena = arena, .seed = (uint64_t) i + 1};
        pthread_create(&threads[i], NULL, s_work, &jobs[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_not(jobs[i].failed);
    }
    cr_assert_eq(verl_arena_live_bytes(arena), 0);
    verl_arena_destroy(&arena);
}

// Makes a batch in the writer's memory, packs it, unpacks it in the reader's view; returns ns of packing and unpacking.
static double
s_hand_off(verl_arena_t *writer, verl_arena_t *reader, int64_t bytes, int rounds)
{
    verl_memory_t memory = verl_arena_memory(writer);
    verl_slabs_t slabs = verl_arena_slabs(reader);
    verl_error_t error = {0};
    verl_batch_t *made = verl_batch_new_made(1, 1, 0, &memory);
    char *payload = verl_batch_add(made, "payload", VERL_U8, bytes);
    cr_assert(payload, "%s", verl_batch_error(made));
    payload[bytes - 1] = 42;
    cr_assert_eq(verl_batch_seal(made, NULL), 0);
    verl_buffer_t buffer = {0};
    double best = 1e18;
    for (int i = 0; i < rounds; i++) {
        struct timespec from;
        clock_gettime(CLOCK_MONOTONIC, &from);
        verl_buffer_clear(&buffer);
        verl_batch_pack(made, (const char *const[]) {"payload"}, NULL, 1, false, &buffer, &error);
        verl_batch_t *batch = verl_batch_unpack(1, buffer.data, buffer.size, &slabs, &error);
        cr_assert(batch, "%s", error.text);
        cr_assert_eq(verl_column_u8(verl_batch_column(batch, "payload"), 0)[bytes - 1], 42);
        verl_batch_destroy(&batch);
        double ns = s_ns(from);
        best = ns < best ? ns : best;
    }
    verl_batch_destroy(&made);
    cr_assert_eq(verl_arena_live_bytes(writer), 0, "the block went back");
    verl_buffer_done(&buffer);
    return best;
}

Test(arena, a_hand_off_costs_the_same_for_any_size)
{
    verl_arena_t *writer = s_arena(1), *reader = s_arena(2);
    double small = s_hand_off(writer, reader, 2048, 2000);
    double large = s_hand_off(writer, reader, 256 * (int64_t) MIB, 2000);
    fprintf(stderr, "hand-off: %.0f ns for 2 KiB, %.0f ns for 256 MiB\n", small, large);
    cr_assert(large < 20 * small + 20000, "a block is copied somewhere");
    double best = 1e18;
    for (int k = 0; k < 100; k++) {
        struct timespec from;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (int i = 0; i < 1000; i++) {
            verl_block_t block;
            verl_arena_take(writer, 4096, &block, NULL);
            verl_arena_give(writer, &block);
        }
        double ns = s_ns(from) / 1000;
        best = ns < best ? ns : best;
    }
    fprintf(stderr, "take and give: %.0f ns\n", best);
    cr_assert(best < 20000);
    verl_arena_destroy(&writer);
    verl_arena_destroy(&reader);
}
