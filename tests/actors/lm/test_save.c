// A save is a whole model or nothing, and loads again bit by bit.
#include "actors/lm/save.h"
#include "actors/lm/gguf.h"
#include "actors/lm/load.h"
#include "actors/lm/quants.h"
#include "scratch.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

typedef struct {
    verl_lm_config_t config;
    verl_lm_layout_t layout;
    float           *parameters;
} s_model_t;

static s_model_t
s_load(const char *path)
{
    s_model_t model;
    char      error[1024];
    cr_assert_eq(verl_lm_config_load(path, &model.config, error, sizeof error), 0, "%s", error);
    cr_assert_eq(verl_lm_layout_init(&model.layout, &model.config), 0);
    model.parameters = malloc((size_t) model.layout.total * sizeof(float));
    cr_assert(model.parameters);
    cr_assert_eq(verl_lm_parameters_load(path, &model.config, &model.layout, model.parameters, error, sizeof error), 0,
                 "%s", error);
    return model;
}

static void
s_done(s_model_t *model)
{
    verl_lm_layout_done(&model->layout);
    free(model->parameters);
}

static int
s_save(const char *dir, const s_model_t *model, const verl_save_options_t *options, char *error, size_t error_size)
{
    return verl_lm_save(dir, &model->config, &model->layout, model->parameters, options, error, error_size);
}

static void
s_must_save(const char *dir, const s_model_t *model, const verl_save_options_t *options)
{
    char error[1024];
    cr_assert_eq(s_save(dir, model, options, error, sizeof error), 0, "%s", error);
}

static bool
s_there(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s%s", dir, name) < PATH_MAX && access(path, F_OK) == 0;
}

// A path below a directory that goes away with it.
static void
s_target(char *dir, char *target)
{
    scratch_make(dir);
    cr_assert(snprintf(target, PATH_MAX, "%s/model", dir) < PATH_MAX);
}

Test(lm_save, single_precision_comes_back_bit_by_bit)
{
    static const char *const names[] = {"llama-tiny", "llama3-tiny", "qwen2-tiny-sharded", "qwen3-tiny",
                                        "gguf/llama3-tiny.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char dir[PATH_MAX], target[PATH_MAX], path[PATH_MAX];
        s_target(dir, target);
        snprintf(path, sizeof path, "%s%s", MODELS, names[i]);
        s_model_t model = s_load(path);
        s_must_save(target, &model, NULL);
        s_model_t again = s_load(target);
        cr_assert(memcmp(&model.config, &again.config, sizeof model.config) == 0, "%s", names[i]);
        cr_assert(memcmp(model.parameters, again.parameters, (size_t) model.layout.total * sizeof(float)) == 0);
        cr_assert(!s_there(target, ".saving"));
        s_done(&model);
        s_done(&again);
        scratch_remove(dir);
    }
}

Test(lm_save, brain_halves_come_back_rounded)
{
    char                dir[PATH_MAX], target[PATH_MAX];
    verl_save_options_t options = {VERL_SAVE_BF16, NULL, NULL, 0};
    s_model_t           model = s_load(MODELS "qwen3-tiny");
    s_target(dir, target);
    s_must_save(target, &model, &options);
    s_model_t again = s_load(target);
    for (int64_t i = 0; i < model.layout.total; i++) {
        float    rounded;
        uint16_t half = verl_bf16_from_float(model.parameters[i]);
        verl_dequantize(VERL_QUANT_BF16, &half, 1, &rounded);
        cr_assert_eq(again.parameters[i], rounded);
        cr_assert_leq(fabsf(rounded - model.parameters[i]), fabsf(model.parameters[i]) / 256);
    }
    s_done(&model);
    s_done(&again);
    scratch_remove(dir);
}

