// cache.c: the images of this user, as files that are only ever replaced as a whole.
//
// A file of the cache is believed when it is the user's own, nobody else can write to it, and it passes the check of
// an image; otherwise it is as if it were not there.
#include "actors/text/cache.h"
#include "actors/text/hash.h"
#include "actors/text/source.h"
#include "actors/text/source_files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, USED_SECONDS = 24 * 3600 };

// Makes a directory and those above it, mode 0700.
static bool
s_make_directories(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = 0;
        int rc = mkdir(path, 0700);
        *slash = '/';
        if (rc && errno != EEXIST && errno != EROFS && errno != EACCES)
            return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool
s_directory(char *path, bool make)
{
    const char *own = getenv("VERL_CACHE_DIR"), *shared = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (own && own[0])
        length = snprintf(path, PATH_SIZE, "%s/tokenizers", own);
    else if (shared && shared[0] == '/')
        length = snprintf(path, PATH_SIZE, "%s/verl/tokenizers", shared);
    else if (home && home[0] == '/')
        length = snprintf(path, PATH_SIZE, "%s/.cache/verl/tokenizers", home);
    if (length < 0 || length > PATH_SIZE - 80)
        return false;
    return !make || s_make_directories(path);
}

static bool
s_path(const uint64_t key[2], bool make, char *path)
{
    if (!s_directory(path, make))
        return false;
    size_t length = strlen(path);
    snprintf(path + length, PATH_SIZE - length, "/%016llx%016llx.img", (unsigned long long) key[0],
             (unsigned long long) key[1]);
    return true;
}

static bool
s_map(int file, const uint64_t key[2], verl_token_image_t *ret_image)
{
    struct stat status;
    if (fstat(file, &status) || !S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_mode & 022
        || status.st_size < (off_t) sizeof(verl_image_header_t))
        return false;
    size_t size = (size_t) status.st_size;
    void *block = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    if (block == MAP_FAILED)
        return false;
    if (verl_image_check(block, size, key)) {
        munmap(block, size);
        return false;
    }
    verl_image_view(ret_image, block, size, true);
    if (time(NULL) - status.st_mtime > USED_SECONDS)
        futimens(file, NULL);               // it is in use; where that cannot be said it is swept, and made again
    return true;
}

bool
verl_cache_map(const uint64_t key[2], verl_token_image_t *ret_image)
{
    char path[PATH_SIZE];
    if (!s_path(key, false, path))
        return false;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return false;
    bool mapped = s_map(file, key, ret_image);
    close(file);
    return mapped;
}

static bool
s_write(int file, const char *data, size_t size)
{
    while (size) {
        ssize_t written = write(file, data, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        size -= (size_t) written;
    }
    return true;
}

bool
verl_cache_store(const verl_token_image_t *image)
{
    static atomic_uint s_number;
    char path[PATH_SIZE], beside[PATH_SIZE + 64];
    if (!s_path(image->header->key, true, path))
        return false;
    snprintf(beside, sizeof beside, "%s.%ld.%u", path, (long) getpid(), atomic_fetch_add(&s_number, 1));
    int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    bool written = s_write(file, image->block, image->block_size);
    written = close(file) == 0 && written;
    if (!written || rename(beside, path)) {
        unlink(beside);
        return false;
    }
    char *slash = strrchr(path, '/');
    *slash = 0;
    verl_cache_sweep(path, slash + 1, &VERL_CACHE_LIMITS, time(NULL));
    return true;
}

static int
s_compile(verl_source_input_t *input, verl_token_image_t *ret_image, char *error, size_t error_size)
{
    verl_token_source_t source;
    verl_source_init(&source);
    int rc = verl_source_input_read(input, &source, error, error_size);
    if (!rc)
        rc = verl_source_compile(&source, input->key, input->path.data, ret_image, error, error_size);
    verl_source_done(&source);
    return rc;
}

int
verl_cache_load(const char *path, verl_token_image_t *ret_image, verl_tokenizer_origin_t *ret_origin,
                verl_text_t *file, char *error, size_t error_size)
{
    verl_source_input_t input;
    if (verl_source_input_open(&input, path, error, error_size))
        return -1;
    int rc = 0;
    *ret_origin = VERL_TOKENIZER_MAPPED;
    if (!verl_cache_map(input.key, ret_image)) {
        rc = s_compile(&input, ret_image, error, error_size);
        verl_token_image_t kept;
        *ret_origin = rc ? VERL_TOKENIZER_FAILED : VERL_TOKENIZER_PRIVATE;
        if (!rc && verl_cache_store(ret_image) && verl_cache_map(input.key, &kept)) {
            verl_image_done(ret_image);
            *ret_image = kept;
            *ret_origin = VERL_TOKENIZER_COMPILED;
        }
    }
    if (!rc && verl_text_add(file, input.path.data, input.path.length)) {
        verl_image_done(ret_image);
        rc = verl_text_fail(error, error_size, "%s: not enough memory", path);
    }
    verl_source_input_close(&input);
    return rc;
}
