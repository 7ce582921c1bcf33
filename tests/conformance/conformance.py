"""Does an actor keep the protocol? Drives one actor process over real sockets, as its node, its director and its peers.

    conformance.py host  PROGRAM…     a C host: verl-actor (its kind `synthetic` is used)
    conformance.py command PROGRAM…   a program that speaks the protocol, such as actor.py beside this file

Each check is one rule of runtime/wire/PROTOCOL.md, with an actor of its own. Ends with "N passed, N failed".
"""

import io
import os
import signal
import struct
import sys
import time
import traceback

import msgpack
import zmq

from party import REPORT, Bench, Table, Wrong, body, check, column, ids, pack

SOURCE, SINK = 10, 20
CHECKS = []


def rule(function):
    CHECKS.append(function)
    return function


class Line:
    """source peer → the actor under test → sink peer."""

    def __init__(self, bench, options=None, revision=1, size=8, **more):
        self.bench = bench
        self.it = bench.ACTOR
        self.options = dict(options or {}, bytes=size)
        self.table = self.make(revision, size, **more)
        self.peers = [[self.it, "it", 0], [SOURCE, "source", 0], [SINK, "sink", 0]]
        self.source = bench.parties.get(SOURCE) or bench.party(SOURCE)
        self.sink = bench.parties.get(SINK) or bench.party(SINK)

    def stage_options(self, **more):
        given = dict(self.options, **more)
        return given if self.bench.kind == "host" else {"function": "work", "options": given}

    def make(self, revision, size, steps=1000, max_in_flight=4, by_part=False):
        table = Table(revision, steps, max_in_flight)
        kind = "synthetic" if self.bench.kind == "host" else "command"
        source, it, sink = table.actor("source"), table.actor("it", kind), table.actor("sink")
        into, out = table.edge(0, 1, ["id"]), table.edge(1, 2, ["payload"])
        cut = {"by_part": True, "parts_of": 0} if by_part else {}
        table.stage("source", source, gives=[("id", "i64[n]")], source=True)
        table.stage("it", it, [("id", into, "id")], [("payload", f"u8[n,{size}]")], rows_of=0,
                    options=self.stage_options(), **cut)
        table.stage("sink", sink, [("payload", out, "payload")], rows_of=0)
        self.into, self.out = table.number(into), table.number(out)
        return table

    def up(self, **more):
        self.bench.bring_up(self.table, self.peers, **more)
        return self

    def feed(self, batch, rows=2, **more):
        self.source.send(self.it, self.into, self.table.revision, batch, ids(rows, batch * rows), **more)

    @property
    def inlet(self):
        return self.source.channel(self.it, self.into)

    @property
    def outlet(self):
        return self.sink.channel(self.it, self.out)

    def batches(self):
        return [message.batch for message in self.outlet.inbox]

    def wait(self, count):
        self.bench.until(lambda: len(self.outlet.inbox) >= count or self.bench.reports("failed"),
                         f"{count} messages at the sink")
        check(not self.bench.reports("failed"), f"the actor failed: {self.bench.reports('failed')}")


def unpack(data):
    return msgpack.unpackb(data, raw=False)


def alive(bench):
    """A ping is answered."""
    before = len(bench.director.pongs)
    bench.director.say(bench.ACTOR, 3, 0, 0, 0, 77)
    bench.until(lambda: len(bench.director.pongs) > before, "the answer to a ping")
    pong = bench.director.pongs[-1]
    check(pong.batch == 77, "a pong returns the number of its ping")
    return unpack(pong.body)


@rule
def says_hello_with_its_process_and_version(bench):
    bench.start()
    hello = bench.hear("hello")[0]
    check(len(hello) in (3, 4) and hello[1] == bench.process.pid and isinstance(hello[2], str),
          f"hello is [\"hello\", pid, version] and perhaps what it holds, not {hello}")
    check(len(hello) == 3 or isinstance(hello[3], dict), f"the fourth item of hello is a map, not {hello[3:]}")
    message = bench.director.channel(bench.ACTOR, REPORT).inbox[0]
    check(message.seq == 1 and message.edge == REPORT, f"{message!r} is the first of the channel of reports")


@rule
def is_wired_and_ready_but_works_only_when_told_to_begin(bench):
    line = Line(bench).up(begin=False)
    line.feed(0)
    bench.quiet(0.5)
    check(not line.outlet.got, "nothing of a revision runs before the order to begin")
    bench.order(1, "begin", 0, [0, 0, 0])
    line.wait(1)


