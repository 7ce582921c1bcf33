// Chat templates: the ones of known models, word for word, and what the interpreter refuses.
#include "text_fixture.h"
#include "actors/text/chat.h"
#include "actors/text/jinja.h"
#include <jansson.h>

TestSuite(chat, .init = fixture_setup, .fini = fixture_teardown, .timeout = 60);

#define AND8 "and 1 and 1 and 1 and 1 and 1 and 1 and 1 and 1 "
#define AND64 AND8 AND8 AND8 AND8 AND8 AND8 AND8 AND8

static const verl_chat_message_t s_user[] = { { .role = "user", .content = "Hi" } };
static const verl_chat_message_t s_four[] = {
    { .role = "system", .content = "Be brief." },
    { .role = "user", .content = "2+2?" },
    { .role = "assistant", .content = "<think>\nsum\n</think>\n\n4" },
    { .role = "user", .content = "sure?" },
};

static void
s_expect(verl_tokenizer_t *tokenizer, const verl_chat_message_t *messages, size_t count, bool prompt,
         const char *expected)
{
    char error[1024] = "";
    verl_text_t text = { 0 };
    cr_assert_eq(verl_chat_text(tokenizer, messages, count, prompt, &text, error, sizeof error), 0, "%s", error);
    cr_expect_str_eq(text.data, expected);
    verl_text_done(&text);
}

// A tokenizer whose template is this one.
static verl_tokenizer_t *
s_with_template(const char *source)
{
    verl_text_t json = fixture_read(FIXTURES "llama3-small/tokenizer.json");
    static const char config[] = "{\"bos_token\": \"<|begin_of_text|>\", \"eos_token\": {\"content\": \"<|eot_id|>\"}}";
    fixture_write("tokenizer.json", json.data, json.length);
    fixture_write("tokenizer_config.json", config, strlen(config));
    fixture_write("chat_template.jinja", source, strlen(source));
    verl_text_done(&json);
    return fixture_open(g_folder);
}

