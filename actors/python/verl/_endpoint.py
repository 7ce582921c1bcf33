"""One party of a run: the socket that it is spoken to by, and its channels. ZeroMQ carries frames; the guarantee is
ours.

A channel is one edge between two incarnations. Its messages are numbered from 1, delivered once and in order, kept by
the sender until the receiver is done with them, and sent again while they stay unanswered.

Threads: the mailbox thread calls step and is the only one that reads the ROUTER. Everything else is done by whoever
holds `lock`, which is the lock of the whole actor.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Set

import zmq

from ._wire import (CONTROL, DATA, DIRECTOR, PING, PONG, REPORT, STATUS, Malformed, Message, now_ns, read_frame, write)

MS = 1_000_000
FRAME_BYTES = 8 * 1024
LAZY_NS = 2 * MS  # what changed is told after so long at most
COMPANY_NS = MS  # what is made waits so long for company while more is ready
IDLE_MS = 500  # longest sleep of the mailbox thread
RESEND_NS = 2000 * MS
RESEND_MAX_NS = 10000 * MS
FRAMES_A_STEP, FRAMES_A_LOCK = 256, 32
NOBLOCK = int(zmq.NOBLOCK)


def address(run_id: str, incarnation: int) -> str:
    return f"ipc://@verl-{os.getuid()}-{run_id[:32]}-{incarnation}"


class Kept:
    """A message that its receiver is not done with."""

    __slots__ = ("revision", "batch", "part", "parts", "time", "body", "tag", "bytes")

    def __init__(self, revision: int, batch: int, part: int, parts: int, time: int, body: bytes, tag: Any) -> None:
        self.revision = revision
        self.batch = batch
        self.part = part
        self.parts = parts
        self.time = time
        self.body = body
        self.tag = tag
        self.bytes: Optional[bytes] = None  # as numbered for the present receiver


class Outbound:
    """A channel at its sender. Without a peer (the receiver died) it keeps what is sent for the successor."""

    __slots__ = ("endpoint", "peer", "edge", "window", "kept", "last", "sent", "received", "limit", "done",
                 "answered_at", "resend_ns")

    def __init__(self, endpoint: "Endpoint", edge: int, window: int) -> None:
        self.endpoint = endpoint
        self.peer: Optional[Peer] = None
        self.edge = edge
        self.window = window
        self.kept: Deque[Kept] = deque()  # seq done + 1 … last
        self.last = self.sent = self.received = self.done = 0
        self.limit = window
        self.answered_at = 0
        self.resend_ns = RESEND_NS

    def bind(self, peer: "Peer") -> None:
        """The receiver is this incarnation now: all that was kept is numbered from 1 and sent again."""
        if self.peer is peer:
            return
        self.peer = peer
        peer.outbound[self.edge] = self
        self.last = len(self.kept)
        self.sent = self.received = self.done = 0
        self.limit = self.window
        self.resend_ns = RESEND_NS
        for kept in self.kept:
            kept.bytes = None
        self.send_from(1)

    def unbind(self) -> None:
        if self.peer is not None:
            self.peer.outbound.pop(self.edge, None)
            self.peer = None

    def send(self, kept: Kept) -> None:
        self.kept.append(kept)
        self.last += 1
        if self.peer is not None and self.sent + 1 == self.last:
            self.send_from(self.last)

    def send_from(self, seq: int) -> None:
        """Sends what is numbered, kept and within the limit, from seq on."""
        peer = self.peer
        if peer is None:
            return
        to = min(self.last, self.limit)
        for number in range(max(seq, self.done + 1), to + 1):
            kept = self.kept[number - self.done - 1]
            if kept.bytes is None:
                kept.bytes = write(Message(DATA, self.edge, self.endpoint.incarnation, peer.incarnation, number,
                                           kept.revision, kept.batch, kept.part, kept.parts, kept.time, kept.body))
            peer.put(kept.bytes)
        if to > self.sent:
            if self.sent == self.received:
                self.answered_at = now_ns()
            self.sent = to

    def credit(self) -> int:
        """How many more messages the receiver would take now."""
        return max(0, self.limit - self.last)

    def flush(self) -> None:
        if self.peer is not None:
            self.peer.flush()


class Inbound:
    """A channel at its receiver."""

    __slots__ = ("peer", "edge", "window", "tag", "received", "taken", "done", "done_early", "told", "repeat", "stash")

    def __init__(self, peer: "Peer", edge: int, window: int, tag: Any) -> None:
        self.peer = peer
        self.edge = edge
        self.window = window
        self.tag = tag
        self.received = self.taken = self.done = 0
        self.done_early: Set[int] = set()  # seqs above done that are done with
        self.told = (0, 0, 0)
        self.repeat = False  # a duplicate came: the last status was lost
        self.stash: Dict[int, Message] = {}  # came before their turn

    def take(self) -> None:
        """A handler took one more message: the limit moves."""
        self.taken += 1
        self.peer.endpoint.note()

    def finish(self, seq: int) -> None:
        """This actor is done with a message. What is told is the highest up to which it is done with all."""
        self.done_early.add(seq)
        while self.done + 1 in self.done_early:
            self.done += 1
            self.done_early.discard(self.done)
        self.peer.endpoint.note()

    def untold(self) -> bool:
        return self.repeat or self.told != (self.received, self.taken, self.done)


class Peer:
    def __init__(self, endpoint: "Endpoint", incarnation: int, dealer: "zmq.Socket[Any]") -> None:
        self.endpoint = endpoint
        self.incarnation = incarnation
        self.dealer = dealer
        self.frame = bytearray()
        self.outbound: Dict[int, Outbound] = {}
        self.inbound: Dict[int, Inbound] = {}

    def put(self, data: bytes) -> None:
        if self.frame and len(self.frame) + len(data) > FRAME_BYTES:
            self.flush()
        self.frame += data
        if len(self.frame) >= FRAME_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self.frame:
            return
        frame, self.frame = bytes(self.frame), bytearray()
        try:
            self.dealer.send(frame, NOBLOCK)
        except zmq.ZMQError:
            pass  # what is numbered is sent again later


class Endpoint:
    """handlers: message(inbound, message), done(tag), pong_body(), malformed(text), and heard() behind several of these;
    all called under the lock."""

    def __init__(self, run_id: str, incarnation: int, lock: "threading.RLock",
                 on_message: Callable[[Inbound, Message], None], on_done: Callable[[Any], None],
                 pong_body: Callable[[], bytes], on_malformed: Callable[[str], None],
                 on_sent: Callable[[Message], None], on_heard: Callable[[], None]) -> None:
        self.run_id = run_id
        self.incarnation = incarnation
        self.lock = lock
        self.on_message = on_message
        self.on_done = on_done
        self.pong_body = pong_body
        self.on_malformed = on_malformed
        self.on_sent = on_sent  # a status or a pong: for those who follow
        self.on_heard = on_heard
        self.peers: Dict[int, Peer] = {}
        self.untold_since = 0  # when something began to be untold; 0: nothing is
        self.unsent_since = 0  # when the oldest message was made that is not handed to its socket; 0: none
        self.context: "zmq.Context[Any]" = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, 16384)
        self.router = self.context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.LINGER, 0)
        self.router.set_hwm(0)
        self.router.setsockopt(zmq.IPC_FILTER_UID, os.getuid())
        self.router.bind(address(run_id, incarnation))
        self.wake_out, self.wake_in = os.pipe()
        os.set_blocking(self.wake_out, False)
        os.set_blocking(self.wake_in, False)
        self.poller = zmq.Poller()
        self.poller.register(self.router, zmq.POLLIN)
        self.poller.register(self.wake_out, zmq.POLLIN)

    # peers and channels

    def connect(self, incarnation: int) -> Peer:
        peer = self.peers.get(incarnation)
        if peer is None:
            dealer = self.context.socket(zmq.DEALER)
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.set_hwm(0)
            dealer.setsockopt(zmq.RECONNECT_IVL, 10)
            dealer.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
            dealer.connect(address(self.run_id, incarnation))
            peer = self.peers[incarnation] = Peer(self, incarnation, dealer)
        return peer

    def disconnect(self, incarnation: int) -> None:
        peer = self.peers.pop(incarnation, None)
        if peer is not None:
            for out in list(peer.outbound.values()):
                out.unbind()
            peer.dealer.close(0)

    def open_inbound(self, peer: Peer, edge: int, window: int, tag: Any) -> Inbound:
        inbound = peer.inbound.get(edge)
        if inbound is None:
            inbound = peer.inbound[edge] = Inbound(peer, edge, window, tag)
            inbound.repeat = True  # what came before was dropped: the sender is told, and sends it again
            self.note()
        return inbound

    def close_edges(self, belongs: Callable[[int], bool]) -> None:
        """Forgets all channels of the edges that belong; what was kept comes back by on_done."""
        for peer in self.peers.values():
            for edge in [edge for edge in peer.inbound if belongs(edge)]:
                del peer.inbound[edge]
            for edge in [edge for edge in peer.outbound if belongs(edge)]:
                out = peer.outbound.pop(edge)
                out.peer = None
                for kept in out.kept:
                    self.on_done(kept.tag)
                out.kept.clear()

    # telling

    def note(self) -> None:
        if not self.untold_since:
            self.untold_since = now_ns()

    def _put(self, peer: Peer, message: Message) -> None:
        peer.put(write(message))
        self.on_sent(message)

    def acknowledge(self) -> None:
        """Sends the statuses that changed."""
        self.untold_since = 0
        for peer in self.peers.values():
            told = False
            for inbound in peer.inbound.values():
                if not inbound.untold():
                    continue
                inbound.repeat = False
                inbound.told = (inbound.received, inbound.taken, inbound.done)
                self._put(peer, Message(STATUS, inbound.edge, self.incarnation, peer.incarnation, inbound.received,
                                        inbound.taken + inbound.window, inbound.done, 0, 1, 0, b""))
                told = True
            if told:
                peer.flush()

    def note_unsent(self, now: int) -> None:
        if not self.unsent_since:
            self.unsent_since = now

    def flush(self) -> None:
        self.unsent_since = 0
        for peer in self.peers.values():
            peer.flush()

    # receiving

    def _on_data(self, peer: Peer, message: Message) -> None:
        inbound = peer.inbound.get(message.edge)
        if inbound is None:
            return  # an edge that is not wired yet, or no more: if it still matters it is sent again
        if message.seq <= inbound.received:
            inbound.repeat = True
            self.note()
        elif message.seq > inbound.taken + inbound.window:
            return  # beyond the credit
        elif message.seq != inbound.received + 1:
            inbound.stash.setdefault(message.seq, message)
        else:
            next_message: Optional[Message] = message
            while next_message is not None:
                inbound.received = next_message.seq
                self.note()
                self.on_message(inbound, next_message)
                next_message = inbound.stash.pop(inbound.received + 1, None)

    def _on_status(self, peer: Peer, message: Message) -> None:
        out = peer.outbound.get(message.edge)
        if out is None:
            return
        if not message.batch <= message.seq <= out.last:
            raise Malformed(f"incarnation {peer.incarnation} says that {message.seq} messages came and {message.batch} "
                            f"are done with, of {out.last} that it was sent over edge {out.edge}")
        if message.seq == 0 and out.received == 0 and out.sent:  # the receiver has just opened the channel
            out.send_from(1)
            peer.flush()
            out.answered_at = now_ns()
        if message.seq > out.received or message.batch > out.done:
            out.answered_at = now_ns()
            out.resend_ns = RESEND_NS
        out.received = max(out.received, message.seq)
        while out.done < message.batch:
            out.done += 1
            self.on_done(out.kept.popleft().tag)
        if message.revision > out.limit:
            out.limit = message.revision
            out.send_from(out.sent + 1)
            peer.flush()

    def _on_frame(self, frame: bytes) -> None:
        for message in read_frame(frame):
            peer = self.peers.get(message.sender) if message.receiver == self.incarnation else None
            if peer is None:
                continue  # of or for another incarnation
            if message.type == DATA:
                self._on_data(peer, message)
            elif message.type == STATUS:
                self._on_status(peer, message)
            elif message.type == PING:
                self._put(peer, Message(PONG, 0, self.incarnation, peer.incarnation, 0, 0, message.batch, 0, 1, 0,
                                        self.pong_body()))
                peer.flush()

    def _take(self) -> List[bytes]:
        """The frames that are there, so many at most: then others want the lock too."""
        frames: List[bytes] = []
        router = self.router
        while len(frames) < FRAMES_A_LOCK:
            try:
                router.recv(NOBLOCK)  # the sender's routing id
            except zmq.Again:
                break
            frame = router.recv(NOBLOCK)
            if router.getsockopt(zmq.RCVMORE):  # a message of ours is one frame
                frame = b""
                while router.getsockopt(zmq.RCVMORE):
                    router.recv(NOBLOCK)
            frames.append(frame)
        return frames

    def _receive(self) -> int:
        count, frames = 0, self._take()
        while frames:
            count += len(frames)
            with self.lock:
                for frame in frames:
                    try:
                        self._on_frame(frame)
                    except Malformed as error:
                        self.on_malformed(str(error))
                self.on_heard()
            full = len(frames) == FRAMES_A_LOCK and count < FRAMES_A_STEP
            frames = self._take() if full else []
        return count

    def _resend(self, now: int) -> int:
        """Sends again what stayed unanswered. Returns the milliseconds until the next time."""
        wait = IDLE_MS
        for peer in self.peers.values():
            for out in peer.outbound.values():
                if out.sent <= out.received:
                    continue
                left = out.answered_at + out.resend_ns - now
                if left <= 0:
                    out.send_from(out.received + 1)
                    out.answered_at = now
                    out.resend_ns = min(2 * out.resend_ns, RESEND_MAX_NS)
                    peer.flush()
                    left = out.resend_ns
                wait = min(wait, left // MS + 1)
        return wait

    def step(self, most: int) -> None:
        """Receives and handles what is there, else waits for it, so many ms at most (-1: as long as it likes); tells
        and repeats what is due."""
        frames = self._receive()
        with self.lock:
            now = now_ns()
            if self.untold_since and now - self.untold_since >= LAZY_NS:
                self.acknowledge()
                self.flush()
            wait = 0 if frames >= FRAMES_A_STEP else self._resend(now)
            if self.unsent_since and now - self.unsent_since >= COMPANY_NS:
                self.flush()
            if self.untold_since or self.unsent_since:
                wait = min(wait, LAZY_NS // MS)
            if most >= 0:
                wait = min(wait, most)
        for where, _ in self.poller.poll(wait):
            if where == self.wake_out:
                try:
                    os.read(self.wake_out, 4096)
                except BlockingIOError:
                    pass

    def wake(self) -> None:
        try:
            os.write(self.wake_in, b"w")
        except BlockingIOError:
            pass  # it is awake already

    def close(self) -> None:
        for incarnation in list(self.peers):
            self.disconnect(incarnation)
        self.router.close(0)
        self.context.destroy(0)
        os.close(self.wake_in)
        os.close(self.wake_out)


__all__ = ["Endpoint", "Inbound", "Kept", "Outbound", "Peer", "address", "CONTROL", "DIRECTOR", "REPORT"]
