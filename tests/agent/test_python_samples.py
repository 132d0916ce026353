"""The Python stack of a whole job, sampled from outside: off unless asked for, and said when it cannot be."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from holter.agent import python_samples
from holter.agent.python_samples import MAX_HZ, VARIABLE, missing, rate, refused

TRAINING = """
import sys, time
import holter

def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def waiting(seconds):
    time.sleep(seconds)

def timed(what, seconds):
    begun = time.perf_counter()
    what(seconds)
    return time.perf_counter() - begun

def train():
    for _ in range(int(sys.argv[1])):
        with holter.step():
            spent[0] += timed(busy, 0.01)
            spent[1] += timed(waiting, 0.03)

spent = [0.0, 0.0]
train()
print(*spent)
"""


def test_it_is_off_by_default_and_its_rate_is_checked():
    assert rate({}) == rate({VARIABLE: ""}) == rate({VARIABLE: "0"}) == 0
    assert rate({VARIABLE: "2.5"}) == 2.5
    for wrong in ("-1", "21", "often", "nan", "inf"):
        with pytest.raises(ValueError, match=f"{VARIABLE}='{wrong}' .* valid: 0 .never. to {MAX_HZ:g}"):
            rate({VARIABLE: wrong})


def test_why_there_can_be_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(python_samples.sysconfig, "get_path", lambda name: str(tmp_path))
    assert "py-spy is not installed" in missing()
    pipeline = SimpleNamespace(drain=object())
    made, why = python_samples.samples({VARIABLE: "5"}, pipeline, None)
    assert (made, why) == (None, missing())
    assert python_samples.samples({}, pipeline, None) == (None, "")


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing() or "py-spy is here")
def test_the_stacks_of_a_whole_job(start, monkeypatch):
    """Some fifteen seconds, for one part takes ten."""
    run = start(sys.executable, "-c", TRAINING, "370", env={VARIABLE: "10"}, stdout=subprocess.PIPE)
    busy, waiting = map(float, run.process.communicate(timeout=300)[0].split())
    assert run.wait() == 0
    table = run.trial.table("python_stacks")
    assert set(table["phase"].tolist()) == {"any"}
    stacks, times = table["stack"].tolist(), np.asarray(table["self_time"]).astype(float)
    assert all("train (" in one for one in stacks)
    shares = {
        name: sum(t for s, t in zip(stacks, times, strict=True) if f"{name} (" in s)
        for name in ("busy", "waiting")
    }
    # A quarter, on a machine that has nothing else to do.
    assert shares["busy"] / sum(shares.values()) == pytest.approx(busy / (busy + waiting), abs=0.2)
    assert 5 < times.sum() / 1e9 < busy + waiting + 5
    assert run.events("fault") == []


@pytest.mark.skipif(bool(missing()), reason=missing() or "py-spy is here")
def test_a_job_that_ends_before_its_first_part_loses_only_that(start):
    run = start(sys.executable, "-c", TRAINING, "60", env={VARIABLE: "10"})
    assert run.wait() == 0
    assert run.events("fault") == []


def test_that_the_kernel_refuses_is_found_by_trying():
    """A process whose memory is its own affair, as under ptrace_scope 1 all are."""
    script = (
        "import ctypes, os; from holter.agent.python_samples import refused; print(refused())\n"
        "os.geteuid() or os.setuid(65534); ctypes.CDLL(None).prctl(4, 0); print(refused())"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    before, after = said.stdout.split("\n")[:2]
    assert before == refused()
    assert "ptrace is refused" in after
