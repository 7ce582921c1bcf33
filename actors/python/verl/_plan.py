"""The table of a revision: actors, stages and edges. README.md has its form. It is checked before it is believed."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ._wire import Malformed, is_int, unpack

FORMAT = 1
_MAX = (1 << 63) - 1
_MAX_BYTES = 64 << 20
_DEPTH = 8


class Span(NamedTuple):
    """The batches that a stage works on: k with k % period == 0 and begin <= k < steps, and steps where closing."""

    period: int
    begin: int
    closing: bool

    def has(self, steps: int, k: int) -> bool:
        if k == steps:
            return self.closing
        return self.begin <= k < steps and k >= 0 and k % self.period == 0

    def _at_or_above(self, steps: int, least: int) -> int:
        k = -(-max(least, self.begin, 0) // self.period) * self.period
        return k if k < steps else -1

    def next(self, steps: int, k: int) -> int:
        """The smallest batch above k; -1: none."""
        if k >= steps:
            return -1
        found = self._at_or_above(steps, max(k + 1, 0))
        return found if found >= 0 else steps if self.closing else -1

    def previous(self, steps: int, k: int) -> int:
        """The largest batch below k; -1: none."""
        if k > steps and self.closing:
            return steps
        last = (min(k, steps) - 1) // self.period * self.period if k > 0 else -1
        return last if last >= self.begin else -1

    def ordinal(self, steps: int, k: int) -> int:
        """How many batches below k it works on."""
        closing = int(k > steps and self.closing)
        first = self._at_or_above(_MAX, 0)
        k = min(k, steps)
        if first < 0 or k <= first:
            return closing
        return (k - 1 - first) // self.period + 1 + closing


class Actor(NamedTuple):
    name: str
    options: Dict[str, Any]
    replicas: int


class Need(NamedTuple):
    name: str
    edge: int  # -1: optional and absent
    column: str
    maps: List[int]  # edges that carry row maps, from the stage's rows outwards


class Stage(NamedTuple):
    name: str
    actor: int
    does: str
    options: Dict[str, Any]
    span: Span
    source: bool
    maps: bool
    rows_of: int
    parts: int
    parts_of: int
    by_part: bool
    skips: bool  # on_error = "skip"
    weights_edge: int
    needs: List[Need]
    gives: List[str]
    gives_as: List[str]
    gives_type: List[str]


class Edge(NamedTuple):
    maker: int
    reader: int
    weights: bool
    staleness: int
    map: bool
    columns: List[str]


class _Cursor:
    """Reads an array whose length is known, one item after the other, each of a type."""

    def __init__(self, items: Any, count: int, what: str) -> None:
        if type(items) is not list or len(items) < count:
            raise Malformed(f"a plan that cannot be read: {what}")
        self.items = items
        self.at = 0
        self.what = what

    def _next(self) -> Any:
        item = self.items[self.at]
        self.at += 1
        return item

    def fail(self) -> Malformed:
        return Malformed(f"a plan that cannot be read: {self.what}, item {self.at}")

    def whole(self, least: int, most: int) -> int:
        item = self._next()
        if not is_int(item, least, most):
            raise self.fail()
        return int(item)

    def flag(self) -> bool:
        item = self._next()
        if type(item) is not bool:
            raise self.fail()
        return bool(item)

    def text(self) -> str:
        item = self._next()
        if type(item) is not str:
            raise self.fail()
        return str(item)

    def seconds(self) -> float:
        item = self._next()
        if type(item) not in (int, float) or not 0 <= item <= 1e9:
            raise self.fail()
        return float(item)

    def array(self) -> List[Any]:
        item = self._next()
        if type(item) is not list:
            raise self.fail()
        return list(item)

    def texts(self) -> List[str]:
        items = self.array()
        if not all(type(item) is str for item in items):
            raise self.fail()
        return items

    def ints(self, most: int) -> List[int]:
        items = self.array()
        if not all(is_int(item, 0, most) for item in items):
            raise self.fail()
        return items

    def options(self) -> Dict[str, Any]:
        item = self._next()
        if type(item) is not dict or not _plain(item, 0):
            raise self.fail()
        return dict(item)


def _plain(value: Any, depth: int) -> bool:
    if type(value) is dict:
        return depth < _DEPTH and all(type(key) is str and _plain(item, depth + 1) for key, item in value.items())
    if type(value) is list:
        return depth < _DEPTH and all(_plain(item, depth + 1) for item in value)
    return type(value) in (bool, int, float, str)


def _actor(item: Any) -> Actor:
    cursor = _Cursor(item, 11, "an actor")
    name = cursor.text()
    cursor.text()  # its kind
    options = cursor.options()
    cursor.whole(0, 1)  # its place
    return Actor(name, options, cursor.whole(1, 1024))


def _need(item: Any) -> Need:
    cursor = _Cursor(item, 4, "a need")
    return Need(cursor.text(), cursor.whole(-1, 1 << 31), cursor.text(), cursor.ints(1 << 31))


def _stage(item: Any, stages: int, actors: int) -> Stage:
    cursor = _Cursor(item, 23, "a stage")
    name, actor, does, options = cursor.text(), cursor.whole(0, actors - 1), cursor.text(), cursor.options()
    span = Span(cursor.whole(1, _MAX), cursor.whole(0, _MAX), cursor.flag())
    source, maps = cursor.flag(), cursor.flag()
    rows_of, parts, parts_of = cursor.whole(0, stages - 1), cursor.whole(1, 1024), cursor.whole(-1, stages - 1)
    by_part, skips = cursor.flag(), cursor.whole(0, 1) == 1
    cursor.seconds()
    cursor.ints(stages - 1)  # depends_on: the edges say what it waits for
    weights = cursor.whole(-1, 1 << 31)
    needs = [_need(need) for need in cursor.array()]
    gives, gives_as, gives_type = cursor.texts(), cursor.texts(), cursor.texts()
    if not len(gives) == len(gives_as) == len(gives_type):
        raise cursor.fail()
    return Stage(name, actor, does, options, span, source, maps, rows_of, parts, parts_of, by_part, skips, weights,
                 needs, gives, gives_as, gives_type)


def _edge(item: Any, stages: int) -> Edge:
    cursor = _Cursor(item, 6, "an edge")
    maker, reader, weights = cursor.whole(0, stages - 1), cursor.whole(0, stages - 1), cursor.flag()
    edge = Edge(maker, reader, weights, cursor.whole(0, 1000000), cursor.flag(), cursor.texts())
    if maker == reader or (not weights and maker > reader):
        raise cursor.fail()
    return edge


class Plan:
    def __init__(self, data: bytes) -> None:
        if len(data) > _MAX_BYTES:
            raise Malformed(f"a plan of {len(data)} bytes: at most {_MAX_BYTES} are read")
        cursor = _Cursor(unpack(data, "a plan"), 14, "the run")
        form = cursor.whole(0, _MAX)
        if form != FORMAT:
            raise Malformed(f"a plan of format {form} came; this package reads format {FORMAT}")
        self.revision = cursor.whole(0, (1 << 43) - 1)
        self.name, self.file = cursor.text(), cursor.text()
        self.steps = cursor.whole(1, _MAX // 4)
        self.seed = cursor.whole(0, (1 << 64) - 1)
        self.max_in_flight, self.max_bytes = cursor.whole(1, 1000000), cursor.whole(1, _MAX)
        self.save_every = cursor.whole(0, _MAX)
        cursor.whole(1, _MAX)  # keep
        cursor.seconds()
        actors, stages, edges = cursor.array(), cursor.array(), cursor.array()
        if not actors or not stages:
            raise cursor.fail()
        self.actors = [_actor(item) for item in actors]
        self.stages = [_stage(item, len(stages), len(actors)) for item in stages]
        self.edges = [_edge(item, len(stages)) for item in edges]
        self._check()
        self.window = max(64, (self.max_in_flight + 1) * max(stage.parts for stage in self.stages))

    def _check(self) -> None:
        for index, edge in enumerate(self.edges):
            if not edge.weights and not set(edge.columns) <= set(self.stages[edge.maker].gives_as):
                raise Malformed(f"a plan that cannot be read: edge {index} carries a column that nobody gives")
        for index, stage in enumerate(self.stages):
            brings = [i for i, edge in self.in_edges(index) if edge.weights]
            if brings != ([stage.weights_edge] if stage.weights_edge >= 0 else []):
                raise Malformed(f"a plan that cannot be read: the weights of stage {stage.name} come from an edge "
                                "that brings none, or from several")
            for need in stage.needs:
                used = need.maps + ([need.edge] if need.edge >= 0 else [])
                if any(e >= len(self.edges) or self.edges[e].reader != index or self.edges[e].weights for e in used) \
                        or any(not self.edges[e].map for e in need.maps) \
                        or (need.edge >= 0 and need.column not in self.edges[need.edge].columns):
                    raise Malformed(f"a plan that cannot be read: stage {stage.name} has a need that its edges do "
                                    "not meet")

    def in_edges(self, stage: int) -> List[Tuple[int, Edge]]:
        return [(index, edge) for index, edge in enumerate(self.edges) if edge.reader == stage]

    def out_edges(self, stage: int) -> List[Tuple[int, Edge]]:
        return [(index, edge) for index, edge in enumerate(self.edges) if edge.maker == stage]

    def actor_index(self, name: str) -> Optional[int]:
        for index, actor in enumerate(self.actors):
            if actor.name == name:
                return index
        return None

    def version(self, writer: int, staleness: int, k: int) -> int:
        """The update of a stage whose weights batch k of a reader is worked with; -1: none before it."""
        return self.stages[writer].span.previous(self.steps, max(k - staleness, 0))

    def replica(self, stage: int, k: int) -> int:
        """The replica of a stage's actor that works on batch k: batches are dealt in turn."""
        it = self.stages[stage]
        if self.actors[it.actor].replicas == 1:
            return 0
        return it.span.ordinal(self.steps, k) % self.actors[it.actor].replicas
