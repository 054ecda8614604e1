#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs tensor_parallel on several ranks: what it says for programs, its trace, and what becomes of ranks that fail.

Called with the paths of mpirun and of the program. Nothing here depends on how fast the machine is: a run that does not
end is stopped after a minute, and that is a failure.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

MPIRUN = ""
PROGRAM = ""
SMALL = ["-l", "2", "-s", "16", "-d", "32"]
FOR_THREE = ["-l", "2", "-s", "16", "-d", "48"]
PATIENCE = 60  # seconds; no run takes more than some
# For /bin/sh: rank 1's clock is ahead by so many seconds, in a time namespace of its own.
AHEAD = 1000
SKEWED = f'[ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 1 ] && exec unshare --time --monotonic {AHEAD} "$@"; exec "$@"'


def run(ranks, *arguments, launcher=(), prefix=()):
    """Returns mpirun's exit status, and what all ranks wrote to stdout and stderr."""
    result = subprocess.run(
        [MPIRUN, "-np", str(ranks), *launcher, *prefix, PROGRAM, *arguments], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    return result.returncode, result.stdout, result.stderr


def can_skew():
    """Whether there are time namespaces, and this user may have one."""
    try:
        subprocess.run(["unshare", "--time", "--monotonic", str(AHEAD), "true"], stderr=subprocess.DEVNULL, check=True)
        return True
    except (OSError, subprocess.CalledProcessError):
        return False


def is_open_mpi():
    result = subprocess.run([MPIRUN, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return "Open MPI" in result.stdout


def messages(err):
    """What the program itself said, by rank."""
    lines = [line.split(": ", 2) for line in err.splitlines() if line.startswith("tensor_parallel: rank ")]
    return {line[1]: line[2] for line in lines}


class Json(unittest.TestCase):

    def test_one_object(self):
        status, out, _ = run(2, "--json", "-r", "2", *SMALL)
        self.assertEqual(status, 0)
        values = json.loads(out)
        self.assertEqual((values["ranks"], values["repeat"], values["microbatches"]), (2, 2, 2))
        for key in ("exposed_ns", "hidden_ns", "cpu_ns", "serial_cpu_ns"):
            self.assertEqual(len(values[key]), 2, key)
        # A serial run takes no less than its ops, and what is predicted of the other no less than its busier lane.
        self.assertGreaterEqual(values["serial_ns"], values["serial_predicted_ns"])
        self.assertGreaterEqual(values["bound_ns"], max(values["compute_ns"], values["comm_ns"]))
        self.assertGreaterEqual(values["serial_predicted_ns"], values["bound_ns"])
        self.assertTrue(all(0 < hidden + exposed <= values["overlapped_ns"]
                            for hidden, exposed in zip(values["hidden_ns"], values["exposed_ns"])))


class Trace(unittest.TestCase):

    def trace(self, *arguments, prefix=()):
        """The ops of all ranks: by name, microbatch and rank, when they began and ended; and how exact that is. In us."""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "trace.json")
            status, out, err = run(2, "--json", "--trace", path, *SMALL, *arguments, prefix=prefix)
            self.assertEqual((status, messages(err)), (0, {}))
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(sorted(names.values()), ["rank 0", "rank 1"])
        ops = {(e["name"], e["args"]["microbatch"], names[e["pid"]]): (e["ts"], e["ts"] + e["dur"])
               for e in events if e["ph"] == "X"}
        return ops, json.loads(out)["clock_error_ns"] / 1000

    def check_ops(self, ops):
        expected = {(f"{what} {layer}.0", i, f"rank {rank}") for what in ("product", "reduction")
                    for layer in (0, 1) for i in (0, 1) for rank in (0, 1)}
        self.assertEqual(ops.keys(), expected)
        took = [[round(ended - begun, 3) for (_, _, rank), (begun, ended) in sorted(ops.items()) if rank == name]
                for name in ("rank 0", "rank 1")]
        self.assertNotEqual(*took)  # to the nanosecond: each rank has records of its own

    def check_causes(self, ops, error):
        """No rank has a sum before the other has begun to add to it."""
        for (name, microbatch, rank), (_, ended) in ops.items():
            if name.startswith("reduction"):
                other = "rank 1" if rank == "rank 0" else "rank 0"
                begun, _ = ops[name, microbatch, other]
                self.assertGreater(ended + error + 0.01, begun, (name, microbatch, rank))

    def test_all_ranks_in_one_file(self):
        ops, error = self.trace()
        self.check_ops(ops)
        self.check_causes(ops, error)

    @unittest.skipUnless(can_skew(), "no time namespace can be had")
    def test_on_one_clock_where_they_have_two(self):
        ops, error = self.trace(prefix=["sh", "-c", SKEWED, "sh"])
        self.assertLess(error, AHEAD * 1e6 / 2)
        self.check_ops(ops)
        self.check_causes(ops, error)

    def test_that_cannot_be_written(self):
        status, _, err = run(2, "--trace", "/nowhere/trace.json", *SMALL)
        self.assertNotEqual(status, 0)
        self.assertEqual(messages(err), {"rank 0": "writing the trace: no such file or directory"})


class Failures(unittest.TestCase):

    def test_an_error_reaches_all_ranks(self):
        for ranks, failing in ((2, 0), (2, 1), (3, 1)):
            # In the second layer, when something has been added up before.
            status, _, err = run(ranks, *FOR_THREE, "--fault", "error", "--fault-rank", str(failing), "--fault-op", "2")
            self.assertEqual(status, 1)
            said = messages(err)
            self.assertEqual(len(said), ranks, err)
            for rank in range(ranks):
                where = r"'product 1\.0' .* lane 'compute'" if rank == failing else r"'reduction 1\.0' .* lane 'link'"
                self.assertRegex(said[f"rank {rank}"], f"^{where}: i/o error$")

    def test_ranks_that_would_differ_do_not_start(self):
        """Two programs in one job: one cuts its products."""
        status, _, err = run(1, *SMALL, ":", "-np", "1", PROGRAM, *SMALL, "-c", "2")
        self.assertEqual(status, 1)
        said = messages(err)
        self.assertEqual(set(said), {"rank 0", "rank 1"})
        found = [re.fullmatch(r"its fingerprint is (\w+), and the ranks have from (\w+) to (\w+), so .*", text).groups()
                 for text in said.values()]
        self.assertEqual({own for own, _, _ in found}, {found[0][1], found[0][2]})
        self.assertEqual(found[0][1:], found[1][1:])

    def test_an_error_of_the_last_op_too(self):
        status, _, err = run(2, *SMALL, "--fault", "error", "--fault-op", "3")
        self.assertEqual(status, 1)
        self.assertEqual(set(messages(err)), {"rank 0", "rank 1"})

    def test_serialized_and_funneled(self):
        for level in ("serialized", "funneled"):
            status, _, err = run(2, *SMALL, "-q", "-t", level, "--fault", "error", "--fault-op", "1")
            self.assertEqual(status, 1)
            self.assertEqual(set(messages(err)), {"rank 0", "rank 1"})

    def test_who_waits_for_one_that_stands_still_ends(self):
        for level in ("multiple", "serialized", "funneled"):
            status, _, err = run(3, *FOR_THREE, "-t", level, "-T", "500", "--fault", "stopped", "--fault-op", "2",
                                 "--fault-rank", "1")
            self.assertNotEqual(status, 0)
            said = messages(err)
            # The first to say so ends the job, so the others may or may not; mpirun wakes the one that stood still.
            self.assertTrue(said)
            for text in said.values():
                self.assertRegex(text, "^'reduction .* lane 'link': an operation outlived its deadline$")

    def test_a_killed_rank_is_reported(self):
        """With mpirun told to let the others live, which by default it does not."""
        if not is_open_mpi():
            self.skipTest("only Open MPI's mpirun is known to do that")
        _, _, err = run(2, *SMALL, "-T", "500", "--fault", "killed", "--fault-op", "2", "--fault-rank", "1",
                        launcher=["--enable-recovery"])
        said = messages(err)
        self.assertEqual(set(said), {"rank 0"})
        self.assertRegex(said["rank 0"], "^'reduction .* lane 'link': an operation outlived its deadline$")

    def test_a_killed_rank_ends_the_job(self):
        status, _, _ = run(2, *SMALL, "--fault", "killed", "--fault-op", "2")
        self.assertNotEqual(status, 0)


class CommandLine(unittest.TestCase):

    def alone(self, *arguments):
        """Without mpirun. Exit status, stdout, stderr."""
        result = subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
        return result.returncode, result.stdout, result.stderr

    def test_words(self):
        self.assertEqual(self.alone("--threads", "many"), (
            2, "", "tensor_parallel: --threads: 'many' is none of multiple, serialized, funneled, single\n"))
        for level in ("multiple", "serialized", "funneled"):
            status, out, _ = self.alone(*SMALL, "-t", level, "--json")
            self.assertEqual((status, json.loads(out)["threads"]), (0, level))

    def test_too_few_threads_are_refused_in_words(self):
        status, out, err = self.alone(*SMALL, "-t", "single")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("MPI_THREAD_SINGLE", err)

    def test_what_cannot_be_split_is_refused_in_words(self):
        for ranks, arguments, why in ((1, ["-c", "5"], "number of chunks"), (3, [], "number of ranks"),
                                      (2, ["-q", "-s", "15"], "which share them")):
            status, _, err = run(ranks, *SMALL, *arguments)
            self.assertEqual(status, 1)
            self.assertIn(why, err)

    def test_help_tells_words_and_defaults(self):
        status, out, err = self.alone("--help")
        self.assertEqual((status, err), (0, ""))
        self.assertIn(": multiple, serialized, funneled, single (multiple)\n", out)
        self.assertRegex(out, r"--layers=L +layers, 1 to 256 \(4\)\n")
        self.assertRegex(out, r"-J, --json +prints one JSON object instead of tables\n")
        self.assertRegex(out, r"-o, --trace=FILE +writes the last run of all ranks there\n")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(2))
    MPIRUN = sys.argv.pop(1)
    unittest.main()