Test(chat, qwen3)
{
    if (access(QWEN3, R_OK) != 0)
        cr_skip_test("%s is not there", QWEN3);
    verl_tokenizer_t *tokenizer = fixture_open(QWEN3);
    s_expect(tokenizer, s_user, 1, true, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    s_expect(tokenizer, s_four, 4, true, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n"
             "<|im_start|>assistant\n4<|im_end|>\n<|im_start|>user\nsure?<|im_end|>\n<|im_start|>assistant\n");
    s_expect(tokenizer, s_four, 3, false, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n"
             "<|im_start|>assistant\n<think>\nsum\n</think>\n\n4<|im_end|>\n");
    char error[1024] = "";
    verl_token_ids_t ids = { 0 };
    static const int32_t expected[] = { 151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198 };
    cr_assert_eq(verl_chat_encode(tokenizer, s_user, 1, true, &ids, error, sizeof error), 0, "%s", error);
    cr_assert_eq(ids.count, 9);
    cr_assert_arr_eq(ids.data, expected, sizeof expected);
    verl_token_ids_done(&ids);
    verl_tokenizer_close(&tokenizer);
}

Test(chat, smollm2_has_a_system_prompt_of_its_own)
{
    if (access(SMOLLM2, R_OK) != 0)
        cr_skip_test("%s is not there", SMOLLM2);
    verl_tokenizer_t *tokenizer = fixture_open(SMOLLM2);
    s_expect(tokenizer, s_user, 1, true,
             "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
             "Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    s_expect(tokenizer, s_four, 2, false,
             "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n");
    verl_tokenizer_close(&tokenizer);
}

Test(chat, llama3_style)
{
    verl_tokenizer_t *tokenizer =
        s_with_template("{%- for m in messages %}\n"
                        "    {%- set text = '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m.content "
                        "| trim + '<|eot_id|>' %}\n"
                        "    {%- if loop.first %}{% set text = bos_token + text %}{% endif %}\n"
                        "    {{- text }}\n"
                        "{%- endfor %}\n"
                        "{%- if add_generation_prompt %}\n"
                        "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"
                        "{%- endif %}\n");
    s_expect(
        tokenizer, s_four, 2, true,
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n2+2?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
    verl_tokenizer_close(&tokenizer);
}

// Whitespace as trim_blocks and lstrip_blocks have it, scopes, loops, slices, filters, tests, macros.
Test(chat, the_language)
{
    static const struct { const char *source, *expected;
    } cases[] = {
        { "a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc" },
        { "a {%- if true -%} b {%- endif -%} c", "abc" },
        { "{# gone #}x{{- 'y' -}}  z", "xyz" },
        { "{% for i in range(3) %}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}", "0,1,2" },
        { "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content }}{% else %}none{% endfor %}",
          "12+2?2sure?" },
        { "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "1" },
        { "{% set n = namespace(x=1) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}", "4" },
        { "{{ messages[1:3] | length }}{{ messages[::-1][0].content }}{{ messages[-1]['role'] }}", "2sure?user" },
        { "{{ 'héllo'[1:3] }}{{ 'héllo'[::-1] }}{{ 'héllo' | length }}", "élolléh5" },
        { "{{ 'a-b-c'.split('-')[-1] }}{{ ' x '.strip() }}{{ 'xxaxx'.strip('x') }}{{ 'ab'.startswith('a') }}",
          "cxaTrue" },
        { "{{ nothing is defined }}{{ nothing | default('d') }}{{ none is none }}{{ not nothing }}", "FalsedTrueTrue" },
        { "{{ 'b' in 'abc' and 3 not in [1, 2] }}{{ 7 // 2 }}{{ -7 % 3 }}{{ 'x' if false else 'y' }}{{ 'n' ~ 1 }}",
          "True32yn1" },
        { "{{ {'a': [1, true, none, 'q\"']} | tojson }}", "{\"a\": [1, true, null, \"q\\\"\"]}" },
        { "{% macro f(a, b='!') %}{{ a }}{{ b }}{% endmacro %}{{ f('x') }}{{ f('y', b='?') }}", "x!y?" },
        { "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %}", "a1b2" },
        { "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i "
          "}}{% endfor %}",
          "013" },
        { "{% set t %}in {{ 1 + 1 }}{% endset %}{{ t | upper }}", "IN 2" },
        { "{% generation %}x{% endgeneration %}", "x" },
        { "{{ 'à b 内\u3000c \u00c5 '.split() }}{{ ' a  b c '.split(none, 1) }}{{ 'a,b,c'.split(sep=',', maxsplit=1) }}"
          "{{ ''.split(',') }}{{ ','.split(',') }}{{ ' '.split() }}",
          "['à', 'b', '内', 'c', 'Å']['a', 'b c ']['a', 'b,c']['']['', ''][]" },
        { "{{ 'aXaXa'.replace('a', 'b', 2) }}{{ 'aXaXa' | replace('a', 'b', count=1) }}", "bXbXabXaXa" },
        { "{{ 0 < 5 < 3 }}{{ 5 > 3 > 2 }}{{ 2 == 2 == 2 }}{{ 'x' in 'xy' == 'xy' }}{{ 1 not in [2] == [2] }}",
          "FalseTrueTrueTrueTrue" },
        { "{{ {'a': 1, 'b': [{}]} == {'b': [{}], 'a': 1} }}{{ {'a': 1} == {'a': 2} }}{{ {'a': 1} == {'b': 1} }}"
          "{{ {'a': 1} in [{'a': 1}] }}",
          "TrueFalseFalseTrue" },
        { "{% macro f() %}{{ m is defined }}{{ loop is defined }}{{ z }}{% set y = 1 %}{% endmacro %}"
          "{% set z = 5 %}{% for m in [1] %}{{ f() }}{% endfor %}{{ y is defined }}",
          "FalseFalse5False" },
        { "{% macro g() %}{{ a is defined }}{% endmacro %}{% macro f(a, b=a) %}{{ a }}{{ b }}{{ g() }}{% endmacro %}"
          "{{ f(1) }}{{ f(1, 2) }}{{ f(b=3, a=4) }}",
          "11False12False43False" },
        { "{% set x = 1 %}{% set t %}{% set x = 2 %}{{ x }}{% endset %}{% for i in [] %}{% else %}{% set x = 3 %}"
          "{% endfor %}{% generation %}{% set x = 4 %}{{ x }}{% endgeneration %}{{ t }}{{ x }}", "421" },
        { "{{ '\\101\\60\\x41\\u00e9\\U0001F600\\q' }}{{ 'a\\\nb' }}", "A0Aé😀\\qab" },
        { "{{ '内ß'[:1] | upper }}{{ 'aB1' | capitalize }}", "内Ab1" },
        { "{{ ['it\\'s', 'it\\'s \"x\"', '\\u00a0\\u200bé\\x7f\\b'] }}{{ '\\b\\x7f\\x01' | tojson }}",
          "[\"it's\", 'it\\'s \"x\"', '\\xa0\\u200bé\\x7f\\x08']\"\\b\x7f\\u0001\"" },
        { "{{ nothing is iterable }}{{ nothing is sequence }}{{ none is iterable }}", "TrueTrueFalse" },
        { "{% for i in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "10" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        verl_tokenizer_t *tokenizer = s_with_template(cases[i].source);
        s_expect(tokenizer, s_four, 4, false, cases[i].expected);
        verl_tokenizer_close(&tokenizer);
    }
}

Test(chat, what_it_cannot_do_is_one_sentence)
{
    static const struct { const char *source, *named;
    } cases[] = {
        { "a\n{% include 'x' %}", "line 2: this statement is not supported at 'include'" },
        { "{% if true %}", "endif" },
        { "{% endif %}", "ends nothing" },
        { "{{ 'a", "does not end" },
        { "{{ a", "does not end" },
        { "{{ a.b.c }}", "'a' is undefined" },
        { "{{ 1 + 'a' }}", "'+' cannot be used on an integer and a string" },
        { "{{ 'a' | frobnicate }}", "the filter 'frobnicate'" },
        { "{{ f(1) }}", "the function 'f'" },
        { "{{ raise_exception('no ' + 'way') }}", "refuses the messages: no way" },
        { "{{ 1 // 0 }}", "division" },
        { "{% for i in range(90000) %}{% if 1 " AND64 AND64 AND64 AND64 "%}{% endif %}{% endfor %}", "too long" },
        { "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deep" },
        { "{% set x = 'aaaaaaaaaaaaaaaa' %}{% set n = namespace(x=x) %}{% for i in range(99) %}{% set n.x = n.x + n.x "
          "%}{% endfor %}",
          "too much memory" },
        { "{{ 1.5 }}", "numbers with a point" },
        { "{{ (1, 2) }}", "tuples" },
        { "{{ 'é' | upper }}", "ASCII letters only" },
        { "{{ 'aẞ'.lower() }}", "ASCII letters only" },
        { "{{ ['a'] | join(', ', attribute='role') }}", "'join' with the argument 'attribute' is not supported" },
        { "{{ 'abc'.startswith('b', 1) }}", "'startswith' with so many arguments is not supported" },
        { "{{ 'abc' | length(1) }}", "'length' with so many arguments" },
        { "{{ 'abc'.split(',', sep=',') }}", "'split' with the argument 'sep'" },
        { "{{ 1 is odd(1) }}", "'odd' with so many arguments" },
        { "{{ 'abc'.replace('', '-') }}", "not empty" },
        { "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}", "the macro 'f' does not take these arguments" },
        { "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}", "the macro 'f' does not take these arguments" },
        { "{% macro f(a) %}{{ varargs }}{% endmacro %}{{ f(1) }}", "'varargs' is not supported" },
        { "{% for i in [1] %}{% macro f() %}{% endmacro %}{% endfor %}", "a macro inside a loop" },
        { "{{ '\\N{BULLET}' }}", "the escape \\N{BULLET}" },
        { "{{ '\\ud83d' }}", "the escape \\ud83d" },
        { "{{ '\\x4' }}", "the escape \\x4" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char error[1024] = "";
        verl_text_t text = { 0 };
        verl_tokenizer_t *tokenizer = s_with_template(cases[i].source);
        cr_assert_eq(verl_chat_text(tokenizer, s_four, 4, false, &text, error, sizeof error), -1, "%s",
                     cases[i].source);
        cr_expect(strstr(error, cases[i].named) && strstr(error, "chat template: line "), "%s: %s", cases[i].source,
                  error);
        cr_expect_eq(text.length, 0);
        verl_text_done(&text);
        verl_tokenizer_close(&tokenizer);
    }
}

// What the template says of a message that has more keys than role and content, or why it cannot.
static int
s_whole(const char *source, const char *message, verl_text_t *text, char *error, size_t error_size)
{
    verl_tokenizer_t *tokenizer = s_with_template(source);
    json_t *json = json_loads(message, JSON_DECODE_ANY, NULL);
    cr_assert(json);
    const verl_chat_message_t one = { .role = "user", .content = "", .whole = json };
    int rc = verl_chat_text(tokenizer, &one, 1, false, text, error, error_size);
    json_decref(json);
    verl_tokenizer_close(&tokenizer);
    return rc;
}

Test(chat, a_template_sees_every_key_of_a_message)
{
    char error[1024] = "";
    verl_text_t text = { 0 };
#define MESSAGE \
    "{\"role\": \"user\", \"name\": \"é\", \"tool_calls\": [{\"function\": {\"arguments\": {\"b\": 2, \"a\": []}}}], " \
    "\"n\": 6, \"last\": true, \"nothing\": null}"
    static const char source[] =
        "{% for m in messages %}{{ m.name }}{{ m.tool_calls[0].function.arguments | tojson }}{{ m.n + 1 }}"
        "{% if m.last %}!{% endif %}{{ m.nothing is none }} {{ m | tojson }}{% endfor %}";
    cr_assert_eq(s_whole(source, MESSAGE, &text, error, sizeof error), 0, "%s", error);
    cr_expect_str_eq(text.data, "é{\"b\": 2, \"a\": []}7!True " MESSAGE);
    verl_text_done(&text);
}

// As Python's repr and json.dumps write them.
Test(chat, numbers_of_messages_are_written_as_python_writes_them)
{
    char error[1024] = "";
    verl_text_t text = { 0 };
    cr_assert_eq(s_whole("{{ messages[0].p }} {{ messages[0].p | tojson }} {{ messages[0].p[0] == 1 }} {{ messages[0].n }}",
                         "{\"p\": [1.0, 0.5, 0.1, 1e16, 123456789.25, 1.5e-7, 0.0001, -2.5e300, 9007199254740993.0],"
                         " \"n\": -9223372036854775808}", &text, error, sizeof error), 0, "%s", error);
    static const char list[] = "[1.0, 0.5, 0.1, 1e+16, 123456789.25, 1.5e-07, 0.0001, -2.5e+300, 9007199254740992.0]";
    char expected[300];
    snprintf(expected, sizeof expected, "%s %s True -9223372036854775808", list, list);
    cr_expect_str_eq(text.data, expected);
    verl_text_done(&text);
}

Test(chat, a_message_that_the_language_cannot_hold_is_one_sentence)
{
    char error[1024] = "", deep[200] = "";
    verl_text_t text = { 0 };
    cr_assert_eq(s_whole("{{ messages[0].p + 1 }}", "{\"p\": 0.5}", &text, error, sizeof error), -1);
    cr_expect(strstr(error, "a number that is real or too large"), "%s", error);
    memset(deep, '[', 80);
    memset(deep + 80, ']', 80);
    cr_assert_eq(s_whole("x", deep, &text, error, sizeof error), -1);
    cr_expect(strstr(error, "a message is nested too deep"), "%s", error);
    cr_assert_eq(text.length, 0);
    verl_text_done(&text);
}

// A tokenizer with these files beside it, and what "bos eos unk" is to a template.
static verl_tokenizer_t *
s_with_files(const char *config, const char *map)
{
    verl_tokenizer_t *tokenizer = s_with_template("{{ bos_token }} {{ eos_token }} {{ unk_token }}{{ mask_token }}");
    verl_tokenizer_close(&tokenizer);
    fixture_write("tokenizer_config.json", config, strlen(config));
    fixture_write("special_tokens_map.json", map, strlen(map));
    return fixture_open(g_folder);
}

Test(chat, special_tokens_have_their_names_from_both_files)
{
    static const struct { const char *config, *map, *expected;
    } cases[] = {
        { "{\"model_max_length\": 1000000000000000019884624838656}",
          "{\"bos_token\": \"<|begin_of_text|>\", \"eos_token\": {\"content\": \"<|eot_id|>\"}}",
          "<|begin_of_text|> <|eot_id|> " },
        { "{\"eos_token\": \"<|end_of_text|>\", \"unk_token\": \"<|eot_id|>\", \"mask_token\": \"<|eot_id|>\"}",
          "{\"eos_token\": \"<|eot_id|>\", \"mask_token\": null}", " <|eot_id|> <|eot_id|>" },
        { "{\"eos_token\": \"<|end_of_text|>\", \"added_tokens_decoder\": {}}", "{\"eos_token\": \"<|eot_id|>\"}",
          " <|end_of_text|> " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        verl_tokenizer_t *tokenizer = s_with_files(cases[i].config, cases[i].map);
        s_expect(tokenizer, s_user, 1, false, cases[i].expected);
        verl_tokenizer_close(&tokenizer);
    }
}

// A thousand brackets, and every prefix and one-byte change of a template: no crash, no hang.
Test(chat, damaged_templates_do_no_harm)
{
    static const char source[] =
        "{%- set ns = namespace(a=1) %}{% for m in messages[::-1] %}{% if m.role == 'user' and not "
        "(m.content | trim).startswith('x') %}{{ loop.index0 ~ m['content'][1:] | tojson }}{% elif loop.last %}{% set "
        "ns.a = "
        "ns.a + 1 %}{% endif %}{% endfor %}{# c #}{{ {'a': [1, none]}['a'][0] if ns.a is defined else 'z' }}";
    verl_jinja_value_t item = verl_jinja_string("user", 4), list = { .kind = VERL_JINJA_LIST, .count = 1 };
    verl_jinja_arena_t arena = { .limit = 1 << 20 };
    verl_jinja_dict_t message = { 0 }, variables = { 0 };
    cr_assert_eq(verl_jinja_dict_set(&message, &arena, (verl_jinja_string_t) { "role", 4 }, item), 0);
    cr_assert_eq(verl_jinja_dict_set(&message, &arena, (verl_jinja_string_t) { "content", 7 }, item), 0);
    verl_jinja_value_t one = { .kind = VERL_JINJA_DICT, .dict = &message };
    list.items = &one;
    cr_assert_eq(verl_jinja_dict_set(&variables, &arena, (verl_jinja_string_t) { "messages", 8 }, list), 0);
    int good = 0;
    for (size_t trial = 0; trial < 6 * sizeof source; trial++) {
        char copy[sizeof source], error[1024] = "";
        memcpy(copy, source, sizeof source);
        size_t length = trial < sizeof source ? trial : sizeof source - 1;
        if (trial >= sizeof source)
            copy[trial % (sizeof source - 1)] = "{}%-'(|\\"[trial / sizeof source];
        verl_text_t out = { 0 };
        verl_jinja_t *template = verl_jinja_parse(copy, length, "test", error, sizeof error);
        good += template && verl_jinja_run(template, &variables, &out, error, sizeof error) == 0;
        verl_jinja_destroy(&template);
        verl_text_done(&out);
    }
    cr_assert_gt(good, 10);
    char deep[4001], error[1024] = "";
    memset(deep, '[', 2000);
    memset(deep + 2000, ']', 1998);
    memcpy(deep, "{{", 2);
    memcpy(deep + 3998, "}}", 2);
    cr_assert_null(verl_jinja_parse(deep, 4000, "test", error, sizeof error));
    cr_assert(strstr(error, "too deep"), "%s", error);
    verl_jinja_arena_done(&arena);
}

// A template is known to be wrong before there are messages, and by the file that it stands in.
Test(chat, a_template_that_is_wrong_is_named_by_its_file)
{
    static const char bad[] = "{% if %}", config[] = "{\"chat_template\": \"{% if %}\"}";
    char error[1024] = "", place[128];
    verl_text_t json = fixture_read(FIXTURES "llama3-small/tokenizer.json");
    fixture_write("tokenizer.json", json.data, json.length);
    fixture_write("tokenizer_config.json", config, strlen(config));
    verl_tokenizer_t *tokenizer = fixture_open(g_folder);
    snprintf(place, sizeof place, "%s/tokenizer_config.json: chat template: line 1", g_folder);
    cr_expect_eq(verl_chat_check(tokenizer, error, sizeof error), -1);
    cr_expect(strstr(error, place), "%s", error);
    verl_tokenizer_close(&tokenizer);
    fixture_write("chat_template.jinja", bad, strlen(bad));
    tokenizer = fixture_open(g_folder);
    snprintf(place, sizeof place, "%s/chat_template.jinja: chat template: line 1", g_folder);
    cr_expect_eq(verl_chat_check(tokenizer, error, sizeof error), -1);
    cr_expect(strstr(error, place), "%s", error);
    verl_tokenizer_close(&tokenizer);
    verl_text_done(&json);
}

Test(chat, a_tokenizer_without_a_template_says_so)
{
    char error[1024] = "";
    verl_text_t text = { 0 };
    verl_tokenizer_t *tokenizer = fixture_open(FIXTURES "llama3-small");
    cr_assert_eq(verl_chat_text(tokenizer, s_user, 1, true, &text, error, sizeof error), -1);
    cr_assert(strstr(error, "has no chat template"), "%s", error);
    verl_tokenizer_close(&tokenizer);
}
