// cache.h: finds the files of a tokenizer, and the image of them that is kept for this host.
#ifndef VERL_TEXT_CACHE_H
#define VERL_TEXT_CACHE_H
#include "actors/text/image.h"

// Gives the image of a model directory, a tokenizer.json or a .gguf file: from the cache, or compiled and then put
// there. The cache is $VERL_CACHE_DIR, $XDG_CACHE_HOME/verl or ~/.cache/verl, a file "tokenizers/KEY.img" each, where
// KEY is of the contents of the source files. Nothing waits for another process: two that compile at once both do,
// and the later rename wins with the same bytes. 0, or -1 with a sentence; *file gets the path of the source file.
int verl_cache_load(const char *path, verl_token_image_t *ret_image, verl_tokenizer_origin_t *ret_origin,
                    verl_text_t *file, char *error, size_t error_size);

// Maps the image of a key; false where there is none that is whole.
bool verl_cache_map(const uint64_t key[2], verl_token_image_t *ret_image);

// Writes an image, under a name of its own that is then renamed, and sweeps the cache. Whether the first worked.
bool verl_cache_store(const verl_token_image_t *image);

// What the cache keeps.
typedef struct verl_cache_limits {
    int64_t seconds;                        // since an image was last used (its time of change; kept to a day)
    int64_t bytes;                          // of all images together
} verl_cache_limits_t;
#define VERL_CACHE_LIMITS ((verl_cache_limits_t) { .seconds = 90LL * 24 * 3600, .bytes = 2LL << 30 })

// Deletes images of the folder beyond the limits, those used longest ago first, and what a killed process left
// unfinished a day ago; never the file named `keep` (or NULL), and nothing that is no image. now: seconds since 1970.
// Says nothing of what cannot be deleted. Processes that have an image mapped keep it.
void verl_cache_sweep(const char *folder, const char *keep, const verl_cache_limits_t *limits, int64_t now);
#endif
