"""What a running job may be told by its `control.json`."""

from __future__ import annotations

import sys
import time

import pytest
from tests.agent.conftest import until

from holter.agent.drain.clock import Clock
from holter.agent.drain.control import VIEWER_S, Control
from holter.agent.drain.event_log import EventLog
from holter.agent.sampling import Sampler
from holter.schema.windows import order_of
from holter.store.job import JobFolder
from holter.store.place import LocalPlace

SCRIPT = """
import time
import holter

def waiting():
    time.sleep(0.02)

for step in range(100_000):
    with holter.step():
        waiting()
    if step == 20:
        open("started", "w").close()
"""


def test_signs_of_somebody_who_looks_go_stale(monkeypatch, tmp_path):
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    folder = JobFolder(LocalPlace(tmp_path), "job")
    control = Control(folder, EventLog(Clock.now()), leads=False, on_stop=lambda: None)
    assert not control.is_watched(None)
    assert control.is_watched(1)
    now[0] += VIEWER_S - 1
    assert control.is_watched(1)
    assert control.is_watched(2)
    now[0] += VIEWER_S - 1
    assert control.is_watched(2)
    now[0] += 1
    assert not control.is_watched(2)
    assert not control.is_watched(None)


@pytest.mark.parametrize(
    "order",
    [
        {"python": "/tmp/evil.py"},
        {"python": "evil:Evil"},
        {"timer": "__import__('os').system"},
        {"operators": True, "file": "/etc/passwd"},
        {"argv": ["touch", "x"]},
        {"rules": ["evil.py:Evil"]},
        {"action": "run_command"},
        {"rank": "$(touch x)"},
        {"steps": "1; touch x"},
        {"seconds": float("nan")},
        {"start_time": float("inf")},
    ],
)
def test_an_order_to_profile_names_no_file_command_or_rule(order):
    with pytest.raises(ValueError, match=r"valid|no whole number"):
        order_of(order)


def test_an_order_carries_on_only_what_is_known():
    requests = order_of(
        {"python": "cprofile", "timer": "cpu_time", "operators": "x.py", "stacks": "y"}
    ).requests
    assert [request.parameters for request in requests] == [
        {"stacks": True},
        {"profiler": "cprofile", "timer": "cpu_time"},
    ]


@pytest.mark.parametrize("interval", [0, -1, 3, 10**9, True, "100", None, [100]])
def test_an_interval_that_there_is_not_changes_nothing(interval):
    sampler = Sampler([], Clock.now(), 500, on_fault=lambda *said: None)
    assert sampler.obey({"interval_ms": interval, "monitoring": "off"}) == {}
    assert sampler.interval_ms == 500
    assert sampler.obey({"interval_ms": 1000}) == {"interval_ms": 1000}


def test_stacks_when_somebody_asks_and_a_stop_with_its_reason(start, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    run = start(sys.executable, str(path), cwd=tmp_path)
    until(lambda: (tmp_path / "started").exists() and "obeys" in run.folder.node("node"))
    assert run.folder.node("node")["obeys"] == ["interval_ms", "monitoring", "stop", "stacks", "profile"]
    until(lambda: run.rows("spans"))  # so the agent knows whom to ask for stacks
    run.folder.order(stacks={"id": "first", "by": {"rule": "StalledTraining"}})
    until(lambda: run.events("stacks"))
    reason = "Stopped by rule LossSpike at step 7"
    run.folder.order(stop={"grace_s": 5, "by": {"rule": "LossSpike", "step": 7, "reason": reason}})
    assert run.wait() == 143
    (told,) = run.events("stacks")
    assert "in waiting" in told["detail"]["text"]
    assert told["rank"] == 0
    manifest = run.folder.manifest()
    assert manifest["status"] == "Stopped"
    assert manifest["failure"] is None
    assert manifest["stopped_by"] == {"rule": "LossSpike", "step": 7, "reason": reason}
