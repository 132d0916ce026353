"""Orders of the Settings page and what a running job does then: monitoring off and on, a window at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from tests.cli.conftest import SOURCE
from tests.dashboard.serving import BEARER, PATIENCE_S, serving, until

from holter.store import job
from holter.store.trial import Trial
from holter.views.document.cost import details

TRAINING = "import holter, time\nwhile True:\n    with holter.step():\n        time.sleep(0.02)\n"


@pytest.fixture
def live(tmp_path):
    """A training that is recorded, sampled five times a second."""
    (tmp_path / "train.py").write_text(TRAINING)
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "HOLTER_STORE": str(tmp_path / "store")}
    words = ["run", "--job", "live", "--interval", "200ms", "--no-rules", "--", sys.executable]
    command = [sys.executable, "-m", "holter", *words, str(tmp_path / "train.py")]
    run = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: (tmp_path / "store/live/samples").exists())
        yield job.find(str(tmp_path / "store"), "live")
    finally:
        run.terminate()
        run.wait(PATIENCE_S)


def noted(folder, kind, name):
    events = Trial(folder).table("events")
    return details(events.where(events["name"] == name), kind)


@pytest.mark.slow
def test_monitoring_is_switched_and_a_window_waits_for_its_time(live, tmp_path):
    with serving(tmp_path / "store") as server:

        def order(what, **body):
            return server.ask(f"/api/v1/jobs/live/{what}", "POST", json.dumps(body), **BEARER)

        begin = time.time() + 3
        assert order("profile", python="cprofile", start_time=begin, seconds=0.5)[0] == 200
        assert order("configure", monitoring="off")[0] == 200
        until(lambda: live.manifest().get("monitoring") is False)
        time.sleep(0.5)  # what was read before is written
        last = time.time_ns()
        until(lambda: any(w.get("first_step") for w in details(Trial(live).table("events"), "window")))
        page = server.get("/jobs/live/controls")[1]
        assert '<option value="off" selected>off</option>' in page
        told = time.time_ns()
        assert order("configure", monitoring="on", interval_ms=100)[0] == 200
        until(lambda: (Trial(live).newest("samples") or 0) > told)
        status, text, _ = order("configure", monitoring="maybe")
        assert status == 400
        assert "valid: on, off" in text
        assert order("profile", start_time=-1)[0] == 400
    (window,) = (w for w in details(Trial(live).table("events"), "window") if w.get("first_step"))
    assert begin <= window["begin"] / 1e9, "it begins with the first step after its time"
    assert window["end"] / 1e9 >= begin + 0.5
    until(lambda: len(noted(live, "control", "monitoring")) == 2)
    on = noted(live, "control", "monitoring")[1]
    assert on["monitoring"]
    samples = Trial(live).table("samples")["time"]
    assert not ((samples > last) & (samples < on["time"] - 10**9)).any(), "no reading while it was off"
    assert (samples > on["time"]).any()
    assert live.manifest()["interval_ms"] == 100
