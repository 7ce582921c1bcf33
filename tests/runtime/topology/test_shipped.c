// test_shipped.c: the kinds that this program ships are whole, and say what they are.
#include <criterion/criterion.h>
#include <string.h>
#include "runtime/topology/describe.h"
#include "runtime/topology/kinds.h"

extern const verl_kind_t *const verl_kinds[];

Test(shipped, kinds_can_be_registered)
{
    verl_error_t error = { "" };
    int rc = verl_kind_register_all(verl_kinds, &error);
    cr_assert(rc == 0, "%s", error.text);
    cr_assert_gt(verl_kind_count(), 0);
}

Test(shipped, kinds_say_what_they_are)
{
    for (const verl_kind_t *const *kind = verl_kinds; *kind; kind++) {
        const char *about = (*kind)->about;
        cr_assert(about && *about, "kind `%s` has no sentence", (*kind)->name);
        cr_assert(about[strlen(about) - 1] != '.', "the sentence of kind `%s` ends with a full stop", (*kind)->name);
    }
}

static void
s_check_options(const char *kind, const verl_option_t *table)
{
    for (; table && table->name; table++) {
        bool said = table->about && *table->about;
        cr_assert(said, "kind `%s`: option `%s` has no sentence", kind, table->name);
    }
}

Test(shipped, options_say_what_they_are)
{
    for (const verl_kind_t *const *kind = verl_kinds; *kind; kind++) {
        s_check_options((*kind)->name, (*kind)->options);
        for (int i = 0; i < verl_stage_kind_count(*kind); i++)
            s_check_options((*kind)->name, (*kind)->stages[i].options);
    }
}

Test(shipped, kinds_have_help)
{
    verl_error_t error = { "" };
    verl_kind_register_all(verl_kinds, &error);
    for (const verl_kind_t *const *kind = verl_kinds; *kind; kind++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        cr_assert_eq(verl_describe_help((*kind)->name, out, &error), 0);
        fclose(out);
        cr_assert_gt(size, 40);
        free(text);
    }
}
