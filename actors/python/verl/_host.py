"""The life of an actor: hello, tables, peers, work, stop.

Two threads: the mailbox thread, which is here, receives and never runs a handler; the main thread (_worker.py) runs
handlers and sends. One lock guards everything; it is not held while a handler runs. Because of the interpreter's lock the
mailbox may not answer while a handler computes: the hello says so, and then only the handler's timeout judges the actor.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from typing import Any, List, Optional

from . import _version
from ._arena import Arena
from ._endpoint import CONTROL, DIRECTOR, REPORT, Endpoint, Inbound, Kept, Outbound
from ._errors import Stopped, clip
from ._made import Made
from ._orders import obey
from ._program import Program
from ._saves import Saves
from ._seat import Seat
from ._tap import KINDS, TRACE_REPORT, Tap, label_of
from ._units import EdgeOut
from ._wire import DATA, Message, now_ns, pack
from ._worker import NONE, Worker
from ._world import World

CONTROL_WINDOW = 4096
SWITCH = 1e-3  # seconds after which a thread that computes lets the other have the interpreter
GRACE = 1.0  # seconds that a handler has to give up


class Host:
    def __init__(self, program: Program, actor: str, incarnation: int, replica: int, run_id: str, run_directory: str,
                 descriptor: int) -> None:
        self.program = program
        self.actor = actor
        self.incarnation = incarnation
        self.replica = replica
        self.run_directory = run_directory
        self.chained = not program.keeps_state  # acknowledges when nothing hangs on a batch any more
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.arena = Arena(descriptor)
        self.endpoint = Endpoint(run_id, incarnation, self.lock, self.on_message, self.on_done, self.pong_body,
                                 self.on_malformed, self.on_sent, self.on_heard)
        replicas = int(os.environ.get("VERL_REPLICAS", "1"))
        self.tap = Tap(self.endpoint.context, label_of(actor, replica, replicas, incarnation))
        self.tap.labels[incarnation] = self.tap.label
        self.worlds: List[World] = []  # by rising revision
        self.stopping = self.failed = self.paused = self.prepared = self.ended = False
        self.running: Optional[Seat] = None
        self.in_handler = False
        self.saves = Saves(self)
        self.worker = Worker(self)
        self.main_thread = threading.get_ident()
        director = self.endpoint.connect(DIRECTOR)
        self.report = Outbound(self.endpoint, REPORT, CONTROL_WINDOW)
        self.report.bind(director)
        self.endpoint.open_inbound(director, CONTROL, CONTROL_WINDOW, None)

    # saying

    def say(self, body: List[Any], revision: int, batch: int, flush: bool, tag: Any = None) -> None:
        with self.lock:
            kept = Kept(revision, batch, 0, 1, now_ns(), pack(body), tag)
            self.report.send(kept)
            if self.tap.followers:
                self.seen(TRACE_REPORT, self.report, kept)
            if flush:
                self.report.flush()

    def say_failed(self, seat: Optional[Seat], batch: int, text: str, fatal: bool = True) -> None:
        """fatal: this actor works no more, and answers until the director ends it."""
        with self.lock:
            self.failed = self.failed or fatal
        revision = seat.world.revision if seat is not None else self.worlds[-1].revision if self.worlds else 0
        self.say(["failed", seat.index if seat is not None else -1, batch, clip(text)], revision, batch, True)

    # being seen; under the lock

    def on_sent(self, message: Message) -> None:
        if self.tap.followers and self.tap.message(KINDS[message.type], message):
            self.endpoint.wake()

    def seen(self, kind: int, channel: Optional[Outbound], kept: Kept, seat: Optional[Seat] = None,
             out: Optional[EdgeOut] = None, made: Optional[Made] = None) -> None:
        """A report, or what a stage made for a reader. channel: None where that is in this actor."""
        edge, receiver, seq = REPORT, self.incarnation, 0
        if channel is not None:
            edge, seq = channel.edge, channel.last
            receiver = channel.peer.incarnation if channel.peer is not None else 0
        elif seat is not None and out is not None:
            edge = seat.world.edge_number(out.index)
        message = Message(DATA, edge, self.incarnation, receiver, seq, kept.revision, kept.batch, kept.part, kept.parts,
                          kept.time, kept.body)
        if seat is None or out is None:
            wake = self.tap.message(kind, message)
        else:
            wake = self.tap.message(kind, message, seat.plan.name, seat.world.plan.stages[out.edge.reader].name, made,
                                    out.names, out.edge.columns, out.edge.map)
        if wake:
            self.endpoint.wake()

    # hearing; under the lock

    def on_message(self, inbound: Inbound, message: Message) -> None:
        if inbound.edge == CONTROL:
            inbound.take()
            inbound.finish(message.seq)
            obey(self, message)
        else:
            inbound.tag.receive(inbound, message, self.arena)

    def on_done(self, tag: Any) -> None:
        if tag is not None:
            tag.release()

    def on_heard(self) -> None:
        """Something came, or several things: is a stage ready now?"""
        self.account()
        if self.running is None:
            self.changed.notify()

    def on_malformed(self, text: str) -> None:
        self.say(["failed", -1, -1, clip(text)], self.worlds[-1].revision if self.worlds else 0, -1, True)

    def pong_body(self) -> bytes:
        now, seat = now_ns(), self.running
        revision = seat.world.revision if seat is not None else self.worlds[-1].revision if self.worlds else 0
        if seat is not None:
            return pack([seat.index, seat.next, now - seat.started, float(seat.stage.progressed), self.prepared,
                         revision, self.paused, self._seats()])
        task = self.worker.task
        since = now - self.worker.task_since if task != NONE else 0
        return pack([task, self.worker.task_batch, since, 0.0, self.prepared, revision, self.paused,
                     self._seats()])

    def _seats(self) -> List[List[int]]:
        """For who watches: what each stage waits for, and how many messages its readers would take."""
        return [[world.revision, seat.index, seat.state, seat.credit()] for world in self.worlds for seat in world.seats]

    def account(self) -> None:
        """Books the time of each stage under what it did."""
        now, running = now_ns(), self.running
        for world in self.worlds:
            for seat in world.seats:
                seat.account(now, running)

    # the mailbox thread

    def _receive(self) -> None:
        deadline, most = 0, -1
        while not self.ended:
            self.endpoint.step(most)
            self.arena.tend()
            with self.lock:
                most = self.tap.tend()
            if not self.stopping or self.ended:
                continue
            if not deadline:
                deadline = now_ns() + int(GRACE * 1e9)
                if self.in_handler:
                    signal.pthread_kill(self.main_thread, signal.SIGUSR1)
            elif now_ns() > deadline:
                os._exit(0)  # the handler does not give up; nobody waits for it
        with self.lock:
            self.tap.tend(True)

    def _on_signal(self, _number: int, _frame: Any) -> None:
        if self.in_handler and self.stopping:
            raise Stopped()

    def run(self) -> None:
        """Works until the director says stop. To be called by the main thread."""
        signal.signal(signal.SIGUSR1, self._on_signal)
        sys.setswitchinterval(SWITCH)
        self.say(["hello", os.getpid(), _version.VERSION, {"holds_lock": True}], 0, -1, True)
        mailbox = threading.Thread(target=self._mailbox, name="mailbox", daemon=True)
        mailbox.start()
        try:
            with self.lock:
                self.worker.work()
        except Stopped:
            pass
        self.ended = True
        self.endpoint.wake()
        mailbox.join(GRACE)
        if not mailbox.is_alive():
            self.endpoint.close()  # lets the last counts of a trace arrive
        finish = self.program.hooks.get("finish")
        if finish is not None:
            finish()

    def _mailbox(self) -> None:
        try:
            self._receive()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)  # an actor that cannot hear is better dead: its death is seen
