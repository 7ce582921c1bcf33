"""What the rules are tried on: an actor between a source and a sink, and what is asked of it again and again."""

import os
import struct

import msgpack

from party import Table, body, check, column, ids

SOURCE, SINK = 10, 20
RULES = []


def rule(function):
    RULES.append(function)
    return function


def rule_for_programs(function):
    """A rule about what the kind `synthetic`, by which a C host is tested, does not do: state, and weights."""
    function.for_programs = True
    return rule(function)


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


def refused(bench, act, what):
    line = Line(bench).up()
    line.feed(0)
    line.wait(1)
    act(line)
    failed = bench.hear("failed")[0]
    check(len(failed) == 4 and isinstance(failed[3], str) and len(failed[3]) > 10,
          f"{what} is reported in a sentence, not as {failed}")
    alive(bench)
    check(line.batches() == [0], f"{what} led to batches {line.batches()}")


def source_of(bench, revision=1, steps=1000):
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


def stateful(bench):
    """A line through an actor with state."""
    os.environ["CONFORMANCE_STATE"] = "1"
    try:
        return Line(bench).up()
    finally:
        del os.environ["CONFORMANCE_STATE"]
