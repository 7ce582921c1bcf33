"""The actor of the conformance suite that is written with the Python package: what `synthetic` is for the C host."""

import json
import os
import time

import numpy
import verl

done = {"batches": 0}


def _work(batch, stage, rows):
    if batch.id == stage.options.fail_at:
        stage.fail(f"fail_at names this batch, {batch.id}")
    if stage.options.busy_ms:
        time.sleep(stage.options.busy_ms / 1e3)
    done["batches"] += 1
    return {"payload": numpy.full((rows, stage.options.bytes), batch.id % 251, numpy.uint8)}


OPTIONS = {"busy_ms": 0.0, "bytes": 8, "fail_at": -1}


@verl.stage(needs=["id"], gives=["payload:u8[n,8]"], options=OPTIONS, by_row=True)
def work(batch, stage):
    """Gives a payload for each row."""
    return _work(batch, stage, batch.rows)


@verl.stage(gives=["payload:u8[n,8]"], options=dict(OPTIONS, rows=1), source=True)
def make(batch, stage):
    """Makes rows with a payload."""
    return _work(batch, stage, stage.options.rows)


@verl.stage(needs=["id"], gives=["payload:u8[n,8]"], options=OPTIONS, weights=True)
def learn(batch, stage):
    """Gives the version that it works with, and what that holds."""
    known = int(stage.weights["w"][0, -1]) if stage.weights is not None else 0
    return {"payload": numpy.tile(numpy.array([stage.version, known] + 6 * [0], numpy.uint8), (batch.rows, 1))}


if os.environ.get("CONFORMANCE_STATE"):
    @verl.snapshot
    def save(directory):
        with open(os.path.join(directory, "state.json"), "w", encoding="utf-8") as file:
            json.dump(done, file)

    @verl.restore
    def load(directory):
        with open(os.path.join(directory, "state.json"), encoding="utf-8") as file:
            done.update(json.load(file))

verl.main()
