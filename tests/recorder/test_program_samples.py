"""Python programs without an adapter sample themselves: what they write, and when they do not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.recorder.reading import environment, run

WORK = """
import time

def work(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(range(500))

def rest(seconds):
    time.sleep(seconds)
"""


def samples(spool):
    """Return the samples of each process by function of its own, in seconds."""
    found = {}
    for path in sorted(spool.glob("*.program")):
        first, *lines = path.read_text().splitlines()
        begin, end, cost = map(int, first.split())
        assert begin < end
        assert 0 <= cost < end - begin
        own = found.setdefault(path.name.split("-")[0], {})
        for line in lines:
            count, ns, at, stack = line.split(" ", 3)
            assert int(count) > 0
            name = stack.split(";")[int(at)].split(" ")[0]
            own[name] = own.get(name, 0.0) + int(ns) / 1e9
    return found


def test_a_program_is_sampled_after_its_first_second(spool):
    done = run(spool, f"{WORK}\nwork(2.2)\nrest(1)")
    assert done.returncode == 0
    assert done.stderr == ""
    (own,) = samples(spool).values()
    assert own["work"] == pytest.approx(1.2, abs=0.6)
    assert own["rest"] == pytest.approx(1.0, abs=0.5)


def test_a_short_program_and_one_that_is_not_to_be_looked_at_write_nothing(spool):
    run(spool, f"{WORK}\nwork(0.2)")
    run(spool, f"{WORK}\nwork(1.5)", env=environment(spool, HOLTER_LOOK="never"))
    run(spool, f"{WORK}\nwork(1.5)", env=environment(spool, HOLTER_DISABLE="1"))
    assert samples(spool) == {}


def test_a_program_that_imports_and_one_that_waits_in_a_library_write_nothing(spool, tmp_path):
    library = tmp_path / "site-packages"
    library.mkdir()
    waits = "import time\nfor _ in range(30):\n    time.sleep(0.1)\n"
    (library / "worker.py").write_text(waits)
    (library / "busy.py").write_text(f"{WORK}\nwork(2.5)\n")
    paths = environment(spool)["PYTHONPATH"]
    surroundings = environment(spool, PYTHONPATH=os.pathsep.join([paths, str(library)]))
    run(spool, "import worker", env=surroundings)
    subprocess.run([sys.executable, library / "worker.py"], env=surroundings, check=True)
    assert list(spool.iterdir()) == []
    subprocess.run([sys.executable, library / "busy.py"], env=surroundings, check=True)
    assert len(samples(spool)) == 1


def test_forked_children_are_sampled(spool):
    program = f"""{WORK}
import os, sys
work(1.3)
child = os.fork()
if not child:
    work(2)
    sys.exit(0)
os.waitpid(child, 0)
"""
    done = run(spool, program, "-W", "error::DeprecationWarning")
    assert done.returncode == 0, done.stderr
    found = samples(spool)
    assert len(found) == 2
    assert sum("work" in own for own in found.values()) == 2


def test_the_thread_that_works_is_sampled_while_the_main_thread_waits_for_it(spool):
    program = f"""{WORK}
import threading
one = threading.Thread(target=work, args=(2.5,))
one.start()
one.join()
assert threading.main_thread() is threading.current_thread()
"""
    assert run(spool, program).returncode == 0
    (own,) = samples(spool).values()
    assert max(own, key=own.get) == "work"


def test_an_adapter_ends_it_for_good(spool):
    program = f"""{WORK}
import sys, torch
torch.nn.Linear(1, 1)
work(1.5)
print(sys.getswitchinterval())
"""
    done = run(spool, program)
    assert done.stdout.split() == ["0.005"]
    assert not any("work" in own for own in samples(spool).values())


def test_numbers_and_the_switch_interval_of_a_program_stay(spool):
    program = f"""{WORK}
import random, sys
random.seed(1)
work(1.5)
print(random.random())
sys.setswitchinterval(0.002)
work(0.3)
print(sys.getswitchinterval())
"""
    alone, recorded = run(None, program), run(spool, program)
    assert alone.stdout == recorded.stdout
    assert recorded.stdout.split()[1] == "0.002"


def test_it_loads_no_module_that_the_program_has_not(spool):
    program = f"{WORK}\nimport sys\nbefore = set(sys.modules)\nwork(1.5)\nprint(*(set(sys.modules) - before))"
    assert set(run(spool, program).stdout.split()) <= {"opcode", "_opcode", "_opcode_metadata"}
    assert sys.version_info >= (3, 11)
