"""What came over each edge and waits, what hangs on a batch, and what was made and is kept. All of it is under the
actor's lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from ._arena import Arena
from ._batch import Stored, unpack_batch
from ._endpoint import Inbound, Outbound
from ._made import Made
from ._plan import Edge, Span
from ._wire import Malformed, Message

if TYPE_CHECKING:
    from ._seat import Seat
    from ._versions import Version


class Unit:
    """One message of an edge, in the mailbox."""

    __slots__ = ("batch", "part", "parts", "time", "stored", "inbound", "seq", "output", "taken")

    def __init__(self, batch: int, part: int, parts: int, time: int, stored: Optional[Stored],
                 inbound: Optional[Inbound], seq: int, output: "Optional[Output]") -> None:
        self.batch = batch
        self.part = part
        self.parts = parts
        self.time = time
        self.stored = stored  # None: the batch was skipped
        self.inbound = inbound  # None: made by a stage of this actor, or its sender is gone
        self.seq = seq
        self.output = output
        self.taken = False  # counted to the credit

    def take(self) -> None:
        if not self.taken:
            self.taken = True
            if self.inbound is not None:
                self.inbound.take()

    def finish(self) -> None:
        self.take()
        if self.stored is not None:
            self.stored.release()
        if self.inbound is not None:
            self.inbound.finish(self.seq)
        if self.output is not None:
            self.output.release()
        self.inbound = self.output = None


class Ack:
    """What a stage took of a batch: acknowledged, in the order of the batches, when nothing hangs on it any more."""

    __slots__ = ("seat", "batch", "pending", "units", "version")

    def __init__(self, seat: "Seat", batch: int) -> None:
        self.seat = seat
        self.batch = batch
        self.pending = 1  # the run itself, its outputs, its report
        self.units: List[Tuple[int, Unit]] = []  # with their edges
        self.version: "Optional[Version]" = None  # of the weights that it was worked with

    def release(self) -> None:
        self.pending -= 1
        acks = self.seat.acks
        while acks and acks[0].pending == 0:
            ack = acks.popleft()
            for _, unit in ack.units:
                unit.finish()
            if ack.version is not None:
                ack.version.release()


class Output:
    """What a stage made of a batch or a part: its memory is kept while readers are not done with it."""

    __slots__ = ("seat", "made", "ack", "refs", "size")

    def __init__(self, seat: "Seat", made: Optional[Made], ack: Optional[Ack]) -> None:
        self.seat = seat
        self.made = made
        self.ack = ack
        self.refs = 1
        self.size = made.size if made is not None else 0
        seat.live_bytes += self.size
        seat.last_bytes = self.size
        if ack is not None:
            ack.pending += 1

    def release(self) -> None:
        self.refs -= 1
        if self.refs:
            return
        self.seat.live_bytes -= self.size
        if self.made is not None:
            self.made.release()
            self.made = None
        if self.ack is not None:
            self.ack.release()


class EdgeIn:
    """The reader's end of an edge."""

    def __init__(self, seat: "Seat", index: int, edge: Edge) -> None:
        self.seat = seat
        self.index = index  # in the plan
        self.edge = edge
        self.through_map = False  # some need reads its columns through a row map: always seen whole
        self.units: Dict[int, Dict[int, Unit]] = {}  # batch → part
        self.inbound: Dict[int, Inbound] = {}  # by the maker's replica

    def worked(self) -> List[Unit]:
        """What was taken out of the mailbox and is not acknowledged."""
        return [unit for ack in self.seat.acks for index, unit in ack.units if index == self.index]

    def late(self, batch: int) -> bool:
        """Is the stage past it?"""
        return self.seat.world.cut >= 0 and (self.seat.next < 0 or batch < self.seat.next)

    def had(self, batch: int, part: int) -> Tuple[bool, Optional[Unit]]:
        """Was it here already, and where is what is left of it?"""
        unit = self.units.get(batch, {}).get(part)
        if unit is None and self.late(batch):
            for unit in self.worked():
                if unit.batch == batch and unit.part == part:
                    return True, unit
            return True, None
        return unit is not None, unit

    def check(self, message: Message) -> None:
        plan = self.seat.world.plan
        if message.revision != plan.revision:
            raise Malformed(f"stage {self.maker} sent batch {message.batch} under revision {message.revision} on an "
                            f"edge of revision {plan.revision}")
        if not 0 <= message.batch <= plan.steps or message.parts > 1 << 20:
            raise Malformed(f"stage {self.maker} sent batch {message.batch}, which the run does not have")

    @property
    def maker(self) -> str:
        return self.seat.world.plan.stages[self.edge.maker].name

    def receive(self, inbound: Inbound, message: Message, arena: Arena) -> None:
        """A message goes into the mailbox. What was here already is acknowledged to whoever sent it again."""
        self.check(message)
        had, unit = self.had(message.batch, message.part)
        if unit is not None and unit.inbound is None and unit.output is None:
            unit.inbound, unit.seq = inbound, message.seq  # of a successor: it is told when the time comes
            if unit.taken:
                inbound.take()
            return
        if had:
            inbound.take()
            inbound.finish(message.seq)
            return
        stored = unpack_batch(message.body, arena) if message.body else None
        parts = self.units.setdefault(message.batch, {})
        if any(other.parts != message.parts for other in parts.values()):
            raise Malformed(f"stage {self.maker} sent batch {message.batch} in {message.parts} parts and in others")
        parts[message.part] = Unit(message.batch, message.part, message.parts, message.time, stored, inbound,
                                   message.seq, None)

    def forget(self, inbound: Inbound) -> None:
        """Its sender is gone: what came from it stays, and is acknowledged to nobody, or to a successor."""
        waiting = [unit for units in self.units.values() for unit in units.values()]
        for unit in waiting + self.worked():
            if unit.inbound is inbound:
                unit.inbound = None

    def let_go(self, below: Optional[int] = None) -> None:
        """What waits for batches below one (None: all of it) is done with."""
        for batch in [b for b in self.units if below is None or b < below]:
            for unit in self.units.pop(batch).values():
                unit.finish()

    def close(self) -> None:
        """Its revision is over, and so are its channels."""
        for unit in [unit for units in self.units.values() for unit in units.values()] + self.worked():
            unit.inbound = None
        self.let_go()


class EdgeOut:
    """The maker's end of an edge."""

    def __init__(self, index: int, edge: Edge, reader: Span, names: List[str]) -> None:
        self.index = index
        self.edge = edge
        self.reader = reader  # the batches that the reader works on
        self.names = names  # the handler's, of the columns that it carries
        self.channels: Dict[int, Outbound] = {}  # by the reader's replica
        self.local: Optional[EdgeIn] = None  # the reader's end where it is in this actor
