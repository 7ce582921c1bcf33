// checkpoint.c: the state of a policy on disk. `model/` is a Hugging Face directory; `optimizer.bin` is a header and
// the optimizer's two vectors. A policy whose weights never changed leaves only a note: its model is where it was.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "actors/lm/load.h"
#include "actors/lm/save.h"
#include "actors/policy/policy.h"

#define S_MAGIC "VERLADW1"

typedef struct {
    char    magic[8];
    int64_t count, step;
} s_header_t;

static int
s_write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t written = write(fd, at, bytes);
        if (written < 0 && errno != EINTR)
            return -1;
        if (written > 0) {
            at += written;
            bytes -= (size_t) written;
        }
    }
    return 0;
}

// errno is 0 where the file ends before that.
static int
s_read_all(int fd, void *data, size_t bytes)
{
    char *at = data;
    while (bytes > 0) {
        ssize_t got = read(fd, at, bytes);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            errno = got == 0 ? 0 : errno;
            return -1;
        }
        if (got > 0) {
            at += got;
            bytes -= (size_t) got;
        }
    }
    return 0;
}

static int
s_join(verl_stage_t *stage, const char *directory, const char *name, char *path, size_t size)
{
    if (snprintf(path, size, "%s/%s", directory, name) >= (int) size)
        return verl_fail(stage, "the path '%s/%s' is too long", directory, name);
    return 0;
}

static int
s_save_optimizer(verl_stage_t *stage, const verl_policy_t *self, const char *path)
{
    const verl_lm_optimizer_t *optimizer = &self->optimizer;
    s_header_t header = { .count = optimizer->count, .step = optimizer->step };
    memcpy(header.magic, S_MAGIC, sizeof header.magic);
    size_t bytes = (size_t) optimizer->count * sizeof(float);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return verl_fail(stage, "cannot write '%s': %s", path, strerror(errno));
    int rc = s_write_all(fd, &header, sizeof header) || s_write_all(fd, optimizer->m, bytes) ||
             s_write_all(fd, optimizer->v, bytes) || fsync(fd);
    int reason = errno;
    if (close(fd) != 0 && rc == 0) {
        rc = -1;
        reason = errno;
    }
    return rc == 0 ? 0 : verl_fail(stage, "cannot write '%s': %s", path, strerror(reason));
}

static int
s_fail_read(verl_stage_t *stage, const char *path, int64_t parameters)
{
    if (errno != 0)
        return verl_fail(stage, "cannot read '%s': %s", path, strerror(errno));
    return verl_fail(stage, "'%s' is cut short: the optimizer's state of %lld parameters has %lld bytes", path,
                     (long long) parameters,
                     (long long) ((int64_t) sizeof(s_header_t) + 2 * parameters * (int64_t) sizeof(float)));
}

static int
s_restore_optimizer(verl_stage_t *stage, verl_policy_t *self, const char *path)
{
    verl_lm_optimizer_t *optimizer = &self->optimizer;
    s_header_t header;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;                           // no stage of this actor learned
    if (fd < 0)
        return verl_fail(stage, "cannot read '%s': %s", path, strerror(errno));
    int64_t total = verl_lm_layout(self->lm)->total;
    size_t bytes = (size_t) total * sizeof(float);
    int rc = s_read_all(fd, &header, sizeof header);
    if (rc == 0 &&
        (memcmp(header.magic, S_MAGIC, sizeof header.magic) != 0 || header.count != total || header.step < 0))
        rc = verl_fail(stage, "'%s' is not the optimizer's state of a model of %lld parameters", path,
                       (long long) total);
    else if (rc == 0 && optimizer->count == 0 && verl_lm_optimizer_init(optimizer, total) != 0)
        rc = verl_fail(stage, "no memory for the optimizer's state of %lld parameters", (long long) total);
    else if (rc != 0 || s_read_all(fd, optimizer->m, bytes) != 0 || s_read_all(fd, optimizer->v, bytes) != 0)
        rc = s_fail_read(stage, path, total);
    else
        optimizer->step = header.step;
    close(fd);
    return rc;
}

static const char *
s_directory_or_null(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode) ? path : NULL;
}

static int
s_note(verl_stage_t *stage, const verl_policy_t *self, const char *directory)
{
    char path[4096];
    if (s_join(stage, directory, "unchanged.txt", path, sizeof path) != 0)
        return -1;
    FILE *file = fopen(path, "we");
    if (!file)
        return verl_fail(stage, "cannot write '%s': %s", path, strerror(errno));
    fprintf(file, "The weights are those of %s.\n", self->model);
    int rc = fflush(file) || fsync(fileno(file));
    rc = fclose(file) || rc;
    return rc ? verl_fail(stage, "cannot write '%s': %s", path, strerror(errno)) : 0;
}

int
verl_policy_snapshot(verl_stage_t *stage, const char *directory)
{
    const verl_policy_t *self = verl_stage_state(stage);
    char path[4096], error[1024];
    if (!self->changed)
        return s_note(stage, self, directory);
    verl_save_options_t options = { .dtype = VERL_SAVE_F32,
                                    .tokenizer_dir = s_directory_or_null(verl_policy_tokenizer_path(self)) };
    if (s_join(stage, directory, "model", path, sizeof path) != 0)
        return -1;
    if (verl_lm_save(path, &self->config, verl_lm_layout(self->lm), verl_lm_params(self->lm), &options, error,
                     sizeof error) != 0)
        return verl_fail(stage, "%s", error);
    if (self->optimizer.count == 0)
        return 0;
    return s_join(stage, directory, "optimizer.bin", path, sizeof path) != 0 ? -1
                                                                             : s_save_optimizer(stage, self, path);
}

int
verl_policy_restore(verl_stage_t *stage, const char *directory)
{
    verl_policy_t *self = verl_stage_state(stage);
    char path[4096];
    if (s_join(stage, directory, "model", path, sizeof path) != 0)
        return -1;
    if (!s_directory_or_null(path))
        return 0;                           // unchanged: prepare has loaded it
    if (verl_policy_load(stage, self, path) != 0 ||
        s_join(stage, directory, "optimizer.bin", path, sizeof path) != 0)
        return -1;
    self->changed = true;
    return s_restore_optimizer(stage, self, path);
}
