// Conversations: reading, telling them from plain text, and what is refused.
#include <criterion/criterion.h>
#include <string.h>

#include "actors/data/messages.h"

static char s_error[256];

static verl_messages_t *
s_parse(const char *text)
{
    return verl_messages_parse(text, strlen(text), s_error, sizeof s_error);
}

Test(messages, roles_and_contents_arrive_in_order)
{
    verl_messages_t *m =
        s_parse("[{\"role\":\"system\",\"content\":\"\"},{\"role\":\"user\",\"content\":\"hi\",\"name\":\"x\"}]");
    cr_assert(m, "%s", s_error);
    cr_assert_eq(m->count, 2);
    cr_assert_str_eq(m->items[0].role, "system");
    cr_assert_str_eq(m->items[0].content, "");
    cr_assert_str_eq(m->items[1].role, "user");
    cr_assert_str_eq(m->items[1].content, "hi");
    verl_messages_destroy(&m);
    cr_assert_null(m);
    verl_messages_destroy(&m);
}

Test(messages, plain_text_is_told_apart)
{
    cr_assert(verl_messages_looks_like("[{\"role\"", 8));
    cr_assert(verl_messages_looks_like(" [ {", 4));
    cr_assert_not(verl_messages_looks_like("37+48=", 6));
    cr_assert_not(verl_messages_looks_like("[1,2]", 5));
    cr_assert_not(verl_messages_looks_like("[", 1));
    cr_assert_not(verl_messages_looks_like("", 0));
}

Test(messages, what_is_no_conversation_is_refused)
{
    const char *wrong[][2] = { { "[]", "no messages" },
                               { "{}", "no messages" },
                               { "[", "not JSON" },
                               { "[1]", "no object" },
                               { "[{\"role\":\"\",\"content\":\"\"}]", "role of message 0" },
                               { "[{\"role\":\"u\",\"role\":\"v\",\"content\":\"\"}]", "not JSON" } };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert_null(s_parse(wrong[i][0]));
        cr_assert(strstr(s_error, wrong[i][1]), "%s: \"%s\" does not say \"%s\"", wrong[i][0], s_error, wrong[i][1]);
    }
}
