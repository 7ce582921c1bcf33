"""The other side of an actor, for the conformance suite: a node, a director and peers, over real sockets.

Written from PROTOCOL.md and runtime/bulk/protocol.h alone; it shares no code with either implementation under test.
"""

import array
import fcntl
import mmap
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import threading
import time

import msgpack
import zmq

DATA, STATUS, PING, PONG = 1, 2, 3, 4
REPORT, CONTROL = -1, -2
PATIENCE = 20.0  # seconds that something due may take on a busy machine


class Wrong(AssertionError):
    """The actor broke a rule; the text says which."""


def check(condition, text):
    if not condition:
        raise Wrong(text)


def pack(value):
    return msgpack.packb(value, use_bin_type=True)


class Message:
    FIELDS = ("protocol", "type", "edge", "sender", "receiver", "seq", "revision", "batch", "part", "parts", "time",
              "body")

    def __init__(self, fields):
        check(isinstance(fields, list) and len(fields) == 12, f"a message is an array of 12, not {fields!r:.100}")
        for name, value in zip(self.FIELDS, fields):
            setattr(self, name, value)
        check(self.protocol == 1, f"a message of protocol {self.protocol}")
        check(isinstance(self.body, bytes), "the body of a message is binary")

    def __repr__(self):
        return (f"<type {self.type} edge {self.edge} {self.sender}→{self.receiver} seq {self.seq} r{self.revision} "
                f"batch {self.batch} part {self.part}/{self.parts} {len(self.body)} bytes>")


def split(frame):
    unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1 << 30)
    unpacker.feed(frame)
    return [Message(fields) for fields in unpacker]


class Node(threading.Thread):
    """The node's end of descriptor 3: makes slabs, seals them, hands them out."""

    SEALS = 0x0002 | 0x0004 | 0x0010  # shrink, grow, future write

    def __init__(self):
        super().__init__(daemon=True)
        self.pairs = {}  # our end → their end
        self.slabs = {}  # number → (descriptor, bytes, sealed, the socket that owns it)
        self.next = 1
        self.lock = threading.Lock()
        self.ended = False
        self.wrong = None
        self.freed = set()
        self.start()

    def pair(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with self.lock:
            self.pairs[ours] = theirs
        return theirs

    def make(self, data):
        """A sealed slab of somebody else's, with these bytes; its number."""
        size = (max(len(data), 1) + (2 << 20) - 1) // (2 << 20) * (2 << 20)
        with self.lock:
            number, descriptor = self._new(size, None)
            view = mmap.mmap(descriptor, size)
            view[:len(data)] = data
            view.close()
            fcntl.fcntl(descriptor, 1033, self.SEALS)
            self.slabs[number] = (descriptor, size, True, None)
        return number

    def read(self, number, offset, size):
        with self.lock:
            return os.pread(self.slabs[number][0], size, offset)

    def _new(self, size, owner):
        descriptor = os.memfd_create("slab", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        number, self.next = self.next, self.next + 1
        self.slabs[number] = (descriptor, size, False, owner)
        return number, descriptor

    def _answer(self, end, code, slab=0, size=0, descriptor=-1):
        reply = struct.pack("=IIIIQQQQ", 0x6B6C7562, 1, code, 0, slab, size, 0, 0)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))] if descriptor >= 0 else []
        end.sendmsg([reply], rights)

    def _serve(self, end, data):
        magic, kind, slab, size = struct.unpack("=IIQQ", data)
        check(magic == 0x6B6C7562 and 1 <= kind <= 5, "a request to the node is malformed")
        known = self.slabs.get(slab)
        if kind == 1:
            check(size > 0 and size % (2 << 20) == 0, f"a slab of {size} bytes was asked for: no multiple of 2 MiB")
            number, descriptor = self._new(size, end)
            self._answer(end, 0, number, size, descriptor)
        elif kind == 2:
            check(known is not None and known[3] is end and not known[2], "MAPPED of a slab that is not its own")
            holes = os.fstat(known[0]).st_blocks * 512 < known[1]
            if not holes:
                fcntl.fcntl(known[0], 1033, self.SEALS)
                self.slabs[slab] = (known[0], known[1], True, end)
            self._answer(end, 4 if holes else 0, slab)
            check(not holes, "MAPPED before all pages were allocated")
        elif kind == 3:
            ready = known is not None and known[2]
            self._answer(end, 0 if ready else 3, slab, known[1] if ready else 0, known[0] if ready else -1)
        elif kind == 5:
            check(known is not None and known[3] is end, "FREE of a slab that is not its own")
            self.freed.add(slab)

    def run(self):
        while not self.ended:
            with self.lock:
                ends = list(self.pairs)
            for end in select.select(ends, [], [], 0.05)[0]:
                with self.lock:
                    data = end.recv(4096)
                    if not data:
                        end.close()
                        self.pairs.pop(end, None)
                        continue
                    try:
                        self._serve(end, data)
                    except (Wrong, struct.error) as error:
                        self.wrong = self.wrong or str(error)

    def close(self):
        self.ended = True
        self.join()
        for descriptor, _, _, _ in self.slabs.values():
            os.close(descriptor)


