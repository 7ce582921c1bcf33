// tokenizer.c: the life of a tokenizer: opened for nothing, loaded once, used by many threads.
//
// `state` goes from IDLE to READY or FAILED once, under `loading`; whoever sees READY or FAILED without the lock may
// read everything else, which never changes again. Encoders are lent from a few slots without any lock.
#include "actors/text/cache.h"
#include "actors/text/engine.h"
#include "actors/text/source.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { IDLE, READY, FAILED };
enum { ENCODERS = 16, LARGEST_KEPT = 1 << 20 };

const char *const verl_named_tokens[VERL_NAMED_TOKENS] = {
    [VERL_NAMED_BOS] = "bos_token", [VERL_NAMED_EOS] = "eos_token", [VERL_NAMED_PAD] = "pad_token",
    [VERL_NAMED_UNK] = "unk_token", [VERL_NAMED_SEP] = "sep_token", [VERL_NAMED_CLS] = "cls_token",
    [VERL_NAMED_MASK] = "mask_token",
};

struct verl_tokenizer {
    verl_text_t             path, file;     // as given; of the source
    atomic_int              state;
    pthread_mutex_t         loading;
    verl_tokenizer_origin_t origin;
    verl_engine_t           engine;
    char                    error[1024];
    _Atomic(verl_encoder_t *) encoder[ENCODERS];
};

static atomic_llong s_loads;

int64_t
verl_tokenizer_load_count(void)
{
    return atomic_load(&s_loads);
}

verl_tokenizer_t *
verl_tokenizer_open(const char *path, char *error, size_t error_size)
{
    if (!path || !path[0]) {
        verl_text_fail(error, error_size, "the path of the tokenizer is empty; it must be a model directory, a "
                       "tokenizer.json or a .gguf file");
        return NULL;
    }
    verl_tokenizer_t *self = calloc(1, sizeof *self);
    if (!self || verl_text_add(&self->path, path, strlen(path)) || pthread_mutex_init(&self->loading, NULL)) {
        verl_text_fail(error, error_size, "%s: not enough memory", path);
        if (self)
            verl_text_done(&self->path);
        free(self);
        return NULL;
    }
    return self;
}

static void
s_free_encoder(verl_encoder_t *encoder)
{
    if (encoder)
        verl_encoder_done(encoder);
    free(encoder);
}

void
verl_tokenizer_close(verl_tokenizer_t **self_p)
{
    verl_tokenizer_t *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    for (int i = 0; i < ENCODERS; i++)
        s_free_encoder(atomic_load(&self->encoder[i]));
    verl_engine_done(&self->engine);
    pthread_mutex_destroy(&self->loading);
    verl_text_done(&self->path);
    verl_text_done(&self->file);
    free(self);
}

static int
s_load(verl_tokenizer_t *self)
{
    verl_token_image_t image = { 0 };
    atomic_fetch_add(&s_loads, 1);
    self->origin = VERL_TOKENIZER_FAILED;
    if (verl_cache_load(self->path.data, &image, &self->origin, &self->file, self->error, sizeof self->error)
        || verl_engine_init(&self->engine, &image, self->file.data, self->error, sizeof self->error)) {
        self->origin = VERL_TOKENIZER_FAILED;
        return FAILED;
    }
    return READY;
}

int
verl_tokenizer_load(verl_tokenizer_t *self, char *error, size_t error_size)
{
    int state = atomic_load_explicit(&self->state, memory_order_acquire);
    if (state == IDLE) {
        pthread_mutex_lock(&self->loading);
        state = atomic_load_explicit(&self->state, memory_order_relaxed);
        if (state == IDLE) {
            state = s_load(self);
            atomic_store_explicit(&self->state, state, memory_order_release);
        }
        pthread_mutex_unlock(&self->loading);
    }
    return state == READY ? 0 : verl_text_fail(error, error_size, "%s", self->error);
}

int
verl_tokenizer_check(const char *path, char *error, size_t error_size)
{
    uint64_t hash;
    return verl_tokenizer_hash(path, &hash, error, error_size);
}

int
verl_tokenizer_hash(const char *path, uint64_t *ret_hash, char *error, size_t error_size)
{
    verl_tokenizer_t *self = verl_tokenizer_open(path, error, error_size);
    int rc = self ? verl_tokenizer_load(self, error, error_size) : -1;
    if (!rc)
        *ret_hash = self->engine.image.header->identity;
    verl_tokenizer_close(&self);
    return rc;
}

static verl_encoder_t *
s_borrow(verl_tokenizer_t *self)
{
    for (int i = 0; i < ENCODERS; i++) {
        verl_encoder_t *encoder = atomic_exchange(&self->encoder[i], NULL);
        if (encoder)
            return encoder;
    }
    return calloc(1, sizeof(verl_encoder_t));
}

// Puts an encoder into an empty slot; one that a huge text made large is freed.
static void
s_give_back(verl_tokenizer_t *self, verl_encoder_t *encoder)
{
    bool large = encoder->bpe.capacity > LARGEST_KEPT || encoder->bpe.heap_capacity > LARGEST_KEPT
                 || encoder->lossy.capacity > LARGEST_KEPT || encoder->normalized.capacity > LARGEST_KEPT;
    for (int i = 0; i < ENCODERS && !large; i++) {
        verl_encoder_t *empty = NULL;
        if (atomic_compare_exchange_strong(&self->encoder[i], &empty, encoder))
            return;
    }
    s_free_encoder(encoder);
}

