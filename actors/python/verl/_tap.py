"""Where an actor lets its messages be seen: copies for those who follow, nothing for nobody (runtime/observe/trace.h).

A follower gives credit; without credit a copy is not made, only counted. Counts are exact and cumulative, and travel
with each frame, so that a follower that stood still is told its loss. Everything but tend is under the actor's lock;
tend is the mailbox thread's.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Tuple

import numpy
import zmq

from ._batch import DTYPES, INLINE
from ._made import Made, MadeColumn
from ._wire import DATA, PING, PONG, STATUS, Malformed, Message, is_int, now_ns, pack, unpack

TRACE_DATA, TRACE_WEIGHTS, TRACE_STATUS, TRACE_PING, TRACE_PONG, TRACE_ORDER, TRACE_REPORT, TRACE_RAN = range(8)
KINDS = {DATA: TRACE_REPORT, STATUS: TRACE_STATUS, PING: TRACE_PING, PONG: TRACE_PONG}
FOLLOWERS_MAX = 16
BODY, WORDS, HEAD = 64 * 1024, 4 * 1024, 64  # bytes of a body, of an order or a report, of a column
RECORDS_MAX, CREDIT_MAX = 1000000, 1 << 30
BUSY_MS, CALM_MS = 10, 250
NOBODY, SOME, WHOLE = 0, 1, 2  # values of columns that travel: none, the first bytes, all
MS = 1_000_000


def label_of(actor: str, replica: int, replicas: int, incarnation: int) -> str:
    """Who is who in a trace."""
    return f"{actor}.{replica}#{incarnation}" if replicas > 1 else f"{actor}#{incarnation}"


def _is_actor(name: str, label: Optional[str]) -> bool:
    """Is it what "actor.replica#incarnation" begins with, up to one of its marks, or all of it but the replica?"""
    actor, mark, incarnation = name.partition("#")
    end = f"#{re.escape(incarnation)}$" if mark else "(#|$)"
    return label is not None and re.match(re.escape(actor) + r"(\.[0-9]+)?" + end, label) is not None


class Filter:
    def __init__(self, items: Any) -> None:
        wrong = Malformed("a filter of a trace is malformed")
        if type(items) is not list or len(items) != 11:
            raise wrong
        for names in items[:4]:
            if type(names) is not list or len(names) > 16 or not all(type(name) is str for name in names):
                raise wrong
        self.actors, self.stages, self.makers, self.readers = items[:4]
        kinds, ranges, first, every, values, stats, credit = items[4:]
        if len(self.makers) != len(self.readers) or not is_int(kinds, 0) or type(ranges) is not list \
                or len(ranges) % 2 or len(ranges) > 32 or not all(is_int(one) for one in ranges) \
                or not is_int(first, 0) or not is_int(every, 1) or not is_int(values, 0, 2) \
                or type(stats) is not bool or type(credit) is not list or len(credit) != 2 \
                or not is_int(credit[0], 0, RECORDS_MAX) or not is_int(credit[1], 0, CREDIT_MAX):
            raise wrong
        self.kinds, self.first, self.every, self.values, self.stats = kinds, first, every, values, stats
        self.ranges = list(zip(ranges[::2], ranges[1::2]))
        self.records, self.bytes = credit

    def matches(self, kind: int, sender: str, receiver: Optional[str], stage: Optional[str], reader: Optional[str],
                batch: int) -> bool:
        if not self.kinds >> kind & 1:
            return False
        if self.ranges and not (kind in (TRACE_DATA, TRACE_WEIGHTS, TRACE_RAN)
                                and any(first <= batch <= last for first, last in self.ranges)):
            return False
        if self.stages and stage not in self.stages and reader not in self.stages:
            return False
        if self.actors and not any(_is_actor(name, sender) or _is_actor(name, receiver) for name in self.actors):
            return False
        return not self.makers or any((not maker or maker == stage or _is_actor(maker, sender))
                                      and (not end or end == reader or _is_actor(end, receiver))
                                      for maker, end in zip(self.makers, self.readers))


class Follower:
    def __init__(self, number: int, address: str, chosen: Filter) -> None:
        self.number = number
        self.address = address
        self.filter = chosen
        self.seen = self.matched = self.sent = self.dropped = 0
        self.passed = self.used = self.used_bytes = 0
        self.limit, self.limit_bytes = chosen.records, chosen.bytes
        self.ending = False
        self.records: List[bytes] = []
        self.dealer: "Optional[zmq.Socket[Any]]" = None
        self.frames = self.told_seen = self.told_at = 0

    def wants(self, kind: int, sender: str, receiver: Optional[str], stage: Optional[str], reader: Optional[str],
              batch: int) -> bool:
        """Counts a message, and says whether a copy is to be made."""
        if self.ending:
            return False
        self.seen += 1
        if not self.filter.matches(kind, sender, receiver, stage, reader, batch):
            return False
        self.passed += 1
        if (self.passed - 1) % self.filter.every or (self.filter.first and self.matched >= self.filter.first):
            return False
        self.matched += 1
        if self.used < self.limit and self.used_bytes < self.limit_bytes:
            return True
        self.dropped += 1
        return False

    def keep(self, record: bytes) -> None:
        self.records.append(record)
        self.sent += 1
        self.used += 1
        self.used_bytes += len(record)


def _numbers(column: MadeColumn, rows: int) -> Tuple[Any, int, Any]:
    """The column's elements as numbers (of text: the rows' lengths), how many it stores, and their bytes."""
    offsets = 0
    kind = DTYPES[column.type.dtype]
    if column.type.ragged:
        offsets = (8 * (rows + 1) + 63) // 64 * 64
    data = numpy.frombuffer(column.memory, kind, (len(column.memory) - offsets) // kind.itemsize, offsets) \
        if len(column.memory) > offsets else numpy.empty(0, kind)
    numbers = data
    if column.type.dtype == "text":
        numbers = numpy.diff(numpy.frombuffer(column.memory, numpy.dtype("<i8"), rows + 1))
    elif column.type.dtype == "bf16":
        numbers = (data.astype(numpy.uint32) << 16).view(numpy.float32)
    return numbers, data.size, data


def about(made: Made, names: List[str], names_as: List[str], chosen: Filter) -> List[Any]:
    """What is said of the columns whose bytes are not in the body."""
    found = []
    for name, name_as in zip(names, names_as):
        column = made.columns[name]
        if len(column.memory) <= INLINE:
            continue
        numbers, elements, data = _numbers(column, made.rows)
        good = numbers[~numpy.isnan(numbers)] if numbers.dtype.kind == "f" else numbers
        figures: List[Any] = [0, 0, 0.0, 0.0, 0.0]
        if chosen.stats:
            nans = int(numbers.size - good.size)
            figures = [int(numbers.size), nans] + ([float(good.min()), float(good.max()),
                                                    float(good.mean(dtype=numpy.float64))] if good.size else [0.0] * 3)
        head = bytes(data[:HEAD // data.itemsize].tobytes()) if chosen.values == SOME else b""
        found.append([name_as, elements] + figures + [head])
    return found


class Tap:
    def __init__(self, context: "zmq.Context[Any]", label: str) -> None:
        self.context = context
        self.label = label
        self.labels: Dict[int, str] = {1: "director#1"}
        self.followers: List[Follower] = []
        self.calm = True  # the mailbox thread sleeps until something wakes it

    def trace(self, items: List[Any]) -> Optional[str]:
        """The order ["trace", id, address, filter]. Returns why it cannot be done, where it is right and cannot."""
        if len(items) < 3 or not is_int(items[0]) or type(items[1]) is not str or len(items[1]) > 107 \
                or not items[1].startswith(f"ipc://@verl-{os.getuid()}-"):
            raise Malformed("an order to trace does not name a socket of this user on this host")
        follower = Follower(items[0], items[1], Filter(items[2]))
        if any(other.number == follower.number and not other.ending for other in self.followers):
            return None
        if sum(not other.ending for other in self.followers) >= FOLLOWERS_MAX:
            return f"an actor has at most {FOLLOWERS_MAX} followers"
        self.followers.append(follower)
        return None

    def untrace(self, items: List[Any]) -> None:
        if not items or not is_int(items[0]):
            raise Malformed("an order to the tap is neither a trace nor an untrace [id]")
        for follower in self.followers:
            follower.ending = follower.ending or follower.number == items[0]

    def message(self, kind: int, message: Message, stage: Optional[str] = None, reader: Optional[str] = None,
                made: Optional[Made] = None, names: Optional[List[str]] = None, names_as: Optional[List[str]] = None,
                with_map: bool = False) -> bool:
        """A message that is sent. Returns whether the mailbox thread has to be woken for it."""
        receiver = self.labels.get(message.receiver, "?")
        kept = False
        for follower in self.followers:
            if not follower.wants(kind, self.label, receiver, stage, reader, message.batch):
                continue
            body: bytes = message.body
            told: Optional[List[Any]] = None
            if made is not None and names is not None and names_as is not None:
                if follower.filter.values == WHOLE:
                    body = made.pack(names, names_as, with_map, whole=True)
                if follower.filter.stats or follower.filter.values == SOME:
                    told = about(made, names, names_as, follower.filter)
            if kind not in (TRACE_DATA, TRACE_WEIGHTS):
                body = body[:WORDS]
            elif body is message.body and len(body) > BODY:
                body = b""
            follower.keep(pack([0, now_ns(), kind, self.label, receiver, stage, reader, message.edge, message.seq,
                                message.revision, message.batch, message.part, message.parts, message.time,
                                len(message.body), body, told]))
            kept = True
        return kept and self.calm

    def ran(self, stage: str, revision: int, batch: int, part: int, parts: int, begin: int, end: int) -> bool:
        """A handler ran."""
        kept = False
        for follower in self.followers:
            if follower.filter.kinds >> TRACE_RAN & 1 \
                    and follower.wants(TRACE_RAN, self.label, None, stage, None, batch):
                follower.keep(pack([1, end, TRACE_RAN, self.label, stage, revision, batch, part, parts, begin, end]))
                kept = True
        return kept and self.calm

    # the mailbox thread, which holds the lock meanwhile: nothing here waits

    def _credit(self, follower: Follower) -> bool:
        came = False
        while follower.dealer is not None:
            try:
                credit = unpack(follower.dealer.recv(zmq.NOBLOCK), "credit")
            except zmq.Again:
                break
            except Malformed:
                continue
            if type(credit) is list and len(credit) == 2 and is_int(credit[0], 0) and is_int(credit[1], 0):
                if credit[0] <= follower.used + RECORDS_MAX:
                    follower.limit = max(follower.limit, credit[0])
                if credit[1] <= follower.used_bytes + CREDIT_MAX:
                    follower.limit_bytes = max(follower.limit_bytes, credit[1])
                came = True
        return came

    def _send(self, follower: Follower, last: bool) -> None:
        head = pack([1, self.label, follower.number, follower.frames + 1, last, follower.seen, follower.matched,
                     follower.sent, follower.dropped])
        frame, follower.records = head + b"".join(follower.records), []
        try:
            if follower.dealer is not None:
                follower.dealer.send(frame, zmq.NOBLOCK)
        except zmq.ZMQError:
            return  # its counts go with the next frame
        follower.frames += 1
        follower.told_seen, follower.told_at = follower.seen, now_ns()

    def _tend(self, follower: Follower, stopping: bool) -> bool:
        if follower.dealer is None and not follower.frames:
            dealer = self.context.socket(zmq.DEALER)
            dealer.setsockopt(zmq.LINGER, 100)
            dealer.set_hwm(0)
            try:
                dealer.connect(follower.address)
                follower.dealer = dealer
            except zmq.ZMQError:
                dealer.close(0)
                follower.ending = True
        credited = self._credit(follower)
        last = follower.ending or stopping
        due = credited or not follower.frames or now_ns() - follower.told_at >= CALM_MS * MS
        untold = follower.seen != follower.told_seen or not follower.frames
        empty = not follower.records and not last and untold and due and follower.used < follower.limit
        follower.used += empty
        if follower.records or empty or last:
            self._send(follower, last)
        if last and follower.dealer is not None:
            follower.dealer.close(100)
            follower.dealer = None
        return not last

    def tend(self, stopping: bool = False) -> int:
        """Hands on what waits. Returns the milliseconds until it has to be called again; -1: when something is kept."""
        if not self.followers:
            return -1
        busy = any(follower.records for follower in self.followers)
        self.followers = [follower for follower in self.followers if self._tend(follower, stopping)]
        self.calm = not busy
        return -1 if not self.followers else BUSY_MS if busy else CALM_MS

