"""How sure the model is of what it says: reads the log-probabilities of a rollout and gives figures, no column."""

import math
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2] / "actors" / "python"))  # where the package is not installed
import verl  # noqa: E402


@verl.stage(needs=["rollout_logprobs", "response_ids"], by_row=True,
            options={"sure": verl.option(0.9, "probability from which on a token counts as sure", 0, 1)})
def confidence(batch, stage):
    """Perplexity of the rollout, and how many of its tokens were sure."""
    logprobs = batch["rollout_logprobs"]
    tokens = logprobs.data[logprobs.offsets[0]:logprobs.offsets[-1]]  # one array, no copy
    if tokens.size == 0:
        stage.skip()
    stage.metric("rollout/entropy", -float(tokens.mean(dtype="float64")), tokens.size)
    stage.metric("rollout/sure", float((tokens >= math.log(stage.options.sure or 1e-30)).mean()), tokens.size)
    stage.metric("rollout/logprob/min", float(tokens.min()))
    worst = min(range(batch.rows), key=lambda row: float(logprobs[row].sum()))
    stage.log(f"batch {batch.id}: the least likely response is row {batch.first_row + worst}, "
              f"of {len(batch['response_ids'][worst])} tokens")
    return {}


verl.main()
