"""A stage of one revision in its actor: whether it may run, and what its handler is given.

All of it is under the actor's lock, except where it says otherwise.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional

from ._batch import Array, Batch, Stored, Weights, concat, follow, see
from ._plan import Need
from ._program import StageKind
from ._stage import Stage
from ._units import Ack, EdgeIn, EdgeOut, Unit
from ._versions import Versions
from ._wire import now_ns

if TYPE_CHECKING:
    from ._world import World

BUSY, DATA, WEIGHTS, ROOM, WORKER, OVER, MOVE, STATES = range(8)


class Seat:
    def __init__(self, world: "World", index: int, kind: StageKind, stage: Stage) -> None:
        self.world = world
        self.index = index
        self.plan = world.plan.stages[index]
        self.kind = kind
        self.stage = stage
        self.ins = [EdgeIn(self, i, edge) for i, edge in world.plan.in_edges(index) if not edge.weights]
        found = [Versions(self, i, edge) for i, edge in world.plan.in_edges(index) if edge.weights]
        self.weights = found[0] if found else None
        self.edges: List[EdgeIn] = [*self.ins, *found]
        handlers = dict(zip(self.plan.gives_as, self.plan.gives))
        self.outs = [EdgeOut(i, edge, world.plan.stages[edge.reader].span, [handlers[name] for name in edge.columns])
                     for i, edge in world.plan.out_edges(index)]
        self.by_edge = {edge.index: edge for edge in self.edges}
        self.rows_edge = self._rows_edge()
        self._see_maps()
        self.start = 0  # the first batch that may be its own
        self.next = -1  # the batch that it works on next; -1: no more
        self.part = 0
        self.made_rows = 0  # of the parts before it
        self.granted = -1  # a source: the highest batch that it has leave for
        self.skipped = False  # a part of this batch was
        self.ack: Optional[Ack] = None  # of this batch
        self.acks: Deque[Ack] = deque()
        self.live_bytes = self.last_bytes = 0
        self.state = OVER
        self.since = now_ns()
        self.spent = [0] * STATES
        self.started = 0
        self.busy = 0  # ns in the handler for this batch
        self.moved = 0  # ns of this run beside the handler: columns seen, made and packed
        self.bytes_out = self.bytes_unseen = 0  # given to readers; given to the handler, which did not look
        self.handoff = 0

    def _rows_edge(self) -> Optional[EdgeIn]:
        """The edge whose maker has the rows that this stage is given; None: a source."""
        stages = self.world.plan.stages
        if self.plan.source:
            return None
        for edge in self.ins:
            maker = stages[edge.edge.maker]
            rows = edge.edge.maker if maker.source or maker.maps else maker.rows_of
            if rows == self.plan.rows_of:
                return edge
        return self.ins[0]

    def _see_maps(self) -> None:
        for need in self.plan.needs:
            if need.maps:
                for index in [need.edge] + need.maps[1:]:
                    self.by_edge[index].through_map = True

    # batches

    def after(self, batch: int) -> int:
        """The next batch of this replica behind one; -1: none."""
        plan, replica = self.world.plan, self.world.host.replica
        batch = self.plan.span.next(plan.steps, batch)
        while batch >= 0 and plan.replica(self.index, batch) != replica:
            batch = self.plan.span.next(plan.steps, batch)
        return batch

    def over(self) -> bool:
        return self.world.cut >= 0 and (self.next < 0 or 0 <= self.world.end <= self.next)

    def is_sink(self, batch: int) -> bool:
        plan = self.world.plan
        return not any(plan.stages[out.edge.reader].span.has(plan.steps, batch) for out in self.outs
                       if not out.edge.weights)

    # readiness

    def _goes_by_part(self, edge: EdgeIn, parts: int) -> bool:
        return self.plan.by_part and self.rows_edge is not None and parts > 1 and not edge.through_map

    def _has_data(self) -> bool:
        if self.rows_edge is None:
            return self.next <= self.granted
        for edge in self.ins:
            units = edge.units.get(self.next)
            if not units:
                return False
            parts = next(iter(units.values())).parts
            if self.part not in units if self._goes_by_part(edge, parts) else len(units) != parts:
                return False
        return True

    def _has_turn(self) -> bool:
        """Stages that share a state go through their batches in turn, by batch and then as the plan has them: else it
        would be left to time what they find in it."""
        host = self.world.host
        if not host.program.keeps_state:
            return True
        return not any((other.next, other.index) < (self.next, self.index)
                       for world in host.worlds for other in world.seats
                       if other is not self and world.is_open(other) and not other.over())

    def judge(self) -> int:
        """As if the worker were idle: WORKER means ready."""
        if not self.world.is_open(self) or self.over():
            return OVER
        if not self._has_data() or not self._has_turn():
            return DATA
        if self.weights is not None and not self.weights.ready(self.next):
            return WEIGHTS
        plan = self.world.plan
        room = self.live_bytes == 0 or self.part > 0 \
            or self.live_bytes + self.last_bytes <= plan.max_bytes // len(plan.stages)
        return WORKER if room else ROOM

    def account(self, now: int, running: "Optional[Seat]") -> None:
        self.spent[self.state] += now - self.since
        self.since = now
        self.state = BUSY if self is running else self.judge()

    def book_run(self, now: int) -> None:
        """The run that ends now, and what of it went into moving bytes."""
        self.spent[self.state] += now - self.since
        self.since = now
        moved = min(self.moved, self.spent[BUSY])
        self.spent[BUSY] -= moved
        self.spent[MOVE] += moved
        self.moved = 0

    def credit(self) -> int:
        """How many messages all its readers would take now; -1: it sends to none."""
        return min((channel.credit() for out in self.outs for channel in out.channels.values()
                    if channel.peer is not None), default=-1)

    def prune(self) -> None:
        """What came for batches that are not this stage's is done with."""
        for edge in self.ins:
            edge.let_go(self.next if self.next >= 0 else None)

    # what the handler is given

    def gather(self) -> "View":
        """Takes what the next run of the handler works on. Cheap; View.build does the rest without the lock."""
        view = View(self)
        for edge in self.ins:
            units = edge.units[self.next]
            parts = next(iter(units.values())).parts
            by_part = self._goes_by_part(edge, parts)
            chosen = [units[self.part]] if by_part else [units[i] for i in sorted(units)]
            if by_part:
                view.parts = parts
            for unit in chosen:
                unit.take()
                view.skipped |= unit.stored is None
                view.ready = max(view.ready, unit.time)
            view.units[edge.index] = chosen
        if self.weights is not None and self.ack is not None and not view.skipped:
            if self.ack.version is None:
                self.ack.version = self.weights.take(self.next)
            view.weights = self.ack.version.weights if self.ack.version is not None else None
        return view

    def finish_units(self, ack: Ack) -> None:
        """The batch is worked off: its units hang on the acknowledgement from here on."""
        for edge in self.ins:
            for unit in edge.units.pop(self.next, {}).values():
                ack.units.append((edge.index, unit))


