// criterion.h: the part of Criterion that our tests use, for a build under the thread sanitizer.
//
// Criterion starts its tests in processes that inherit a heap at a fixed address, and the thread sanitizer has no room for
// that heap. Here a test is a plain forked process (see runner.c). Only a build with -DVERL_SANITIZE=thread sees this
// header; the macros mean what Criterion says that they mean.
#ifndef VERL_TESTS_CRITERION_H
#define VERL_TESTS_CRITERION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What may follow the name of a test or of a suite; a test's own wins.
typedef struct verl_test_options {
    void (*init)(void); // runs before the test, in its process
    void (*fini)(void); // runs after it, also where it failed
    double timeout;     // seconds, 0: none. A sanitizer is slow: the runner waits longer than it says
    bool disabled;
    char given; // so that the list of the options given is never empty
} verl_test_options_t;

typedef struct verl_test {
    const char *suite, *name; // name NULL: a suite, which only has options
    void (*run)(void);
    verl_test_options_t options;
    struct verl_test *next;
} verl_test_t;

// Adds a test or a suite to the program's; called before main. The object is the caller's and stays.
void verl_test_register(verl_test_t *test);
// Says that a check failed, and where; ends the test where that is fatal. Any thread may call it, but a fatal failure of a
// thread other than the test's own ends the process at once.
void verl_test_failed(bool fatal, const char *file, int line, const char *what, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
// Ends the test: it counts as passed, and says why it was skipped.
void verl_test_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#define VERL_TEST_REGISTER(id, suite_name, test_name, function, ...)                                        \
    __attribute__((constructor)) static void id(void)                                                       \
    {                                                                                                       \
        static verl_test_t test = {                                                                         \
            .suite = suite_name, .name = test_name, .run = function, .options = { .given = 1, __VA_ARGS__ } \
        };                                                                                                  \
        verl_test_register(&test);                                                                          \
    }
#define Test(suite_, name_, ...)                                                                           \
    static void suite_##_##name_##_test(void);                                                             \
    VERL_TEST_REGISTER(suite_##_##name_##_register, #suite_, #name_, suite_##_##name_##_test, __VA_ARGS__) \
    static void suite_##_##name_##_test(void)
#define TestSuite(suite_, ...) VERL_TEST_REGISTER(suite_##_suite_register, #suite_, NULL, NULL, __VA_ARGS__)

// The first words of a message are a literal, so that " " in front of them makes a format also where there are none.
#define VERL_CHECK(fatal, condition, what, ...) \
    ((condition) ? (void) 0 : verl_test_failed(fatal, __FILE__, __LINE__, what, " " __VA_ARGS__))
#define VERL_CHECK_OP(fatal, a, op, b, ...) VERL_CHECK(fatal, (a) op(b), #a " " #op " " #b, __VA_ARGS__)
#define VERL_CHECK_NEAR(fatal, a, b, off, ...) \
    VERL_CHECK(fatal, (b) - (a) <= (off) && (a) - (b) <= (off), #a " is within " #off " of " #b, __VA_ARGS__)
#define VERL_CHECK_BYTES(fatal, a, op, b, size, ...) \
    VERL_CHECK(fatal, memcmp(a, b, size) op 0, "the bytes of " #a " " #op " those of " #b, __VA_ARGS__)
#define VERL_CHECK_TEXT(fatal, a, op, b, ...)                                                                    \
    do {                                                                                                         \
        const char *a__ = (a), *b__ = (b);                                                                       \
        if (!a__ || !b__ || !(strcmp(a__, b__) op 0)) {                                                          \
            fprintf(stderr, "  %s: \"%s\"\n  %s: \"%s\"\n", #a, a__ ? a__ : "(null)", #b, b__ ? b__ : "(null)"); \
            verl_test_failed(fatal, __FILE__, __LINE__, #a " " #op " " #b, " " __VA_ARGS__);                     \
        }                                                                                                        \
    } while (0)
#define VERL_CHECK_EMPTY(fatal, a, ...)                               \
    do {                                                              \
        const char *a__ = (a);                                        \
        VERL_CHECK(fatal, a__ && !*a__, #a " is empty", __VA_ARGS__); \
    } while (0)

#define cr_assert(condition, ...)          VERL_CHECK(true, condition, #condition, __VA_ARGS__)
#define cr_assert_not(condition, ...)      VERL_CHECK(true, !(condition), "!(" #condition ")", __VA_ARGS__)
#define cr_assert_null(a, ...)             VERL_CHECK_OP(true, a, ==, NULL, __VA_ARGS__)
#define cr_assert_not_null(a, ...)         VERL_CHECK_OP(true, a, !=, NULL, __VA_ARGS__)
#define cr_assert_eq(a, b, ...)            VERL_CHECK_OP(true, a, ==, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...)           VERL_CHECK_OP(true, a, !=, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...)            VERL_CHECK_OP(true, a, <, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...)           VERL_CHECK_OP(true, a, <=, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...)            VERL_CHECK_OP(true, a, >, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...)           VERL_CHECK_OP(true, a, >=, b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, off, ...) VERL_CHECK_NEAR(true, a, b, off, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, size, ...)  VERL_CHECK_BYTES(true, a, ==, b, size, __VA_ARGS__)
#define cr_assert_arr_neq(a, b, size, ...) VERL_CHECK_BYTES(true, a, !=, b, size, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)        VERL_CHECK_TEXT(true, a, ==, b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...)       VERL_CHECK_TEXT(true, a, !=, b, __VA_ARGS__)
#define cr_assert_str_empty(a, ...)        VERL_CHECK_EMPTY(true, a, __VA_ARGS__)
#define cr_assert_fail(...)                verl_test_failed(true, __FILE__, __LINE__, "no way here", " " __VA_ARGS__)

#define cr_expect(condition, ...)          VERL_CHECK(false, condition, #condition, __VA_ARGS__)
#define cr_expect_not(condition, ...)      VERL_CHECK(false, !(condition), "!(" #condition ")", __VA_ARGS__)
#define cr_expect_null(a, ...)             VERL_CHECK_OP(false, a, ==, NULL, __VA_ARGS__)
#define cr_expect_not_null(a, ...)         VERL_CHECK_OP(false, a, !=, NULL, __VA_ARGS__)
#define cr_expect_eq(a, b, ...)            VERL_CHECK_OP(false, a, ==, b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...)           VERL_CHECK_OP(false, a, !=, b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...)            VERL_CHECK_OP(false, a, <, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...)           VERL_CHECK_OP(false, a, <=, b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...)            VERL_CHECK_OP(false, a, >, b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...)           VERL_CHECK_OP(false, a, >=, b, __VA_ARGS__)
#define cr_expect_float_eq(a, b, off, ...) VERL_CHECK_NEAR(false, a, b, off, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, size, ...)  VERL_CHECK_BYTES(false, a, ==, b, size, __VA_ARGS__)
#define cr_expect_arr_neq(a, b, size, ...) VERL_CHECK_BYTES(false, a, !=, b, size, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...)        VERL_CHECK_TEXT(false, a, ==, b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...)       VERL_CHECK_TEXT(false, a, !=, b, __VA_ARGS__)
#define cr_expect_str_empty(a, ...)        VERL_CHECK_EMPTY(false, a, __VA_ARGS__)
#define cr_expect_fail(...)                verl_test_failed(false, __FILE__, __LINE__, "no way here", " " __VA_ARGS__)

#define cr_skip_test(...)                  verl_test_skip(" " __VA_ARGS__)
#define cr_log_info(...)                   ((void) fprintf(stderr, " " __VA_ARGS__), (void) fputc('\n', stderr))
#endif
