"""What the director orders. Each is checked before anything of it is done, and done at once, under the actor's lock;
what takes time (a checkpoint, the state of a predecessor) is left to the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

from ._errors import clip
from ._plan import Plan
from ._tap import label_of
from ._wire import DIRECTOR, Malformed, Message, is_int, unpack
from ._world import World

if TYPE_CHECKING:
    from ._host import Host


def _item(items: List[Any], index: int, kind: type, word: str) -> Any:
    if index >= len(items) or type(items[index]) is not kind:
        raise Malformed(f"the order '{word}' is malformed")
    return items[index]


def _world(host: "Host", revision: int, word: str) -> World:
    for world in host.worlds:
        if world.revision == revision:
            return world
    raise Malformed(f"the director ordered '{word}' for revision {revision}, which is not here")


def _table(host: "Host", _revision: int, items: List[Any]) -> None:
    plan = Plan(_item(items, 0, bytes, "table"))
    if any(world.revision == plan.revision for world in host.worlds):
        raise Malformed(f"a second table of revision {plan.revision} came")
    host.worlds.append(World(host, plan))
    host.worlds.sort(key=lambda world: world.revision)


def _peers(host: "Host", revision: int, items: List[Any]) -> None:
    peers: Dict[Tuple[str, int], int] = {}
    world = _world(host, revision, "peers")
    replicas = {actor.name: actor.replicas for actor in world.plan.actors}
    for item in _item(items, 0, list, "peers"):
        if type(item) is not list or len(item) != 3 or not is_int(item[0], 1) or type(item[1]) is not str \
                or not is_int(item[2], 0):
            raise Malformed("a list of peers is malformed")
        peers[(item[1], item[2])] = item[0]
        host.tap.labels.setdefault(item[0], label_of(item[1], item[2], replicas.get(item[1], 1), item[0]))
    world.wire(peers)
    _part(host)
    host.endpoint.acknowledge()
    host.endpoint.flush()
    host.say(["wired"], revision, -1, True)


def _part(host: "Host") -> None:
    """Who shares no edge with any revision any more is no peer."""
    wanted = {DIRECTOR}
    for world in host.worlds:
        wanted.update(world.incarnations())
    for incarnation in [one for one in host.endpoint.peers if one not in wanted]:
        host.endpoint.disconnect(incarnation)


def _begin(host: "Host", revision: int, items: List[Any]) -> None:
    if len(items) < 2:
        raise Malformed("an order to begin is malformed")
    world = _world(host, revision, "begin")
    world.begin(*items[:3])
    host.saves.begin(world)


def _permit(host: "Host", revision: int, items: List[Any]) -> None:
    last = _item(items, 0, int, "permit")
    for seat in _world(host, revision, "permit").seats:
        if seat.plan.source:
            seat.granted = max(seat.granted, last)


def _save(host: "Host", _revision: int, items: List[Any]) -> None:
    step = _item(items, 0, int, "save")
    given = items[1] if len(items) > 1 and type(items[1]) is str else host.saves.checkpoint(step)
    host.saves.ordered.append((step, given))


def _restore(host: "Host", revision: int, items: List[Any]) -> None:
    host.saves.restore = (_item(items, 0, str, "restore"), revision)


def _pause(host: "Host", _revision: int, items: List[Any]) -> None:
    host.paused = bool(items and items[0])


def _drop(host: "Host", revision: int, _items: List[Any]) -> None:
    world = _world(host, revision, "drop")
    world.close()
    host.worlds.remove(world)
    _part(host)


def _trace(host: "Host", _revision: int, items: List[Any]) -> None:
    cannot = host.tap.trace(items)
    if cannot:  # who follows the messages is no concern of the run
        host.say(["log", host.actor, f"the messages of {host.tap.label} cannot be followed: {cannot}"], 0, -1, True)


def _untrace(host: "Host", _revision: int, items: List[Any]) -> None:
    host.tap.untrace(items)


def _stop(host: "Host", _revision: int, _items: List[Any]) -> None:
    host.stopping = True
    host.changed.notify()


_ORDERS: Dict[str, Callable[["Host", int, List[Any]], None]] = {
    "table": _table, "peers": _peers, "begin": _begin, "permit": _permit, "save": _save, "restore": _restore,
    "pause": _pause, "drop": _drop, "retire": _drop, "trace": _trace, "untrace": _untrace, "stop": _stop,
}


def obey(host: "Host", message: Message) -> None:
    order = unpack(message.body, "an order of the director")
    if type(order) is not list or not order or type(order[0]) is not str:
        raise Malformed("an order of the director is malformed")
    do = _ORDERS.get(order[0])
    if do is None:
        raise Malformed(f"the director ordered '{clip(order[0], 32)}', which is unknown")
    do(host, message.revision, order[1:])
