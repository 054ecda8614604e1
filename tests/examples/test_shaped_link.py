#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows what shaped_link measures, and that nothing of it is left behind, however it ends.

Called with the script's path and that of gradients, whose ranks send as many bytes as its options say. Times are held
against the one thing that no machine can be too slow for: what the link lets through. Where no namespaces can be made
this ends with 77 and says why.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

SCRIPT = ""
PROGRAM = ""
MARK = "SHAPED_LINK_TEST"
BURST = 16384  # bytes that may pass at once after a pause, at the rates here
PATIENCE = 60  # seconds for what takes one


def marked(mark):
    """The processes that were started with that mark, as (id, network namespace)."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                    found.append((int(name), os.readlink(f"/proc/{name}/ns/net")))
        except OSError:  # ended meanwhile, or not ours to read
            pass
    return found


def namespaces():
    """Network namespaces that have a name, and links with the name of the shaped one."""
    names = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
    links = [name for name in os.listdir("/sys/class/net") if name == "shaped"]
    return sorted(names), links


class Case(unittest.TestCase):

    def setUp(self):
        self.mark = uuid.uuid4().hex
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.before = namespaces()

    def start(self, *arguments):
        environment = dict(os.environ, TMPDIR=self.directory.name, **{MARK: self.mark})
        return subprocess.Popen([SCRIPT, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=environment, text=True)

    def run_script(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate()
        self.check_nothing_left()
        return process.returncode, out, err

    def check_nothing_left(self):
        self.assertEqual(marked(self.mark), [])
        self.assertEqual(os.listdir(self.directory.name), [])
        self.assertEqual(namespaces(), self.before)


def wire_ms(steps, width, rate):
    """How long the link takes at least for the gradients of a run, in one direction."""
    return (steps * 3 * width * width * 4 - BURST) * 8 / rate / 1000


class Sweep(Case):

    def test_no_run_is_faster_than_the_link(self):
        status, out, err = self.run_script(
            "--rates", "10 20 mbit", "--", PROGRAM, "-n", "6", "-d", "64", "-s", "32", "-r", "1")
        self.assertEqual(status, 0, err)
        lines = [[field.strip() for field in line.strip("|").split("|")] for line in out.splitlines()]
        self.assertEqual(lines[0][:5], ["Mbit/s", "comm / compute", "serial, ms", "overlapped, ms", "bound, ms"])
        self.assertEqual([row[0] for row in lines[2:]], ["10", "20"])
        for row in lines[2:]:
            self.assertEqual(len(row), len(lines[0]))
            rate, _, serial, overlapped, bound, efficiency, *_ = map(float, row)
            self.assertGreaterEqual(serial, wire_ms(6, 64, rate))
            self.assertGreaterEqual(overlapped, wire_ms(6, 64, rate))
            self.assertAlmostEqual(efficiency, bound / overlapped, delta=0.02)

    def test_a_program_that_fails(self):
        status, _, err = self.run_script("--rates", "100", "--", PROGRAM, "--no-such-option")
        self.assertEqual(status, 1)
        self.assertIn("at 100 Mbit/s the program failed", err)

    def test_a_program_that_measures_nothing(self):
        status, _, err = self.run_script("--rates", "100", "--", "true")
        self.assertEqual(status, 1)
        self.assertIn("the program printed no", err)


class Stopped(Case):

    def wait_for_both_ends(self):
        until = time.monotonic() + PATIENCE
        own = os.readlink("/proc/self/ns/net")
        while len({space for _, space in marked(self.mark)} - {own}) < 2:
            self.assertLess(time.monotonic(), until, "the far end was never reached")
            time.sleep(0.05)

    def stop(self, number):
        process = self.start("--rates", "1", "--", PROGRAM, "-n", "1000", "-d", "64", "-s", "32")
        self.wait_for_both_ends()
        process.send_signal(number)
        process.communicate()
        return process.returncode

    def test_by_sigterm(self):
        self.assertEqual(self.stop(signal.SIGTERM), 128 + signal.SIGTERM)
        self.check_nothing_left()

    def test_by_sigint(self):
        self.assertEqual(self.stop(signal.SIGINT), 128 + signal.SIGINT)
        self.check_nothing_left()

    def test_by_sigkill(self):
        """Nobody is there to wait for the end of what it had started, and an empty directory stays."""
        self.assertEqual(self.stop(signal.SIGKILL), -signal.SIGKILL)
        until = time.monotonic() + PATIENCE
        while marked(self.mark):
            self.assertLess(time.monotonic(), until, "processes are left")
            time.sleep(0.05)
        self.assertEqual(namespaces(), self.before)


class Refused(Case):

    def test_rates(self):
        for rates in ("", "mbit", "fast", "0", "50 -1", "1.5", "1e3", "*", "100000", "50 mbit 60", "50mbit 60mbit"):
            with self.subTest(rates):
                status, out, err = self.run_script("--rates", rates, "--", "true")
                self.assertEqual((status, out), (2, ""))
                self.assertRegex(err, "no rate is in it|is not a whole number of Mbit/s")

    def test_command_lines(self):
        for arguments in (["--rates"], ["--rate", "1"], ["50"], ["--", "/nowhere/program"]):
            with self.subTest(arguments):
                status, out, err = self.run_script(*arguments)
                self.assertEqual((status, out), (2, ""))
                self.assertTrue(err.startswith("shaped_link: "), err)


def why_not():
    """Why no such link can be made here; None if it can."""
    result = subprocess.run([SCRIPT, "--rates", "1000", "--", "true"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    return result.stderr if result.returncode == 77 else None


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(2))
    SCRIPT = os.path.abspath(sys.argv.pop(1))
    if reason := why_not():
        sys.exit(print(reason.strip()) or 77)
    unittest.main()
