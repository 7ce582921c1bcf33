"""One revision in this actor: its table, its stages, and the channels to those who share edges with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from ._endpoint import Outbound
from ._plan import Plan
from ._plan import Stage as StagePlan
from ._program import StageKind, fill_options
from ._seat import Seat
from ._stage import Stage, stage_seed
from ._units import EdgeOut
from ._wire import INT_MAX, INT_MIN, REVISION_SHIFT, Malformed, is_int

if TYPE_CHECKING:
    from ._host import Host

_OTHERWISE = ("and the table was made when its program said otherwise: when the program's file is saved again, it is "
              "asked again")


class World:
    def __init__(self, host: "Host", plan: Plan) -> None:
        self.host = host
        self.plan = plan
        self.revision = plan.revision
        actor = plan.actor_index(host.actor)
        if actor is None:
            raise Malformed(f"the table has no actor {host.actor}")
        self.actor = plan.actors[actor]
        self.cut = -1  # the first batch of the revision; -1: not in force
        self.bases: List[int] = []  # by stage of the plan: an update below it means this one
        self.end = -1  # the first that is no more of it; -1: not known
        self.seats: List[Seat] = []
        for index, stage in enumerate(plan.stages):
            if stage.actor == actor:
                self.seats.append(self._seat(index))
        if not self.seats:
            raise Malformed(f"the table has no stage for actor {host.actor}")
        for seat in self.seats:
            for out in seat.outs:
                self._open(out, actor)

    def _open(self, out: EdgeOut, actor: int) -> None:
        """A channel for each replica of the reader; this very one is reached without."""
        reader = self.plan.stages[out.edge.reader]
        for replica in range(self.plan.actors[reader.actor].replicas):
            if reader.actor != actor or replica != self.host.replica:
                out.channels[replica] = Outbound(self.host.endpoint, self.edge_number(out.index), self.plan.window)
        for other in self.seats:
            if out.index in other.by_edge:
                out.local = other.by_edge[out.index]

    def _seat(self, index: int) -> Seat:
        stage = self.plan.stages[index]
        kind = self.host.program.find(stage.name, str(stage.options.get("function") or ""))
        if kind is None:
            raise Malformed(f"this program has no stage '{stage.options.get('function') or stage.name}': it has "
                            + (", ".join(self.host.program.stages) or "none"))
        self._check_columns(stage, kind)
        if any(edge.weights for _, edge in self.plan.out_edges(index)):
            raise Malformed(f"stage {stage.name} is to publish weights, which a stage in Python does not")
        given = stage.options.get("options")
        try:
            options = fill_options(kind, given if type(given) is dict else {})
        except ValueError as error:
            raise Malformed(str(error)) from None
        host, revision = self.host, self.revision
        made = Stage(stage.name, options, stage_seed(self.plan.seed, stage.name), self.plan.steps,
                     dict(zip(stage.gives, stage.gives_type)),
                     lambda body, batch: host.say(body, revision, batch, True), lambda: host.stopping)
        return Seat(self, index, kind, made)

    def _check_columns(self, stage: StagePlan, kind: StageKind) -> None:
        """The table was made for what the program said about itself; is that still so?"""
        names = [re.split(r"[\s:?]", text.strip(), maxsplit=1)[0] for text in kind.gives]
        needs = {re.split(r"[\s:?]", text.strip(), maxsplit=1)[0] for text in kind.needs if not text.startswith("*")}
        given = {need.name for need in stage.needs}
        if set(names) != set(stage.gives) or not needs >= given:
            raise Malformed(f"stage {stage.name} gives {', '.join(names) or 'nothing'} and needs "
                            f"{', '.join(sorted(needs)) or 'nothing'}, {_OTHERWISE}")
        if kind.weights != (stage.weights_edge >= 0):
            raise Malformed(f"stage {stage.name} works with{'' if kind.weights else 'out'} published weights, "
                            + _OTHERWISE)

    def edge_number(self, index: int) -> int:
        return self.revision << REVISION_SHIFT | index

    def is_open(self, seat: Seat) -> bool:
        """In force, and the same stage of every earlier revision is over (all of them, where the actor keeps state)."""
        if self.cut < 0:
            return False
        for world in self.host.worlds:
            if world is self:
                return True
            for other in world.seats if world.cut >= 0 else ():
                if (self.host.chained and other.plan.name != seat.plan.name) or other.over():
                    continue
                return False
        return True

    def _numbers(self, items: Any, least: int, most: int) -> bool:
        """One number for each stage of the plan."""
        return type(items) is list and len(items) == len(self.plan.stages) \
            and all(is_int(item, least, most) for item in items)

    def begin(self, cut: Any, starts: Any, bases: Any = None) -> None:
        if self.cut >= 0 or not is_int(cut, 0) or not self._numbers(starts, INT_MIN, INT_MAX) \
                or not (bases is None or self._numbers(bases, -1, cut - 1)):
            raise Malformed("an order to begin is malformed")
        self.cut = cut
        self.bases = len(self.plan.stages) * [cut - 1] if bases is None else bases
        for seat in self.seats:
            seat.start = max(cut, starts[seat.index])
            seat.next = seat.after(seat.start - 1)
            seat.prune()
        for world in self.host.worlds:
            if world is self:
                break
            world.end = cut if world.end < 0 else min(world.end, cut)

    # channels

    def wire(self, peers: Dict[Tuple[str, int], int]) -> None:
        """Who is alive, by actor and replica: the whole truth about this revision. Who had a place and has it no more
        is dead; what was kept for it goes to whoever has the place now."""
        for seat in self.seats:
            self._wire_ins(seat, peers)
            self._wire_outs(seat, peers)

    def _wire_ins(self, seat: Seat, peers: Dict[Tuple[str, int], int]) -> None:
        endpoint = self.host.endpoint
        for edge in seat.edges:
            maker = self.plan.actors[self.plan.stages[edge.edge.maker].actor]
            for replica in range(maker.replicas):
                who = peers.get((maker.name, replica), 0)
                inbound = edge.inbound.get(replica)
                if inbound is not None and inbound.peer.incarnation != who:
                    inbound.peer.inbound.pop(inbound.edge, None)
                    edge.forget(inbound)
                    del edge.inbound[replica]
                    inbound = None
                if inbound is None and who not in (0, self.host.incarnation):
                    edge.inbound[replica] = endpoint.open_inbound(endpoint.connect(who), self.edge_number(edge.index),
                                                                  self.plan.window, edge)

    def _wire_outs(self, seat: Seat, peers: Dict[Tuple[str, int], int]) -> None:
        endpoint = self.host.endpoint
        for out in seat.outs:
            reader = self.plan.actors[self.plan.stages[out.edge.reader].actor]
            for replica, channel in out.channels.items():
                who = peers.get((reader.name, replica), 0)
                if channel.peer is not None and channel.peer.incarnation != who:
                    channel.unbind()
                if who not in (0, self.host.incarnation):
                    channel.bind(endpoint.connect(who))

    def incarnations(self) -> List[int]:
        """The peers that this revision has channels with."""
        found = []
        for seat in self.seats:
            found += [inbound.peer.incarnation for edge in seat.edges for inbound in edge.inbound.values()]
            found += [channel.peer.incarnation for out in seat.outs for channel in out.channels.values()
                      if channel.peer is not None]
        return found

    def close(self) -> None:
        """It is over: its channels go, and what waits in its mailboxes."""
        self.host.endpoint.close_edges(lambda edge: edge >= 0 and edge >> REVISION_SHIFT == self.revision)
        for seat in self.seats:
            for out in seat.outs:
                for channel in out.channels.values():
                    while channel.kept:
                        self.host.on_done(channel.kept.popleft().tag)
            for edge in seat.edges:
                edge.close()
            seat.stage.weights = None
