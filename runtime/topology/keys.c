// keys.c: see keys.h. Validation, --help and the resolved topology come from these tables.
#include "runtime/topology/keys.h"

#define S_NONE .optional = true

const verl_option_t verl_run_table[] = {
    VERL_STRING(verl_run_keys_t, name, NULL, "name of the run, and of its directory; default: the file's", S_NONE,
                .also = "verl:trainer.experiment_name trl:run_name openrlhf:--wandb_run_name"),
    { .name = "steps",
      .type = VERL_OPTION_INT,
      .offset = offsetof(verl_run_keys_t, steps),
      .min = 1,
      .max = (double) VERL_STEPS_MAX,
      .unit = "batches",
      .optional = true,
      .about = "batches of the run; may be absent where a source ends",
      .also = "verl:trainer.total_training_steps trl:max_steps" },
    VERL_INT(verl_run_keys_t, seed, 0, 0, 9.2e18, "", "seed of every random stream",
             .also = "trl:seed openrlhf:--seed"),
    { .name = "max_in_flight",
      .type = VERL_OPTION_INT,
      .offset = offsetof(verl_run_keys_t, max_in_flight),
      .min = 1,
      .max = 4096,
      .unit = "batches",
      .optional = true,
      .about = "batches alive at once; default: what keeps every stage busy" },
    { .name = "max_bytes",
      .type = VERL_OPTION_INT,
      .offset = offsetof(verl_run_keys_t, max_bytes),
      .min = 1 << 20,
      .max = 1e15,
      .unit = "bytes",
      .optional = true,
      .about = "memory of all batches alive; default: half of the machine's" },
    VERL_INT(verl_run_keys_t, save_every, 0, 0, 1e12, "batches", "batches between checkpoints; 0: only at the end",
             .also = "verl:trainer.save_freq trl:save_steps openrlhf:--save_steps"),
    VERL_INT(verl_run_keys_t, keep, 2, 1, 1e6, "checkpoints", "checkpoints that are kept",
             .also = "verl:trainer.max_actor_ckpt_to_keep trl:save_total_limit openrlhf:--max_ckpt_num"),
    VERL_OPTION_OF(PATH, verl_run_keys_t, script, "file of Lua that watches the steps and changes the topology", S_NONE,
                   .must_exist = true),
    VERL_REAL(verl_run_keys_t, drain_timeout, 60, 0, 1e9, "s", "how long a run that is told to stop may go on"),
    VERL_OPTIONS_END
};

const verl_option_t verl_actor_table[] = {
    VERL_STRING(verl_actor_keys_t, mesh, NULL, "role of [mesh] whose devices it gets, or devices; default: cpu",
                S_NONE),
    VERL_CHOICE(verl_actor_keys_t, place, "process", "process|thread", "a process of its own, or a thread of the node"),
    VERL_INT(verl_actor_keys_t, replicas, 1, 1, 1024, "", "equal copies, which get whole batches in turn"),
    VERL_CHOICE(verl_actor_keys_t, on_failure, "stop", "stop|restart|ignore", "what the run does when it fails"),
    VERL_REAL(verl_actor_keys_t, timeout, 1800, 0, 1e9, "s", "how long a handler may take; 0: any time"),
    VERL_REAL(verl_actor_keys_t, liveness, 5, 0, 1e9, "s", "silence after which it counts as dead; 0: never"),
    VERL_OPTIONS_END
};

const verl_option_t verl_stage_table[] = {
    VERL_STRING(verl_stage_keys_t, kind, NULL, "kind of the actor that the stage has for itself", S_NONE),
    VERL_STRING(verl_stage_keys_t, actor, NULL, "actor that it runs in, of [actor.NAME]", S_NONE),
    VERL_STRING(verl_stage_keys_t, does, NULL,
                "handler of the kind, or function of its file or program; default: of the stage's name", S_NONE),
    VERL_OPTION_OF(STRINGS, verl_stage_keys_t, depends_on, "stages whose data must be ready", S_NONE),
    VERL_STRING(verl_stage_keys_t, as, NULL, "other names for what it gives, { name = \"new\" }, or a prefix for all",
                S_NONE),
    VERL_STRING(verl_stage_keys_t, uses, NULL, "other names for what it needs, { name = \"column\" }", S_NONE),
    VERL_STRING(verl_stage_keys_t, weights, NULL, "stage whose weights it works with", S_NONE),
    VERL_INT(verl_stage_keys_t, staleness, 0, 0, 1e6, "batches", "how many updates its weights may be behind",
             .also = "verl:async_training.staleness_threshold"),
    VERL_INT(verl_stage_keys_t, every, 1, 1, 1e12, "batches",
             "works only on batch 0, N, 2N, …; a source also once more "
             "after the last",
             .also = "verl:trainer.test_freq trl:eval_steps openrlhf:--eval_steps"),
    VERL_INT(verl_stage_keys_t, begin, 0, 0, 1e12, "batch", "leaves earlier batches alone",
             .also = "verl:trainer.critic_warmup"),
    VERL_INT(verl_stage_keys_t, parts, 1, 1, 1024, "", "parts that it cuts its batch into, for the stages behind it"),
    { .name = "timeout",
      .type = VERL_OPTION_REAL,
      .offset = offsetof(verl_stage_keys_t, timeout),
      .max = 1e9,
      .unit = "s",
      .optional = true,
      .about = "how long its handler may take; default: its actor's" },
    VERL_CHOICE(verl_stage_keys_t, on_error, "stop", "stop|skip", "what the run does when its handler fails"),
    VERL_OPTIONS_END
};