@rule
def handles_batches_in_order_and_reports_each_once(bench):
    line = Line(bench).up()
    for batch in range(20):
        line.feed(batch)
    line.wait(20)
    check(line.batches() == list(range(20)), f"batches went out as {line.batches()}")
    done = bench.hear("done", 20)
    check([report[2] for report in done] == list(range(20)), "each batch is reported done once, in order")
    for report in done:
        check(len(report) == 9 and report[1] == 1 and report[3] is False and len(report[7]) >= 6,
              f"a report of a batch is {report}")
        check(all(isinstance(ns, int) and ns >= 0 for ns in report[7]), "times in states are counted up")
    for message in line.outlet.inbox:
        form, rows, first, row_map, columns = unpack(message.body)
        check((form, rows, first, row_map) == (1, 2, 0, None), f"a batch went out as {unpack(message.body)[:4]}")
        name, dtype, ragged, width, own, place = columns[0]
        check((name, dtype, ragged, width, own) == ("payload", "u8", False, 8, 2) and len(place) == 16,
              f"its column is {columns[0][:5]}")
        check(message.revision == 1 and message.time > 0, f"{message!r} says its revision and when it was ready")


@rule
def repairs_the_order_of_what_comes_early(bench):
    line = Line(bench).up()
    for seq, batch in ((3, 2), (2, 1), (1, 0)):
        line.inlet.sent = max(line.inlet.sent, seq)
        line.source.say(line.it, 1, line.into, seq, 1, batch, body=ids(2))
    line.wait(3)
    check(line.batches() == [0, 1, 2], f"batches went out as {line.batches()}")


@rule
def drops_a_duplicate_and_tells_its_status_again(bench):
    line = Line(bench).up()
    line.feed(0)
    line.wait(1)
    bench.until(lambda: line.inlet.status and line.inlet.status[0] == 1, "a status of the first message")
    bench.quiet(0.1)
    before = line.inlet.statuses
    line.source.say(line.it, 1, line.into, 1, 1, 0, body=ids(2))
    bench.until(lambda: line.inlet.statuses > before, "the status after a duplicate")
    line.feed(1)
    line.wait(2)
    check(line.batches() == [0, 1], f"batches went out as {line.batches()}")


@rule
def drops_what_is_beyond_the_limit(bench):
    line = Line(bench).up()
    line.inlet.sent = 5000
    line.source.say(line.it, 1, line.into, 5000, 1, 4, body=ids(2))
    line.source.say(line.it, 1, line.into, 1, 1, 0, body=ids(2))
    line.wait(1)
    bench.until(lambda: line.inlet.status and line.inlet.status[1] >= 65, "a limit of the window and what was taken")
    check(line.inlet.status[0] == 1, f"received is {line.inlet.status[0]}: 5000 is beyond the limit")


@rule
def asks_for_what_came_before_it_opened_the_channel(bench):
    line = Line(bench)
    bench.start()
    bench.hear("hello")
    line.feed(0)  # nobody reads this edge yet
    bench.order(1, "table", line.table.encode())
    bench.order(1, "peers", line.peers)
    bench.hear("wired")
    bench.until(lambda: line.inlet.statuses > 0, "a status when the channel is opened")
    check(line.inlet.first[0] == 0, f"it says that {line.inlet.first[0]} came before it listened")
    bench.order(1, "begin", 0, [0, 0, 0])
    line.source.say(line.it, 1, line.into, 1, 1, 0, body=ids(2))
    line.wait(1)


@rule
def sends_again_at_once_to_a_receiver_that_has_just_opened_the_channel(bench):
    line = Line(bench)
    line.sink.auto = False
    line.up()
    line.feed(0)
    line.wait(1)
    line.sink.status(line.it, line.out, 0, 64, 0)
    bench.until(lambda: len(line.outlet.got) >= 2, "the message that came too early, again", 1.5)


@rule
def keeps_to_the_limit_of_its_receiver(bench):
    line = Line(bench)
    line.sink.auto = False
    line.up()
    for batch in range(60):
        line.feed(batch)
    line.wait(60)
    for batch in range(60, 70):
        line.feed(batch)
    line.wait(64)
    bench.quiet(0.3)
    check(len(line.outlet.inbox) == 64, f"{len(line.outlet.inbox)} messages came where 64 may")
    line.sink.status(line.it, line.out, 64, 70, 0)
    line.wait(70)
    check(line.batches() == list(range(70)), "what was held back comes in order")


