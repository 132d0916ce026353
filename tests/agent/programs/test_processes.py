"""Names of processes, and what is followed of them; the parts of stack samples that processes write."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time

import pytest

from holter.agent.drain.clock import Clock
from holter.agent.drain.drain import Drain
from holter.agent.programs.processes import ProcessTree, program_name
from holter.agent.programs.pulse import Pulse
from holter.agent.programs.stacks import ProgramStacks
from holter.schema.programs import samples_name


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("trainer --token secret", "trainer"),
        ("python sim.py --password secret", "python sim.py"),
        ("python3.11 -u -X dev /home/user/sim.py 5", "python3.11 sim.py"),
        ("python -m package.train secret", "python -m package.train"),
        ("python -c import(secret)", "python -c"),
        ("python", "python"),
        ("bash -x ./train.sh secret", "bash train.sh"),
        ("Rscript fit.R", "Rscript fit.R"),
    ],
)
def test_a_process_is_named_by_program_and_script_alone(words, name):
    program, *arguments = words.split()
    assert program_name(program, arguments) == name


def test_processes_are_followed_with_what_they_used():
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]]); input()"
    burns = "import time\nuntil = time.process_time() + 0.3\nwhile time.process_time() < until: pass"
    with subprocess.Popen([sys.executable, "-c", script, burns], stdin=subprocess.PIPE) as child:
        tree = ProcessTree()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (tree.known and tree.busiest().children_s >= 0.25):
            tree.read([child.pid], [])
            time.sleep(0.05)
        busiest = tree.busiest()
        child.communicate(b"\n")
    assert busiest.pid == child.pid
    assert busiest.parent == os.getpid()
    assert busiest.python
    assert busiest.name.endswith(" -c")
    assert tree.cpu_s >= 0.3
    assert {one["pid"] for one in tree.told()} >= {child.pid}
    tree.read([child.pid], [])
    assert not any(one.alive for one in tree.known.values())
    assert tree.busiest() is None


def test_samples_become_rows_and_shares(tmp_path):
    key = "17-1000"
    (tmp_path / samples_name(key, 0)).write_text(
        "1000 5000 250\n3 60 1 <module> (sim.py:1);work (sim.py:4);dot (numpy/core.py:9)\n"
        "1 20 0 <module> (sim.py:8)\n1 20 -1 start (lib.py:3)\n"
    )
    (tmp_path / samples_name(key, 1)).write_text("broken\n")
    (tmp_path / samples_name("18-1", 0)).write_text("1 2 3\n")
    stacks = ProgramStacks(tmp_path, Drain(tmp_path, Clock.now()))
    (rows,) = stacks.take()
    assert rows["samples"] == [3, 1, 1]
    assert rows["self_time"] == [60, 20, 20]
    assert set(rows["phase"]) == {"program"}
    assert rows["duration"] == [4000] * 3
    (told,) = stacks.told()
    assert told["pid"] == 17
    assert [one["name"] for one in told["functions"]] == [
        "work (sim.py:4)",
        "<module> (sim.py:8)",
        "start (lib.py:3)",
    ]
    assert stacks.cost_ns == 253
    assert list(tmp_path.iterdir()) == []


def test_a_burst_reads_the_counters_of_a_process():
    script = """
import time
while True:
    with open('/dev/zero', 'rb') as file:
        file.read(1 << 16)
    time.sleep(0.05)
"""
    with subprocess.Popen([sys.executable, "-c", script]) as child:
        try:
            tree = ProcessTree()
            tree.read([child.pid], [])
            pulse = Pulse(tree.busiest)
            readings = []
            for _ in range(20):
                readings.append(pulse._read(child.pid))
                time.sleep(0.02)
        finally:
            child.kill()
    assert all(len(one) == 5 for one in readings)
    assert all(
        now >= before
        for old, new in itertools.pairwise(readings)
        for before, now in zip(old, new, strict=True)
    )
    assert readings[-1][1] > readings[0][1]
    assert pulse._read(child.pid) is None
