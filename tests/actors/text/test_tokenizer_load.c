// Loading: lazy, once, from the cache, and what happens where files or cache are missing, cut short or damaged.
#include "text_fixture.h"
#include "actors/text/cache.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>

TestSuite(tokenizer_load, .init = fixture_setup, .fini = fixture_teardown, .timeout = 60);

static const char s_small[] = FIXTURES "llama3-small/tokenizer.json";
static const char s_text[] = "Hello, world: 12345 and café 你好 😀";

// The one image in the cache; lives until the next call.
static const char *
s_image(void)
{
    static char s_path[400];
    char folder[96];
    int found = 0;
    snprintf(folder, sizeof folder, "%s/cache/tokenizers", g_folder);
    DIR *stream = opendir(folder);
    cr_assert(stream, "there is no cache");
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
        if (entry->d_name[0] != '.') {
            snprintf(s_path, sizeof s_path, "%s/%s", folder, entry->d_name);
            found++;
        }
    closedir(stream);
    cr_assert_eq(found, 1, "the cache has %d files", found);
    return s_path;
}

// Loads a tokenizer and says where it came from.
static verl_tokenizer_origin_t
s_origin(const char *path)
{
    char error[1024] = "";
    verl_tokenizer_t *tokenizer = fixture_open(path);
    cr_assert_eq(verl_tokenizer_origin(tokenizer), VERL_TOKENIZER_NOT_LOADED);
    verl_token_ids_t ids = fixture_encode(tokenizer, s_text, sizeof s_text - 1, 0);
    verl_text_t back = fixture_decode(tokenizer, &ids, 0);
    cr_assert_str_eq(back.data, s_text);
    cr_assert_eq(verl_tokenizer_load(tokenizer, error, sizeof error), 0, "%s", error);
    verl_tokenizer_origin_t origin = verl_tokenizer_origin(tokenizer);
    verl_text_done(&back);
    verl_token_ids_done(&ids);
    verl_tokenizer_close(&tokenizer);
    return origin;
}

Test(tokenizer_load, opening_touches_no_file)
{
    char error[1024] = "", again[1024] = "";
    verl_token_ids_t ids = { 0 };
    verl_tokenizer_t *tokenizer = fixture_open("/nonexistent/model");
    cr_assert_eq(verl_tokenizer_encode(tokenizer, "a", 1, 0, &ids, error, sizeof error), -1);
    cr_assert(strstr(error, "/nonexistent/model"), "%s", error);
    cr_assert_eq(verl_tokenizer_encode(tokenizer, "a", 1, 0, &ids, again, sizeof again), -1);
    cr_assert_str_eq(error, again);
    cr_assert_eq(ids.count, 0);
    cr_assert_eq(verl_tokenizer_vocab_size(tokenizer), 0);
    cr_assert_eq(verl_tokenizer_eos(tokenizer), -1);
    cr_assert_null(verl_tokenizer_id_to_token(tokenizer, 0, &ids.count));
    verl_tokenizer_close(&tokenizer);
    cr_assert_null(tokenizer);
    cr_assert_null(verl_tokenizer_open("", error, sizeof error));
}

// A failure is final: a file that comes later is not half-loaded behind the back of those who were told.
Test(tokenizer_load, a_failure_stays)
{
    char error[1024] = "", path[128];
    snprintf(path, sizeof path, "%s/late.json", g_folder);
    verl_tokenizer_t *tokenizer = fixture_open(path);
    cr_assert_eq(verl_tokenizer_load(tokenizer, error, sizeof error), -1);
    verl_text_t json = fixture_read(s_small);
    fixture_write("late.json", json.data, json.length);
    cr_assert_eq(verl_tokenizer_load(tokenizer, error, sizeof error), -1);
    cr_assert_eq(s_origin(path), VERL_TOKENIZER_COMPILED);
    verl_tokenizer_close(&tokenizer);
    verl_text_done(&json);
}

typedef struct {
    verl_tokenizer_t *tokenizer;
    pthread_barrier_t barrier;
} s_race_t;