@rule
def sends_again_what_stays_unanswered(bench):
    line = Line(bench)
    line.sink.auto = False
    line.up()
    line.feed(0)
    line.feed(1)
    line.wait(2)
    line.sink.status(line.it, line.out, 1, 64, 0)
    bench.until(lambda: len(line.outlet.got) >= 3, "the message that was not answered, again", 8)
    again = line.outlet.got[2]
    check(again.seq == 2 and again.batch == 1, f"{again!r} was sent again: the second one was due")
    check(again.body == line.outlet.got[1].body, "what is sent again is the same")


@rule
def is_done_with_a_batch_when_its_readers_and_the_director_are(bench):
    line = Line(bench)
    line.sink.auto = bench.director.auto = False
    line.up()
    line.feed(0)
    line.wait(1)
    bench.hear("done")
    bench.until(lambda: line.inlet.status and line.inlet.status[0] == 1, "a status of the first message")
    bench.quiet(0.8)
    check(line.inlet.status[2] == 0, "it is done with a batch that its reader is not done with")
    line.sink.status(line.it, line.out)
    bench.quiet(0.8)
    check(line.inlet.status[2] == 0, "it is done with a batch of which the director has not acknowledged the report")
    bench.director.status(line.it, REPORT)
    bench.until(lambda: line.inlet.status[2] == 1, "done, when all that hangs on the batch is")


@rule
def drops_what_is_for_or_from_another_incarnation(bench):
    line = Line(bench).up()
    line.source.say(line.it, 1, line.into, 1, 1, 0, body=ids(2), receiver=9)
    line.source.say(line.it, 1, line.into, 1, 1, 0, body=ids(2), sender=99)
    line.source.say(line.it, 1, line.into + 5, 1, 1, 0, body=ids(2))
    bench.quiet(0.3)
    check(not line.outlet.got and not bench.reports("failed"), "it took a message that is not of one of its channels")
    line.feed(0)
    line.wait(1)


def _refused(bench, act, what):
    line = Line(bench).up()
    line.feed(0)
    line.wait(1)
    act(line)
    failed = bench.hear("failed")[0]
    check(len(failed) == 4 and isinstance(failed[3], str) and len(failed[3]) > 10,
          f"{what} is reported in a sentence, not as {failed}")
    alive(bench)
    check(line.batches() == [0], f"{what} led to batches {line.batches()}")


@rule
def refuses_a_malformed_frame_and_says_so(bench):
    _refused(bench, lambda line: line.source.raw(line.it, b"\xc1garbage"), "a frame of garbage")


@rule
def refuses_another_protocol(bench):
    _refused(bench, lambda line: line.source.raw(line.it, pack([2, 1, 0, SOURCE, 2, 2, 1, 1, 0, 1, 0, b""])),
             "a message of protocol 2")


@rule
def refuses_a_body_that_claims_more_than_it_has(bench):
    lie = body(2, [column("id", "i64", 1, 2, b"\0" * 8)])
    _refused(bench, lambda line: line.source.send(line.it, line.into, 1, 1, lie), "a column that is too short")


@rule
def refuses_offsets_that_decrease(bench):
    lie = body(2, [column("id", "i32", 1, 2, struct.pack("<3q", 0, 2, 1) + b"\0" * 40 + b"\0" * 4, True)])
    _refused(bench, lambda line: line.source.send(line.it, line.into, 1, 1, lie), "offsets that decrease")


@rule
def refuses_a_block_outside_its_slab(bench):
    def act(line):
        slab = bench.node.make(b"\0" * 64)
        line.source.send(line.it, line.into, 1, 1, body(2, [column("id", "i64", 1, 2, [slab, 2 << 20, 16])]))
    _refused(bench, act, "a block outside its slab")


@rule
def refuses_a_status_that_cannot_be(bench):
    _refused(bench, lambda line: line.sink.status(line.it, line.out, 9, 64, 0), "a status of more than was sent")


@rule
def refuses_a_status_that_is_done_with_more_than_came(bench):
    _refused(bench, lambda line: line.sink.status(line.it, line.out, 0, 64, 1), "a status of more done than came")


@rule
def refuses_a_batch_that_the_run_does_not_have(bench):
    _refused(bench, lambda line: line.source.send(line.it, line.into, 1, 5000, ids(2)), "batch 5000 of 1000")


@rule
def refuses_an_unknown_order(bench):
    _refused(bench, lambda line: bench.order(1, "dance", 1), "an unknown order")


