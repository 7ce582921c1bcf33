"""Rules of data: batches, parts, sources, shared memory, published weights."""

import struct

from lines import Learner, Line, rule, rule_for_programs, source_of, unpack
from party import body, check, column, ids


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


@rule
def makes_what_it_has_leave_for_and_no_more(bench):
    table, peers, sink, edge = source_of(bench)
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
    table, peers, sink, edge = source_of(bench)
    bench.bring_up(table, peers, cut=3, starts=[5, 3])
    bench.order(1, "permit", 7)
    got = sink.channel(bench.ACTOR, edge)
    bench.until(lambda: len(got.inbox) >= 3, "three batches")
    check([message.batch for message in got.inbox] == [5, 6, 7], f"it made {got.inbox}")


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


@rule_for_programs
def works_with_the_version_that_a_batch_asks_for(bench):
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


@rule_for_programs
def works_with_the_weights_at_the_cut_where_a_version_lies_before_it(bench):
    line = Learner(bench, 2).up(cut=7)
    line.feed(7)
    line.feed(8)
    bench.quiet(0.4)
    check(not line.outlet.got, "a batch went out without its weights")
    line.publish(6, 16)
    line.wait(2)
    check(line.known() == 2 * [(7, 16)], f"batches behind the cut went out with {line.known()}")


@rule_for_programs
def goes_on_with_the_versions_from_its_base_on(bench):
    line = Learner(bench, 2).up(cut=7, bases=[6, 5, 6, 6])
    line.publish(5, 15)
    for batch in range(7, 10):
        line.feed(batch)
    line.wait(2)
    bench.quiet(0.4)
    check(line.known() == 2 * [(6, 15)], f"batches of before update 6 went out with {line.known()}")
    line.publish(6, 16)
    line.wait(3)
    check(line.known()[2:] == [(7, 16)], f"a batch behind the cut went out with {line.known()[2:]}")


@rule_for_programs
def is_done_with_a_version_when_the_next_is_taken_and_its_batches_are_done(bench):
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
