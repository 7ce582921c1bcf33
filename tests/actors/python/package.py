"""Tests of the package's parts, against what was not made by it: struct, msgpack, and figures from the C side."""

import functools
import math
import os
import random
import struct
import subprocess
import sys
import unittest

import msgpack
import numpy

import verl
from verl import _batch, _made, _plan, _program, _stage, _wire
from verl._wire import Malformed


def offsets(*values):
    data = struct.pack(f"<{len(values)}q", *values)
    return data + b"\0" * (-len(data) % 64)


def packed(rows, columns, first=0, row_map=None):
    return msgpack.packb([1, rows, first, row_map, columns], use_bin_type=True)


class Batches(unittest.TestCase):
    def test_what_was_made_is_in_the_form_that_batch_h_describes(self):
        made = _made.Made(None, -1, 0)
        made.add("a", _made.parse_type("i64[n]"), [1, -2])
        made.add("r", _made.parse_type("f32[n,*]"), [[0.5], [1.5, 2.5]])
        made.add("t", _made.parse_type("text"), ["é", b"\xff"])
        made.add("w", _made.parse_type("u8[n,2]"), [[1, 2], [3, 4]])
        form, rows, first, row_map, columns = msgpack.unpackb(made.pack(list("artw"), list("ARTW"), False), raw=False)
        self.assertEqual((form, rows, first, row_map), (1, 2, 0, None))
        self.assertEqual(columns[0], ["A", "i64", False, 1, 2, struct.pack("<2q", 1, -2)])
        self.assertEqual(columns[1], ["R", "f32", True, 1, 2, offsets(0, 1, 3) + struct.pack("<3f", 0.5, 1.5, 2.5)])
        self.assertEqual(columns[2], ["T", "text", True, 1, 2, offsets(0, 2, 3) + "é".encode() + b"\xff"])
        self.assertEqual(columns[3], ["W", "u8", False, 2, 2, bytes([1, 2, 3, 4])])

    def test_a_packed_batch_is_seen_as_numpy(self):
        body = packed(3, [["i", "i32", False, 1, 3, struct.pack("<3i", 7, 8, 9)],
                          ["r", "i32", True, 1, 3, offsets(0, 2, 2, 3) + struct.pack("<3i", 1, 2, 3)],
                          ["t", "text", True, 1, 3, offsets(0, 1, 1, 3) + b"abc"]])
        stored = _batch.unpack_batch(body, None)
        i, r, t = (_batch.see(stored.columns[name], None, 0, 3) for name in "irt")
        self.assertEqual(i.tolist(), [7, 8, 9])
        self.assertFalse(i.flags.writeable)
        self.assertEqual([row.tolist() for row in r], [[1, 2], [], [3]])
        self.assertEqual(r[-1].tolist(), [3])
        self.assertEqual(list(t), ["a", "", "bc"])
        self.assertEqual(t[0:2], ["a", ""])
        with self.assertRaises(IndexError):
            r[3]

    def test_a_column_behind_a_map_is_that_of_the_stored_rows(self):
        body = packed(3, [["r", "i32", True, 1, 3, offsets(0, 2, 2, 3) + struct.pack("<3i", 1, 2, 3)]])
        stored = _batch.unpack_batch(body, None)
        outer = numpy.array([2, 2, 0, 1], numpy.int32)
        index = _batch.follow([outer], 1, 3, 3, "r")
        seen = _batch.see(stored.columns["r"], index, 1, 3)
        self.assertEqual([row.tolist() for row in seen], [[3], [1, 2], []])
        self.assertEqual(seen.lengths.tolist(), [1, 2, 0])
        self.assertEqual(seen.offsets.tolist(), [0, 1, 3, 3])
        self.assertEqual(seen.data.tolist(), [3, 1, 2])
        self.assertEqual([row.tolist() for row in seen], [[3], [1, 2], []])
        with self.assertRaises(Malformed):
            _batch.follow([outer], 2, 3, 3, "r")
        with self.assertRaises(Malformed):
            _batch.follow([outer], 0, 2, 2, "r")

    def test_parts_are_joined_to_the_whole(self):
        one = _batch.unpack_batch(packed(1, [["r", "u8", True, 1, 1, offsets(0, 2) + b"ab"]], 0), None)
        two = _batch.unpack_batch(packed(2, [["r", "u8", True, 1, 2, offsets(0, 0, 1) + b"c"]], 1), None)
        whole = _batch.concat([one, two])
        self.assertEqual(whole.rows, 3)
        self.assertEqual([bytes(row) for row in _batch.see(whole.columns["r"], None, 0, 3)], [b"ab", b"", b"c"])
        with self.assertRaises(Malformed):
            _batch.concat([two, one])

    def test_no_damaged_batch_is_believed_or_crashes(self):
        body = packed(3, [["i", "i32", False, 1, 3, struct.pack("<3i", 7, 8, 9)],
                          ["r", "i32", True, 2, 3, offsets(0, 2, 2, 3) + b"\0" * 24]], 4, struct.pack("<3i", 0, 1, 1))
        stream = random.Random(5)
        refused = 0
        for _ in range(20000):
            damaged = bytearray(body)
            for _ in range(stream.randint(1, 3)):
                damaged[stream.randrange(len(damaged))] = stream.randrange(256)
            try:
                end = stream.choice([len(damaged), stream.randrange(len(damaged))])
                stored = _batch.unpack_batch(bytes(damaged[:end]), None)
                for column in stored.columns.values():
                    for row in range(stored.rows) if column.offsets is not None else ():
                        _batch.see(column, None, 0, stored.rows)[row].sum()
            except Malformed:
                refused += 1
        self.assertGreater(refused, 10000)

    def test_what_cannot_be_a_column_is_refused_by_name(self):
        cases = [("i32[n]", [1.5], "float64"), ("u8[n]", [300], "cannot hold"), ("i64[n]", 3, "one value"),
                 ("text", "one", "one text"), ("f32[n,3]", [[1, 2]], "rows of 3"), ("f32[n]", ["1"], "given text"),
                 ("u8[n]", [-1], "cannot hold"), ("i32[n]", [1 << 31], "cannot hold"), ("i64[n]", [1 << 64], "object"),
                 ("i32[n]", [None, 1], "object"), ("i32[n]", [math.nan], "float64"), ("f32[n]", [1e39], "cannot hold"),
                 ("bf16[n]", [1, 2], "int64 where uint16"),
                 ("text", ["a", 1], "'c', row 1, was given int where text"),
                 ("text", [None], "row 0, was given NoneType"),
                 ("text", [numpy.array([7, 8])], "row 0, was given ndarray"), ("text", {"a": 1}, "a dict"),
                 ("text", 3, "one text"),
                 ("i32[n,*]", [[1], 2], "row 1, was given one value"),
                 ("i32[n,*]", [[1], [0.5]], "row 1, was given float64"),
                 ("i32[n,*]", {3, 4}, "a set"), ("i32[n,*]", [[[1, 2]]], r"row 0, has shape \(1, 2\)"),
                 ("f32[n,*,2]", [[[1, 2]], [3, 4]], r"row 1, has shape \(2,\)")]
        for text, value, words in cases:
            with self.assertRaisesRegex(ValueError, words):
                _made.Made(None, -1, 0).add("c", _made.parse_type(text), value)
        for text, asked, words in [("f32[n]", 2.5, "2.5: a number of rows"), ("f32[n]", -1, "number of rows"),
                                   ("f32[n,*]", [3, -1], "0 or more"), ("f32[n,*]", [[3]], "one number a row")]:
            with self.assertRaisesRegex(ValueError, words):
                _made.Made(None, -1, 0).empty("c", _made.parse_type(text), asked)
        made = _made.Made(None, -1, 0)
        made.add("a", _made.parse_type("f32[n]"), [1, 2])
        with self.assertRaisesRegex(ValueError, "'b' has 3 rows"):
            made.add("b", _made.parse_type("f32[n]"), [1, 2, 3])
        with self.assertRaisesRegex(ValueError, "not given"):
            _made.Made(None, -1, 0).set_map([0, 4], 4, 0)


    def test_what_is_meant_well_is_a_column(self):
        cases = [("f32[n]", [math.inf, math.nan], struct.pack("<2f", math.inf, math.nan)),
                 ("u8[n]", [True, 0], b"\1\0"),
                 ("f32[n,*,2]", [[], [[1, 2]]], offsets(0, 0, 1) + struct.pack("<2f", 1, 2)),
                 ("text", (word for word in ("a", bytearray(b"b"))), offsets(0, 1, 2) + b"ab"),
                 ("text", numpy.array(["a", "b"]), offsets(0, 1, 2) + b"ab")]
        for text, value, memory in cases:
            made = _made.Made(None, -1, 0)
            made.add("c", _made.parse_type(text), value)
            self.assertEqual(made.columns["c"].place, memory)


