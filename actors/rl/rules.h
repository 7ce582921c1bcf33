// rules.h: reward rules: a response and the right answer -> a score, by one of a table of rules.
//
// A rule is made once from its options (a pattern is compiled then) and judges any number of rows. Text is bytes, meant
// as UTF-8 and never trusted to be: what is not valid is only text that matches nothing. A judgement is a pure function
// of its arguments; one rule may be used by several threads at once. Nothing here blocks, logs or runs without an end:
// time grows at most with the length of the response times a constant, or the rule gives an error for that row.
#ifndef VERL_RL_RULES_H
#define VERL_RL_RULES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct verl_rule_options {
    const char *pattern; // regex: a PCRE2 pattern; its first group (or all of it) is the answer given
    int64_t match_limit; // regex: steps that one response may cost before it is an error
    bool trim;           // exact: white space around response and answer does not count
    double format_score; // gsm8k, regex: score of an answer that is wrong but in the right form
    uint64_t seed;       // random: key of the draws
    const char *stage;   // random: name of the stage, part of the key; NULL: none
} verl_rule_options_t;

// No pattern, 10,000,000 steps, trim, format_score 0, seed 0, no stage.
verl_rule_options_t verl_rule_defaults(void);

typedef struct verl_rule_input {
    const char *response; // what is judged; may be NULL where response_bytes is 0
    size_t response_bytes;
    const char *answer; // the right answer; may be NULL where answer_bytes is 0
    size_t answer_bytes;
    int64_t batch, row; // random: key of the draw; others: for errors only
} verl_rule_input_t;

typedef struct verl_rule_result {
    float score;   // what the policy is rewarded with
    float correct; // 1 where the answer is right, else 0
    float format;  // 1 where an answer was found in the form that the rule asks for, else 0
} verl_rule_result_t;

enum { VERL_RULE_NEEDS_ANSWER = 1, VERL_RULE_NEEDS_PATTERN = 2, VERL_RULE_NEEDS_SEED = 4 };

typedef struct verl_rule_kind verl_rule_kind_t;
typedef struct verl_rule verl_rule_t;

// The rule of a name; NULL where there is none. Number i of all rules, for help; NULL past the last.
const verl_rule_kind_t *verl_rule_find(const char *name);
const verl_rule_kind_t *verl_rule_at(size_t i);

const char *verl_rule_name(const verl_rule_kind_t *kind);
const char *verl_rule_about(const verl_rule_kind_t *kind); // one sentence
unsigned verl_rule_needs(const verl_rule_kind_t *kind);    // VERL_RULE_NEEDS_ bits

// Makes a rule. NULL with the reason in error: a pattern missing, or wrong (with its column). Keeps copies of texts.
verl_rule_t *
verl_rule_new(const verl_rule_kind_t *kind, const verl_rule_options_t *options, char *error, size_t error_size);

// Frees *self_p and sets it to NULL; accepts NULL inside.
void verl_rule_destroy(verl_rule_t **self_p);

// Judges one response. 0, or -1 with a sentence that names the row: a pattern that costs too much on this response.
int verl_rule_judge(const verl_rule_t *self, const verl_rule_input_t *input, verl_rule_result_t *result, char *error,
                    size_t error_size);

// What DAPO takes off long responses (Yu et al., 2025): 0 up to max_length - buffer tokens, then falling in a line to
// -penalty at max_length and on beyond it: min(-(length - (max_length - buffer)) / buffer * penalty, 0). 0 where buffer
// is 0.
double verl_overlong_penalty(int64_t length, int64_t max_length, int64_t buffer, double penalty);

#endif