@rule
def survives_every_truncation_of_a_message(bench):
    line = Line(bench).up()
    line.feed(0)
    line.wait(1)
    whole = pack([1, 1, line.into, SOURCE, line.it, 2, 1, 1, 0, 1, 0, ids(2)])
    for size in range(1, len(whole)):
        line.source.raw(line.it, whole[:size])
    bench.hear("failed")
    alive(bench)
    check(line.batches() == [0], f"a part of a message led to batches {line.batches()}")


@rule
def passes_on_that_a_batch_was_skipped(bench):
    line = Line(bench).up()
    line.source.send(line.it, line.into, 1, 0, b"")
    line.feed(1)
    line.wait(2)
    check(line.outlet.inbox[0].body == b"" and line.outlet.inbox[1].body != b"", "an empty body means skipped")
    done = bench.hear("done", 2)
    check([report[3] for report in done[:2]] == [True, False], "the report says which batch was skipped")


@rule
def works_on_parts_as_they_come(bench):
    line = Line(bench, by_part=True).up()
    line.source.send(line.it, line.into, 1, 0, ids(3, 0, 0), part=0, parts=2)
    line.wait(1)
    first = line.outlet.inbox[0]
    check((first.part, first.parts) == (0, 2) and unpack(first.body)[1:3] == [3, 0], f"the first went as {first!r}")
    check(not bench.reports("done"), "a batch is not done before its last part")
    line.source.send(line.it, line.into, 1, 0, ids(2, 3, 3), part=1, parts=2)
    line.wait(2)
    second = line.outlet.inbox[1]
    check((second.part, second.parts) == (1, 2) and unpack(second.body)[1:3] == [2, 3], f"the second as {second!r}")
    bench.hear("done")


@rule
def waits_for_all_parts_where_it_works_on_whole_batches(bench):
    line = Line(bench).up()
    line.source.send(line.it, line.into, 1, 0, ids(2, 3, 3), part=1, parts=2)
    bench.quiet(0.3)
    check(not line.outlet.got, "a whole batch was made of one part")
    line.source.send(line.it, line.into, 1, 0, ids(3, 0, 0), part=0, parts=2)
    line.wait(1)
    check(unpack(line.outlet.inbox[0].body)[1] == 5 and line.outlet.inbox[0].parts == 1, "parts are joined")


def _source(bench, revision=1, steps=1000):
    """The actor under test is the source."""
    host = bench.kind == "host"
    table = Table(revision, steps)
    it, sink = table.actor("it", "synthetic" if host else "command"), table.actor("sink")
    edge = table.edge(0, 1, ["payload"])
    table.stage("it", it, gives=[("payload", "u8[n,8]")] + ([("id", "i64[n]")] if host else []), source=True,
                options={} if host else {"function": "make"})
    table.stage("sink", sink, [("payload", edge, "payload")], rows_of=0)
    party = bench.parties.get(SINK) or bench.party(SINK)
    return table, [[bench.ACTOR, "it", 0], [SINK, "sink", 0]], party, table.number(edge)


@rule
def makes_what_it_has_leave_for_and_no_more(bench):
    table, peers, sink, edge = _source(bench)
    bench.bring_up(table, peers)
    got = sink.channel(bench.ACTOR, edge)
    bench.quiet(0.2)
    check(not got.got, "a source made a batch without a permit")
    bench.order(1, "permit", 4)
    bench.until(lambda: len(got.inbox) >= 5, "five batches")
    bench.order(1, "permit", 2)
    bench.quiet(0.3)
    check([message.batch for message in got.inbox] == [0, 1, 2, 3, 4], f"it made {got.inbox}")
    bench.order(1, "permit", 6)
    bench.until(lambda: len(got.inbox) >= 7, "two more")


@rule
def starts_where_it_is_told_to(bench):
    table, peers, sink, edge = _source(bench)
    bench.bring_up(table, peers, cut=3, starts=[5, 3])
    bench.order(1, "permit", 7)
    got = sink.channel(bench.ACTOR, edge)
    bench.until(lambda: len(got.inbox) >= 3, "three batches")
    check([message.batch for message in got.inbox] == [5, 6, 7], f"it made {got.inbox}")


@rule
def answers_a_ping_while_it_computes(bench):
    line = Line(bench, {"busy_ms": 1500.0}).up()
    line.feed(0)
    bench.quiet(0.3)
    begin = time.monotonic()
    state = alive(bench)
    check(time.monotonic() - begin < 1.0, "a ping was answered only when the handler was over")
    check(len(state) in (7, 8) and state[:2] == [1, 0], f"a pong says [1, 0, …] while batch 0 is handled: {state}")
    for seat in state[7] if len(state) == 8 else []:
        check(len(seat) == 4 and 0 <= seat[2] <= 5 and seat[3] >= -1, f"a stage is [revision, stage, state, credit]: {seat}")
    check(state[2] > 100_000_000 and state[4] is True and state[5] == 1 and state[6] in (False, 0),
          f"and how long, that it is prepared, the revision, and that it is not paused: {state}")
    line.wait(1)
    bench.until(lambda: alive(bench)[0] == -1, "a pong that says that nothing runs")


