#!/usr/bin/env bash
# Two steps of smollm2-grpo.toml: a real model of 135 million parameters loads, answers, learns and is saved. Skipped, with a
# word, where tools/fetch-smollm2.sh could not bring the model, and under the sanitizers, for which it is too large.
set -euo pipefail

if [[ ! -r topologies/models/smollm2-135m/model.gguf ]]; then
    echo "skipped: topologies/models/smollm2-135m/model.gguf is not there; tools/fetch-smollm2.sh brings it"
    exit 77
fi
if grep -q '^VERL_SANITIZE:[A-Z]*=.' "$VERL_BUILD/CMakeCache.txt"; then
    echo "skipped: two steps of this model take long under a sanitizer"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Sixteen of the held-out questions, which are asked before the first step and after the last.
"$VERL_BIN/verl-run" --quiet --steps 2 --set stage.heldout.rows=16 --run-dir "$work/run" topologies/smollm2-grpo.toml

python3 - "$work/run/metrics.jsonl" <<'PYTHON'
import json
import math
import sys

steps = [json.loads(line) for line in open(sys.argv[1])]
assert [step["step"] for step in steps] == [0, 1, 2], steps      # the last: the held-out set once more
assert all(math.isfinite(value) for step in steps for value in step.values()), steps
for step in steps[:2]:
    assert step["actor/grad_norm"] > 0.01, step
    # Rollout and learner compute the same log-probabilities: on policy, the ratio is one.
    assert abs(step["actor/ppo_kl"]) < 1e-3, step
held_out = [step["val-core/words/mean@1"] for step in steps if "val-core/words/mean@1" in step]
form = [step["val-aux/words/format/mean@1"] for step in steps if "val-aux/words/format/mean@1" in step]
assert len(held_out) == len(form) == 2, steps
# Untrained, it is right on 15 to 50 % of all; chance on 16 questions is allowed for.
assert 0 < held_out[0] < 0.7 and form[0] > 0.5, (held_out, form)
PYTHON
