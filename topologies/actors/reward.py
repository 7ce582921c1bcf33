"""A reward in Python: 1 where the response is the answer, else a little for every digit that stands where it should."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2] / "actors" / "python"))  # where the package is not installed
import verl  # noqa: E402


@verl.stage(needs=["response", "answer", "prompt?"], gives=["score"], by_row=True,
            options={"partial": verl.option(0.0, "score of a response of which all digits but one are right", 0, 1)})
def score(batch, stage):
    """Exact match of response and answer."""
    scores = []
    for response, answer in zip(batch["response"], batch["answer"]):
        right = sum(a == b for a, b in zip(response, answer))
        near = stage.options.partial * right / max(len(answer), 1)
        scores.append(1.0 if response == answer else near)
    stage.metric("reward/exact", sum(s == 1.0 for s in scores) / max(len(scores), 1), len(scores))
    if scores:
        stage.sample(batch["prompt"][0] if "prompt" in batch else "", batch["response"][0], scores[0])
    return {"score": scores}


verl.main()