@rule
def takes_no_new_batch_while_it_is_paused(bench):
    line = Line(bench).up()
    line.feed(0)
    line.wait(1)
    bench.order(1, "pause", 1)
    bench.until(lambda: bool(alive(bench)[6]), "a pong that says that it is paused")
    line.feed(1)
    bench.quiet(0.4)
    check(line.batches() == [0], "a paused actor took a batch")
    bench.order(1, "pause", 0)
    line.wait(2)


@rule
def changes_the_revision_at_the_cut(bench):
    line = Line(bench).up()
    for batch in range(3):
        line.feed(batch)
    line.wait(3)
    new = Line(bench, revision=2)
    bench.order(2, "table", new.table.encode())
    bench.order(2, "peers", new.peers)
    bench.hear("wired", 2)
    new.feed(5)
    bench.order(2, "begin", 5, [5, 5, 5])
    bench.quiet(0.4)
    check(not new.outlet.got, "a stage of revision 2 ran while revision 1 had batches left")
    line.feed(3)
    line.feed(4)
    line.wait(5)
    new.wait(1)
    new.feed(6)
    new.wait(2)
    check(line.batches() == [0, 1, 2, 3, 4] and new.batches() == [5, 6], f"{line.batches()} {new.batches()}")
    check(all(message.revision == 2 for message in new.outlet.inbox), "a message says the revision of its batch")
    channel = bench.director.channel(bench.ACTOR, REPORT)
    reported = [(message.revision, unpack(message.body)[2]) for message in channel.inbox
                if unpack(message.body)[0] == "done"]
    bench.hear("done", 7)
    check(all((revision == 1) == (batch < 5) for revision, batch in reported), f"reports say {reported}")
    bench.order(1, "retire")
    new.feed(7)
    new.wait(3)
    before = len(line.outlet.got)
    line.source.say(line.it, 1, line.into, 6, 1, 5, body=ids(2))
    bench.quiet(0.3)
    check(len(line.outlet.got) == before and not bench.reports("failed"), "a revision that is retired is forgotten")


@rule
def forgets_a_revision_that_is_dropped(bench):
    line = Line(bench).up()
    new = Line(bench, revision=2)
    bench.order(2, "table", new.table.encode())
    bench.order(2, "peers", new.peers)
    bench.hear("wired", 2)
    bench.order(2, "drop")
    for batch in range(8):
        line.feed(batch)
    line.wait(8)
    third = Line(bench, revision=3)
    bench.order(3, "table", third.table.encode())
    bench.order(3, "peers", third.peers)
    bench.hear("wired", 3)
    bench.order(3, "begin", 8, [8, 8, 8])
    third.feed(8)
    third.wait(1)


@rule
def sends_a_successor_of_its_reader_what_the_dead_one_had_not_done(bench):
    line = Line(bench)
    line.sink.auto = False
    line.up()
    for batch in range(4):
        line.feed(batch)
    line.wait(4)
    line.sink.status(line.it, line.out, 4, 64, 2)
    bench.quiet(0.2)
    successor = bench.party(21)
    bench.order(1, "peers", [[line.it, "it", 0], [SOURCE, "source", 0], [21, "sink", 0]])
    got = successor.channel(line.it, line.out)
    bench.until(lambda: len(got.inbox) >= 2, "what was kept, at the successor")
    check([(message.seq, message.batch) for message in got.inbox] == [(1, 2), (2, 3)], f"it sent {got.inbox}")
    bench.hear("wired", 2)
    line.feed(4)
    bench.until(lambda: len(got.inbox) >= 3, "a new batch, at the successor")
    bench.until(lambda: line.inlet.status[2] == 5, "done with all five")


