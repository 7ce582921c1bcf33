"""Rules of channels: numbers, credit, repetition, acknowledgement, succession."""

from lines import Line, SINK, SOURCE, rule
from party import REPORT, check, ids


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
