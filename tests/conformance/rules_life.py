"""Rules of an actor's life: from hello to stop, revisions, state, being asked and followed."""

import io
import os
import time

import msgpack
import zmq

from lines import Line, SINK, alive, rule, rule_for_programs, stateful, unpack
from party import REPORT, check, ids, pack


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
    fed = 10
    while len(records) == before:  # what goes while the credit is on its way is dropped
        check(fed < 90, "no records after more credit, of 80 batches in 20 s")
        line.feed(fed)
        fed += 1
        line.wait(fed)
        bench.quiet(0.25)
        look()
    credited = len(records)
    for batch in range(fed, fed + 10):
        line.feed(batch)
    fed += 10
    bench.until(lambda: look() and len(records) >= credited + 10, "all records within credit")
    bench.order(1, "untrace", 5)
    bench.until(lambda: look()[-1][4], "the last frame")
    number, seen, matched, sent, dropped = heads[-1][3], *heads[-1][5:]
    check(number == len(heads), f"the last frame is number {number} of {len(heads)}")
    check(matched == fed and sent == len(records) and dropped == matched - sent and seen >= fed,
          f"{len(records)} came, and the counts are seen {seen}, matched {matched}, sent {sent}, dropped {dropped}")
    for record in records:
        check(record[0] == 0 and record[2] == 0 and record[3:7] == [f"it#{line.it}", f"sink#{SINK}", "it", "sink"],
              f"a record of a data message is {record[:7]}")
        check(record[9] == 1 and record[14] == len(record[15]), f"a record says revision and bytes: {record[8:15]}")
    follower.close(0)


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


@rule_for_programs
def goes_on_when_an_ordered_save_fails(bench):
    line = stateful(bench)
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


@rule_for_programs
def restores_what_it_saved(bench):
    line = stateful(bench)
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
