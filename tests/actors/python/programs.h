// programs.h: runs of topologies whose stages are the programs in programs/, and what is looked at in them.
#ifndef VERL_TEST_PROGRAMS_H
#define VERL_TEST_PROGRAMS_H
#include <jansson.h>
#include <string.h>
#include <unistd.h>
#include "actors/python/python.h"
#include "tools/run.h"

#define PROGRAMS VERL_SOURCE_DIR "/tests/actors/python/programs/"

// A topology with WORK, COUNTER and WATCHER replaced by the commands of the programs beside this file.
static inline const char *
programs_topology(const char *text)
{
    static char whole[16384];
    const char *words[] = { "WORK", "COUNTER", "WATCHER" }, *files[] = { "work.py", "counter.py", "weights.py" },
               *python = python_or_skip();
    size_t used = 0;
    setenv("PYTHONPATH", VERL_SOURCE_DIR "/actors/python", 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    for (const char *c = text; *c && used + 600 < sizeof whole;) {
        int found = -1;
        for (int i = 0; i < 3; i++)
            if (strncmp(c, words[i], strlen(words[i])) == 0)
                found = i;
        if (found >= 0) {
            used += (size_t) snprintf(whole + used, sizeof whole - used, "[\"%s\", \"" PROGRAMS "%s\"]", python,
                                      files[found]);
            c += strlen(words[found]);
        } else
            whole[used++] = *c++;
    }
    whole[used] = 0;
    return whole;
}

// The lines of kept.jsonl, in a JSON array. Caller owns it.
static inline json_t *
programs_kept(const run_t *run)
{
    char *text = run_file(run, "kept.jsonl");
    json_t *lines = json_array();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_error_t where;
        json_t *object = json_loads(line, 0, &where);
        cr_assert(object, "%s: %s", where.text, line);
        json_array_append_new(lines, object);
    }
    free(text);
    return lines;
}

// Waits until the file has so many lines.
static inline void
programs_until_kept(const run_t *run, int lines)
{
    for (int count = 0, tries = 0; count < lines; usleep(2000)) {
        char *text = run_file(run, "kept.jsonl");
        count = run_lines(text);
        free(text);
        cr_assert_lt(++tries, 15000, "%d lines only", count);
    }
}

// The process of a stage of a program, not its guard; 0: there is none now.
static inline pid_t
programs_worker(const run_t *run, const char *program)
{
    pid_t all[16];
    int count = run_processes(run, all, 16);
    for (int i = 0; i < count && i < 16; i++) {
        char path[64], text[600] = "";
        snprintf(path, sizeof path, "/proc/%d/cmdline", (int) all[i]);
        FILE *file = fopen(path, "re");
        size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
        if (file)
            fclose(file);
        if (size > 0 && memmem(text, size, program, strlen(program)) && !memmem(text, size, "verl-actor", 10))
            return all[i];
    }
    return 0;
}

#endif
