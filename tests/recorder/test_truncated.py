"""Whatever somebody does to the files of the recorder, the training goes on."""

from __future__ import annotations

import signal

import pytest
from tests.recorder.reading import environment, only, pythons, run

from holter.recorder.native import mapped

pytestmark = pytest.mark.skipif(
    mapped.compiled() is None, reason="mapped.c was not compiled here: `python hatch_build.py` says why"
)

TRAINING = """
import glob, mmap, os, sys, tempfile
import holter
from holter.recorder import session
def steps(count):
    for _ in range(count):
        with holter.step():
            with holter.annotate("work"): pass
            holter.log(loss=1.0)
def spoilt(how, end):
    for path in glob.glob(os.environ["HOLTER_SPOOL"] + "/*." + end):
        if how == "removed":
            os.unlink(path)
        elif how == "replaced":
            os.unlink(path)
            open(path, "wb").close()
        else:
            os.truncate(path, 0 if how == "emptied" else 100)
def cut_away():
    file = tempfile.NamedTemporaryFile()
    file.truncate(8192)
    mine = mmap.mmap(file.fileno(), 8192)
    file.truncate(0)
    return mine
steps(10)
"""
LOST = {("emptied", end) for end in ("orders", "head", "seg", "*")} | {("cut", "seg"), ("cut", "*")}
"""What takes pages away; a file of which a hundred bytes are left still has its first."""


@pytest.mark.parametrize("end", ["orders", "head", "seg", "journal", "*"])
@pytest.mark.parametrize("how", ["emptied", "cut", "removed", "replaced"])
def test_the_training_goes_on(spool, how, end):
    done = run(spool, TRAINING + f"spoilt({how!r}, {end!r})\nsteps(2000)\nprint(session.current.step)")
    assert (done.returncode, done.stdout) == (0, "2010\n"), done.stderr
    assert ("files of the recorder were truncated" in done.stderr) == ((how, end) in LOST)


@pytest.mark.parametrize("version", pythons())
def test_it_does_so_in_every_python(spool, version):
    code = TRAINING + "spoilt('emptied', '*')\nsteps(100)\nprint(session.current.step)"
    done = run(spool, code, python=pythons()[version])
    assert (done.returncode, done.stdout) == (0, "110\n"), done.stderr


def test_records_before_the_truncation_of_one_file_and_in_the_next_stay(spool):
    code = TRAINING + "spoilt('emptied', 'orders')\nsteps(100)"
    done = run(spool, code)
    assert done.returncode == 0
    process = only(spool)
    assert len(process.spans("step")) == 110
    (fault,) = process.facts("fault")
    assert "; 1 pages" in fault["error"]


@pytest.mark.parametrize("when", ["before", "after", "never"])
def test_a_fault_of_the_scripts_own_ends_it_as_ever(spool, when):
    enable = "import faulthandler; faulthandler.enable()\n"
    code = {"before": enable + TRAINING, "after": TRAINING + enable, "never": TRAINING}[when]
    code += "spoilt('emptied', 'orders')\n" if when != "after" else ""
    code += "steps(10)\nprint('still here', flush=True)\ncut_away()[0]\nprint('not reached')"
    done = run(spool, code)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "still here\n"), done.stderr
    assert done.stderr.count("Fatal Python error: Bus error") == (when != "never")


@pytest.mark.parametrize("handled", [True, False])
def test_a_signal_that_is_sent_does_what_it_did(spool, handled):
    code = (
        "import signal\n"
        + ("signal.signal(signal.SIGBUS, lambda *_: print('mine', flush=True))\n" if handled else "")
        + TRAINING
        + "os.kill(os.getpid(), signal.SIGBUS)\nsteps(10)\nprint(session.current.step)"
    )
    done = run(spool, code)
    expected = (0, "mine\n20\n") if handled else (-signal.SIGBUS, "")
    assert (done.returncode, done.stdout) == expected, done.stderr


def test_memory_that_was_given_back_is_not_ours(spool):
    """The place of a segment that is over may become a file of the script's."""
    code = (
        TRAINING
        + """
import ctypes
from holter.recorder.spool.files import create
def address(mapped):
    return ctypes.addressof(ctypes.c_char.from_buffer(mapped))
made = [create(os.environ["HOLTER_SPOOL"] + f"/{i}", 8192) for i in range(100)]
given_back = {address(one) for one in made}
made.clear()
held = []
while not held or address(held[-1]) not in given_back:
    held.append(cut_away())
print("still here", flush=True)
held[-1][0]
"""
    )
    done = run(spool, code)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "still here\n"), done.stderr


def test_a_forked_child_is_kept_alive_too(spool):
    code = (
        TRAINING
        + """
child = os.fork()
steps(10)
spoilt("emptied", "*")
steps(100)
if child:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
    )
    done = run(spool, code, env=environment(spool))
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