static void *
s_racer(void *argument)
{
    s_race_t *race = argument;
    char error[1024] = "";
    verl_token_ids_t *ids = calloc(1, sizeof *ids);
    pthread_barrier_wait(&race->barrier);
    if (verl_tokenizer_encode(race->tokenizer, s_text, sizeof s_text - 1, 0, ids, error, sizeof error))
        ids->count = 0;
    return ids;
}

Test(tokenizer_load, sixty_four_threads_load_it_once)
{
    s_race_t race = { .tokenizer = fixture_open(s_small) };
    pthread_t thread[64];
    int64_t before = verl_tokenizer_load_count();
    pthread_barrier_init(&race.barrier, NULL, 64);
    for (int i = 0; i < 64; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, s_racer, &race), 0);
    verl_token_ids_t *first = NULL;
    for (int i = 0; i < 64; i++) {
        void *result;
        pthread_join(thread[i], &result);
        verl_token_ids_t *ids = result;
        cr_assert_gt(ids->count, 5);
        first = first ? first : ids;
        cr_assert_eq(ids->count, first->count);
        cr_assert_arr_eq(ids->data, first->data, first->count * sizeof *first->data);
        if (ids != first) {
            verl_token_ids_done(ids);
            free(ids);
        }
    }
    verl_token_ids_done(first);
    free(first);
    cr_assert_eq(verl_tokenizer_load_count() - before, 1);
    pthread_barrier_destroy(&race.barrier);
    verl_tokenizer_close(&race.tokenizer);
}

Test(tokenizer_load, the_second_load_maps_what_the_first_compiled)
{
    cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_COMPILED);
    cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_MAPPED);
    cr_assert_eq(s_origin(FIXTURES "llama3-small/"), VERL_TOKENIZER_MAPPED, "a directory is its tokenizer.json");
    struct stat status;
    cr_assert_eq(stat(s_image(), &status), 0);
    cr_assert_eq(status.st_mode & 0777, 0600);
}

Test(tokenizer_load, another_process_maps_it)
{
    cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_COMPILED);
    pid_t child = fork();
    if (child == 0)
        _exit(s_origin(s_small) == VERL_TOKENIZER_MAPPED ? 0 : 1);
    int status;
    waitpid(child, &status, 0);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Any byte of an image may be wrong: the checksum finds it, and the tokenizer is compiled anew.
Test(tokenizer_load, a_damaged_image_is_replaced)
{
    cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_COMPILED);
    char path[400];
    strcpy(path, s_image());
    verl_text_t image = fixture_read(path);
    for (int damage = 0; damage < 8; damage++) {
        size_t at = damage < 4 ? (size_t) damage * 40 : image.length / 8 * (size_t) damage;
        FILE *file = fopen(path, "r+b");
        cr_assert(file && fseek(file, (long) at, SEEK_SET) == 0);
        fputc(image.data[at] ^ 0x10, file);
        fclose(file);
        cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_COMPILED, "byte %zu", at);
    }
    for (int cut = 0; cut < 4; cut++) {
        cr_assert_eq(truncate(path, (off_t) image.length * cut / 4), 0);
        cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_COMPILED, "cut to %d quarters", cut);
    }
    cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_MAPPED);
    verl_text_done(&image);
}

// Indices are checked too: an image with a valid checksum and a wrong index is not believed.
Test(tokenizer_load, an_image_with_wrong_indices_is_refused)
{
    cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_COMPILED);
    verl_text_t file = fixture_read(s_image());
    verl_image_header_t *header = (verl_image_header_t *) (void *) file.data;
    cr_assert_null(verl_image_check(file.data, file.length, header->key));
    static const int sections[] = { VERL_SECTION_CONTENT_OFFSETS, VERL_SECTION_PIECE_TABLE, VERL_SECTION_MERGES,
                                    VERL_SECTION_BYTE_IDS, VERL_SECTION_ADDED_RAW, VERL_SECTION_PRE_TOKENIZER,
                                    VERL_SECTION_PREFIX };
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        uint32_t *words = (uint32_t *) (void *) (file.data + header->section[sections[i]].offset), kept[4];
        cr_assert_geq(header->section[sections[i]].size, 4);
        memcpy(kept, words, 4);
        if (sections[i] == VERL_SECTION_PIECE_TABLE)
            words++;
        memcpy(kept, words, 4);
        *words = 0x7FFFFFFF;
        header->checksum = verl_image_checksum(file.data, file.length);
        cr_assert_not_null(verl_image_check(file.data, file.length, header->key), "section %d", sections[i]);
        memcpy(words, kept, 4);
    }
    header->section[VERL_SECTION_BYTES].size = UINT64_MAX;
    header->checksum = verl_image_checksum(file.data, file.length);
    cr_assert_not_null(verl_image_check(file.data, file.length, header->key));
    verl_text_done(&file);
}

