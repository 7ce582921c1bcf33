// spy_report_causes.h: why a run is not faster: which stage holds it up, and the three diseases of such runs.
//
// A cause is named where taking it away would speed the run up by at least 5 %, alone or as the last of all causes:
// played through with the measured times (spy_report_model.h). So nothing is named that costs nothing.
#ifndef VERL_SPY_REPORT_CAUSES_H
#define VERL_SPY_REPORT_CAUSES_H
#include <jansson.h>
#include "tools/spy_report_model.h"

#define VERL_CAUSES_MOST 64
#define VERL_NOTES_MOST  16

typedef enum {
    VERL_DISEASE_SYNCHRONOUS,               // a stage waits in step with another though nothing makes it
    VERL_DISEASE_TRANSFER,                  // data moves by a detour, or is copied again
    VERL_DISEASE_LOADING,                   // work that is needed once happens for every batch
    VERL_DISEASES,
} verl_disease_t;
extern const char *const verl_disease_names[VERL_DISEASES];

typedef struct verl_cause {
    verl_disease_t disease;
    char           stage[256];              // that suffers from it; "": the whole run
    char           text[800];               // one sentence: what is wrong
    char           help[400];               // what would be right
    double         gain;                    // how many times as fast the run would be without it
    // How it is taken away from a model; edge, stage_index: -1: none.
    int            edge, stage_index;
    double         saved;                   // seconds a batch of that stage
    int64_t        in_flight;               // 0: as it is
} verl_cause_t;

typedef struct verl_diagnosis {
    double       rate, measured;            // batches a second: as the model says, and as the run did
    double       cured;                     // without any of the causes
    int          count;
    verl_cause_t causes[VERL_CAUSES_MOST];  // worst first
    int          notes_count;               // what costs nothing here, and would on another machine
    char         notes[VERL_NOTES_MOST][500];
    char         bottleneck[256];           // the stage which, made faster, speeds the run up most; "": none
    char         reason[800];               // why it is that
    char         help[400];                 // what would help
    double       faster;                    // the run, if that stage took half the time
} verl_diagnosis_t;

// Makes of a profile one of what happened since an earlier one of the same run: times, bytes, loads and shares.
void verl_profile_narrow(json_t *profile, const json_t *before);

// -1: not a profile, or one of a run that did nothing yet.
int verl_diagnose(const json_t *profile, verl_diagnosis_t *ret);
#endif
