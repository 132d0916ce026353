"""Threads of the recorder let go of the training's frames before the interpreter ends."""

import os
import subprocess
import sys
import threading

from tests.recorder.reading import environment

HOLDS = """
import sys, threading
from holter.recorder import session as sessions

class Tensor:
    def __del__(self):
        print("freed by", threading.current_thread().name)

def main():
    tensor = Tensor()
    sessions.current.background.start("sampler", hold, stop.set)
    holds.wait()

def hold():
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame.f_code is not main.__code__:
        frame = frame.f_back
    holds.set()
    stop.wait()
    del frame

sessions.activate()
stop, holds = threading.Event(), threading.Event()
main()
"""


def test_a_thread_that_holds_frames_ends_before_the_interpreter(spool, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(HOLDS)
    done = subprocess.run(
        [sys.executable, script], env=environment(spool), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "freed by sampler\n", "")


def test_no_thread_starts_after_the_end(session):
    ran = threading.Event()
    session.background.start("early", ran.set, lambda: None)
    assert ran.wait(10)
    session.end()
    ran.clear()
    session.background.start("late", ran.set, lambda: None)
    assert not [each for each in threading.enumerate() if each.name == "late"]
    assert not ran.is_set()


def test_a_forked_child_waits_for_no_thread_of_its_parent(session):
    stop = threading.Event()
    session.background.start("parent", stop.wait, stop.set)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            session.background.end()
            code = int(stop.is_set())
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