Test(lm_save, tokenizer_files_come_along)
{
    char                dir[PATH_MAX], target[PATH_MAX], source[PATH_MAX], path[PATH_MAX];
    size_t              size;
    s_model_t           model = s_load(MODELS "llama-tiny");
    char               *large = malloc(200000);
    verl_save_options_t options = {VERL_SAVE_F32, source, NULL, 0};
    cr_assert(large);
    memset(large, 'x', 200000);
    s_target(dir, target);
    cr_assert(snprintf(source, sizeof source, "%s/source", dir) < PATH_MAX);
    cr_assert_eq(mkdir(source, 0755), 0);
    scratch_write(source, "tokenizer.json", large, 200000);
    scratch_write(source, "tokenizer_config.json", "{}", 2);
    scratch_write(source, "notes.txt", "no", 2);
    s_must_save(target, &model, &options);
    cr_assert(snprintf(path, sizeof path, "%s/tokenizer.json", target) < PATH_MAX);
    uint8_t *bytes = scratch_read(path, &size);
    cr_assert(size == 200000 && memcmp(bytes, large, size) == 0);
    free(bytes);
    cr_assert(s_there(target, "/tokenizer_config.json") && !s_there(target, "/notes.txt"));

    options.tokenizer_dir = target;                         // over itself: the files stay
    s_must_save(target, &model, &options);
    cr_assert(s_there(target, "/tokenizer.json") && s_there(target, "/config.json"));
    options.tokenizer_dir = NULL;
    s_must_save(target, &model, &options);
    cr_assert(!s_there(target, "/tokenizer.json"));
    free(large);
    s_done(&model);
    scratch_remove(dir);
}

// The metadata of a GGUF model, without its tensors, go along; and again when what was saved is saved.
Test(lm_save, the_tokenizer_of_a_gguf_model_comes_along)
{
    char                dir[PATH_MAX], target[PATH_MAX], error[512], path[PATH_MAX];
    verl_save_options_t options = {VERL_SAVE_F32, MODELS "gguf/qwen2-tiny.gguf", NULL, 0};
    s_model_t           model = s_load(MODELS "gguf/qwen2-tiny.gguf");
    s_target(dir, target);
    for (int round = 0; round < 2; round++) {
        s_must_save(target, &model, &options);
        options.tokenizer_dir = target;
        cr_assert(snprintf(path, sizeof path, "%s/tokenizer.gguf", target) < PATH_MAX);
        verl_gguf_t *from = verl_gguf_open(MODELS "gguf/qwen2-tiny.gguf", error, sizeof error);
        verl_gguf_t *to = verl_gguf_open(path, error, sizeof error);
        cr_assert(from && to, "%s", error);
        cr_assert_eq(verl_gguf_tensor_count(to), 0);
        cr_assert_eq(verl_gguf_value_count(to), verl_gguf_value_count(from));
        int64_t id = -1;
        cr_assert(verl_gguf_int(to, "tokenizer.ggml.eos_token_id", &id) && id == 2);
        verl_gguf_close(&from);
        verl_gguf_close(&to);
    }
    s_model_t again = s_load(target);
    s_done(&again);
    s_done(&model);
    scratch_remove(dir);
}

Test(lm_save, a_new_model_takes_the_place_of_the_old_one)
{
    char      dir[PATH_MAX], target[PATH_MAX];
    s_model_t first = s_load(MODELS "llama-tiny"), second = s_load(MODELS "qwen2-tiny");
    s_target(dir, target);
    cr_assert_eq(mkdir(target, 0755), 0);                   // an empty directory is a place, too
    s_must_save(target, &first, NULL);
    strcat(target, "//");
    s_must_save(target, &second, NULL);
    s_model_t again = s_load(target);
    cr_assert_eq(again.config.family, VERL_LM_QWEN2);
    cr_assert_eq(rmdir(dir), -1);
    s_done(&again);
    s_done(&first);
    s_done(&second);
    scratch_remove(dir);
}

