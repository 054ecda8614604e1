#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads what libovl writes of a trace with a JSON and an XML parser that are not its own.

Called with the path of write_trace.
"""

import json
import os
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree
from decimal import Decimal

PROGRAM = ""
SVG = "{http://www.w3.org/2000/svg}"

ODD_NAMES = [
    b"plain", b"", b'"quoted" \\ and \'single\'', b"ends in a backslash \\", b'and a quote \\"', b"</script><!-- & ]]> %s %n", bytes(range(1, 32)),
    b"\x7f\xc2\x80\xc2\x9f", "comm \u00e9 \u4e2d \U0001f600 \u202e \ufffe \uffff \ufffd".encode(), b"\xff\xfe\x80", b"a\xc3",
    b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf", b"\xf4\x90\x80\x80\xf5\x80", b"\xf4\x8f\xbf\xbf",
    b"long " * 2000, b"\xe4" * 10000,
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


def in_xml(text):
    """The same, with U+FFFD for what XML 1.0 cannot hold."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "\ufffd", text)


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def refuse_doubles(pairs):
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise ValueError(f"a name stands twice: {names}")
    return dict(pairs)


def events_of(data):
    """The events of a file, by phase; times become whole nanoseconds."""
    whole = json.loads(data.decode(), parse_float=Decimal, parse_constant=refuse_constant,
                       object_pairs_hook=refuse_doubles)
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
        data = write("json", "names", *(name.hex() for name in ODD_NAMES))
        events = events_of(data)
        expected = [meant(name) for name in ODD_NAMES]
        self.assertEqual(names_of(events, "process_name"), {(1, None): expected[0]})
        self.assertEqual(names_of(events, "thread_name"), {(1, 1 + i): name for i, name in enumerate(expected) if name})
        # Perfetto looks only at the character before a quote to see whether that ends a string.
        self.assertNotIn(rb'\\"', data)
        self.assertEqual(sorted(e["name"] for e in events["X"]), sorted(3 * expected))

    def test_ops_to_the_nanosecond(self):
        events = events_of(write("json", "pair"))
        ops = {(e["pid"], e["name"], e["args"]["microbatch"]): e for e in events["X"]}
        self.assertEqual(len(ops), len(events["X"]))
        self.assertEqual(len(ops), 32)
        for i in range(8):
            for pid, name, start, duration in ((77, "compute", 8000 * i - 2001, 5000),
                                               (77, "comm", 8000 * i + 2999, 3000),
                                               (2, "compute", 5000 * i + 4 * 10**18 + 1, 5000),
                                               (2, "comm", 5000 * i + 4 * 10**18 + 5001, 3000)):
                op = ops[pid, name, i]
                self.assertEqual((op["ts"], op["dur"], op["cat"]), (start, duration, "op"))
                self.assertEqual((op["args"]["slot"], op["args"]["thread"], op["args"]["status"]), (i % 4, 0, 0))
        self.assertEqual(ops[2, "compute", 2]["args"]["waited_ns"], 10000)
        self.assertEqual(names_of(events, "process_name"), {(77, None): "serial", (2, None): "overlapped"})

    def test_how_many_are_in_flight(self):
        events = events_of(write("json", "pair"))
        serial = [(e["ts"] + 2001, e["args"]["microbatches"]) for e in events["C"] if e["pid"] == 77]
        self.assertEqual(serial, [(8000 * i, 1) for i in range(8)] + [(64000, 0)])
        overlap = [(e["ts"] - 4 * 10**18 - 1, e["args"]["microbatches"]) for e in events["C"] if e["pid"] == 2]
        self.assertEqual(overlap, [(0, 4)] + [(8000 + 5000 * i, 4) for i in range(4)] +
                         [(28000, 3), (33000, 2), (38000, 1), (43000, 0)])

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
        self.assertEqual(sorted(found), sorted(expected))

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
        failed = [(e["name"], e["args"]["microbatch"]) for e in events["X"] if e["args"]["status"] < 0]
        self.assertEqual(failed, [("wide", 1)])
        tracks = names_of(events, "thread_name")
        self.assertEqual({tracks[e["pid"], e["tid"]] == e["name"] for e in events["X"]}, {True})
        self.assertEqual({key for key in tracks}, {(e["pid"], e["tid"]) for e in events["X"]})
        where = {"first": {1}, "wide": {2, 3, 4}, "last": {5}}
        self.assertTrue(all(e["tid"] in where[e["name"]] and e["args"]["thread"] > 0 for e in events["X"]))
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


