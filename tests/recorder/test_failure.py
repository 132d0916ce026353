"""How a process fails: exceptions with their phase, crashes, stacks; and that the script behaves as ever."""

import signal
import subprocess
import sys
import time

import pytest
from tests.recorder.reading import environment, only, read, run

FAIL = """
import holter, sys
for i in range(3):
    with holter.step():
        with holter.annotate("epoch"):
            from holter.recorder import session
            thread_spool = session.current.thread_spool()
            thread_spool.begin(6)
            try:
                if i == 2: raise RuntimeError("CUDA out of memory. Tried to allocate")
            except RuntimeError as error:
                thread_spool.fail(error)
                thread_spool.end()
                raise
            thread_spool.end()
"""


def test_uncaught_exception_is_noted_with_the_phase_it_came_from(spool):
    done = run(spool, FAIL)
    (noted,) = only(spool).facts("exception")
    assert (noted["type"], noted["step"], noted["phase"], noted["oom"]) == (
        "RuntimeError",
        2,
        "backward",
        True,
    )
    assert noted["message"].startswith("CUDA out of memory")
    assert 'File "<string>", line 10' in noted["traceback"]
    assert len(only(spool).facts("end")) == 1
    assert done.returncode == 1


def test_the_script_says_the_same_with_and_without(spool):
    code = "import sys\nprint('out')\ndef f(): raise ValueError('bad')\nf()"
    recorded, alone = run(spool, code), run(None, code)
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (
        alone.returncode,
        alone.stdout,
        alone.stderr,
    )


def test_exception_before_anything_was_recorded_is_noted_for_a_process_of_role_other(spool):
    assert run(spool, "import a_module_that_is_not_there").returncode == 1
    process = only(spool)
    assert process.identity["role"] == "other"
    (noted,) = process.facts("exception")
    assert (noted["type"], noted["phase"]) == ("ModuleNotFoundError", None)


def test_phase_of_an_exception_that_no_hook_saw_is_the_innermost_open_one(spool):
    run(spool, "from holter.recorder import session\nsession.activate().thread_spool().begin(4)\n1/0")
    (noted,) = only(spool).facts("exception")
    assert (noted["type"], noted["phase"], noted["oom"]) == ("ZeroDivisionError", "forward", False)


def test_phase_is_found_through_the_chain_of_causes(spool):
    code = FAIL.replace("for i in range(3):", "def train():\n  for i in range(3):").replace(
        "\n    ", "\n      "
    )
    run(spool, code + "\ntry:\n    train()\nexcept RuntimeError as e:\n    raise KeyError('wrapped') from e")
    (noted,) = only(spool).facts("exception")
    assert (noted["type"], noted["phase"], noted["step"]) == ("KeyError", "backward", 2)


def test_a_caught_exception_is_not_noted(spool):
    done = run(spool, FAIL.replace("                raise\n", ""))
    assert done.returncode == 0
    assert only(spool).facts("exception") == []


def test_hook_that_somebody_replaced_without_chaining_loses_nothing(spool):
    code = (
        "import holter, sys\nholter.annotate('x').__enter__()\nsys.excepthook = lambda *a: print('mine')\n1/0"
    )
    done = run(spool, code)
    assert (done.stdout, done.stderr) == ("mine\n", "")
    assert [e["type"] for e in only(spool).facts("exception")] == ["ZeroDivisionError"]


def test_hook_that_was_there_before_is_called(spool):
    code = """
import sys
sys.excepthook = lambda *a: print("mine")
import holter
holter.annotate("x").__enter__()
1/0
"""
    done = run(spool, code)
    assert (done.stdout, done.stderr) == ("mine\n", "")
    assert len(only(spool).facts("exception")) == 1


def test_exception_in_a_thread_is_noted_with_the_thread(spool):
    code = """
import holter, threading
with holter.annotate("x"): pass
def work(): raise OSError("in thread")
t = threading.Thread(target=work, name="loader"); t.start(); t.join()
"""
    done = run(spool, code)
    (noted,) = only(spool).facts("exception")
    assert (noted["type"], noted["thread"]) == ("OSError", "loader")
    assert done.returncode == 0
    assert "OSError: in thread" in done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("how", ["raise ValueError('bad')", "exits()"])
def test_exception_in_a_multiprocessing_child_is_noted(spool, tmp_path, method, how):
    script = tmp_path / "script.py"
    script.write_text(f"""
import multiprocessing, sys
import holter
def exits():
    # What torch.multiprocessing.spawn does: tell the parent, then leave.
    try: raise ValueError("bad")
    except ValueError: sys.exit(1)
def work():
    with holter.annotate("child"): pass
    {how}
if __name__ == "__main__":
    child = multiprocessing.get_context("{method}").Process(target=work)
    child.start(); child.join()
    assert child.exitcode == 1
""")
    done = subprocess.run([sys.executable, script], env=environment(spool), capture_output=True, check=False)
    assert done.returncode == 0
    (child,) = read(spool).values()
    assert [(e["type"], e["message"]) for e in child.facts("exception")] == [("ValueError", "bad")]
    assert len(child.facts("end")) == 1