@rule
def takes_a_batch_once_when_its_sender_is_replaced(bench):
    line = Line(bench)
    line.sink.auto = False
    line.up()
    for batch in range(3):
        line.feed(batch)
    line.wait(3)
    line.sink.status(line.it, line.out, 3, 64, 1)
    bench.quiet(0.2)
    successor = bench.party(11)
    bench.order(1, "peers", [[line.it, "it", 0], [11, "source", 0], [SINK, "sink", 0]])
    bench.hear("wired", 2)
    inlet = successor.channel(line.it, line.into)
    for batch in range(4):
        successor.send(line.it, line.into, 1, batch, ids(2, 2 * batch))
    line.wait(4)
    check(line.batches() == [0, 1, 2, 3], f"batches went out as {line.batches()}")
    bench.until(lambda: inlet.status and inlet.status[0] == 4, "a status for the successor")
    bench.quiet(0.7)
    check(inlet.status[2] <= 1, f"done is {inlet.status[2]} for the successor, where the reader is done with one")
    line.sink.status(line.it, line.out, 4, 64, 4)
    bench.until(lambda: inlet.status[2] == 4, "done, for the successor")


@rule
def reads_columns_in_shared_memory_and_writes_its_own_there(bench):
    rows = 4096
    line = Line(bench).up()
    slab = bench.node.make(struct.pack(f"<{rows}q", *range(rows)))
    line.source.send(line.it, line.into, 1, 0, body(rows, [column("id", "i64", 1, rows, [slab, 0, 8 * rows])]))
    line.wait(1)
    place = unpack(line.outlet.inbox[0].body)[4][0][5]
    check(isinstance(place, list) and len(place) == 3 and place[1] % 64 == 0 and place[2] == 8 * rows,
          f"a column of {8 * rows} bytes went as {place if isinstance(place, list) else 'a binary'}")
    data = bench.node.read(*place)
    check(len(data) == 8 * rows, "its block is not in its slab")
    check(bench.kind == "host" or data == bytes(8 * rows), "its bytes are not in its block")
    check(bench.node.wrong is None, f"to the node: {bench.node.wrong}")


@rule
def uses_its_memory_again(bench):
    rows = 200_000
    line = Line(bench).up()
    slab = bench.node.make(b"\0" * 8 * rows)
    for batch in range(40):
        line.source.send(line.it, line.into, 1, batch, body(rows, [column("id", "i64", 1, rows, [slab, 0, 8 * rows])]))
        line.wait(batch + 1)
    held = sum(size for number, (_, size, _, owner) in bench.node.slabs.items()
               if owner is not None and number not in bench.node.freed)
    check(held <= 64 << 20, f"{held >> 20} MiB are held for 40 batches of 1.5 MiB, each of which was let go")


@rule
def saves_when_it_is_ordered_to(bench):
    line = Line(bench).up()
    for batch in range(4):
        line.feed(batch)
    line.wait(4)
    directory = os.path.join(bench.directory, "checkpoints", "step-4.tmp", "it")
    os.makedirs(os.path.dirname(directory))
    bench.order(1, "save", 4, directory)
    check(bench.hear("saved")[0][1] == 4, "the report of a checkpoint says its step")


@rule
def reports_a_handler_that_fails_and_stays_to_answer(bench):
    line = Line(bench, {"fail_at": 2}).up()
    for batch in range(4):
        line.feed(batch)
    failed = bench.hear("failed")[0]
    check(failed[1] == 1 and failed[2] == 2 and "fail_at" in failed[3], f"the failure was reported as {failed}")
    bench.quiet(0.3)
    check(line.batches() == [0, 1], "it went on behind a failure")
    alive(bench)


@rule
def lets_itself_be_followed_within_credit_and_counts_exactly(bench):
    line = Line(bench).up()
    follower = bench.context.socket(zmq.ROUTER)
    follower.setsockopt(zmq.LINGER, 0)
    place = bench.address(900)
    follower.bind(place)
    heads, records, sender = [], [], []

    def look():
        while follower.poll(0):
            name, frame = follower.recv_multipart()
            sender[:] = [name]
            items = list(msgpack.Unpacker(io.BytesIO(frame), raw=False))
            heads.append(items[0])
            records.extend(items[1:])
        return heads

    only_data = 1 << 0
    bench.order(1, "trace", 5, place, [[], ["sink"], [], [], only_data, [], 0, 1, 0, True, [3, 1 << 20]])
    bench.until(lambda: look(), "the first frame, which says that it follows")
    check(heads[0][:2] == [1, f"it#{line.it}"] and heads[0][2:5] == [5, 1, False], f"a frame begins with {heads[0]}")
    for batch in range(10):
        line.feed(batch)
    line.wait(10)
    bench.until(lambda: look() and len(records) >= 2, "records within credit")
    bench.quiet(0.6)
    look()
    before = len(records)
    check(before <= 3, f"{before} records came where credit was for 3")
    follower.send_multipart([sender[0], pack([100, 1 << 20])])
    for batch in range(10, 20):
        line.feed(batch)
    bench.until(lambda: look() and len(records) >= before + 10, "records after more credit")
    bench.order(1, "untrace", 5)
    bench.until(lambda: look()[-1][4], "the last frame")
    number, seen, matched, sent, dropped = heads[-1][3], *heads[-1][5:]
    check(number == len(heads), f"the last frame is number {number} of {len(heads)}")
    check(matched == 20 and sent == len(records) and dropped == matched - sent and seen >= 20,
          f"{len(records)} came, and the counts are seen {seen}, matched {matched}, sent {sent}, dropped {dropped}")
    for record in records:
        check(record[0] == 0 and record[2] == 0 and record[3:7] == [f"it#{line.it}", f"sink#{SINK}", "it", "sink"],
              f"a record of a data message is {record[:7]}")
        check(record[9] == 1 and record[14] == len(record[15]), f"a record says revision and bytes: {record[8:15]}")
    follower.close(0)