class Svg(unittest.TestCase):

    def parse(self, *arguments):
        data = write("svg", *arguments)
        root = xml.etree.ElementTree.fromstring(data)
        self.assertEqual(root.tag, SVG + "svg")
        for element in root.iter():
            self.assertFalse([a for a in element.attrib if "href" in a])
        self.assertNotIn(b"url(", data)
        self.check_frame(root)
        return root

    def check_frame(self, root):
        """Nothing lies outside of the page."""
        _, _, width, height = map(float, root.get("viewBox").split())
        for rect in root.iter(SVG + "rect"):
            x, y, w, h = (float(rect.get(key, 0)) for key in ("x", "y", "width", "height"))
            self.assertTrue(0 <= x and x + w <= width + 1 and 0 <= y and y + h <= height, rect.attrib)
        for text in root.iter(SVG + "text"):
            self.assertTrue(0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height, text.attrib)

    def boxes(self, root):
        """The ops' boxes: title, x and width."""
        groups = [(g.find(SVG + "title").text, g.find(SVG + "rect")) for g in root.iter(SVG + "g")]
        return [(title, float(rect.get("x")), float(rect.get("width"))) for title, rect in groups]

    def test_any_name(self):
        root = self.parse("names", *(name.hex() for name in ODD_NAMES))
        names = [in_xml(meant(name)) for name in ODD_NAMES]
        titles = [title.rsplit(", microbatch ", 1)[0] for title, _, _ in self.boxes(root)]
        self.assertEqual(sorted(titles), sorted(3 * names))
        labels = [text.find(SVG + "title") for text in root.iter(SVG + "text")]
        self.assertEqual([label.text or "" for label in labels if label is not None], names)
        self.assertLessEqual(max(len(text.text or "") for text in root.iter(SVG + "text")), 80)

    def test_both_runs_on_one_scale_with_their_bounds(self):
        root = self.parse("pair")
        texts = [text.text for text in root.iter(SVG + "text")]
        self.assertIn("serial: 64 us, bound 64 us", texts)
        self.assertIn("overlapped: 43 us, bound 43 us", texts)
        for label in ("0 ns", "10 us", "60 us", "compute", "comm"):
            self.assertIn(label, texts)
        boxes = self.boxes(root)
        self.assertEqual(len(boxes), 32)
        unit = 830 / 64000
        where = {title: x for title, x, _ in boxes[16:]}
        for i in range(8):
            title = f"comm, microbatch {i}: 3 us, from {5 * i + 5} us to {5 * i + 8} us"
            self.assertAlmostEqual(where[title], 150 + (5000 * i + 5000) * unit, delta=0.02)
        for title, _, width in boxes:
            self.assertAlmostEqual(width, (5000 if title.startswith("compute") else 3000) * unit, delta=0.02)
        bounds = [float(line.get("x1")) for line in root.iter(SVG + "line") if line.get("class") == "bound"]
        self.assertEqual([round(x - 150) for x in bounds], [830, round(43000 * unit)])
        numbers = [text.text for text in root.iter(SVG + "text") if text.get("class") == "n"]
        self.assertEqual(sorted(numbers), sorted(4 * "01234567"))

    def test_light_and_dark(self):
        style = self.parse("pair").find(SVG + "style").text
        self.assertIn("prefers-color-scheme:dark", style)

    def test_many_ops_are_drawn_together(self):
        data = write("svg", "many")
        self.assertLess(len(data), 200000)
        boxes = self.boxes(self.parse("many"))
        counts = [int(re.match(r"(\d+) ops of microbatches ", title).group(1)) for title, _, _ in boxes]
        self.assertEqual(sum(counts), 40000)
        busy = sum(float(re.search(r"busy for (.*) us$", title).group(1)) for title, _, _ in boxes)
        self.assertAlmostEqual(busy, 30000, delta=30)
        self.assertTrue(all(x + width <= 981 for _, x, width in boxes))

    def test_failed_ops_are_seen(self):
        root = self.parse("run", "3", "100")
        failed = [g.find(SVG + "title").text for g in root.iter(SVG + "g")
                  if "failed" in g.find(SVG + "rect").get("class")]
        self.assertEqual(len(failed), 1)
        self.assertIn("failed", failed[0])

    def test_what_came_first_may_be_missing(self):
        root = self.parse("run", "5000", "3")
        self.assertTrue(any("shown from" in text.text for text in root.iter(SVG + "text")))

    def test_nothing_is_a_drawing_too(self):
        for arguments in (("0", "10"), ("5", "0")):
            self.assertEqual(self.boxes(self.parse("run", *arguments)), [])


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