def test_clean_exits_note_no_exception(spool):
    for code in ("import sys; sys.exit(0)", "import sys; sys.exit(3)", "pass"):
        run(spool, f"import holter\nwith holter.annotate('x'): pass\n{code}")
    for process in read(spool).values():
        assert process.facts("exception") == []
        assert len(process.facts("end")) == 1


def test_an_exception_that_cannot_be_read_is_noted_all_the_same(spool):
    code = """
import holter
class Odd(Exception):
    def __str__(self): raise TypeError("no text")
with holter.annotate("x"): pass
raise Odd()
"""
    assert run(spool, code).returncode == 1
    (noted,) = only(spool).facts("exception")
    assert (noted["type"], noted["message"]) == ("__main__.Odd", "<TypeError while reading the message>")


def test_ctrl_c_ends_the_process_as_ever(spool):
    code = "import os, signal, time\n{}\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)"
    alone = run(None, code.format(""))
    recorded = run(spool, code.format("import holter; holter.annotate('x').__enter__()"))
    assert recorded.returncode == alone.returncode == -signal.SIGINT
    assert recorded.stderr.splitlines()[-1] == alone.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert [e["type"] for e in only(spool).facts("exception")] == ["KeyboardInterrupt"]


def test_stacks_of_a_hanging_process_are_written_on_the_signal(spool):
    code = """
import holter, time
def waits_for_ever():
    with holter.annotate("hangs"): time.sleep(600)
waits_for_ever()
"""
    child = subprocess.Popen([sys.executable, "-c", code], env=environment(spool))
    try:
        deadline = time.monotonic() + 120
        while not list(spool.glob("*.head")) or not only(spool).facts("process"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process = only(spool)
        number = process.identity["stacks_signal"]
        assert signal.SIGRTMIN <= number <= signal.SIGRTMAX
        child.send_signal(number)
        stacks = spool / f"{process.key}.stacks"
        while b"waits_for_ever" not in stacks.read_bytes():
            assert time.monotonic() < deadline
            assert child.poll() is None
            time.sleep(0.01)
        assert child.poll() is None  # it lives on
    finally:
        child.kill()
        child.wait()


def test_a_question_for_stacks_that_comes_too_late_harms_nobody(spool):
    code = f"""
import os, signal
from holter.recorder.failure import Stacks
asked = []
for number in range(3):
    stacks = Stacks(f"{spool}/{{number}}")
    stacks.close()
    asked.append(stacks.signal)
    os.kill(os.getpid(), stacks.signal)
mine = lambda *_: print("mine")
signal.signal(asked[0], mine)
other = Stacks("{spool}/other")
os.kill(os.getpid(), asked[0])
assert signal.getsignal(asked[0]) is mine
print(len(set(asked)), other.signal == asked[0] - 1)
"""
    done = run(spool, code)
    assert (done.returncode, done.stdout) == (0, "mine\n1 True\n"), done.stderr


def test_crash_leaves_its_python_stack(spool):
    code = """
import holter, os, signal
def crashes(): os.kill(os.getpid(), signal.SIGSEGV)
with holter.annotate("x"): crashes()
"""
    done = run(spool, code)
    assert done.returncode == -signal.SIGSEGV
    process = only(spool)
    text = (spool / f"{process.key}.stacks").read_text()
    assert "Segmentation fault" in text
    assert "crashes" in text
    assert process.main.open == [("annotation", "x")]


def test_faulthandler_of_the_script_is_left_alone(spool):
    code = """
import faulthandler, os, signal
faulthandler.enable()
import holter
with holter.annotate("x"): os.kill(os.getpid(), signal.SIGSEGV)
"""
    done = run(spool, code)
    assert "Segmentation fault" in done.stderr
    assert (spool / f"{only(spool).key}.stacks").read_bytes() == b""


def test_script_that_closes_all_files_gets_nothing_of_ours_in_its_own(spool, tmp_path):
    code = f"""
import os
import holter
with holter.annotate("before"): pass
first = os.open(os.devnull, os.O_RDONLY)
os.closerange(3, 1024)
mine = [os.open({str(tmp_path / "mine")!r}, os.O_RDWR | os.O_CREAT) for _ in range(500)]
with holter.annotate("after"): pass
print(first)
raise ValueError("bad")
"""
    done = run(spool, code)
    assert done.stdout == "3\n"  # descriptors are numbered as without us
    assert (tmp_path / "mine").read_bytes() == b""
    assert [s.name for s in only(spool).main.spans] == ["before", "after"]
    assert [e["message"] for e in only(spool).facts("exception")] == ["bad"]
