#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows what overlap_sim's command line accepts, prints and refuses.

Called with the program's path. Nothing here depends on how fast the machine is: times are compared with their
lower bounds only, which no machine may beat.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = ""
KEYS = [
    "microbatches", "compute_ms", "comm_ms", "window", "serial_bound_ms", "overlap_bound_ms", "serial_ms",
    "overlap_ms", "speedup", "efficiency",
]
QUICK = ["-c", "2", "-m", "1"]
FINE = {"COLUMNS": "400"}  # so that a hiccup of the machine leaves every operation a column of its own


def run(*arguments, **environment):
    """Runs the program with a clean environment; returns (exit status, stdout, stderr)."""
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "POSIXLY_CORRECT")}
    clean.update(environment)
    result = subprocess.run(
        [PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=clean, text=True, check=False)
    return result.returncode, result.stdout, result.stderr


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def rows(text):
    """The timeline's rows as (lane, columns), in the order printed."""
    return re.findall(r"^  (compute|comm) +\|(.*)\|$", text, re.MULTILINE)


class Json(unittest.TestCase):

    def measure(self, *arguments, **environment):
        status, out, err = run("--json", *arguments, **environment)
        self.assertEqual((status, err), (0, ""), arguments)
        pairs = json.loads(out, object_pairs_hook=list, parse_constant=refuse_constant)
        self.assertEqual([key for key, _ in pairs], KEYS)
        values = dict(pairs)
        self.check_sense(values)
        return values

    def check_sense(self, values):
        for key, value in values.items():
            self.assertIsInstance(value, (int, float), key)
            self.assertTrue(math.isfinite(value), key)
            self.assertGreaterEqual(value, 0, key)
        self.assertIsInstance(values["microbatches"], int)
        self.assertIsInstance(values["window"], int)
        n, c, m = values["microbatches"], values["compute_ms"], values["comm_ms"]
        overlap = n * max(c, m) + min(c, m) if n > 0 and values["window"] > 1 else n * (c + m)
        self.assertAlmostEqual(values["serial_bound_ms"], n * (c + m), places=5)
        self.assertAlmostEqual(values["overlap_bound_ms"], overlap, places=5)
        self.assertGreaterEqual(values["serial_ms"], values["serial_bound_ms"])
        self.assertGreaterEqual(values["overlap_ms"], values["overlap_bound_ms"])
        if values["overlap_ms"] > 0:
            self.assertAlmostEqual(values["speedup"], values["serial_ms"] / values["overlap_ms"], delta=2e-6 *
                                   max(1.0, values["speedup"]))
        if values["overlap_ms"] > 0 and n > 0:
            self.assertAlmostEqual(values["efficiency"], values["overlap_bound_ms"] / values["overlap_ms"],
                                   places=5)

    def test_defaults(self):
        values = self.measure()
        self.assertEqual([values[k] for k in KEYS[:3]], [8, 50, 30])
        self.assertEqual([values[k] for k in KEYS[4:6]], [640, 430])
        self.assertGreater(values["window"], 1)

    def test_short_and_long_options_mean_the_same(self):
        short = self.measure("-n", "3", "-c", "2", "-m", "1", "-w", "5")
        for arguments in (["--microbatches", "3", "--compute-ms", "2", "--comm-ms", "1", "--window", "5"],
                          ["--microbatches=3", "--compute-ms=2", "--comm-ms=1", "--window=5"],
                          ["-n3", "-c2", "-m1", "-w5"]):
            values = self.measure(*arguments)
            self.assertEqual([values[k] for k in KEYS[:6]], [short[k] for k in KEYS[:6]])
        self.assertEqual([short[k] for k in KEYS[:6]], [3, 2, 1, 5, 9, 7])

    def test_the_last_of_two_values_counts(self):
        self.assertEqual(self.measure("-n", "5", "-n", "2", *QUICK)["microbatches"], 2)

    def test_decimals(self):
        for text, ms in (("0.25", 0.25), (".5", 0.5), ("2.", 2), ("0002.50", 2.5), ("0.000001", 0.000001),
                         ("0.1234567", 0.123457), ("0.0000001", 0)):
            values = self.measure("-n", "2", "-c", text, "-m", "0")
            self.assertEqual(values["compute_ms"], ms, text)

    def test_nothing_to_do_is_legal(self):
        values = self.measure("-n", "0")
        self.assertEqual([values["serial_bound_ms"], values["overlap_bound_ms"], values["efficiency"]], [0, 0, 1])
        self.measure("-n", "0", "-c", "0", "-m", "0")
        self.measure("-n", "5", "-c", "0", "-m", "0")
        self.measure("-n", "5", "-c", "0", "-m", "1")
        self.measure("-n", "5", "-c", "1", "-m", "0")
        self.measure("-n", "1", *QUICK)

    def test_window(self):
        for window in (1, 2, 3, 65536):
            self.assertEqual(self.measure("-n", "5", "-w", str(window), *QUICK)["window"], window)

    def test_many_microbatches(self):
        self.assertEqual(self.measure("-n", "20000", "-c", "0", "-m", "0")["microbatches"], 20000)

    def test_virtual_time_is_theory(self):
        for n in (0, 1, 2, 3, 8, 1000):
            for compute, comm in ((50, 30), (30, 50), (7, 7), (0.25, 3600000), (0, 5), (5, 0), (0, 0)):
                values = self.measure("--virtual", "-n", str(n), "-c", str(compute), "-m", str(comm))
                self.assertEqual(values["serial_ms"], values["serial_bound_ms"])
                self.assertEqual(values["overlap_ms"], values["overlap_bound_ms"])
        values = self.measure("--virtual")
        self.assertEqual([values[k] for k in KEYS[4:8]], [640, 430, 640, 430])
        self.assertAlmostEqual(values["speedup"], 640 / 430, places=5)
        one_at_a_time = self.measure("--virtual", "-w", "1")
        self.assertEqual(one_at_a_time["overlap_ms"], 640)

    def test_one_pool_thread_is_enough(self):
        self.measure("-n", "4", *QUICK, UV_THREADPOOL_SIZE="1")

    def test_the_locale_does_not_matter(self):
        for locale in ("de_DE.UTF-8", "C", "nonsense"):
            self.measure("-n", "1", "-c", "1.5", "-m", "0.5", LC_ALL=locale)


class Refusals(unittest.TestCase):

    def refused(self, arguments, *words):
        status, out, err = run(*arguments)
        self.assertEqual((status, out), (2, ""), arguments)
        self.assertRegex(err, r"\A[^\n]+\n\Z", arguments)
        self.assertIn("overlap_sim", err)
        for word in words:
            self.assertIn(word, err, arguments)

    def test_times(self):
        bad = ["", " ", "x", "-1", "-0.5", "-.5", "+5", "nan", "inf", "-inf", "infinity", "0x10", "0x1p4", "1e3",
               "5ms", "5 ", " 5", "1,5", "1.2.3", ".", "-", "--", "3600001", "3600000.000001",
               "99999999999999999999999999", "1" * 400]
        for option, name in (("-c", "--compute-ms"), ("-m", "--comm-ms")):
            for value in bad:
                self.refused([option, value], name, f"'{value}'")
                self.refused([f"{name}={value}"], name, f"'{value}'")

    def test_counts(self):
        bad = ["", "x", "-1", "+1", "1.5", "1.", "1e3", "0x8", "8 ", " 8", "8x", "nan", "inf",
               "18446744073709551616", "18446744073709551615", "4294967296", "9" * 300]
        for value in bad + ["1000001"]:
            self.refused(["-n", value], "--microbatches", f"'{value}'")
        for value in bad + ["0", "65537", "1000000"]:
            self.refused(["-w", value], "--window", f"'{value}'")

    def test_unknown_options(self):
        self.refused(["--frobnicate"], "--frobnicate")
        self.refused(["-z"], "z")
        self.refused(["--json=yes"], "json")
        self.refused(["--com", "5"], "--com")

    def test_missing_values(self):
        self.refused(["-n"], "n")
        self.refused(["--window"], "window")

    def test_stray_arguments(self):
        self.refused(["8"], "'8'")
        self.refused(["-n", "2", "extra"], "'extra'")
        self.refused(["--", "-n"], "'-n'")
        self.refused([""], "''")

    def test_a_good_value_after_a_bad_one_does_not_help(self):
        self.refused(["-n", "x", "-n", "2"], "'x'")

    def test_the_largest_values_are_only_just_legal(self):
        for arguments in (["-n", "0", "-c", "3600000", "-m", "3600000.000"], ["-n", "0", "-w", "65536"]):
            self.assertEqual(run(*arguments)[0], 0, arguments)


class Files(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def show(self, *arguments):
        status, out, err = run(*arguments)
        self.assertEqual((status, err), (0, ""), arguments)
        return out

    def test_both_runs_are_in_both_files(self):
        for more in ([], ["--virtual"], ["--json"]):
            svg, trace = self.path("a 'drawing'.svg"), self.path("trace.json")
            self.show("-n", "4", *QUICK, "--svg", svg, f"--trace={trace}", *more)
            with open(trace, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            ops = [(e["pid"], e["name"], e["args"]["microbatch"]) for e in events if e["ph"] == "X"]
            self.assertEqual(sorted(ops), [(pid, name, i) for pid in (1, 2) for name in ("comm", "compute")
                                           for i in range(4)])
            names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
            self.assertEqual(names, {1: "serial", 2: "overlapped"})
            elements = xml.etree.ElementTree.parse(svg).iter()
            texts = [element.text or "" for element in elements if element.tag.endswith("text")]
            for name in ("serial: ", "overlapped: "):
                self.assertTrue(any(text.startswith(name) and ", bound " in text for text in texts))
            if more == ["--virtual"]:  # in a real one a hiccup of the machine leaves less room for each
                self.assertEqual(sum(text.isdigit() for text in texts), 16)

    def test_nothing_and_much(self):
        for n in ("0", "50000"):
            svg, trace = self.path("svg"), self.path("trace")
            self.show("--virtual", "-n", n, "--svg", svg, "--trace", trace)
            xml.etree.ElementTree.parse(svg)
            with open(trace, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            self.assertEqual(sum(e["ph"] == "X" for e in events), 4 * int(n))
            self.assertLess(os.path.getsize(svg), 500000)

    def test_a_file_that_cannot_be_opened_is_named_before_anything_runs(self):
        for option in ("--svg", "--trace"):
            for name in (self.path("no/such/directory"), self.directory.name):
                status, out, err = run("-n", "1", "-c", "3600000", option, name)
                self.assertEqual((status, out), (1, ""))
                self.assertRegex(err, r"\A[^\n]+\n\Z")
                self.assertIn(f"{option}: '{name}'", err)

    def test_a_full_disk_is_noticed(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("needs /dev/full")
        for option in ("--svg", "--trace"):
            for n in ("1", "5000"):
                status, _, err = run("--virtual", "--json", "-n", n, option, "/dev/full")
                self.assertEqual(status, 1)
                self.assertIn(f"{option}: '/dev/full': No space left", err)

    def test_names_that_make_no_sense(self):
        for arguments in (["--svg", ""], ["--trace="], ["--svg"], ["--trace"], ["--timeline=yes"],
                          ["--svg", self.path("same"), "--trace", self.path("same")]):
            status, out, err = run(*arguments)
            self.assertEqual((status, out), (2, ""), arguments)
            self.assertRegex(err, r"\A[^\n]+\n\Z", arguments)
        self.assertEqual(os.listdir(self.directory.name), [])

    def test_a_timeline_beside_json(self):
        status, out, err = run("--json", "--timeline", "-n", "2", "-c", "20", "-m", "15", **FINE)
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(out)["microbatches"], 2)
        self.assertEqual([lane for lane, _ in rows(err)], ["compute", "comm"] * 2)
        self.assertEqual(len(rows(self.show("--timeline", "-n", "2", *QUICK))), 4)


class Words(unittest.TestCase):
    """--explain: the library's words on the overlapped run."""

    def test_the_window_is_blamed_where_it_is_to_blame(self):
        status, out, err = run("-w", "1", "-n", "8", "-c", "30", "-m", "15", "--explain")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r'(?m)^lane "compute": busy ')
        self.assertRegex(out, r"(?m)^window-bound: .* raise the window of 1")
        self.assertRegex(out, r"(?m)^what if: window 1 -> 2 would bring 1\.[2-9]")

    def test_beside_json_the_words_are_on_stderr(self):
        status, out, err = run("--explain", "--json", *QUICK)
        self.assertEqual(status, 0)
        self.assertEqual(set(json.loads(out)), set(KEYS))
        self.assertIn("overlapped run: 8 microbatches", err)

    def test_a_simulation_is_not_explained(self):
        status, out, err = run("--explain", "--virtual")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("--virtual", err)


class Text(unittest.TestCase):

    def show(self, *arguments, **environment):
        status, out, err = run(*arguments, **environment)
        self.assertEqual((status, err), (0, ""), arguments)
        self.assertTrue(out.isascii())
        self.assertNotIn("\033", out)
        return out

    def test_help(self):
        for option in ("--help", "-h"):
            out = self.show(option)
            for name in ("--microbatches", "--compute-ms", "--comm-ms", "--window", "--json", "--timeline", "--svg",
                         "--trace", "--help"):
                self.assertIn(name, out)

    def test_everything_is_there(self):
        out = self.show("-n", "6", "-c", "20", "-m", "12.5")
        for words in ("6 microbatches", "compute 20 ms", "communication 12.5 ms", "window", "theory", "serial",
                      "overlapped", "speedup", "efficiency", "processor", "195.000", "132.500"):
            self.assertIn(words, out)

    def test_both_lanes_of_both_runs_show_each_microbatch_once_and_in_order(self):
        for n in (1, 2, 8, 10):
            drawn = rows(self.show("-n", str(n), "-c", "20", "-m", "15", **FINE))
            self.assertEqual([lane for lane, _ in drawn], ["compute", "comm"] * 2)
            for _, row in drawn:
                signs = re.sub(r"(.)\1*", r"\1", row.replace(" ", ""))
                self.assertEqual(signs, "0123456789"[:n])

    def test_the_serial_lanes_never_work_at_the_same_time(self):
        (_, compute), (_, comm) = rows(self.show("-c", "20", "-m", "20", **FINE))[:2]
        self.assertEqual([pair for pair in zip(compute, comm) if " " not in pair], [])

    def test_short_operations_are_seen(self):
        for _, row in rows(self.show("-n", "2", "-c", "40", "-m", "0", **FINE)):
            self.assertEqual(sorted(set(row) - {" "}), ["0", "1"])

    def test_many_microbatches_are_summed_up(self):
        out = self.show("-n", "3000", "-c", "0.02", "-m", "0.02")
        self.assertIn("several in one column", out)
        for _, row in rows(out):
            self.assertRegex(row, r"[.=#-]")

    def test_no_microbatches(self):
        for _, row in rows(self.show("-n", "0")):
            self.assertEqual(row.strip(), "")

    def test_width(self):
        for columns, width in (("", 80), ("60", 60), ("132", 132), ("10", 40), ("0", 80), ("-5", 80),
                               ("wide", 80), ("99999999999999999999", 400)):
            out = self.show("-n", "3", *QUICK, COLUMNS=columns)
            self.assertEqual({len(row) for _, row in rows(out)}, {width - 12}, columns)
            lines = [line for line in out.splitlines() if not line.startswith("  note:")]  # a sentence
            self.assertLessEqual(max(map(len, lines)), max(width, 60), columns)

    def test_no_colour_in_a_pipe_whatever_the_terminal(self):
        self.show("-n", "1", *QUICK, TERM="xterm-256color", COLORTERM="truecolor")


@unittest.skipUnless(os.name == "posix", "needs a pseudo-terminal")
class Terminal(unittest.TestCase):

    def show(self, **environment):
        import pty
        os.environ.pop("NO_COLOR", None)
        try:
            main, other = pty.openpty()
        except OSError as error:  # such as in a chroot without /dev/pts
            self.skipTest(f"needs a pseudo-terminal: {error}")
        with subprocess.Popen([PROGRAM, "-n", "2", *QUICK], stdin=subprocess.DEVNULL, stdout=other,
                              env={**os.environ, **environment}) as process:
            os.close(other)
            out = b""
            try:
                while chunk := os.read(main, 4096):
                    out += chunk
            except OSError:  # how Linux says that the other side is closed
                pass
        os.close(main)
        self.assertEqual(process.returncode, 0)
        return out

    def test_colour_on_a_terminal_alone(self):
        self.assertIn(b"\033[", self.show(TERM="xterm"))
        self.assertNotIn(b"\033", self.show(TERM="dumb"))
        self.assertNotIn(b"\033", self.show(TERM="xterm", NO_COLOR="1"))


class Output(unittest.TestCase):

    def test_a_full_disk_is_noticed(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("needs /dev/full")
        for arguments in (["--help"], ["--json", "-n", "1", *QUICK], ["-n", "1", *QUICK]):
            with open("/dev/full", "w", encoding="ascii") as full:
                result = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
                                        check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn("writing the output", result.stderr)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
