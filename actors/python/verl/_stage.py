"""The stage that a handler runs in: its options, its seed, and what it may say while it runs."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy

from ._batch import Array, Batch, Weights
from ._errors import Failure, Skip, plain
from ._made import Made, parse_type
from ._program import Options

_MASK = (1 << 64) - 1
_NAME = 200  # bytes of a metric's name, and of what was loaded
_LINE = 1000  # of a line in the log
_SAMPLE = 1 << 16  # of a text that is shown to people


def stage_seed(run_seed: int, name: str) -> int:
    """Hash of (run seed, stage name), the same number that a C stage of that name has."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & _MASK
    value ^= (run_seed + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Rows:
    """Columns of new rows, and for each of them the given row that it comes from."""

    __slots__ = ("columns", "row_map")

    def __init__(self, columns: Dict[str, Any], row_map: Any) -> None:
        self.columns = columns
        self.row_map = row_map


class Metric:
    """Values under one name: a weighted mean, or by the last part of the name max, min or sum."""

    __slots__ = ("kind", "value", "weight")

    def __init__(self, name: str) -> None:
        last = name.rsplit("/", 1)[-1]
        self.kind = last if last in ("max", "min", "sum") else "mean"
        self.value = 0.0
        self.weight = 0.0

    def add(self, value: float, weight: float) -> None:
        if self.kind == "mean":
            self.value += value * weight
            self.weight += weight
            return
        first = self.weight == 0
        if self.kind == "sum":
            self.value += value
        elif first or math.isnan(value) or (value > self.value if self.kind == "max" else value < self.value):
            self.value = value
        self.weight = 1.0


def _is_name(name: str) -> bool:
    size = len(name.encode("utf-8", "replace"))
    return 0 < size <= _NAME and name.isprintable() and not set(name) & set('"\\')


class Stage:
    """What a handler gets as its second argument. It belongs to the handler's thread."""

    def __init__(self, name: str, options: Options, seed: int, steps: int, gives: Dict[str, str],
                 say: Callable[[List[Any], int], None], stopping: Callable[[], bool]) -> None:
        self.name = name  # in the topology
        self.options = options
        self.seed = seed  # key random streams with it, the batch and the row
        self.steps = steps  # of the run
        self.batch: Optional[Batch] = None  # that it works on
        self.weights: Optional[Weights] = None  # that it works with; None: nothing is published that old
        self._types = {give: parse_type(text) for give, text in gives.items()}
        self._say = say
        self._stopping = stopping
        self._made: Optional[Made] = None
        self.progressed = 0.0
        self.metrics: Dict[str, Metric] = {}

    @property
    def number(self) -> int:
        """The batch's id; -1: none is worked on."""
        return self.batch.id if self.batch is not None else -1

    @property
    def version(self) -> int:
        """The version of the weights that this batch is worked with: those before the update of that batch. 0: the ones
        that everybody loads."""
        return self.weights.version if self.weights is not None else 0

    def metric(self, name: str, value: float, weight: float = 1.0) -> None:
        """One value of a metric of this batch. It must not depend on time: runs are repeated bit by bit."""
        metric = self.metrics.get(name)
        if metric is None:
            if not isinstance(name, str) or not _is_name(name):
                raise Failure(f"a metric is called {name!r:.250}: a name such as 'reward/length', of at most {_NAME} "
                              "bytes, would be right")
            metric = self.metrics[name] = Metric(name)
        if not 0 <= weight < math.inf:
            raise Failure(f"the weight of metric '{name}' is {weight}: 0 or more would be right")
        metric.add(float(value), float(weight))

    def log(self, text: str) -> None:
        """A line in the run's log."""
        self._say(["log", self.name, plain(text, _LINE)], self.number)

    def sample(self, prompt: str, response: str, score: float) -> None:
        """One example for people."""
        self._say(["sample", self.name, self.number, plain(prompt, _SAMPLE), plain(response, _SAMPLE), float(score)],
                  self.number)

    def loaded(self, what: str, seconds: float) -> None:
        """Something was loaded that this stage works with (a tokenizer, a model), in so many seconds: verl-spy report
        names what is loaded again for every batch."""
        self._say(["loaded", self.name, self.number, plain(what, _NAME), min(max(0.0, float(seconds)), 1e8)],
                  self.number)

    def fail(self, text: str) -> None:
        """Ends the handler: it cannot go on, and why."""
        raise Failure(text)

    def skip(self) -> None:
        """Ends the handler: this batch is skipped, here and by all who read it."""
        raise Skip()

    def progress(self, done: float) -> bool:
        """Long work says how far it is, 0 to 1. True: the run is being stopped; give up."""
        self.progressed = min(max(0.0, float(done)), 1.0)
        return self._stopping()

    def random(self, row: int = 0) -> numpy.random.Generator:
        """A stream of random numbers for a row of this batch: the same in every run, replica and part."""
        first = self.batch.first_row if self.batch is not None else 0
        return numpy.random.Generator(numpy.random.Philox(key=[self.seed, (self.number + 1) & _MASK],
                                                          counter=[0, 0, 0, first + row]))

    def empty(self, name: str, rows_or_lengths: Any) -> Array:
        """Memory for a column that this stage gives, where its readers read it: fill it and return it under its name.
        rows_or_lengths: the number of rows, or of a ragged column one length a row."""
        if self._made is None:
            raise Failure("stage.empty is for a handler that runs")
        if name not in self._types:
            raise Failure(f"stage.empty was asked for column '{name}', which this stage does not give")
        return self._made.empty(name, self._types[name], rows_or_lengths)

    # for the host

    def make(self, result: Any, made: Made, gives: Sequence[str], given_rows: int, given_first: int) -> None:
        """From what a handler returned to columns in memory that readers share."""
        columns = result
        if isinstance(result, Rows):
            made.set_map(result.row_map, given_rows, given_first)
            columns = result.columns
        if columns is None:
            columns = {}
        if not isinstance(columns, dict):
            raise Failure(f"the handler returned {type(result).__name__}: a dict of columns by name would be right")
        unknown = sorted(set(columns) - set(gives))
        missing = sorted(set(gives) - set(columns))
        if unknown or missing:
            raise Failure(f"the handler returned {'no' if missing else 'a'} column '{(missing or unknown)[0]}': it "
                          f"declares {', '.join(gives) or 'none'}")
        for name, value in columns.items():
            made.add(name, self._types[name], value)
        if made.rows < 0 and not gives:
            made.rows = 0
        if made.rows < 0:
            raise Failure("a source gave no column, so its rows are not known")

    def reports(self) -> List[Tuple[str, float, float]]:
        return [(name, metric.value, metric.weight) for name, metric in self.metrics.items()]
