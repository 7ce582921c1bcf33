"""What must not be believed, and is refused in a sentence."""

import struct

from lines import Learner, Line, SOURCE, alive, refused, rule, rule_for_programs
from party import body, check, column, ids, pack


@rule
def refuses_a_malformed_frame_and_says_so(bench):
    refused(bench, lambda line: line.source.raw(line.it, b"\xc1garbage"), "a frame of garbage")


@rule
def refuses_another_protocol(bench):
    refused(bench, lambda line: line.source.raw(line.it, pack([2, 1, 0, SOURCE, 2, 2, 1, 1, 0, 1, 0, b""])),
             "a message of protocol 2")


@rule
def refuses_a_body_that_claims_more_than_it_has(bench):
    lie = body(2, [column("id", "i64", 1, 2, b"\0" * 8)])
    refused(bench, lambda line: line.source.send(line.it, line.into, 1, 1, lie), "a column that is too short")


@rule
def refuses_offsets_that_decrease(bench):
    lie = body(2, [column("id", "i32", 1, 2, struct.pack("<3q", 0, 2, 1) + b"\0" * 40 + b"\0" * 4, True)])
    refused(bench, lambda line: line.source.send(line.it, line.into, 1, 1, lie), "offsets that decrease")


@rule
def refuses_a_block_outside_its_slab(bench):
    def act(line):
        slab = bench.node.make(b"\0" * 64)
        line.source.send(line.it, line.into, 1, 1, body(2, [column("id", "i64", 1, 2, [slab, 2 << 20, 16])]))
    refused(bench, act, "a block outside its slab")


@rule
def refuses_a_status_that_cannot_be(bench):
    refused(bench, lambda line: line.sink.status(line.it, line.out, 9, 64, 0), "a status of more than was sent")


@rule
def refuses_a_status_that_is_done_with_more_than_came(bench):
    refused(bench, lambda line: line.sink.status(line.it, line.out, 0, 64, 1), "a status of more done than came")


@rule
def refuses_a_batch_that_the_run_does_not_have(bench):
    refused(bench, lambda line: line.source.send(line.it, line.into, 1, 5000, ids(2)), "batch 5000 of 1000")


@rule
def refuses_an_unknown_order(bench):
    refused(bench, lambda line: bench.order(1, "dance", 1), "an unknown order")


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
def refuses_parts_of_a_batch_that_do_not_agree(bench):
    def act(line):
        line.source.send(line.it, line.into, 1, 1, ids(2), part=0, parts=3)
        line.source.send(line.it, line.into, 1, 1, ids(2, 2, 2), part=1, parts=2)
    refused(bench, act, "parts of 3 and of 2")


@rule
def is_not_made_to_speak_to_others(bench):
    refused(bench, lambda line: bench.order(1, "trace", 5, "tcp://127.0.0.1:5555",
                                             [[], [], [], [], 1, [], 0, 1, 0, False, [3, 1000]]),
             "a trace to an address that is none of this user's")


@rule_for_programs
def refuses_a_version_without_weights(bench):
    line = Learner(bench, 1).up()
    line.writer.send(line.it, line.versions, 1, 0, b"")
    failed = bench.hear("failed")[0]
    check("update" in failed[3] and "weights" in failed[3], f"an empty version is reported as {failed}")
    alive(bench)
