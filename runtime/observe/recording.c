// recording.c: see recording.h.
#include "runtime/observe/recording.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char s_magic[8] = { 'V', 'E', 'R', 'L', 'R', 'E', 'C', 1 };

struct verl_recording {
    FILE    *file;
    char    *path;
    char    *bytes;                         // of the last item read
    size_t   room;
    uint64_t left;                          // bytes of the file behind what was read: sizes are checked against it
};

// --- CRC-32C (Castagnoli, reflected 0x82f63b78) -------------------------------------------------------------------

static uint32_t s_table[256];

static void
s_make_table(void)
{
    for (uint32_t i = 0; i < 256 && !s_table[255]; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
        s_table[i] = crc;
    }
}

static uint32_t
s_crc(uint32_t crc, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    crc = ~crc;
    for (size_t i = 0; i < size; i++)
        crc = s_table[(crc ^ at[i]) & 0xff] ^ crc >> 8;
    return ~crc;
}

static void
s_put_u32(unsigned char *ret, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        ret[i] = (unsigned char) (value >> 8 * i);
}

static uint32_t
s_get_u32(const unsigned char *bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= (uint32_t) bytes[i] << 8 * i;
    return value;
}

// --- life ---------------------------------------------------------------------------------------------------------

static verl_recording_t *
s_open(const char *path, const char *mode, verl_error_t *error)
{
    verl_recording_t *recording = calloc(1, sizeof *recording);
    s_make_table();
    if (!recording || !(recording->path = strdup(path))) {
        free(recording);
        verl_error_set(error, "out of memory");
        return NULL;
    }
    recording->file = fopen(path, mode);
    if (!recording->file) {
        if (errno == EEXIST)
            verl_error_set(error, "%s is there already: name another file", path);
        else
            verl_error_errno(error, "cannot open %s", path);
        verl_recording_close(&recording, NULL);
    }
    return recording;
}

verl_recording_t *
verl_recording_create(const char *path, verl_error_t *error)
{
    verl_recording_t *recording = s_open(path, "wbxe", error);
    if (recording && fwrite(s_magic, sizeof s_magic, 1, recording->file) != 1) {
        verl_error_errno(error, "cannot write %s", path);
        verl_recording_close(&recording, NULL);
    }
    return recording;
}

verl_recording_t *
verl_recording_open(const char *path, verl_error_t *error)
{
    verl_recording_t *recording = s_open(path, "rbe", error);
    char magic[sizeof s_magic];
    struct stat status;
    if (!recording)
        return NULL;
    if (fstat(fileno(recording->file), &status) == 0 && S_ISREG(status.st_mode) &&
        fread(magic, sizeof magic, 1, recording->file) == 1 && memcmp(magic, s_magic, sizeof magic) == 0) {
        recording->left = (uint64_t) status.st_size - sizeof magic;
        return recording;
    }
    verl_error_set(error, "%s is no recording of verl-spy: it does not begin as one", path);
    verl_recording_close(&recording, NULL);
    return NULL;
}

int
verl_recording_close(verl_recording_t **recording_p, verl_error_t *error)
{
    verl_recording_t *recording = *recording_p;
    int failed = 0;
    *recording_p = NULL;
    if (!recording)
        return 0;
    if (recording->file && fclose(recording->file))
        failed = verl_error_errno(error, "cannot write %s", recording->path);
    free(recording->path);
    free(recording->bytes);
    free(recording);
    return failed;
}

// --- items --------------------------------------------------------------------------------------------------------

int
verl_recording_write(verl_recording_t *recording, verl_recording_kind_t kind, const void *bytes, size_t size,
                     verl_error_t *error)
{
    unsigned char head[5] = { (unsigned char) kind }, check[4];
    if (size > VERL_RECORDING_ITEM_MOST)
        return verl_error_set(error, "an item of %zu bytes is too long for a recording", size);
    s_put_u32(head + 1, (uint32_t) size);
    s_put_u32(check, s_crc(s_crc(0, head, sizeof head), bytes, size));
    if (fwrite(head, sizeof head, 1, recording->file) != 1 ||
        (size && fwrite(bytes, size, 1, recording->file) != 1) ||
        fwrite(check, sizeof check, 1, recording->file) != 1)
        return verl_error_errno(error, "cannot write %s", recording->path);
    return 0;
}

verl_recording_kind_t
verl_recording_read(verl_recording_t *recording, const char **ret_bytes, size_t *ret_size, verl_error_t *error)
{
    unsigned char head[5], check[4];
    size_t got = fread(head, 1, sizeof head, recording->file);
    if (!got)
        return VERL_RECORDING_END;
    uint32_t size = got == sizeof head ? s_get_u32(head + 1) : 0;
    if (got != sizeof head || size > VERL_RECORDING_ITEM_MOST ||
        recording->left < sizeof head + sizeof check + (uint64_t) size) {
        verl_error_set(error, "%s is cut short: its end was not written", recording->path);
        return VERL_RECORDING_END;
    }
    if (size > recording->room) {
        free(recording->bytes);
        recording->room = size;
        if (!(recording->bytes = malloc(size))) {
            recording->room = 0;
            verl_error_set(error, "out of memory");
            return VERL_RECORDING_END;
        }
    }
    if ((size && fread(recording->bytes, size, 1, recording->file) != 1) ||
        fread(check, sizeof check, 1, recording->file) != 1 || head[0] == VERL_RECORDING_END ||
        s_get_u32(check) != s_crc(s_crc(0, head, sizeof head), recording->bytes, size)) {
        verl_error_set(error, "%s is damaged: an item's checksum is wrong", recording->path);
        return VERL_RECORDING_END;
    }
    recording->left -= sizeof head + sizeof check + size;
    *ret_bytes = recording->bytes;
    *ret_size = size;
    return (verl_recording_kind_t) head[0];
}
