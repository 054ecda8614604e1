#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads what libovl writes of a trace with a JSON parser that is not its own.

Called with the path of write_trace.
"""

import json
import os
import subprocess
import sys
import unittest
from decimal import Decimal

PROGRAM = ""

ODD_NAMES = [
    b"plain", b"", b'"quoted" \\ and \'single\'', b"</script><!-- & ]]> %s %n", bytes(range(1, 32)), b"\x7f\xc2\x80\xc2\x9f",
    "comm \u00e9 \u4e2d \U0001f600 \u202e \ufffe \uffff \ufffd".encode(), b"\xff\xfe\x80", b"a\xc3", b"\xe2\x82", b"\xed\xa0\x80",
    b"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf", b"\xf4\x90\x80\x80\xf5\x80", b"\xf4\x8f\xbf\xbf", b"long " * 2000, b"\xe4" * 10000,
]


def write(form, *arguments):
    """What the program writes."""
    return subprocess.run([PROGRAM, form, *arguments], stdout=subprocess.PIPE, check=True).stdout


def meant(name):
    """The name, with U+FFFD for each byte that is no part of a character."""
    text = ""
    while name:
        for length in (1, 2, 3, 4):
            try:
                text += name[:length].decode()
                break
            except UnicodeDecodeError:
                pass
        else:
            text, length = text + "\ufffd", 1
        name = name[length:]
    return text


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def refuse_doubles(pairs):
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise ValueError(f"a name stands twice: {names}")
    return dict(pairs)


def events_of(data):
    """The events of a file, by phase; times become whole nanoseconds."""
    whole = json.loads(data.decode(), parse_float=Decimal, parse_constant=refuse_constant, object_pairs_hook=refuse_doubles)
    phases = {phase: [] for phase in "MXsfC"}
    for event in whole["traceEvents"]:
        for key in ("ts", "dur"):
            if key in event:
                event[key] = int(event[key] * 1000)
        phases[event["ph"]].append(event)
    return phases


def names_of(events, kind):
    """What metadata calls each (process, track)."""
    return {(e["pid"], e.get("tid")): e["args"]["name"] for e in events["M"] if e["name"] == kind}


class Json(unittest.TestCase):

    def test_any_name(self):
        events = events_of(write("json", "names", *(name.hex() for name in ODD_NAMES)))
        expected = [meant(name) for name in ODD_NAMES]
        self.assertEqual(names_of(events, "process_name"), {(1, None): expected[0]})
        self.assertEqual(names_of(events, "thread_name"), {(1, 1 + i): name for i, name in enumerate(expected)})
        self.assertEqual(sorted(e["name"] for e in events["X"]), sorted(3 * expected))

    def test_ops_to_the_nanosecond(self):
        events = events_of(write("json", "pair"))
        ops = {(e["pid"], e["name"], e["args"]["microbatch"]): e for e in events["X"]}
        self.assertEqual(len(ops), len(events["X"]))
        self.assertEqual(len(ops), 32)
        for i in range(8):
            for pid, name, start, duration in ((1, "compute", 8000 * i - 2001, 5000), (1, "comm", 8000 * i + 2999, 3000),
                                               (77, "compute", 5000 * i + 4 * 10**18 + 1, 5000),
                                               (77, "comm", 5000 * i + 4 * 10**18 + 5001, 3000)):
                op = ops[pid, name, i]
                self.assertEqual((op["ts"], op["dur"], op["cat"]), (start, duration, "op"))
                self.assertEqual((op["args"]["slot"], op["args"]["thread"], op["args"]["status"]), (i % 4, 0, 0))
        self.assertEqual(ops[77, "compute", 2]["args"]["waited_ns"], 10000)
        self.assertEqual(names_of(events, "process_name"), {(1, None): "serial", (77, None): "overlapped"})

    def test_how_many_are_in_flight(self):
        events = events_of(write("json", "pair"))
        serial = [(e["ts"] + 2001, e["args"]["microbatches"]) for e in events["C"] if e["pid"] == 1]
        self.assertEqual(serial, [(8000 * i, 1) for i in range(8)] + [(64000, 0)])
        overlap = [(e["ts"] - 4 * 10**18 - 1, e["args"]["microbatches"]) for e in events["C"] if e["pid"] == 77]
        self.assertEqual(overlap, [(0, 4)] + [(8000 + 5000 * i, 4) for i in range(4)] + [(28000, 3), (33000, 2), (38000, 1), (43000, 0)])

    def check_flows(self, events, expected):
        """Each arrow leads from a time inside an op to the start of one that waited for it."""
        ends = [{e["id"]: e for e in events[phase]} for phase in "sf"]
        self.assertEqual(ends[0].keys(), ends[1].keys())
        self.assertEqual([len(events[phase]) for phase in "sf"], [len(ends[0])] * 2)
        found = []
        for key, start in ends[0].items():
            pair = []
            for end in (start, ends[1][key]):
                pair.append([e for e in events["X"] if (e["pid"], e["tid"]) == (end["pid"], end["tid"])
                             and e["ts"] <= end["ts"] < e["ts"] + max(e["dur"], 1)])
            found.append(tuple(tuple((e["name"], e["args"]["microbatch"]) for e in ops) for ops in pair))
        if expected is not None:
            self.assertEqual(sorted(found), sorted(expected))
        return found

    def test_arrows_are_the_dependencies(self):
        events = events_of(write("json", "pair"))
        self.check_flows(events, 2 * [((("compute", i),), (("comm", i),)) for i in range(8)])
        self.assertEqual(len({e["id"] for e in events["s"]}), 16)

    def test_a_real_run(self):
        """Microbatch 1 fails in `wide`, so that its `last` does not run."""
        events = events_of(write("json", "run", "20", "1000"))
        self.assertEqual(names_of(events, "process_name"), {(1, None): "libovl"})
        ops = [(e["name"], e["args"]["microbatch"]) for e in events["X"]]
        self.assertEqual(sorted(ops), sorted([(name, i) for i in range(20) for name in ("first", "wide", "last")
                                              if (name, i) != ("last", 1)]))
        failed = [(e["name"], e["args"]["microbatch"], e["args"]["status"] < 0) for e in events["X"] if e["args"]["status"]]
        self.assertEqual(failed, [("wide", 1, True)])
        tracks = names_of(events, "thread_name")
        self.assertEqual({tracks[e["pid"], e["tid"]] == e["name"] for e in events["X"]}, {True})
        self.assertEqual({key for key in tracks}, {(e["pid"], e["tid"]) for e in events["X"]})
        self.assertTrue(all(1 <= e["tid"] <= 5 and e["args"]["thread"] > 0 for e in events["X"]))
        ids = {e["id"] for e in events["s"]}
        self.assertEqual(ids, {e["id"] for e in events["f"]})
        # first -> wide, wide -> last, and by two microbatches first -> last, last -> last
        self.assertEqual(len(ids), 20 + 19 + 18 + 18 - 1)
        self.assertEqual([e["args"]["microbatches"] for e in events["C"]][-1], 0)
        self.assertTrue(all(0 <= e["args"]["microbatches"] <= 4 for e in events["C"]))

    def test_on_each_track_one_op_follows_the_other(self):
        events = events_of(write("json", "run", "300", "1000"))
        tracks = {}
        for e in events["X"]:
            tracks.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"]))
        for ops in tracks.values():
            ops.sort()
            for before, after in zip(ops, ops[1:]):
                self.assertLessEqual(before[1], after[0])

    def test_arrows_from_what_was_dropped_are_not_there(self):
        events = events_of(write("json", "run", "50", "7"))
        self.assertEqual(len(events["X"]), 7)
        self.assertEqual([len(events[phase]) for phase in "sf"], [len({e["id"] for e in events["s"]})] * 2)
        self.assertEqual({e["id"] for e in events["s"]}, {e["id"] for e in events["f"]})

    def test_nothing_is_a_file_too(self):
        for arguments in (("0", "10"), ("5", "0")):
            events = events_of(write("json", "run", *arguments))
            self.assertEqual([len(events[phase]) for phase in "MXsfC"], [1, 0, 0, 0, 0])

    def test_many(self):
        self.assertEqual(len(events_of(write("json", "many"))["X"]), 40000)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
