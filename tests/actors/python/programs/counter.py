"""A stage that keeps state: the sum of all ids that it ever saw."""

import json
import os

import verl

state = {"sum": 0}


@verl.stage(needs=["id"], gives=["total:i64[n]"])
def count(batch, stage):
    """The sum so far, row by row."""
    totals = []
    for one in batch["id"]:
        state["sum"] += int(one)
        totals.append(state["sum"])
    stage.metric("count/total/max", state["sum"])
    return {"total": totals}


@verl.stage(needs=["id"], gives=["seen:i64[n]"])
def look(batch):
    """What is in the state at this moment."""
    return {"seen": [state["sum"]] * batch.rows}


@verl.snapshot
def save(directory):
    path = os.path.join(directory, "state.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())


@verl.restore
def load(directory):
    with open(os.path.join(directory, "state.json"), encoding="utf-8") as file:
        state.update(json.load(file))


verl.main()