class View:
    """What one run of a handler is given."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.units: Dict[int, List[Unit]] = {}
        self.parts = 1  # that this run is one of
        self.skipped = False  # an input was
        self.ready = 0  # when the newest input was
        self.weights: Optional[Weights] = None  # that it is worked with
        self.handled = 0  # ns in the handler
        self.sizes: Dict[str, int] = {}  # bytes of each column

    def build(self) -> Batch:
        """The batch with its columns, each of which is made when it is first looked at. Not under the lock."""
        seat = self.seat
        if seat.rows_edge is None:
            return Batch(seat.next, 0, 0, 0, 1, {})
        brought: Dict[int, Stored] = {}
        for index, units in self.units.items():
            stored = [unit.stored for unit in units if unit.stored is not None]
            brought[index] = stored[0] if len(stored) == 1 else concat(stored)
        source = brought[seat.rows_edge.index]
        rows, first, cut = source.rows, source.first, seat.plan.parts
        if cut > 1 and self.parts == 1 and seat.plan.parts_of == seat.index:
            self.parts = cut
            first = rows * seat.part // cut
            rows = rows * (seat.part + 1) // cut - first
        makers: Dict[str, Callable[[], Any]] = {}
        for need in seat.plan.needs:
            if need.edge >= 0:
                makers[need.name] = self._maker(need, brought, first, rows)
                self.sizes[need.name] = brought[need.edge].columns[need.column].data.nbytes
        return Batch(seat.next, rows, first, seat.part, self.parts, makers)

    def unseen(self, batch: Batch) -> int:
        """Bytes of the columns that the handler did not look at."""
        return sum(self.sizes[name] for name in batch.unseen())

    def _maker(self, need: Need, brought: Dict[int, Stored], first: int, rows: int) -> Callable[[], Any]:
        stored = brought[need.edge]
        outer = brought[need.maps[0]] if need.maps else stored
        column = stored.columns.get(need.column)
        if column is None:
            raise ValueError(f"column '{need.column}' did not come")
        maps: List[Array] = []
        for index in need.maps:
            row_map = brought[index].map
            if row_map is None:
                raise ValueError(f"the row map to column '{need.name}' is missing")
            maps.append(row_map)
        at, kept = first - outer.first, column

        def make() -> Any:
            return see(kept, follow(maps, at, rows, stored.rows, need.name), at, rows)
        return make