Test(tokenizer_load, without_a_cache_it_works_alone)
{
    const char *file = fixture_write("cache", "x", 1);      // a file where the directory should be
    cr_assert(file);
    cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_PRIVATE);
    cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_PRIVATE);
}

// An image that somebody else may write to is not believed.
Test(tokenizer_load, an_image_that_others_can_write_is_not_believed)
{
    cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_COMPILED);
    cr_assert_eq(chmod(s_image(), 0666), 0);
    cr_assert_eq(s_origin(s_small), VERL_TOKENIZER_COMPILED);
}

Test(tokenizer_load, the_hash_is_of_the_id_space)
{
    uint64_t one = 0, two = 0, other = 0;
    char error[1024] = "";
    verl_text_t json = fixture_read(s_small);
    cr_assert_eq(verl_tokenizer_hash(s_small, &one, error, sizeof error), 0, "%s", error);
    cr_assert_eq(verl_text_add(&json, "\n \n", 3), 0);
    cr_assert_eq(verl_tokenizer_hash(fixture_write("same.json", json.data, json.length), &two, error, sizeof error), 0);
    cr_assert_eq(one, two, "white space is no difference");
    cr_assert_eq(verl_tokenizer_hash(FIXTURES "gpt2-small", &other, error, sizeof error), 0, "%s", error);
    cr_assert_neq(one, other);
    verl_text_done(&json);
}

// Half a file, any half: one sentence that names the file, no crash.
Test(tokenizer_load, a_file_cut_in_half_is_one_sentence)
{
    verl_text_t json = fixture_read(s_small);
    for (size_t part = 0; part < 64; part++) {
        char error[1024] = "";
        const char *path = fixture_write("cut.json", json.data, json.length * part / 64);
        cr_assert_eq(verl_tokenizer_check(path, error, sizeof error), -1, "%zu", part);
        cr_assert(strstr(error, "cut.json") && strstr(error, "line ") && strstr(error, "cut short"), "%s", error);
        cr_assert_null(strchr(error, '\n'));
    }
    verl_text_done(&json);
}

// One byte of the file wrong: refused with a sentence, or loaded; then it encodes and decodes without a crash.
Test(tokenizer_load, a_file_with_one_wrong_byte_does_no_harm)
{
    verl_text_t json = fixture_read(FIXTURES "gpt2-small/tokenizer.json");
    uint32_t state = 12345;
    int loaded = 0;
    for (int trial = 0; trial < 300; trial++) {
        char error[1024] = "";
        state = state * 1664525 + 1013904223;
        size_t at = state % (trial < 150 ? 3000 : json.length);
        char kept = json.data[at];
        json.data[at] = (char) (32 + (state >> 24) % 95);
        verl_tokenizer_t *tokenizer = fixture_open(fixture_write("wrong.json", json.data, json.length));
        json.data[at] = kept;
        verl_token_ids_t ids = { 0 };
        if (verl_tokenizer_encode(tokenizer, s_text, sizeof s_text - 1, 3, &ids, error, sizeof error) == 0) {
            verl_text_t back = fixture_decode(tokenizer, &ids, 0);
            verl_text_done(&back);
            loaded++;
        } else {
            cr_assert(strstr(error, "wrong.json"), "%s", error);
        }
        verl_token_ids_done(&ids);
        verl_tokenizer_close(&tokenizer);
    }
    cr_assert(loaded > 10 && loaded < 290, "%d of 300 loaded", loaded);
    verl_text_done(&json);
}