class Channel:
    """What one party got over one edge: messages in the order of their coming, and what it answers."""

    def __init__(self):
        self.got = []  # every DATA message, repetitions too
        self.inbox = []  # once each, in order
        self.received = 0
        self.status = None  # the last one that came for what we send: (received, limit, done)
        self.first = None  # and the first
        self.statuses = 0
        self.sent = 0


class Party:
    """A director (1) or a peer. By itself it answers nothing: what it says, a test decides."""

    def __init__(self, bench, incarnation):
        self.bench = bench
        self.incarnation = incarnation
        self.router = bench.context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.LINGER, 0)
        self.router.set_hwm(0)
        self.router.bind(bench.address(incarnation))
        self.dealers = {}
        self.channels = {}  # (peer, edge)
        self.pongs = []
        self.auto = True  # answers each message with a status of all that came, as an eager receiver would

    def channel(self, peer, edge):
        return self.channels.setdefault((peer, edge), Channel())

    def raw(self, peer, frame):
        if peer not in self.dealers:
            dealer = self.bench.context.socket(zmq.DEALER)
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.set_hwm(0)
            dealer.connect(self.bench.address(peer))
            self.dealers[peer] = dealer
        self.dealers[peer].send(frame)

    def say(self, peer, kind, edge, seq, revision, batch, part=0, parts=1, body=b"", sender=None, receiver=None,
            when=0):
        self.raw(peer, pack([1, kind, edge, self.incarnation if sender is None else sender,
                             peer if receiver is None else receiver, seq, revision, batch, part, parts, when, body]))

    def send(self, peer, edge, revision, batch, body, part=0, parts=1):
        """The next message of a channel."""
        channel = self.channel(peer, edge)
        channel.sent += 1
        self.say(peer, DATA, edge, channel.sent, revision, batch, part, parts, body, when=time.monotonic_ns())

    def status(self, peer, edge, received=None, limit=None, done=None):
        channel = self.channel(peer, edge)
        received = channel.received if received is None else received
        self.say(peer, STATUS, edge, received, channel.received + 4096 if limit is None else limit,
                 channel.received if done is None else done)

    def pump(self, timeout=0.0):
        """Takes in what came."""
        if not self.router.poll(int(timeout * 1000)):
            return False
        while True:
            try:
                parts = self.router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return True
            check(len(parts) == 2, f"a frame of {len(parts)} parts")
            check(len(parts[1]) > 0, "an empty frame")
            for message in split(parts[1]):
                self._take(message)

    def _take(self, message):
        check(message.receiver == self.incarnation, f"{message!r} came to {self.incarnation}")
        channel = self.channel(message.sender, message.edge)
        if message.type == DATA:
            channel.got.append(message)
            check(message.seq >= 1 and 0 <= message.part < message.parts, f"{message!r}")
            if message.seq == channel.received + 1:
                channel.received += 1
                channel.inbox.append(message)
            if self.auto:
                self.status(message.sender, message.edge)
        elif message.type == STATUS:
            status = (message.seq, message.revision, message.batch)
            check(message.seq <= channel.sent, f"status says that {message.seq} came where {channel.sent} were sent")
            check(message.batch <= message.seq, f"status says that {message.batch} are done where {message.seq} came")
            if channel.status is not None:
                check(all(new >= old for new, old in zip(status, channel.status)),
                      f"status went back from {channel.status} to {status}")
            channel.status = status
            channel.first = channel.first or status
            channel.statuses += 1
        elif message.type == PONG:
            self.pongs.append(message)
        else:
            raise Wrong(f"{message!r} came unasked")

    def close(self):
        self.router.close(0)
        for dealer in self.dealers.values():
            dealer.close(0)


