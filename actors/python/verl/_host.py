"""The life of an actor: hello, tables, peers, work, stop.

Two threads: the mailbox thread receives and never runs a handler; the main thread runs handlers and sends. One lock
guards everything; it is not held while a handler runs. Because of the interpreter's lock the mailbox may not answer
while a handler computes: the hello says so, and then only the handler's timeout judges the actor.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from typing import Any, Dict, List, Optional, Tuple

from . import _version
from ._arena import Arena, ArenaError
from ._batch import Made, unpack_batch
from ._endpoint import COMPANY_NS, CONTROL, DIRECTOR, LAZY_NS, MS, REPORT, Endpoint, Inbound, Kept, Outbound
from ._plan import Plan
from ._program import Program, takes_argument
from ._seat import WORKER, Ack, EdgeIn, EdgeOut, Output, Seat, Unit, View
from ._errors import Failure, Skip, Stopped, clip, explain
from ._tap import KINDS, TRACE_DATA, TRACE_REPORT, Tap
from ._wire import DATA, Malformed, Message, is_int, now_ns, pack, unpack
from ._world import World

CONTROL_WINDOW = 4096
TINY_NS = MS // 2  # a handler that takes longer is not begun with anything untold or unsent
NONE, PREPARE, SAVE = -1, -2, -3  # what the worker does beside stages
SWITCH = 1e-3  # seconds after which a thread that computes lets the other have the interpreter
GRACE = 1.0  # seconds that a handler has to give up
Bodies = List[Tuple[EdgeOut, bytes]]


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
                                 self.on_malformed, self.on_sent)
        self.tap = Tap(self.endpoint.context, f"{actor}#{incarnation}")
        self.tap.labels[incarnation] = self.tap.label
        self.worlds: List[World] = []  # by rising revision
        self.stopping = self.failed = self.paused = self.prepared = self.ended = False
        self.running: Optional[Seat] = None
        self.task, self.task_batch, self.task_since = NONE, -1, 0
        self.in_handler = False
        self.last_run = 0
        self.idle_since = 0
        self.saves: List[Tuple[int, str]] = []  # ordered: (that many batches done, where)
        self.save_every = self.save_next = 0  # checkpoints of its own accord, at batches that the table says; 0: none
        self.restore_from: Optional[Tuple[str, int]] = None
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
                self._seen(TRACE_REPORT, self.report, kept)
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

    def _seen(self, kind: int, channel: Outbound, kept: Kept, seat: Optional[Seat] = None,
              out: Optional[EdgeOut] = None, made: Optional[Made] = None) -> None:
        receiver = channel.peer.incarnation if channel.peer is not None else 0
        message = Message(DATA, channel.edge, self.incarnation, receiver, channel.last, kept.revision, kept.batch,
                          kept.part, kept.parts, kept.time, kept.body)
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
            self._on_order(message)
        else:
            self._on_data(inbound.tag, inbound, message)
        self._account()
        if self.running is None:
            self.changed.notify()

    def on_done(self, tag: Any) -> None:
        if tag is not None:
            tag.release()
            if self.running is None:
                self.changed.notify()

    def on_malformed(self, text: str) -> None:
        self.say(["failed", -1, -1, clip(text)], self.worlds[-1].revision if self.worlds else 0, -1, True)

    def pong_body(self) -> bytes:
        now, seat = now_ns(), self.running
        revision = seat.world.revision if seat is not None else self.worlds[-1].revision if self.worlds else 0
        if seat is not None:
            return pack([seat.index, seat.next, now - seat.started, float(seat.stage.progressed), self.prepared,
                         revision, self.paused])
        since = now - self.task_since if self.task != NONE else 0
        return pack([self.task, self.task_batch, since, 0.0, self.prepared, revision, self.paused])

    def _on_data(self, edge: EdgeIn, inbound: Inbound, message: Message) -> None:
        world = edge.seat.world
        maker = world.plan.stages[edge.edge.maker].name
        if message.revision != world.revision:
            raise Malformed(f"stage {maker} sent batch {message.batch} under revision {message.revision} on an edge of "
                            f"revision {world.revision}")
        if not 0 <= message.batch <= world.plan.steps or message.parts > 1 << 20:
            raise Malformed(f"stage {maker} sent batch {message.batch}, which the run does not have")
        had, unit = edge.seat.had(edge, message.batch, message.part)
        if unit is not None and unit.inbound is None and unit.output is None:
            unit.inbound, unit.seq = inbound, message.seq  # of a successor: it is told when the time comes
            if unit.taken:
                inbound.take()
            return
        if had:
            inbound.take()
            inbound.finish(message.seq)
            return
        stored = unpack_batch(message.body, self.arena) if message.body else None
        parts = edge.units.setdefault(message.batch, {})
        if any(other.parts != message.parts for other in parts.values()):
            raise Malformed(f"stage {maker} sent batch {message.batch} in {message.parts} parts and in others")
        parts[message.part] = Unit(message.batch, message.part, message.parts, message.time, stored, inbound,
                                   message.seq, None)

    # orders

    def _world(self, revision: int, word: str) -> World:
        for world in self.worlds:
            if world.revision == revision:
                return world
        raise Malformed(f"the director ordered '{word}' for revision {revision}, which is not here")

    def _on_order(self, message: Message) -> None:
        order = unpack(message.body, "an order of the director")
        if type(order) is not list or not order or type(order[0]) is not str:
            raise Malformed("an order of the director is malformed")
        word, items = order[0], order[1:]
        handler = getattr(self, "_order_" + word, None) if word.isalpha() else None
        if handler is None:
            raise Malformed(f"the director ordered '{clip(word, 32)}', which is unknown")
        handler(message.revision, items)

    def _item(self, items: List[Any], index: int, kind: type, word: str) -> Any:
        if index >= len(items) or type(items[index]) is not kind:
            raise Malformed(f"the order '{word}' is malformed")
        return items[index]

    def _order_table(self, _revision: int, items: List[Any]) -> None:
        plan = Plan(self._item(items, 0, bytes, "table"))
        if any(world.revision == plan.revision for world in self.worlds):
            raise Malformed(f"a second table of revision {plan.revision} came")
        self.worlds.append(World(self, plan))
        self.worlds.sort(key=lambda world: world.revision)

    def _order_peers(self, revision: int, items: List[Any]) -> None:
        peers: Dict[Tuple[str, int], int] = {}
        for item in self._item(items, 0, list, "peers"):
            if type(item) is not list or len(item) != 3 or not is_int(item[0], 1) or type(item[1]) is not str \
                    or not is_int(item[2], 0):
                raise Malformed("a list of peers is malformed")
            peers[(item[1], item[2])] = item[0]
            self.tap.labels.setdefault(item[0], f"{item[1]}#{item[0]}")
        self._world(revision, "peers").wire(peers)
        self._part()
        self.endpoint.acknowledge()
        self.endpoint.flush()
        self.say(["wired"], revision, -1, True)

    def _part(self) -> None:
        """Who shares no edge with any revision any more is no peer."""
        wanted = {DIRECTOR}
        for world in self.worlds:
            wanted.update(world.incarnations())
        for incarnation in [one for one in self.endpoint.peers if one not in wanted]:
            self.endpoint.disconnect(incarnation)

    def _order_begin(self, revision: int, items: List[Any]) -> None:
        if len(items) < 2:
            raise Malformed("an order to begin is malformed")
        world = self._world(revision, "begin")
        world.begin(items[0], items[1])
        every = world.plan.save_every
        if self.program.keeps_state and not self.save_every and 0 < every < world.plan.steps:
            self.save_every = every
            self._save_after(world.seats[0].start, world.plan.steps)

    def _save_after(self, batch: int, steps: int) -> None:
        following = batch // self.save_every * self.save_every + self.save_every
        self.save_next = following if following < steps else 0

    def _checkpoint(self, step: int) -> str:
        return os.path.join(self.run_directory, "checkpoints", f"step-{step}.tmp", self.actor)

    def _order_permit(self, revision: int, items: List[Any]) -> None:
        last = self._item(items, 0, int, "permit")
        for seat in self._world(revision, "permit").seats:
            if seat.plan.source:
                seat.granted = max(seat.granted, last)

    def _order_save(self, _revision: int, items: List[Any]) -> None:
        step = self._item(items, 0, int, "save")
        given = items[1] if len(items) > 1 and type(items[1]) is str else self._checkpoint(step)
        self.saves.append((step, given))

    def _order_restore(self, revision: int, items: List[Any]) -> None:
        self.restore_from = (self._item(items, 0, str, "restore"), revision)

    def _order_pause(self, _revision: int, items: List[Any]) -> None:
        self.paused = bool(items and items[0])

    def _forget(self, revision: int, word: str) -> None:
        world = self._world(revision, word)
        world.close()
        self.worlds.remove(world)
        self._part()

    def _order_drop(self, revision: int, _items: List[Any]) -> None:
        self._forget(revision, "drop")

    def _order_retire(self, revision: int, _items: List[Any]) -> None:
        self._forget(revision, "retire")

    def _order_trace(self, _revision: int, items: List[Any]) -> None:
        self.tap.trace(items)

    def _order_untrace(self, _revision: int, items: List[Any]) -> None:
        self.tap.untrace(items)

    def _order_stop(self, _revision: int, _items: List[Any]) -> None:
        self.stopping = True
        self.changed.notify()

    # the worker: the main thread

    def _account(self) -> None:
        now, running = now_ns(), self.running
        for world in self.worlds:
            for seat in world.seats:
                seat.account(now, running)

    def _pick(self) -> Optional[Seat]:
        """The oldest ready batch."""
        best: Optional[Seat] = None
        if self.failed or self.paused or self.restore_from is not None:
            return None
        for world in self.worlds:
            for seat in world.seats:
                if seat.state == WORKER and (best is None or seat.next < best.next) \
                        and (not self.save_next or seat.next < self.save_next):
                    best = seat
        return best

    def _save_due(self) -> Optional[Tuple[int, str]]:
        """What is ordered, at once. A checkpoint of its own accord holds all batches below its step and none above: a
        stage waits at the step until it is written."""
        if self.saves:
            return self.saves[0]
        if not self.save_next or any(not seat.over() and seat.next < self.save_next for world in self.worlds
                                     if world.cut >= 0 for seat in world.seats):
            return None
        return self.save_next, self._checkpoint(self.save_next)

    def _call(self, task: int, batch: int, hook: str, *arguments: Any) -> Optional[str]:
        """Runs one of the program's functions, without the lock. Returns why it failed."""
        function = self.program.hooks.get(hook)
        if function is None:
            return None
        self.task, self.task_batch, self.task_since = task, batch, now_ns()
        self._tell(self.task_since, True)
        self.lock.release()
        failure = None
        try:
            self.in_handler = True
            function(*arguments)
        except Exception as error:
            traceback.print_exc()
            failure = explain(error)
        finally:
            self.in_handler = False
            self.lock.acquire()
            self.task, self.task_batch = NONE, -1
        return failure

    def _save(self, step: int, directory: str) -> None:
        failure = None
        if self.program.keeps_state:
            try:
                os.makedirs(directory, 0o700, exist_ok=True)
                failure = self._call(SAVE, step, "snapshot", directory)
            except OSError as error:
                failure = f"cannot make {directory}: {error.strerror}"
        ordered = bool(self.saves)
        if ordered:
            del self.saves[0]
        else:
            self._save_after(step, self.worlds[-1].plan.steps)
        if failure is not None:
            self.say_failed(None, step, failure, fatal=not ordered)  # what an order's failure means the director knows
        else:
            self.say(["saved", step], 0, step, True)

    def _restore(self) -> None:
        assert self.restore_from is not None
        directory, revision = self.restore_from
        failure = self._call(PREPARE, -1, "restore", directory)
        self.restore_from = None
        if failure is not None:
            self.say_failed(None, -1, failure)
        else:
            self.say(["restored"], revision, -1, True)

    def _handle(self, seat: Seat, view: View) -> Tuple[Optional[Made], Bodies]:
        """Runs the handler and packs what it made. Without the lock."""
        plan, stage = seat.world.plan, seat.stage
        made: Optional[Made] = None
        begin = now_ns()
        handled = 0
        if not view.skipped:
            batch = view.build()
            made = Made(self.arena, batch.rows if seat.rows_edge is not None else -1, batch.first_row)
            if seat.plan.maps:
                made.first = seat.made_rows
            stage.batch, stage._made, stage.progressed = batch, made, 0.0
            seat.started = now_ns()
            seat.handoff = seat.started - view.ready if view.ready > self.idle_since else 0
            try:
                self.in_handler = True
                result = seat.kind.handler(batch) if seat.kind.arguments == 1 else seat.kind.handler(batch, stage)
                handled = now_ns() - seat.started
                stage.make(result, made, seat.plan.gives, batch.rows, batch.first_row)
            except BaseException:
                made.release()
                raise
            finally:
                self.in_handler = False
                seat.busy += now_ns() - seat.started
                stage._made = None
            seat.made_rows += made.rows
            seat.bytes_unseen += sum(view.sizes[name] for name in batch.unseen())
        bodies: Bodies = []
        for out in seat.outs:
            if plan.stages[out.edge.reader].span.has(plan.steps, seat.next):
                bodies.append((out, made.pack(out.names, out.edge.columns, out.edge.map) if made is not None else b""))
                if made is not None:
                    seat.bytes_out += sum(len(made.columns[name].memory) for name in out.names)
        seat.moved += now_ns() - begin - handled
        return made, bodies

    def _publish(self, seat: Seat, made: Optional[Made], bodies: Bodies, parts: int) -> None:
        plan, now = seat.world.plan, now_ns()
        output = Output(seat, made, seat.ack if self.chained else None)
        for out, body in bodies:
            channel = out.channels.get(plan.replica(out.edge.reader, seat.next))
            output.refs += 1
            if channel is not None:
                kept = Kept(seat.world.revision, seat.next, seat.part, parts, now, body, output)
                channel.send(kept)
                if self.tap.followers:
                    self._seen(TRACE_DATA, channel, kept, seat, out, made)
            elif out.local is not None:
                stored = unpack_batch(body, self.arena) if body else None
                if self.tap.followers:
                    message = Message(DATA, seat.world.edge_number(out.index), self.incarnation, self.incarnation, 0,
                                      seat.world.revision, seat.next, seat.part, parts, now, body)
                    if self.tap.message(TRACE_DATA, message, seat.plan.name, plan.stages[out.edge.reader].name, made,
                                        out.names, out.edge.columns, out.edge.map):
                        self.endpoint.wake()
                out.local.units.setdefault(seat.next, {})[seat.part] = Unit(seat.next, seat.part, parts, now, stored,
                                                                            None, 0, output)
        output.release()

    def _finish_batch(self, seat: Seat) -> None:
        batch, ack = seat.next, seat.ack
        assert ack is not None
        seat.finish_units(ack)
        self.running = None
        self._account()
        seat.book_moves()
        seat.next, seat.part, seat.made_rows, seat.ack = seat.after(batch), 0, 0, None
        metrics = [list(metric) for metric in seat.stage.reports()]
        spent = seat.spent + [seat.bytes_out, 0, seat.bytes_unseen]
        body = ["done", seat.index, batch, seat.skipped, seat.busy, seat.handoff, 0, spent, metrics]
        if self.chained:
            ack.pending += 1
        # An actor with state acknowledges at once: its report goes out before.
        self.say(body, seat.world.revision, batch, not self.chained, ack if self.chained else None)
        ack.release()
        seat.stage.metrics.clear()
        seat.busy, seat.skipped = 0, False

    def _turn(self, seat: Seat) -> None:
        """One batch, or one part of it, through the handler and out."""
        begin = now_ns()
        self._tell(begin, self.last_run > TINY_NS)
        if seat.ack is None:
            seat.ack = Ack(seat, seat.next)
            seat.acks.append(seat.ack)
        view = seat.gather()
        seat.started, self.running = begin, seat
        self._account()
        made: Optional[Made] = None
        bodies: Bodies = []
        failure: Optional[str] = None
        self.lock.release()
        try:
            made, bodies = self._handle(seat, view)
        except Skip:
            view.skipped = True
        except Exception as error:
            failure = explain(error)
            if not isinstance(error, Failure):
                traceback.print_exc()
        finally:
            self.lock.acquire()
        if failure is not None and seat.plan.skips and not self.stopping:
            self.say(["log", seat.plan.name, clip(f"batch {seat.next} is skipped: {failure}")], seat.world.revision,
                     seat.next, True)
            failure, view.skipped = None, True
        if failure is not None:
            if not self.stopping:
                self.say_failed(seat, seat.next, failure)
            self.running = None
            return
        if view.skipped and made is None:
            seat.skipped = True
            plan = seat.world.plan
            bodies = [(out, b"") for out in seat.outs if plan.stages[out.edge.reader].span.has(plan.steps, seat.next)]
        try:
            self._publish(seat, made, bodies, view.parts)
        except (Malformed, ArenaError) as error:
            self.say_failed(seat, seat.next, str(error))
            self.running = None
            return
        if self.tap.followers and self.tap.ran(seat.plan.name, seat.world.revision, seat.next, seat.part, view.parts,
                                               begin, now_ns()):
            self.endpoint.wake()
        if seat.part + 1 >= view.parts:
            self._finish_batch(seat)
        else:
            seat.part += 1
            self.running = None
        self.idle_since = now_ns()
        self.last_run = self.idle_since - begin
        self.endpoint.note_unsent(self.idle_since)

    def _tell(self, now: int, at_once: bool) -> None:
        """Nothing is left untold or unsent for long, nor while a handler runs that may take long."""
        if self.endpoint.untold_since and (at_once or now - self.endpoint.untold_since > LAZY_NS):
            self.endpoint.acknowledge()
        if self.endpoint.unsent_since and (at_once or now - self.endpoint.unsent_since > COMPANY_NS):
            self.endpoint.flush()

    def _wait(self) -> None:
        if self.endpoint.unsent_since:
            self.endpoint.flush()
        if not self.endpoint.untold_since:
            self.changed.wait()
        elif not self.changed.wait(LAZY_NS / 1e9):
            self.endpoint.acknowledge()

    def _work(self) -> None:
        while not self.stopping and not self.worlds:
            self._wait()
        if self.stopping:
            return
        first = self.worlds[0].seats[0].stage
        wanted = self.program.hooks.get("prepare")
        arguments = [first.options] if wanted is not None and takes_argument(wanted) else []
        failure = self._call(PREPARE, -1, "prepare", *arguments)
        if failure is not None:
            self.say_failed(None, -1, failure)
        else:
            self.prepared = True
            self.say(["ready"], self.worlds[0].revision, -1, True)
        while not self.stopping:
            self._account()
            due = None if self.failed else self._save_due()
            if self.restore_from is not None and not self.failed:
                self._restore()
            elif due is not None:
                self._save(*due)
            else:
                seat = self._pick()
                if seat is not None:
                    self._turn(seat)
                else:
                    self._wait()

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
                self._work()
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