// What we cannot do exactly is refused, by name.
Test(tokenizer_load, what_is_not_supported_is_named)
{
    static const struct { const char *json, *named;
    } cases[] = {
        { "[]", "\"model\"" },
        { "{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}", "Unigram" },
        { "{\"model\": {\"vocab\": {}}}", "model.merges" },
        { "{\"model\": {\"vocab\": {\"a\": -1}, \"merges\": []}}", "integer from 0" },
        { "{\"model\": {\"vocab\": {\"a\": 1, \"b\": 1}, \"merges\": []}}", "another token" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a\"]}}", "model.merges[0]" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}}", "merge 0" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1}}", "dropout" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"end_of_word_suffix\": \"</w>\"}}",
          "end_of_word_suffix" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"normalizer\": {\"type\": \"Nmt\"}}", "Nmt" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"Punctuation\"}}",
          "Punctuation" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"decoder\": {\"type\": \"CTC\"}}", "CTC" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"post_processor\": {\"type\": \"X\"}}", "X" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": "
          "\"Isolated\", \"pattern\": {\"Regex\": \"(\"}}}",
          "the pattern \"(\"" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": "
          "\"Isolated\", \"pattern\": {\"Regex\": \"[a&&b]\"}}}",
          "intersection" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char error[1024] = "";
        const char *path = fixture_write("tokenizer.json", cases[i].json, strlen(cases[i].json));
        cr_assert_eq(verl_tokenizer_check(path, error, sizeof error), -1, "%s", cases[i].json);
        cr_assert(strstr(error, cases[i].named) && strstr(error, path), "%s: %s", cases[i].json, error);
    }
}

#define MODEL "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []"

// The reference refuses such a file too: what is skipped would give other ids.
Test(tokenizer_load, a_part_of_another_type_is_named)
{
    static const struct { const char *more, *named;
    } cases[] = {
        { "}, \"pre_tokenizer\": 3}", "pre_tokenizer is a number: an object with its type would be right" },
        { "}, \"pre_tokenizer\": \"ByteLevel\"}", "pre_tokenizer is text" },
        { "}, \"pre_tokenizer\": [{\"type\": \"ByteLevel\"}]}", "pre_tokenizer is an array" },
        { "}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [null]}}",
          "pretokenizers has an element that is null" },
        { "}, \"normalizer\": \"NFC\"}", "normalizer is text" },
        { "}, \"decoder\": true}", "decoder is true" },
        { "}, \"post_processor\": \"x\"}", "post_processor is text" },
        { "}, \"added_tokens\": \"x\"}", "added_tokens is text: an array of objects would be right" },
        { "}, \"added_tokens\": {}}", "added_tokens is an object" },
        { "}, \"added_tokens\": [{\"id\": 0, \"content\": \"a\", \"special\": \"x\"}]}",
          "special of added_tokens[0] is text: true or false would be right" },
        { "}, \"added_tokens\": [{\"id\": 0, \"content\": \"a\", \"lstrip\": 1}]}",
          "lstrip of added_tokens[0] is a number" },
        { ", \"ignore_merges\": \"yes\"}}", "ignore_merges of model is text: true or false would be right" },
        { ", \"unk_token\": 3}}", "unk_token of model is a number: text or null would be right" },
        { ", \"dropout\": \"0.1\"}}", "dropout of model is text: null would be right" },
        { "}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": \"yes\"}}",
          "add_prefix_space of pre_tokenizer is text" },
        { "}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"use_regex\": 0}}",
          "use_regex of pre_tokenizer is a number" },
        { "}, \"decoder\": {\"type\": \"Strip\", \"content\": \" \", \"start\": \"1\", \"stop\": 0}}",
          "\"start\" and \"stop\"" },
        { "}, \"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"a\", 0], \"cls\": [\"a\", \"0\"]}}",
          "post_processor.cls and .sep must be pairs" },
    };
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char error[1024] = "";
        snprintf(text, sizeof text, MODEL "%s", cases[i].more);
        const char *path = fixture_write("tokenizer.json", text, strlen(text));
        cr_expect_eq(verl_tokenizer_check(path, error, sizeof error), -1, "%s", text);
        cr_expect(strstr(error, cases[i].named) && strstr(error, path), "%s: %s", text, error);
    }
}

