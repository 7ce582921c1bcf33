"""Stages for the tests of whole runs: each does one thing that a stage in Python may do."""

import json
import os
import subprocess
import sys
import time

import numpy
import verl


@verl.stage(gives=["id:i64[n]", "note", "words:i32[n,*]", "name:text", "wide:f32[n,3]"], source=True,
            options={"rows": 4})
def make(batch, stage):
    """Makes rows that differ with the batch."""
    rows = stage.options.rows
    ids = [batch.id * rows + row for row in range(rows)]
    return {"id": ids, "note": [0.5 * one for one in ids], "words": [list(range(one % 5)) for one in ids],
            "name": ["row " + "é" * (one % 3) for one in ids],
            "wide": numpy.arange(3 * rows).reshape(rows, 3) + batch.id}


@verl.stage(needs=["id", "words", "name", "wide"], gives=["sum:i64[n]", "back:i32[n,*]", "upper:text"], by_row=True)
def read(batch, stage):
    """Reads columns of every kind and gives what follows from them."""
    if batch["id"].flags.writeable or batch["words"][0].flags.writeable:
        stage.fail("a column that was given can be written")
    sums = [int(one + words.sum() + wide.sum())
            for one, words, wide in zip(batch["id"], batch["words"], batch["wide"])]
    stage.metric("read/rows/sum", batch.rows)
    stage.metric("read/random", float(stage.random(0).random()) if batch.first_row == 0 else 0.0, batch.first_row == 0)
    return {"sum": sums, "back": [words[::-1] for words in batch["words"]], "upper": [n.upper() for n in batch["name"]]}


@verl.stage(needs=["id"], gives=["twin:i64[n]"], maps=True)
def double(batch):
    """Two rows of each that it is given."""
    return verl.Rows({"twin": numpy.tile([0, 1], batch.rows)}, numpy.repeat(numpy.arange(batch.rows), 2))


@verl.stage(needs=["id"], gives=["stray:i64[n]"])
def stray(batch):
    """Makes new rows, and does not say that it does."""
    return verl.Rows({"stray": [0]}, [0])


@verl.stage(needs=["id", "twin", "name"], gives=["label:text"])
def label(batch):
    """Reads columns of two stages, one of them through a row map."""
    return {"label": [f"{one}.{twin} {name}" for one, twin, name in zip(batch["id"], batch["twin"], batch["name"])]}


@verl.stage(needs=["payload"], gives=["first:i64[n]"])
def large(batch, stage):
    """Looks at a column of many bytes, and at whether that costs memory of its own."""
    def anonymous():
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
    before = anonymous()
    payload = batch["payload"]
    first, last = int(payload[0, 0]), int(payload[-1, -1])
    stage.metric("large/bytes", payload.nbytes)
    stage.metric("large/copied_kb", max(0, anonymous() - before))
    stage.metric("large/owned", float(payload.flags.owndata))
    stage.metric("large/same", float(first == last))
    return {"first": [first] * batch.rows}


@verl.stage(needs=["id"], gives=["same:i64[n]"], options={"fail_at": -1, "skip_at": -1, "raise_at": -1})
def may_fail(batch, stage):
    """Goes wrong where it is told to."""
    if batch.id == stage.options.fail_at:
        stage.fail("it was asked to fail")
    if batch.id == stage.options.raise_at:
        raise RuntimeError("something unforeseen")
    if batch.id == stage.options.skip_at:
        stage.skip()
    return {"same": batch["id"]}


started = time.process_time()
handled = 0


@verl.stage(needs=["id"], gives=["pass:i64[n]"])
def trivial(batch):
    """Costs nothing itself: what it takes is the package's."""
    global handled, started
    if handled == 0:
        started = time.process_time()
    handled += 1
    return {"pass": batch["id"]}


@verl.stage(needs=["id"], gives=["child:i64[n]"])
def spawns(batch):
    """Leaves children of its own behind, as careless programs do; two of them in groups of their own."""
    if batch.id == 0:
        os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "1000")
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        subprocess.Popen(["sleep", "1000"], preexec_fn=os.setpgrp)
    time.sleep(0.05)
    return {"child": batch["id"]}


@verl.finish
def end():
    if handled:
        print(json.dumps({"us_a_batch": 1e6 * (time.process_time() - started) / handled}))
    sys.stdout.flush()
    ends = os.environ.get("VERL_TEST_END", "")
    if ends == "fails":
        raise RuntimeError("the table was not written")
    if ends == "lasts":
        time.sleep(60)


verl.main()
