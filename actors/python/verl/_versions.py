"""The reader's end of a weights edge: which published version a batch is worked with, and how long it is held.

A version is the writer's update that made it. It is in use from the first batch that asks for it until one asks for the
next; it is acknowledged when, beyond that, every batch that was worked with it is done with, so that whoever has to work
on such a batch again is given it again. Under the actor's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional

from ._batch import Weights
from ._plan import Edge
from ._units import EdgeIn, Unit
from ._wire import Malformed, Message

if TYPE_CHECKING:
    from ._seat import Seat


class Version:
    """One that was taken: by the stage, while it is in use, and by each batch that was worked with it."""

    __slots__ = ("edge", "unit", "weights", "holders")

    def __init__(self, edge: "Versions", unit: Unit) -> None:
        assert unit.stored is not None
        self.edge = edge
        self.unit = unit
        self.weights = Weights(unit.batch + 1, unit.stored)
        self.holders = 1

    def hold(self) -> "Version":
        self.holders += 1
        return self

    def release(self) -> None:
        self.holders -= 1
        if self.holders == 0:
            self.edge.held.remove(self)
            self.unit.finish()


class Versions(EdgeIn):
    def __init__(self, seat: "Seat", index: int, edge: Edge) -> None:
        super().__init__(seat, index, edge)
        self.used: Optional[Version] = None
        self.held: List[Version] = []  # not acknowledged

    def wanted(self, batch: int) -> int:
        """The update that made the version of a batch; -1: none did, and the weights are those of the beginning."""
        world = self.seat.world
        update = world.plan.version(self.edge.maker, self.edge.staleness, batch)
        return max(update, world.bases[self.seat.index])

    def ready(self, batch: int) -> bool:
        update = self.wanted(batch)
        return update < 0 or update in self.units or (self.used is not None and self.used.unit.batch == update)

    def take(self, batch: int) -> Optional[Version]:
        """The version of a batch, for as long as the batch is not done with; None: there is none. What came before it
        is used no more."""
        update = self.wanted(batch)
        if update < 0:
            return None
        if self.used is None or self.used.unit.batch != update:
            self.let_go(update)
            unit = self.units.pop(update)[0]
            unit.take()
            before, self.used = self.used, Version(self, unit)
            self.held.append(self.used)
            if before is not None:
                before.release()
        return self.used.hold()

    def worked(self) -> List[Unit]:
        return [version.unit for version in self.held]

    def late(self, batch: int) -> bool:
        return self.used is not None and batch <= self.used.unit.batch

    def check(self, message: Message) -> None:
        super().check(message)
        if message.parts != 1 or not message.body:
            raise Malformed(f"stage {self.maker} published update {message.batch} of its weights "
                            f"{'in parts' if message.body else 'without any'}: one message with all of them would be "
                            "right")

    def close(self) -> None:
        super().close()
        used, self.used = self.used, None
        if used is not None:
            used.release()