int
verl_tokenizer_encode(verl_tokenizer_t *self, const char *text, size_t length, unsigned flags, verl_token_ids_t *ids,
                      char *error, size_t error_size)
{
    if (verl_tokenizer_load(self, error, error_size))
        return -1;
    size_t before = ids->count;
    verl_encoder_t *encoder = s_borrow(self);
    if (!encoder)
        return verl_text_fail(error, error_size, "%s: not enough memory", self->file.data);
    int rc = verl_engine_encode(&self->engine, encoder, text, length, flags, ids, error, error_size);
    s_give_back(self, encoder);
    if (rc)
        ids->count = before;
    return rc;
}

int
verl_tokenizer_decode(verl_tokenizer_t *self, const int32_t *ids, size_t count, unsigned flags, verl_text_t *text,
                      char *error, size_t error_size)
{
    if (verl_tokenizer_load(self, error, error_size))
        return -1;
    return verl_engine_decode(&self->engine, ids, count, flags, text, error, error_size);
}

// The header of a loaded tokenizer, or NULL.
static const verl_image_header_t *
s_header(verl_tokenizer_t *self)
{
    return verl_tokenizer_load(self, NULL, 0) ? NULL : self->engine.image.header;
}

int32_t
verl_tokenizer_token_to_id(verl_tokenizer_t *self, const char *content, size_t length)
{
    if (!s_header(self))
        return -1;
    uint32_t id = verl_image_find_content(&self->engine.image, content, length);
    return id == UINT32_MAX ? -1 : (int32_t) id;
}

static bool
s_exists(verl_tokenizer_t *self, int32_t id)
{
    const verl_image_header_t *header = s_header(self);
    return header && id >= 0 && (uint32_t) id < header->tokens && self->engine.image.flags[id] & VERL_TOKEN_EXISTS;
}

const char *
verl_tokenizer_id_to_token(verl_tokenizer_t *self, int32_t id, size_t *ret_length)
{
    if (!s_exists(self, id))
        return NULL;
    const verl_token_image_t *image = &self->engine.image;
    *ret_length = image->content_offset[id + 1] - image->content_offset[id];
    return image->contents + image->content_offset[id];
}

const char *
verl_tokenizer_token_bytes(verl_tokenizer_t *self, int32_t id, size_t *ret_length)
{
    if (!s_exists(self, id))
        return NULL;
    const verl_token_image_t *image = &self->engine.image;
    *ret_length = image->bytes_offset[id + 1] - image->bytes_offset[id];
    return image->bytes + image->bytes_offset[id];
}

bool
verl_tokenizer_is_special(verl_tokenizer_t *self, int32_t id)
{
    return s_exists(self, id) && self->engine.image.flags[id] & VERL_TOKEN_SPECIAL;
}

int32_t
verl_tokenizer_named(verl_tokenizer_t *self, verl_named_token_t name)
{
    const verl_image_header_t *header = s_header(self);
    return header ? header->named[name] : -1;
}

int32_t
verl_tokenizer_bos(verl_tokenizer_t *self)
{
    return verl_tokenizer_named(self, VERL_NAMED_BOS);
}

int32_t
verl_tokenizer_eos(verl_tokenizer_t *self)
{
    return verl_tokenizer_named(self, VERL_NAMED_EOS);
}

int32_t
verl_tokenizer_pad(verl_tokenizer_t *self)
{
    return verl_tokenizer_named(self, VERL_NAMED_PAD);
}

int64_t
verl_tokenizer_vocab_size(verl_tokenizer_t *self)
{
    const verl_image_header_t *header = s_header(self);
    return header ? header->tokens : 0;
}

const char *
verl_tokenizer_chat_template(verl_tokenizer_t *self, size_t *ret_length)
{
    const verl_image_header_t *header = s_header(self);
    if (!header || !(header->flags & VERL_MODEL_CHAT))
        return NULL;
    *ret_length = header->section[VERL_SECTION_CHAT_TEMPLATE].size;
    return self->engine.image.chat_template;
}

const char *
verl_tokenizer_chat_file(verl_tokenizer_t *self)
{
    const verl_image_header_t *header = s_header(self);
    uint32_t flags = header ? header->flags : 0;
    return flags & VERL_MODEL_CHAT_FILE     ? verl_beside_names[VERL_BESIDE_TEMPLATE]
           : flags & VERL_MODEL_CHAT_CONFIG ? verl_beside_names[VERL_BESIDE_CONFIG]
                                            : NULL;
}

const char *
verl_tokenizer_path(verl_tokenizer_t *self)
{
    bool loaded = atomic_load_explicit(&self->state, memory_order_acquire) == READY;
    return loaded ? self->file.data : self->path.data;
}

verl_tokenizer_origin_t
verl_tokenizer_origin(verl_tokenizer_t *self)
{
    return atomic_load_explicit(&self->state, memory_order_acquire) == IDLE ? VERL_TOKENIZER_NOT_LOADED : self->origin;
}
