"""The state of an actor to disk and back: what is due, and when. Under the actor's lock; the worker does it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, List, Optional, Tuple

if TYPE_CHECKING:
    from ._host import Host
    from ._seat import Seat
    from ._world import World


class Saves:
    def __init__(self, host: "Host") -> None:
        self.host = host
        self.ordered: List[Tuple[int, str]] = []  # (that many batches done, where)
        self.every = self.next = 0  # checkpoints of its own accord, at batches that the table says; 0: none
        self.restore: Optional[Tuple[str, int]] = None  # from where, and the revision of the order

    def begin(self, world: "World") -> None:
        """The first revision that is in force says how often."""
        every = world.plan.save_every
        if self.host.program.keeps_state and not self.every and 0 < every < world.plan.steps:
            self.every = every
            self._after(world.seats[0].start, world.plan.steps)

    def _after(self, batch: int, steps: int) -> None:
        following = batch // self.every * self.every + self.every
        self.next = following if following < steps else 0

    def checkpoint(self, step: int) -> str:
        return os.path.join(self.host.run_directory, "checkpoints", f"step-{step}.tmp", self.host.actor)

    def waits(self, seat: "Seat") -> bool:
        """A stage waits at the step of a checkpoint until that is written."""
        return self.next > 0 and seat.next >= self.next

    def due(self) -> Optional[Tuple[int, str]]:
        """What is ordered, at once. A checkpoint of its own accord holds all batches below its step and none above."""
        if self.ordered:
            return self.ordered[0]
        if not self.next or any(not seat.over() and seat.next < self.next for world in self.host.worlds
                                if world.cut >= 0 for seat in world.seats):
            return None
        return self.next, self.checkpoint(self.next)

    def done(self, step: int) -> bool:
        """Whether it was ordered."""
        if self.ordered:
            del self.ordered[0]
            return True
        self._after(step, self.host.worlds[-1].plan.steps)
        return False