class Bench:
    """One run with one real actor in it."""

    ACTOR = 2

    def __init__(self, program, kind):
        self.program = program
        self.kind = kind
        self.run_id = secrets.token_hex(6)
        self.context = zmq.Context()
        self.node = Node()
        self.parties = {}
        self.director = self.party(1)
        self.process = None
        self.directory = f"/tmp/verl-conformance-{self.run_id}"
        os.mkdir(self.directory, 0o700)
        self.log = os.path.join(self.directory, "log")

    def address(self, incarnation):
        return f"ipc://@verl-{os.getuid()}-{self.run_id}-{incarnation}"

    def party(self, incarnation):
        self.parties[incarnation] = Party(self, incarnation)
        return self.parties[incarnation]

    def start(self, name="it"):
        argv = list(self.program)
        environment = dict(os.environ)
        if self.kind == "host":
            argv += [f"{name}#{self.ACTOR}", "--replica", "0", "--run-id", self.run_id, "--run-dir", self.directory,
                     "--parent", str(os.getpid())]
        else:
            environment.update(VERL_ACTOR=name, VERL_INCARNATION=str(self.ACTOR), VERL_REPLICA="0",
                               VERL_RUN_ID=self.run_id, VERL_RUN_DIR=self.directory, VERL_PARENT=str(os.getpid()))
        theirs = self.node.pair()
        if theirs.fileno() == 3:
            theirs = socket.socket(fileno=os.dup(theirs.fileno()))

        def pass_descriptor():
            os.dup2(theirs.fileno(), 3)
            os.set_inheritable(3, True)

        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                            preexec_fn=pass_descriptor, pass_fds=(3,), start_new_session=True)
        theirs.close()

    def until(self, what, text, patience=PATIENCE):
        """Pumps all parties until what() is true."""
        end = time.monotonic() + patience
        while True:
            for party in list(self.parties.values()):
                party.pump()
            if what():
                return
            if self.process is not None and self.process.poll() is not None and not what():
                raise Wrong(f"the actor ended with {self.process.returncode} before {text}: {self.tail()}")
            check(time.monotonic() < end, f"{text}: not within {patience:.0f} s; reports: {self.words()}")
            select.select([party.router.getsockopt(zmq.FD) for party in self.parties.values()], [], [], 0.005)

    def quiet(self, seconds):
        """Pumps for so long: for what must not happen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for party in list(self.parties.values()):
                party.pump(0.002)

    def tail(self):
        with open(self.log, "rb") as log:
            return log.read()[-2000:].decode("utf-8", "replace")

    # the director's part

    def order(self, revision, *items):
        self.director.send(self.ACTOR, CONTROL, revision, -1, pack(list(items)))

    def reports(self, word=None):
        found = [msgpack.unpackb(message.body, raw=False)
                 for message in self.director.channel(self.ACTOR, REPORT).inbox]
        return [report for report in found if word is None or report[0] == word]

    def words(self):
        return [report if report[0] in ("failed", "log") else report[0] for report in self.reports()][-12:]

    def hear(self, word, count=1, patience=PATIENCE):
        """Waits until so many reports of a word came."""
        self.until(lambda: len(self.reports(word)) >= count or (word != "failed" and self.reports("failed")),
                   f"{count} × report '{word}'", patience)
        check(word == "failed" or not self.reports("failed"), f"the actor failed: {self.reports('failed')}")
        return self.reports(word)

    def bring_up(self, table, peers, cut=0, starts=None, begin=True, bases=None):
        """hello, table, peers, ready, begin."""
        self.start()
        self.hear("hello")
        self.order(table.revision, "table", table.encode())
        self.order(table.revision, "peers", peers)
        self.hear("wired")
        self.hear("ready")
        if begin:
            more = [] if bases is None else [bases]
            self.order(table.revision, "begin", cut, starts or [cut] * len(table.stages), *more)

    def close(self):
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        for party in self.parties.values():
            party.close()
        self.context.destroy(0)
        self.node.close()
        for root, folders, files in os.walk(self.directory, topdown=False):
            for name in files:
                os.unlink(os.path.join(root, name))
            for name in folders:
                os.rmdir(os.path.join(root, name))
        os.rmdir(self.directory)


# tables and bodies


class Table:
    """A plan as the director sends it. Stages are added in topological order."""

    def __init__(self, revision=1, steps=1000, max_in_flight=4, max_bytes=1 << 30):
        self.revision, self.steps, self.max_in_flight, self.max_bytes = revision, steps, max_in_flight, max_bytes
        self.actors, self.stages, self.edges = [], [], []

    def actor(self, name, kind="synthetic", replicas=1, options=None):
        self.actors.append([name, kind, options or {}, 0, replicas, 0, "cpu", 0.0, 0.0, 1, 1])
        return len(self.actors) - 1

    def stage(self, name, actor, needs=(), gives=(), source=False, options=None, does="work", rows_of=None,
              by_part=False, parts=1, parts_of=-1, span=(1, 0, False), on_error=0, maps=False):
        """needs: (name, edge, column, maps); gives: (name, type)."""
        index = len(self.stages)
        depends = sorted({self.edges[need[1]][0] for need in needs if need[1] >= 0})
        self.stages.append([name, actor, does, options or {}, span[0], span[1], span[2], source, maps,
                            index if source else rows_of, parts, parts_of, by_part, on_error, 0.0, depends, -1,
                            [[need[0], need[1], need[2], list(need[3]) if len(need) > 3 else []] for need in needs],
                            [give[0] for give in gives], [give[0] for give in gives], [give[1] for give in gives],
                            1, 1])
        return index

    def edge(self, maker, reader, columns, with_map=False):
        """reader may be a stage that is added later."""
        self.edges.append([maker, reader, False, 0, with_map, list(columns)])
        return len(self.edges) - 1

    def weights(self, maker, reader, staleness):
        """An edge that brings published versions to a stage that was added before."""
        self.edges.append([maker, reader, True, staleness, False, []])
        self.stages[reader][16] = len(self.edges) - 1
        return len(self.edges) - 1

    def encode(self):
        return pack([1, self.revision, "conformance", "/tmp/conformance.toml", self.steps, 7, self.max_in_flight,
                     self.max_bytes, 0, 1, 60.0, self.actors, self.stages, self.edges])

    def number(self, edge):
        return self.revision << 20 | edge


def column(name, dtype, width, rows, data, ragged=False):
    return [name, dtype, ragged, width, rows, data]


def body(rows, columns, first=0, row_map=None):
    return pack([1, rows, first, row_map, columns])


def ids(rows, start=0, first=0):
    """A batch with the column `id`."""
    return body(rows, [column("id", "i64", 1, rows, struct.pack(f"<{rows}q", *range(start, start + rows)))], first)
