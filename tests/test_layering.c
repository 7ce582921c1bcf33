// test_layering.c: the arrows of the house point one way: what each folder's files include of ours.
//
//   kernels     nothing of ours
//   runtime     the runtime
//   actors      the runtime and the kernels; of the runtime only <verl.h>, for a kind (a file of actors/ itself) as for
//               what the actors share (actors/lm, actors/text, …)
//   tools       everything
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct look {
    int files, includes, wrong;
    char last[512]; // the last wrong arrow
} look_t;

// Does a path from the source root begin with a folder?
static bool
s_in(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && path[length] == '/';
}

static bool
s_is_ours(const char *included)
{
    static const char *const folders[] = { "kernels", "runtime", "actors", "tools", "tests", "topologies" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (s_in(included, folders[i]))
            return true;
    return strcmp(included, "verl.h") == 0;
}

static bool
s_is_actor_header(const char *included)
{
    return strcmp(included, "verl.h") == 0 || strcmp(included, "runtime/include/verl.h") == 0;
}

// May a file include a header? Names without a folder are of the file's own.
static bool
s_may(const char *file, const char *included)
{
    if (!s_is_ours(included) || s_in(file, "tools"))
        return !strstr(included, "..");
    if (s_in(file, "kernels"))
        return s_in(included, "kernels");
    if (s_in(file, "runtime"))
        return s_in(included, "runtime") || s_is_actor_header(included);
    return s_in(included, "actors") || s_in(included, "kernels") || s_is_actor_header(included);
}

// What a line includes, in a buffer; false where it includes nothing.
static bool
s_included(const char *line, char *name, size_t size)
{
    line += strspn(line, " \t");
    if (*line++ != '#')
        return false;
    line += strspn(line, " \t");
    if (strncmp(line, "include", 7) != 0)
        return false;
    line += 7;
    line += strspn(line, " \t");
    if (*line != '"' && *line != '<')
        return false;
    size_t length = strcspn(line + 1, "\">");
    snprintf(name, size, "%.*s", (int) length, line + 1);
    return true;
}

static void
s_look_at_file(const char *path, look_t *look)
{
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "cannot read %s", path);
    char line[1024], name[512];
    look->files++;
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        if (!s_included(line, name, sizeof name))
            continue;
        look->includes++;
        if (s_may(path, name))
            continue;
        look->wrong++;
        snprintf(look->last, sizeof look->last, "%.200s:%d includes %.200s", path, number, name);
        fprintf(stderr, "%s\n", look->last);
    }
    fclose(file);
}

static bool
s_is_source(const char *name)
{
    static const char *const endings[] = { ".c", ".h", ".cpp", ".cu", ".cuh", ".c.in" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(endings[i]);
        if (strlen(name) > length && strcmp(name + strlen(name) - length, endings[i]) == 0)
            return true;
    }
    return false;
}

static void
s_look(const char *folder, look_t *look)
{
    DIR *dir = opendir(folder);
    cr_assert_not_null(dir, "no folder %s: the tests run from the source root", folder);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[1024];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || stat(path, &info) != 0)
            continue;
        if (S_ISDIR(info.st_mode))
            s_look(path, look);
        else if (s_is_source(entry->d_name))
            s_look_at_file(path, look);
    }
    closedir(dir);
}

static void
s_check(const char *folder)
{
    look_t look = { 0 };
    s_look(folder, &look);
    cr_assert_gt(look.files, 1, "%s holds no sources", folder);
    cr_assert_gt(look.includes, look.files, "the includes of %s were not seen", folder);
    cr_assert_eq(look.wrong, 0, "%d wrong arrows, the last one: %s", look.wrong, look.last);
}

Test(layering, kernels_include_nothing_of_ours)
{
    s_check("kernels");
}
Test(layering, the_runtime_knows_no_actors)
{
    s_check("runtime");
}
Test(layering, actors_know_the_runtime_by_one_header)
{
    s_check("actors");
}
Test(layering, tools_stay_inside_of_the_house)
{
    s_check("tools");
}

Test(layering, wrong_arrows_are_seen)
{
    cr_assert(!s_may("kernels/gemm.c", "runtime/base/error.h"));
    cr_assert(!s_may("kernels/gemm.c", "verl.h"));
    cr_assert(!s_may("runtime/actor/host.c", "actors/lm/model.h"));
    cr_assert(!s_may("runtime/actor/host.c", "kernels/linear.h"));
    cr_assert(!s_may("runtime/actor/host.c", "tools/rundir.h"));
    cr_assert(!s_may("actors/loader.c", "runtime/wire/pack.h"));
    cr_assert(!s_may("actors/loader.c", "tools/rundir.h"));
    cr_assert(!s_may("tools/verl-run.c", "../runtime/x.h"));
    cr_assert(s_may("actors/loader.c", "verl.h"));
    cr_assert(s_may("actors/lm/model.c", "kernels/linear.h"));
    cr_assert(s_may("runtime/actor/host.c", "runtime/wire/pack.h"));
    char name[64];
    cr_assert(s_included("  #  include  \"a/b.h\" // x", name, sizeof name));
    cr_assert_str_eq(name, "a/b.h");
    cr_assert(!s_included("// #include <x>", name, sizeof name));
}