@rule
def is_not_made_to_speak_to_others(bench):
    _refused(bench, lambda line: bench.order(1, "trace", 5, "tcp://127.0.0.1:5555",
                                             [[], [], [], [], 1, [], 0, 1, 0, False, [3, 1000]]),
             "a trace to an address that is none of this user's")


@rule
def ends_when_it_is_told_to_stop(bench):
    line = Line(bench).up()
    line.feed(0)
    line.wait(1)
    bench.order(1, "stop", 0)
    bench.until(lambda: bench.process.poll() is not None, "its end", 10)
    check(bench.process.returncode == 0, f"it ended with {bench.process.returncode}: {bench.tail()}")


@rule
def gives_up_a_handler_when_it_is_told_to_stop(bench):
    line = Line(bench, {"busy_ms": 60000.0}).up()
    line.feed(0)
    bench.until(lambda: alive(bench)[0] == 1, "the handler's start")
    begin = time.monotonic()
    bench.order(1, "stop", 0)
    bench.until(lambda: bench.process.poll() is not None, "its end", 10)
    check(time.monotonic() - begin < 5, "a handler that sleeps was waited for")
    check(bench.process.returncode == 0, f"it ended with {bench.process.returncode}: {bench.tail()}")


class Learner(Line):
    """A line whose stage works with the weights that a third peer publishes, `staleness` updates behind."""

    WRITER = 30

    def __init__(self, bench, staleness, revision=1):
        self.staleness = staleness
        super().__init__(bench, revision=revision)
        self.peers.append([self.WRITER, "policy", 0])
        self.writer = bench.parties.get(self.WRITER) or bench.party(self.WRITER)

    def stage_options(self, **more):
        return {"function": "learn"}

    def make(self, revision, size, **more):
        table = super().make(revision, size, **more)
        writer = table.stage("update", table.actor("policy"), rows_of=0)
        self.versions = table.number(table.weights(writer, 1, self.staleness))
        return table

    def publish(self, update, value, columns=4096):
        """A version in shared memory, whose last number is the value."""
        data = struct.pack(f"<{columns}f", *([0.0] * (columns - 1) + [value]))
        slab = self.bench.node.make(data)
        self.writer.send(self.it, self.versions, self.table.revision, update,
                         body(1, [column("w", "f32", columns, 1, [slab, 0, len(data)])]))

    @property
    def channel(self):
        return self.writer.channel(self.it, self.versions)

    def known(self):
        """(version, value) of each batch that went out."""
        return [tuple(unpack(message.body)[4][0][5][:2]) for message in self.outlet.inbox]


@rule
def works_with_the_version_that_a_batch_asks_for(bench):
    if bench.kind == "host":
        return  # its kind without a model takes no weights
    line = Learner(bench, 2).up()
    line.publish(1, 11)
    for batch in range(5):
        line.feed(batch)
    line.wait(3)
    bench.quiet(0.4)
    check(line.known() == 3 * [(0, 0)], f"batches of before the first update went out with {line.known()}")
    line.publish(0, 10)
    line.wait(5)
    check(line.known()[3:] == [(1, 10), (2, 11)], f"then they went out with {line.known()[3:]}")
    done = bench.hear("done", 5)
    check([report[6] for report in done[:5]] == [0, 0, 0, 1, 2], f"reports say versions {[one[6] for one in done]}")


@rule
def works_with_the_weights_at_the_cut_where_a_version_lies_before_it(bench):
    if bench.kind == "host":
        return
    line = Learner(bench, 2).up(cut=7)
    line.feed(7)
    line.feed(8)
    bench.quiet(0.4)
    check(not line.outlet.got, "a batch went out without its weights")
    line.publish(6, 16)
    line.wait(2)
    check(line.known() == 2 * [(7, 16)], f"batches behind the cut went out with {line.known()}")


