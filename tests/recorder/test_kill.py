"""SIGKILL at any moment: every finished span is there, and the unfinished ones say where it died."""

import mmap
import random
import signal
import struct
import subprocess
import sys
import time

import pytest
from tests.recorder.reading import environment, only

CODE = """
import mmap, struct, sys
from holter.recorder import session
current = session.activate()
with open(sys.argv[1], "r+b") as f:
    counter = mmap.mmap(f.fileno(), 8)
thread_spool = current.thread_spool()
outer = current.name("Net") << 8 | 4
inner = current.name("layer") << 8 | 11
n = 0
while True:
    thread_spool.begin(outer)
    thread_spool.begin(inner)
    thread_spool.end()
    thread_spool.end()
    n += 2
    counter[:] = struct.pack("<q", n)  # at once; pack_into writes zeros first
    if n % 100 == 0:
        current.boundary()
        n += 1
"""


@pytest.mark.parametrize("seed", range(5))
def test_no_finished_span_is_lost(spool, tmp_path, seed):
    counter = tmp_path / "counter"
    counter.write_bytes(bytes(8))
    child = subprocess.Popen([sys.executable, "-c", CODE, counter], env=environment(spool))
    with open(counter, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 8)
    while not struct.unpack("<q", shared[:])[0]:
        assert child.poll() is None
        time.sleep(0.005)
    time.sleep(random.Random(seed).random() * 0.3)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    finished = struct.unpack("<q", shared[:])[0]
    process = only(spool)
    spans = process.main.spans
    # What was counted is there; what is beyond it was between two instructions of the loop.
    assert finished <= len(spans) + process.main.dropped <= finished + 3
    assert [s.phase for s in spans if s.phase != "step"][:4] == ["annotation", "forward"] * 2
    assert process.main.open in ([], [("forward", "Net")], [("forward", "Net"), ("annotation", "layer")])
    assert "damaged" not in str(process.lines)
    assert process.facts("end") == []


def test_death_inside_a_span_names_step_and_phase(spool):
    code = """
import os, signal
import holter
from holter.recorder import session
for i in range(7):
    with holter.step():
        with holter.annotate("epoch"):
            session.current.thread_spool().begin(session.current.name("Net") << 8 | 6)
            if i == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            session.current.thread_spool().end()
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment(spool), check=False)
    assert done.returncode == -signal.SIGKILL
    main = only(spool).main
    assert (main.step, main.open) == (5, [("annotation", "epoch"), ("backward", "Net")])
    assert [s.step for s in main.spans if s.phase == "step"] == [0, 1, 2, 3, 4]