class Frames(unittest.TestCase):
    message = [1, 1, 3, 4, 5, 6, 7, 8, 0, 1, 9, b"body"]

    def test_messages_behind_each_other_are_read(self):
        frame = msgpack.packb(self.message, use_bin_type=True) * 2
        found = list(_wire.read_frame(frame))
        self.assertEqual(len(found), 2)
        self.assertEqual([1] + list(found[0]), self.message)
        self.assertEqual(_wire.write(found[0]), frame[:len(frame) // 2])

    def test_no_damaged_frame_is_believed_or_crashes(self):
        frame = msgpack.packb(self.message, use_bin_type=True)
        stream = random.Random(6)
        for _ in range(20000):
            damaged = bytearray(frame)
            damaged[stream.randrange(len(damaged))] = stream.randrange(256)
            try:
                for one in _wire.read_frame(bytes(damaged)):
                    self.assertTrue(1 <= one.type <= 4 and isinstance(one.body, bytes))
                    self.assertTrue(one.type != 1 or (one.seq > 0 and 0 <= one.part < one.parts))
            except Malformed:
                pass
        for field in range(12):
            for value in (None, True, 1.5, "x", [], {}, -1 << 63, (1 << 64) - 1):
                wrong = list(self.message)
                wrong[field] = value
                try:
                    list(_wire.read_frame(msgpack.packb(wrong, use_bin_type=True)))
                except Malformed:
                    pass

    def test_counts_that_are_not_there_take_no_memory(self):
        for head in (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 100000):
            with self.assertRaises(Malformed):
                list(_wire.read_frame(head))
            with self.assertRaises(Malformed):
                _batch.unpack_batch(head, None)


class Spans(unittest.TestCase):
    def test_spans_count_as_their_definition_says(self):
        for period, begin, closing in [(1, 0, False), (3, 0, True), (4, 5, True), (7, 100, False), (7, 100, True)]:
            span = _plan.Span(period, begin, closing)
            steps = 40
            works = [k for k in range(steps) if k % period == 0 and k >= begin] + ([steps] if closing else [])
            for k in range(-2, steps + 3):
                self.assertEqual(span.has(steps, k), k in works)
                self.assertEqual(span.next(steps, k), next((w for w in works if w > k), -1))
                self.assertEqual(span.previous(steps, k), max((w for w in works if w < k), default=-1), (span, k))
                self.assertEqual(span.ordinal(steps, k), sum(w < k for w in works), (span, k))


class Stages(unittest.TestCase):
    def test_a_seed_is_the_one_of_a_stage_in_c(self):
        # fnv-1a of the name, mixed with the run's seed by the finalizer of splitmix64, worked out by hand
        value = 0xCBF29CE484222325
        for letter in b"reward":
            value = (value ^ letter) * 0x100000001B3 % (1 << 64)
        value ^= 7 + 0x9E3779B97F4A7C15
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            value = (value ^ value >> shift) * factor % (1 << 64)
        self.assertEqual(_stage.stage_seed(7, "reward"), value ^ value >> 31)

    def test_metrics_are_reduced_by_their_name(self):
        for name, expected in (("a/mean", (7.0, 3.0)), ("a/max", (3.0, 1.0)), ("a/min", (2.0, 1.0)),
                               ("a/sum", (5.0, 1.0))):
            metric = _stage.Metric(name)
            metric.add(3, 1)
            metric.add(2, 2)
            self.assertEqual((metric.value, metric.weight), expected)
        metric = _stage.Metric("x/max")
        metric.add(1, 1)
        metric.add(math.nan, 1)
        self.assertTrue(math.isnan(metric.value))

    def test_options_have_the_type_of_their_default(self):
        declared = {"a": 1.0, "b": verl.option("x", choices=["x", "y"]), "c": verl.option(3, min=0, max=5)}
        kind = _program.make_stage(lambda batch: None, "s", [], [], declared, False, False, False)
        options = _program.fill_options(kind, {"a": 2, "b": "y"})
        self.assertEqual((options.a, options.b, options["c"]), (2.0, "y", 3))
        self.assertIsInstance(options.a, float)
        for wrong in ({"a": "1"}, {"b": "z"}, {"c": 6}, {"c": 1.5}, {"d": 1}, {"c": True}):
            with self.assertRaises(ValueError):
                _program.fill_options(kind, wrong)

    def test_a_handler_takes_the_batch_and_perhaps_the_stage(self):
        for handler in (lambda: None, lambda a, b, c: None):
            with self.assertRaises(TypeError):
                _program.make_stage(handler, "s", [], [], {}, False, False, False)

    def test_a_handler_is_whatever_can_be_called(self):
        class Judge:
            def __call__(self, batch, stage):
                return {}

            def load(self, options):
                pass

        self.assertEqual(_program.make_stage(Judge(), "s", [], [], {}, False, False, False).arguments, 2)
        partial = functools.partial(lambda scale, batch: None, 2)
        self.assertEqual(_program.make_stage(partial, "s", [], [], {}, False, False, False).arguments, 1)
        with self.assertRaisesRegex(TypeError, "name="):
            _program.make_stage(partial, None, [], [], {}, False, False, False)
        self.assertTrue(_program.takes_argument(Judge().load))
        self.assertTrue(_program.takes_argument(functools.partial(lambda scale, options: None, 2)))
        self.assertFalse(_program.takes_argument(functools.partial(lambda options: None, 2)))
        self.assertFalse(_program.takes_argument(lambda: None))

    def said(self):
        found = []
        stage = _stage.Stage("s", _program.Options(), 1, 2, {}, lambda body, batch: found.append(body), lambda: False)
        return stage, found

    def test_what_a_stage_says_is_as_the_director_takes_it(self):
        stage, found = self.said()
        stage.log("one\0two\nthree")
        stage.log("é" * 1000)
        stage.loaded("a\0" * 300, math.inf)
        stage.loaded("b", -1)
        stage.sample("\0p\ud800", 3, 0.5)
        self.assertEqual(found[0], ["log", "s", "one two\nthree"])
        self.assertEqual(found[1][2], "é" * 500)
        self.assertEqual(found[2][3], "a " * 100)
        self.assertTrue(0 <= found[2][4] < 1e9 and found[3][4] == 0)
        self.assertEqual(found[4][3:5], [" p?", "3"])
        for body in found:
            msgpack.packb(body, use_bin_type=True)
        for done, expected in ((0.25, 0.25), (math.nan, 0.0), (7, 1.0), (-1, 0.0)):
            stage.progress(done)
            self.assertEqual(stage.progressed, expected)

    def test_a_metric_with_a_wrong_name_or_weight_fails_its_handler(self):
        stage, _ = self.said()
        stage.metric("é" * 100, 1)
        for name in ("", "a\0b", "a\nb", 'a"b', "x" * 201, 3):
            with self.assertRaisesRegex(verl.Failure, "a metric is called"):
                stage.metric(name, 1)
        for weight in (-1, math.nan, math.inf):
            with self.assertRaisesRegex(verl.Failure, "0 or more"):
                stage.metric("good", 1, weight)

    def described(self, before, after=""):
        """Status and last words of a program that is asked what it declares."""
        code = (f"import sys\n{before}\nimport verl\n@verl.stage(needs=['a'], gives=['b'])\ndef s(batch): return {{}}\n"
                f"verl.main()\n{after}\n")
        ended = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, VERL_DESCRIBE="1"),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        return ended.returncode, ended.stderr

    def test_a_program_describes_itself_without_loading_numpy_and_zmq(self):
        self.assertEqual(self.described("", "sys.exit('numpy' in sys.modules or 'zmq' in sys.modules)"), (0, ""))

    def test_a_program_whose_actor_would_lack_a_package_says_so_when_it_is_asked(self):
        for name in ("zmq", "msgpack", "numpy"):
            status, words = self.described(f"sys.modules['{name}'] = None")
            self.assertEqual(status, 1)
            self.assertIn(f"the Python package verl needs {name}: pip install", words)

    def test_a_program_started_by_hand_says_what_it_is(self):
        code = "import verl; verl.main()"
        self.assertNotEqual(os.system(f"'{sys.executable}' -c '{code}' 2> /dev/null"), 0)


class Plans(unittest.TestCase):
    def weighty(self, weights_edge, edges, period=2):
        actor = ["it", "command", {}, 0, 1, 0, "cpu", 0.0, 0.0, 1, 1]
        rest = [0.0, [], -1, [], [], [], [], 1, 1]
        writer = ["update", 0, "run", {}, period, 0, False, True, False, 0, 1, -1, False, 0] + rest
        reader = ["watch", 0, "run", {}, 1, 0, False, True, False, 1, 1, -1, False, 0] + rest
        reader[16] = weights_edge
        return _plan.Plan(msgpack.packb([1, 3, "n", "/f", 10, 7, 4, 1 << 20, 0, 1, 60.0, [actor], [writer, reader],
                                         edges], use_bin_type=True))

    def test_the_version_of_a_batch_follows_from_its_number(self):
        plan = self.weighty(0, [[0, 1, True, 3, False, []]])
        self.assertEqual((plan.edges[0].weights, plan.edges[0].staleness), (True, 3))
        # updates are made at 0, 2, 4 ...: batch k is worked with the last one before k - 3
        self.assertEqual([plan.version(0, 3, k) for k in range(9)], [-1, -1, -1, -1, 0, 0, 2, 2, 4])
        self.assertEqual([plan.version(0, 0, k) for k in range(4)], [-1, 0, 0, 2])

    def test_weights_come_by_the_edge_that_the_stage_names(self):
        data, weights = [0, 1, False, 0, False, []], [0, 1, True, 1, False, []]
        for edge, edges in ((-1, [weights]), (0, [data]), (0, [weights, weights]), (1, [weights])):
            with self.assertRaisesRegex(Malformed, "weights of stage watch"):
                self.weighty(edge, edges)

    def test_no_damaged_table_is_believed_or_crashes(self):
        actor = ["it", "command", {"command": ["x"]}, 0, 1, 0, "cpu", 0.0, 0.0, 1, 1]
        stage = ["a", 0, "run", {}, 1, 0, False, True, False, 0, 1, -1, False, 0, 0.0, [], -1, [], ["x"], ["x"],
                 ["f32[n]"], 1, 1]
        reader = ["b", 0, "run", {}, 1, 0, False, False, False, 0, 1, -1, False, 0, 0.0, [0], -1, [["x", 0, "x", []]],
                  [], [], [], 1, 1]
        whole = msgpack.packb([1, 3, "n", "/f", 10, 7, 4, 1 << 20, 0, 1, 60.0, [actor], [stage, reader],
                               [[0, 1, False, 0, False, ["x"]]]], use_bin_type=True)
        plan = _plan.Plan(whole)
        self.assertEqual((plan.revision, plan.steps, plan.stages[1].needs[0].edge), (3, 10, 0))
        stream = random.Random(8)
        for _ in range(20000):
            damaged = bytearray(whole)
            for _ in range(stream.randint(1, 2)):
                damaged[stream.randrange(len(damaged))] = stream.randrange(256)
            try:
                _plan.Plan(bytes(damaged))
            except Malformed:
                pass


if __name__ == "__main__":
    unittest.main()