Test(lm_save, what_is_no_model_is_not_replaced)
{
    char      dir[PATH_MAX], target[PATH_MAX], inner[PATH_MAX], error[1024];
    s_model_t model = s_load(MODELS "llama-tiny");
    s_target(dir, target);
    scratch_write(dir, "model", "x", 1);
    cr_assert_eq(s_save(target, &model, NULL, error, sizeof error), -1);
    cr_assert_says(error, "it is there and no directory");
    cr_assert_eq(unlink(target), 0);
    cr_assert_eq(mkdir(target, 0755), 0);
    scratch_write(target, "thesis.tex", "x", 1);
    cr_assert_eq(s_save(target, &model, NULL, error, sizeof error), -1);
    cr_assert_says(error, "it holds files and no config.json");
    scratch_write(target, "config.json", "{}", 2);
    cr_assert(snprintf(inner, sizeof inner, "%s/inner", target) < PATH_MAX);
    cr_assert_eq(mkdir(inner, 0755), 0);
    cr_assert_eq(s_save(target, &model, NULL, error, sizeof error), -1);
    cr_assert_says(error, "it holds a directory (inner)");
    cr_assert(s_there(target, "/thesis.tex"));
    cr_assert_eq(s_save("/nowhere/at/all", &model, NULL, error, sizeof error), -1);
    cr_assert_says(error, "cannot save to /nowhere/at/all: cannot create /nowhere/at/all.saving: No such file");
    cr_assert_eq(s_save("", &model, NULL, error, sizeof error), -1);
    cr_assert_says(error, "the path is empty");
    char *path = malloc(2 * PATH_MAX);
    cr_assert(path);
    memset(path, 'x', 2 * PATH_MAX - 1);
    path[2 * PATH_MAX - 1] = '\0';
    cr_assert_eq(s_save(path, &model, NULL, error, sizeof error), -1);
    cr_assert(strlen(error) < sizeof error && strstr(error, "cannot save to xxx"));
    free(path);
    s_done(&model);
    scratch_remove(dir);
}

Test(lm_save, one_saver_at_a_time)
{
    char      dir[PATH_MAX], target[PATH_MAX], beside[PATH_MAX], error[1024];
    s_model_t model = s_load(MODELS "llama-tiny");
    s_target(dir, target);
    cr_assert(snprintf(beside, sizeof beside, "%s.saving", target) < PATH_MAX);
    cr_assert_eq(mkdir(beside, 0755), 0);
    scratch_write(beside, "model.safetensors", "left over", 9);
    int fd = open(beside, O_RDONLY | O_DIRECTORY);
    cr_assert_eq(flock(fd, LOCK_EX), 0);
    cr_assert_eq(s_save(target, &model, NULL, error, sizeof error), -1);
    cr_assert_says(error, "another save to it is going on");
    cr_assert(s_there(beside, "/model.safetensors"));
    close(fd);
    s_must_save(target, &model, NULL);
    cr_assert(!s_there(target, ".saving"));
    s_done(&model);
    scratch_remove(dir);
}

Test(lm_save, a_full_disk_leaves_the_old_model)
{
    char      dir[PATH_MAX], target[PATH_MAX];
    s_model_t model = s_load(MODELS "llama-tiny"), larger = s_load(MODELS "qwen3-tiny");
    s_target(dir, target);
    s_must_save(target, &model, NULL);
    pid_t child = fork();
    if (child == 0) {
        char          error[1024];
        struct rlimit limit = {100000, 100000};             // a write beyond it fails with EFBIG
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        bool said = s_save(target, &larger, NULL, error, sizeof error) == -1
                    && strstr(error, "cannot write model.safetensors: File too large");
        _exit(said ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert(!s_there(target, ".saving"));
    s_model_t again = s_load(target);
    cr_assert_eq(again.config.family, VERL_LM_LLAMA);
    s_done(&again);
    s_done(&model);
    s_done(&larger);
    scratch_remove(dir);
}

// The child saves two models in turn; whenever it is killed, one of them is there, whole.
Test(lm_save, a_kill_leaves_the_old_or_the_new, .timeout = 120)
{
    char      dir[PATH_MAX], target[PATH_MAX];
    s_model_t models[2] = {s_load(MODELS "llama-tiny"), s_load(MODELS "qwen3-tiny")};
    s_target(dir, target);
    s_must_save(target, &models[0], NULL);
    for (int round = 0; round < 60; round++) {
        pid_t child = fork();
        if (child == 0) {
            char error[1024];
            for (int i = round;; i++)
                if (s_save(target, &models[i % 2], NULL, error, sizeof error))
                    _exit(1);
        }
        struct timespec pause = {0, 1000000 + round * 217000 % 9000000};
        nanosleep(&pause, NULL);
        int status;
        kill(child, SIGKILL);
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFSIGNALED(status), "the child said no in round %d", round);
        s_model_t again = s_load(target);
        const s_model_t *saved = &models[again.config.family == VERL_LM_QWEN3];
        cr_assert_eq(again.layout.total, saved->layout.total);
        cr_assert(memcmp(again.parameters, saved->parameters, (size_t) saved->layout.total * sizeof(float)) == 0);
        s_done(&again);
    }
    s_done(&models[0]);
    s_done(&models[1]);
    scratch_remove(dir);
}
