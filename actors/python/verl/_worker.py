"""The thread that works: prepares, runs handlers, hands on what they made, saves and restores. It holds the actor's
lock except while a function of the program runs, or what that gave is packed."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from ._arena import ArenaError
from ._batch import unpack_batch
from ._endpoint import COMPANY_NS, LAZY_NS, MS, Kept
from ._errors import Failure, Skip, clip, explain
from ._made import Made
from ._program import takes_argument
from ._seat import WORKER, Seat, View
from ._tap import TRACE_DATA
from ._units import Ack, EdgeOut, Output, Unit
from ._wire import Malformed, now_ns

if TYPE_CHECKING:
    from ._host import Host

TINY_NS = MS // 2  # a handler that takes longer is not begun with anything untold or unsent
NONE, PREPARE, SAVE = -1, -2, -3  # what the worker does beside stages
Bodies = List[Tuple[EdgeOut, bytes]]


class Worker:
    def __init__(self, host: "Host") -> None:
        self.host = host
        self.endpoint = host.endpoint
        self.task, self.task_batch, self.task_since = NONE, -1, 0
        self.last_run = 0  # ns in the last handler
        self.idle_since = 0

    # what is next; under the lock

    def _pick(self) -> Optional[Seat]:
        """The oldest ready batch."""
        host, best = self.host, None
        if host.failed or host.paused or host.saves.restore is not None:
            return None
        for world in host.worlds:
            for seat in world.seats:
                if seat.state == WORKER and (best is None or seat.next < best.next) and not host.saves.waits(seat):
                    best = seat
        return best

    def _tell(self, now: int, at_once: bool) -> None:
        """Nothing is left untold or unsent for long, nor while a handler runs that may take long."""
        endpoint = self.endpoint
        if endpoint.untold_since and (at_once or now - endpoint.untold_since > LAZY_NS):
            endpoint.acknowledge()
        if endpoint.unsent_since and (at_once or now - endpoint.unsent_since > COMPANY_NS):
            endpoint.flush()

    def _wait(self) -> None:
        if self.endpoint.unsent_since:
            self.endpoint.flush()
        if not self.endpoint.untold_since:
            self.host.changed.wait()
        elif not self.host.changed.wait(LAZY_NS / 1e9):
            self.endpoint.acknowledge()

    # functions around the stages

    def _call(self, task: int, batch: int, hook: str, *arguments: Any) -> Optional[str]:
        """Runs one of the program's functions, without the lock. Returns why it failed."""
        host, function = self.host, self.host.program.hooks.get(hook)
        if function is None:
            return None
        self.task, self.task_batch, self.task_since = task, batch, now_ns()
        self._tell(self.task_since, True)
        host.lock.release()
        failure = None
        try:
            host.in_handler = True
            function(*arguments)
        except Exception as error:
            traceback.print_exc()
            failure = explain(error)
        finally:
            host.in_handler = False
            host.lock.acquire()
            self.task, self.task_batch = NONE, -1
        return failure

    def _prepare(self) -> None:
        host, first = self.host, self.host.worlds[0].seats[0].stage
        wanted = host.program.hooks.get("prepare")
        arguments = [first.options] if wanted is not None and takes_argument(wanted) else []
        failure = self._call(PREPARE, -1, "prepare", *arguments)
        if failure is not None:
            host.say_failed(None, -1, failure)
        else:
            host.prepared = True
            host.say(["ready"], host.worlds[0].revision, -1, True)

    def _save(self, step: int, directory: str) -> None:
        host, failure = self.host, None
        if host.program.keeps_state:
            try:
                os.makedirs(directory, 0o700, exist_ok=True)
                failure = self._call(SAVE, step, "snapshot", directory)
            except OSError as error:
                failure = f"cannot make {directory}: {error.strerror}"
        ordered = host.saves.done(step)
        if failure is not None:
            host.say_failed(None, step, failure, fatal=not ordered)  # what an order's failure means the director knows
        else:
            host.say(["saved", step], 0, step, True)

    def _restore(self, directory: str, revision: int) -> None:
        failure = self._call(PREPARE, -1, "restore", directory)
        self.host.saves.restore = None
        if failure is not None:
            self.host.say_failed(None, -1, failure)
        else:
            self.host.say(["restored"], revision, -1, True)

    # one batch, or one part of it

    def _run(self, seat: Seat, view: View) -> Made:
        """The handler, and what it made. Without the lock."""
        host, stage, batch = self.host, seat.stage, view.build()
        made = Made(host.arena, batch.rows if seat.rows_edge is not None else -1, batch.first_row)
        if seat.plan.maps:
            made.first = seat.made_rows
        stage.batch, stage._made, stage.progressed, stage.weights = batch, made, 0.0, view.weights
        begin = seat.started = now_ns()
        seat.handoff = begin - view.ready if view.ready > self.idle_since else 0
        try:
            host.in_handler = True
            result = seat.kind.handler(batch) if seat.kind.arguments == 1 else seat.kind.handler(batch, stage)
            view.handled = now_ns() - begin
            stage.make(result, made, seat.plan.gives, batch.rows, batch.first_row)
            if made.map_place is not None and not seat.plan.maps:
                raise Failure("the handler returned verl.Rows, and the stage does not say that it makes new rows: "
                              "maps=True would be right")
        except BaseException:
            made.release()
            raise
        finally:
            host.in_handler = False
            seat.busy += now_ns() - begin
            stage._made = None
        seat.made_rows += made.rows
        seat.bytes_unseen += view.unseen(batch)
        return made

    def _pack(self, seat: Seat, made: Optional[Made]) -> Bodies:
        """The message to each reader; an empty one says that the batch was skipped."""
        bodies: Bodies = []
        for out in seat.outs:
            if out.reader.has(seat.world.plan.steps, seat.next):
                if made is None:
                    bodies.append((out, b""))
                else:
                    bodies.append((out, made.pack(out.names, out.edge.columns, out.edge.map)))
                    seat.bytes_out += made.bytes_of(out.names)
        return bodies

    def _handle(self, seat: Seat, view: View) -> Tuple[Optional[Made], Bodies, Optional[str]]:
        """Runs the handler and packs what it made, without the lock. Also why it failed; nothing is made of a batch
        that is skipped."""
        host, begin = self.host, now_ns()
        made, bodies, failure = None, [], None
        host.lock.release()
        try:
            if not view.skipped:
                made = self._run(seat, view)
            bodies = self._pack(seat, made)
        except Skip:
            bodies = self._pack(seat, None)
        except Exception as error:
            failure = explain(error)
            if made is not None:
                made.release()
            if not isinstance(error, Failure):
                traceback.print_exc()
        finally:
            seat.moved += now_ns() - begin - view.handled
            host.lock.acquire()
        return made, bodies, failure

    def _publish(self, seat: Seat, made: Optional[Made], bodies: Bodies, parts: int) -> None:
        host, plan, now = self.host, seat.world.plan, now_ns()
        output = Output(seat, made, seat.ack if host.chained else None)
        for out, body in bodies:
            channel = out.channels.get(plan.replica(out.edge.reader, seat.next))
            output.refs += 1
            kept = Kept(seat.world.revision, seat.next, seat.part, parts, now, body, output)
            if channel is not None:
                channel.send(kept)
            elif out.local is not None:
                stored = unpack_batch(body, host.arena) if body else None
                out.local.units.setdefault(seat.next, {})[seat.part] = Unit(seat.next, seat.part, parts, now, stored,
                                                                            None, 0, output)
            if host.tap.followers and (channel is not None or out.local is not None):
                host.seen(TRACE_DATA, channel, kept, seat, out, made)
        output.release()

    def _finish_batch(self, seat: Seat) -> None:
        host, batch, ack = self.host, seat.next, seat.ack
        assert ack is not None
        seat.finish_units(ack)
        host.running = None
        seat.book_run(now_ns())
        seat.next, seat.part, seat.made_rows, seat.ack = seat.after(batch), 0, 0, None
        # What other parts of a skipped batch measured is of no whole batch.
        metrics = [] if seat.skipped else [list(metric) for metric in seat.stage.reports()]
        spent = seat.spent + [seat.bytes_out, 0, seat.bytes_unseen]
        version = ack.version.weights.version if ack.version is not None else 0
        body = ["done", seat.index, batch, seat.skipped, seat.busy, seat.handoff, version, spent, metrics]
        if host.chained:
            ack.pending += 1
        # An actor with state acknowledges at once: its report goes out before.
        host.say(body, seat.world.revision, batch, not host.chained, ack if host.chained else None)
        ack.release()
        seat.stage.metrics.clear()
        seat.busy, seat.skipped = 0, False

    def _fail(self, seat: Seat, why: str) -> None:
        if not self.host.stopping:
            self.host.say_failed(seat, seat.next, why)
        self.host.running = None

    def _turn(self, seat: Seat) -> None:
        host, begin = self.host, now_ns()
        self._tell(begin, self.last_run > TINY_NS)
        if seat.ack is None:
            seat.ack = Ack(seat, seat.next)
            seat.acks.append(seat.ack)
        view = seat.gather()
        seat.started, host.running = begin, seat
        seat.account(begin, seat)
        made, bodies, failure = self._handle(seat, view)
        if failure is not None and seat.plan.skips and not host.stopping:
            host.say(["log", seat.plan.name, clip(f"batch {seat.next} is skipped: {failure}")], seat.world.revision,
                     seat.next, True)
            made, bodies, failure = None, self._pack(seat, None), None
        if failure is not None:
            self._fail(seat, failure)
            return
        seat.skipped = seat.skipped or made is None
        try:
            self._publish(seat, made, bodies, view.parts)
        except (Malformed, ArenaError) as error:
            self._fail(seat, str(error))
            return
        if host.tap.followers and host.tap.ran(seat.plan.name, seat.world.revision, seat.next, seat.part, view.parts,
                                               begin, now_ns()):
            self.endpoint.wake()
        if seat.part + 1 >= view.parts:
            self._finish_batch(seat)
        else:
            seat.part += 1
            host.running = None
        self.idle_since = now_ns()
        self.last_run = view.handled
        self.endpoint.note_unsent(self.idle_since)

    def work(self) -> None:
        """Until the run ends. Called with the lock."""
        host = self.host
        while not host.stopping and not host.worlds:
            self._wait()
        if not host.stopping:
            self._prepare()
        while not host.stopping:
            host.account()
            due = None if host.failed else host.saves.due()
            if host.saves.restore is not None and not host.failed:
                self._restore(*host.saves.restore)
            elif due is not None:
                self._save(*due)
            else:
                seat = self._pick()
                if seat is not None:
                    self._turn(seat)
                else:
                    self._wait()