@rule
def is_done_with_a_version_when_the_next_is_taken_and_its_batches_are_done(bench):
    if bench.kind == "host":
        return
    line = Learner(bench, 0)
    line.sink.auto = False
    line.up()
    for update in range(2):
        line.publish(update, update + 1)
    for batch in range(3):
        line.feed(batch)
    line.wait(3)
    bench.until(lambda: line.channel.status and line.channel.status[0] == 2, "a status for two versions")
    bench.quiet(0.4)
    check(line.channel.status[2] == 0, "it is done with a version of a batch that its reader is not done with")
    line.sink.status(line.it, line.out)
    bench.until(lambda: line.channel.status[2] == 1, "done with the version that is used no more")
    bench.quiet(0.4)
    check(line.channel.status[2] == 1, "it is done with the version in use")


@rule
def refuses_a_version_without_weights(bench):
    if bench.kind == "host":
        return
    line = Learner(bench, 1).up()
    line.writer.send(line.it, line.versions, 1, 0, b"")
    failed = bench.hear("failed")[0]
    check("update" in failed[3] and "weights" in failed[3], f"an empty version is reported as {failed}")
    alive(bench)


def _stateful(bench):
    """A line through an actor with state; None where the host in C is tested, whose kind here keeps none."""
    if bench.kind == "host":
        return None
    os.environ["CONFORMANCE_STATE"] = "1"
    try:
        return Line(bench).up()
    finally:
        del os.environ["CONFORMANCE_STATE"]


@rule
def goes_on_when_an_ordered_save_fails(bench):
    line = _stateful(bench)
    if line is None:
        return
    line.feed(0)
    line.wait(1)
    handover = (1 << 40) + 3
    bench.order(1, "save", handover, os.path.join(bench.log, "not-a-directory"))
    failed = bench.hear("failed")[0]
    check(failed[1:3] == [-1, handover] and "not-a-directory" in failed[3], f"the save that failed is told as {failed}")
    line.feed(1)
    bench.until(lambda: len(line.outlet.inbox) >= 2, "the next batch of an actor whose state was wanted in vain")
    directory = os.path.join(bench.directory, "better")
    bench.order(1, "save", handover + 1, directory)
    bench.until(lambda: bench.reports("saved"), "a later save")
    check(bench.reports("saved")[0][1] == handover + 1 and os.path.exists(os.path.join(directory, "state.json")),
          "a later save is not written")


@rule
def restores_what_it_saved(bench):
    line = _stateful(bench)
    if line is None:
        return
    for batch in range(3):
        line.feed(batch)
    line.wait(3)
    bench.until(lambda: line.inlet.status and line.inlet.status[2] == 3, "done, of an actor with state, at once")
    directory = os.path.join(bench.directory, "one", "it")
    bench.order(1, "save", 3, directory)
    bench.hear("saved")
    with open(os.path.join(directory, "state.json"), encoding="utf-8") as file:
        check(file.read() == '{"batches": 3}', "the state that was saved is not that of three batches")
    line.feed(3)
    line.wait(4)
    bench.order(1, "restore", directory)
    bench.hear("restored")
    bench.order(1, "save", 4, os.path.join(bench.directory, "two"))
    bench.hear("saved", 2)
    with open(os.path.join(bench.directory, "two", "state.json"), encoding="utf-8") as file:
        check(file.read() == '{"batches": 3}', "the state was not restored")


def run(test, program, kind):
    bench = Bench(program, kind)
    try:
        test(bench)
        check(bench.node.wrong is None, f"to the node: {bench.node.wrong}")
        return None
    except Wrong as error:
        return str(error)
    except Exception:
        return traceback.format_exc()
    finally:
        bench.close()


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("host", "command"):
        sys.exit(__doc__)
    only = os.environ.get("CONFORMANCE_ONLY", "")
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    passed = failed = 0
    for test in CHECKS:
        if only not in test.__name__:
            continue
        begin = time.monotonic()
        wrong = run(test, sys.argv[2:], sys.argv[1])
        print(f"{'ok    ' if wrong is None else 'FAILED'} {test.__name__.replace('_', ' ')} "
              f"({time.monotonic() - begin:.1f} s)", flush=True)
        if wrong is not None:
            print("       " + wrong.strip().replace("\n", "\n       "), flush=True)
        passed, failed = passed + (wrong is None), failed + (wrong is not None)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
