"""Frames of other threads are read without harm: in Python 3.11 a collection meanwhile breaks the memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import pytest

from holter.recorder.sampling.other_threads import exists, reading_frames

SCRIPT = '''
import gc, sys, threading, time, weakref
from holter.recorder.sampling.other_threads import exists, reading_frames

sys.setswitchinterval(0.00001)
gc.set_threshold(40)


class Cycle:
    def __init__(self):
        self.me = self


def collected(_):
    for _ in range(100):
        pass


def leaf():
    for _ in range(3):
        dead.append(weakref.ref(Cycle(), collected))
        if len(dead) > 50:
            dead.clear()
    return 0


def functions():
    """Functions whose frames differ in size, so that a frame lies where others were."""
    for k in range(24):
        local = "; ".join(f"v{j} = [n, {j}]" for j in range(k)) or "pass"
        called = f"made[(n * 7 + {k * 5}) % 24](n - 1)"
        source = f"def f(n):\\n    {local}\\n    return {called} if n > 0 else leaf()"
        names = {"made": made, "leaf": leaf}
        exec(source, names)
        yield names["f"]


def sample():
    while not done:
        with reading_frames:
            frame, depth = sys._current_frames().get(main), 0
            while frame is not None and depth < 60:
                frame, depth = frame.f_back, depth + 1
        time.sleep(0.00003)


dead, made, done, main = [], [], False, threading.get_ident()
made[:] = functions()
thread = threading.Thread(target=sample)
thread.start()
end, number = time.monotonic() + 10, 0
while time.monotonic() < end:
    number += 1
    made[number % 24](number % 37)
alive = thread.is_alive()
done = True
thread.join()
assert alive and gc.isenabled() and exists(main)
'''


@pytest.mark.slow
def test_a_collection_beside_a_sample_breaks_nothing():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collection_is_afterwards_as_before(enabled: bool):
    (gc.enable if enabled else gc.disable)()
    try:
        with reading_frames:
            assert gc.isenabled() is (enabled and sys.version_info[:2] != (3, 11))
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore:This process")
def test_a_child_that_is_forked_meanwhile_collects():
    entered, leaves = threading.Event(), threading.Event()

    def reads():
        with reading_frames:
            entered.set()
            leaves.wait(10)

    thread = threading.Thread(target=reads)
    thread.start()
    assert entered.wait(10)
    child = os.fork()
    if not child:
        ended = gc.isenabled() and not exists(thread.ident or 0)
        os._exit(0 if ended else 1)
    leaves.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert gc.isenabled()