Test(tokenizer_load, a_part_may_be_null)
{
    static const char text[] = MODEL ", \"ignore_merges\": null, \"unk_token\": null, \"dropout\": null},"
                               " \"normalizer\": null, \"pre_tokenizer\": null, \"post_processor\": null,"
                               " \"decoder\": null, \"added_tokens\": []}";
    char error[1024] = "";
    cr_assert_eq(verl_tokenizer_check(fixture_write("tokenizer.json", text, strlen(text)), error, sizeof error), 0,
                 "%s", error);
}

// The token <|eot_id|> of the small tokenizer has no flag but special.
#define EOT(flags) "{\"added_tokens_decoder\": {\"1804\": {\"content\": \"<|eot_id|>\", \"special\": true" flags "}}}"

Test(tokenizer_load, a_token_that_stands_only_beside_it_is_named)
{
    static const struct { const char *file, *text, *named;
    } cases[] = {
        { "tokenizer_config.json", "{\"eos_token\": \"Hi\"}", "\"Hi\" of eos_token in tokenizer_config.json" },
        { "tokenizer_config.json", "{\"image_token\": {\"content\": \"<i>\"}}", "\"<i>\" of image_token" },
        { "tokenizer_config.json", "{\"added_tokens_decoder\": {\"5000\": {\"content\": \"<|mine|>\"}}}",
          "\"<|mine|>\" of added_tokens_decoder" },
        { "tokenizer_config.json", "{\"additional_special_tokens\": [\"<|eot_id|>\", \"<|mine|>\"]}",
          "\"<|mine|>\" of additional_special_tokens" },
        { "tokenizer_config.json", "{\"extra_special_tokens\": {\"mine\": \"<|mine|>\"}}",
          "\"<|mine|>\" of extra_special_tokens" },
        { "tokenizer_config.json", EOT(", \"lstrip\": true"),
          "\"<|eot_id|>\" has lstrip = false in its added_tokens, and true in tokenizer_config.json" },
        { "tokenizer_config.json", EOT(", \"normalized\": true"), "normalized = false" },
        { "tokenizer_config.json", "{\"split_special_tokens\": true}", "split_special_tokens is true" },
        { "special_tokens_map.json", "{\"eos_token\": \"Hi\"}", "\"Hi\" of eos_token in special_tokens_map.json" },
        { "special_tokens_map.json", "{\"additional_special_tokens\": [\"<|mine|>\"]}", "\"<|mine|>\"" },
        { "special_tokens_map.json", "[]", "special_tokens_map.json beside it must be an object" },
        { "added_tokens.json", "{\"<|mine|>\": 5000}", "\"<|mine|>\" of a token in added_tokens.json" },
        { "added_tokens.json", "{\"<|eot_id|>\": 5000}", "\"<|eot_id|>\" has the id 1804" },
    };
    verl_text_t json = fixture_read(s_small);
    fixture_write("tokenizer.json", json.data, json.length);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char error[1024] = "", path[256];
        snprintf(path, sizeof path, "%s", fixture_write(cases[i].file, cases[i].text, strlen(cases[i].text)));
        cr_expect_eq(verl_tokenizer_check(g_folder, error, sizeof error), -1, "%s", cases[i].text);
        cr_expect(strstr(error, cases[i].named), "%s: %s", cases[i].text, error);
        cr_assert_eq(unlink(path), 0);
    }
    verl_text_done(&json);
}

Test(tokenizer_load, files_beside_it_that_say_the_same_are_right)
{
    static const char config[] = EOT(""), added[] = "{\"<|mine|>\": 5000}", text[] = "a <|eot_id|>";
    verl_text_t json = fixture_read(s_small);
    fixture_write("tokenizer.json", json.data, json.length);
    fixture_write("tokenizer_config.json", config, strlen(config));
    fixture_write("added_tokens.json", added, strlen(added));  // does not count beside an added_tokens_decoder
    verl_tokenizer_t *tokenizer = fixture_open(g_folder);
    verl_token_ids_t ids = fixture_encode(tokenizer, text, strlen(text), VERL_TOKENIZER_PARSE_SPECIAL);
    cr_assert_eq(ids.data[ids.count - 1], 1804);
    verl_token_ids_done(&ids);
    verl_tokenizer_close(&tokenizer);
    verl_text_done(&json);
}
