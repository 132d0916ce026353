"""The live line of `holter run`, on a terminal that pyte emulates."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.jobs.terminals import ROWS, Terminal

from holter.agent.drain.recent import JobNow
from holter.cli.run.live_line import line

pytestmark = pytest.mark.slow
SCRIPT = """
import sys, time, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({steps}):
    time.sleep(0.02)
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    sys.stderr.write(f"\\rbar {{step}}/{steps}")
    if step % 25 == 24:
        print(f"\\nafter step {{step}}", flush=True)
print("\\nthe end", flush=True)
"""


@pytest.fixture
def terminal(tmp_path: Path):
    opened = []

    def run(*options: str, steps: int = 200, **env: str) -> Terminal:
        script = tmp_path / "train.py"
        script.write_text(SCRIPT.format(steps=steps))
        words = [sys.executable, "-m", "holter", "run", *options, "--", sys.executable, str(script)]
        made = Terminal(words, {"TERM": "xterm", "HOLTER_STORE": str(tmp_path / "jobs"), **env})
        opened.append(made)
        return made

    yield run
    for one in opened:
        if one.code is None:
            os.kill(one.process, signal.SIGKILL)
            os.waitpid(one.process, 0)
        os.close(one.descriptor)


def test_the_last_line_shows_the_job_and_the_output_stays_whole(terminal) -> None:
    shown = terminal("--total-steps", "200")
    shown.watch(lambda rows: False)
    assert shown.code == 0
    live = [rows[-1] for rows in shown.screens if rows[-1].startswith("holter · step ")]
    assert any(" of 200 · " in text and "/s · " in text and "other " in text for text in live), live
    assert any(" left" in text for text in live)
    for rows in shown.screens:
        assert not [text for text in rows[:-1] if text.startswith("holter · ")], "only in the last line"
    assert shown.screen.margins is None, "the whole terminal scrolls again"
    assert not [text for text in shown.text if text.startswith("holter · ")], "nothing of it stays"
    ours = [text for text in shown.text if text.startswith(("after step", "the end"))]
    assert ours == [*(f"after step {step}" for step in range(24, 200, 25)), "the end"]
    assert "bar 199/200" in shown.text


def test_it_goes_when_the_job_is_stopped_and_comes_back(terminal) -> None:
    shown = terminal(steps=2000)
    shown.watch(lambda rows: rows[-1].startswith("holter · step "))
    shown.resize(ROWS + 4)
    shown.watch(lambda rows: len(rows) == ROWS + 4 and rows[-1].startswith("holter · step "))
    os.write(shown.descriptor, b"\x03")
    shown.watch(lambda rows: False)
    assert shown.screen.margins is None
    assert not [text for text in shown.text if text.startswith("holter · ")]


@pytest.mark.parametrize(("options", "env"), [(("--no-live",), {}), ((), {"TERM": "dumb"})])
def test_there_is_none_if_it_is_not_wanted_or_cannot_be(terminal, options, env) -> None:
    shown = terminal(*options, steps=60, **env)
    shown.watch(lambda rows: False)
    assert not [rows for rows in shown.screens if any(text.startswith("holter · ") for text in rows)]


def test_a_pipe_gets_no_control_characters(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "holter", "run", "--store", str(tmp_path / "jobs"), "--", "echo", "x"]
    done = subprocess.run(words, capture_output=True, check=True, timeout=120)
    assert b"\x1b" not in done.stdout + done.stderr


def test_a_long_phase_is_named() -> None:
    now = JobNow(step=41, phase="checkpoint", since=time.time_ns() - 12 * 10**9, planned=50, spans=())
    assert line(now, 60.0, None, 2, 80) == "holter · step 42 of 50 · in checkpoint for 12 s · 2 issues"


def test_the_time_before_the_first_step_is_counted() -> None:
    now = JobNow(step=-1, phase=None, since=0, planned=None, spans=())
    assert line(now, 65.0, 1000, 0, 80) == "holter · 1 min 5 s, no training step yet"


@pytest.mark.parametrize(
    ("width", "parts"),
    [(200, " · data loading 60 %, forward 25 %, backward 15 %"), (85, " · data loading 60 %"), (70, "")],
)
def test_parts_that_do_not_fit_are_left_out_whole(width: int, parts: str) -> None:
    now = recorded(steps=20, part_ms={"data_loading": 60, "forward": 25, "backward": 15})
    told = "holter · step 20 of 100 · 10/s · 100 ms · 8.0 s left · 1 issue"
    assert line(now, 5.0, 100, 1, width) == told + parts


def recorded(steps: int, part_ms: dict[str, int]) -> JobNow:
    """Return what is known of a job whose steps consist of these parts."""
    rows, at = [], 10**18
    for step in range(steps):
        begin = at
        for part, took in part_ms.items():
            rows.append((at, took * 10**6, step, part))
            at += took * 10**6
        rows.append((begin, at - begin, step, "step"))
    times, durations, numbers, phases = zip(*rows, strict=True)
    names = sorted(set(phases))
    spans = {
        "time": np.array(times),
        "duration": np.array(durations),
        "rank": np.zeros(len(rows), np.int32),
        "worker": np.full(len(rows), -1),
        "thread": np.zeros(len(rows), np.int16),
        "step": np.array(numbers),
        "mode": (np.zeros(len(rows), np.int8), ["train"]),
        "phase": (np.array([names.index(phase) for phase in phases]), names),
        "value": np.full(len(rows), np.nan),
    }
    return JobNow(step=steps - 1, phase=None, since=0, planned=None, spans=(spans,))


def test_jobs_are_listed_until_ctrl_c(tmp_path: Path) -> None:
    store = str(tmp_path / "jobs")
    words = [sys.executable, "-m", "holter"]
    subprocess.run([*words, "run", "--store", store, "--job", "first", "--", "true"], check=True, timeout=120)
    shown = Terminal([*words, "jobs", "--watch"], {"TERM": "xterm", "HOLTER_STORE": store})
    shown.watch(lambda rows: any(row.startswith("first") for row in rows))
    subprocess.run(
        [*words, "run", "--store", store, "--job", "second", "--", "true"], check=True, timeout=120
    )
    shown.watch(lambda rows: any(row.startswith("second") for row in rows))
    os.write(shown.descriptor, b"\x03")
    shown.watch(lambda rows: False)
    os.close(shown.descriptor)
    assert shown.code == 130
    assert sum(row.startswith("first") for row in shown.text) == 1, "it is drawn in place"
