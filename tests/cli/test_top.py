"""`holter top`: a list of jobs and one job, in a terminal of any size."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import SOURCE, job, told
from textual.pilot import Pilot

from holter.cli.top import panels
from holter.cli.top.app import OneJob, Top
from holter.cli.top.snapshot import look
from holter.store.job import JobFolder, at

WIDE, SMALL = (140, 40), (80, 30)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("top"))
    job("older", folder, age_s=1e6, verdict={"suspect": "communication", "sentence": "It waits."})
    told("before", folder, ranks=2, cores=2, steps=60, samples=120)
    return folder


def shown(app: Top) -> str:
    """Return what is on the screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips)


def see(app: Top, size: tuple[int, int], until: Callable[[], bool]) -> str:
    """Run an application in a terminal of a size, and return the screen once `until` holds."""

    async def run() -> str:
        async with app.run_test(size=size) as pilot:
            await _until(pilot, until)
            return shown(app)

    return asyncio.run(run())


async def _until(pilot: Pilot[int], holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            await pilot.pause(0.1)
            return
        await pilot.pause(0.05)
    raise AssertionError(shown(pilot.app))


def folder_of(store: str, name: str) -> JobFolder:
    return at(f"{store}/{name}")


@pytest.mark.parametrize("size", [WIDE, SMALL])
def test_one_job_shows_verdict_steps_ranks_machine_and_findings(store: str, size: tuple[int, int]) -> None:
    app = Top(store, folder_of(store, "before"), 2.0)
    screen = see(app, size, lambda: getattr(app.screen, "now", None) is not None)
    sentence = look(folder_of(store, "before")).description["verdict"]["sentence"]
    assert "before · completed" in screen
    assert " ".join(sentence.split()[:4]) in " ".join(screen.split())
    assert "a step, p95" in screen
    assert "waits for others" in screen
    assert "GPU" in screen
    assert max(map(len, screen.splitlines())) <= size[0]


def test_in_80_columns_no_bar_wraps_and_all_panels_begin_in_one_column(store: str) -> None:
    app = Top(store, folder_of(store, "before"), 2.0)
    screen = see(app, (80, 30), lambda: getattr(app.screen, "now", None) is not None)
    lines = screen.splitlines()
    assert sum(bool(line.strip()) and not set(line) - set(" ▁▂▃▄▅▆▇█") for line in lines) == 1, screen
    begins = [
        next(line for line in lines if line.lstrip().startswith(word)) for word in ("before", "rank", "node")
    ]
    assert {len(line) - len(line.lstrip()) for line in begins} == {1}, screen


def test_the_list_opens_a_job_and_comes_back(store: str) -> None:
    app = Top(store, None, 2.0)
    screen = see(app, SMALL, lambda: "older" in shown(app))
    assert "2 jobs in" in screen
    assert "communication" in screen
    app = Top(store, None, 2.0)

    async def run() -> tuple[str, str]:
        async with app.run_test(size=SMALL) as pilot:
            await _until(pilot, lambda: "older" in shown(app))
            await pilot.press("enter")
            await _until(pilot, lambda: isinstance(app.screen, OneJob) and app.screen.now is not None)
            opened = shown(app)
            await pilot.press("j")
            await _until(pilot, lambda: not isinstance(app.screen, OneJob))
            return opened, shown(app)

    opened, back = asyncio.run(run())
    assert opened.startswith((" before ·", " older ·"))
    assert "2 jobs in" in back


def test_an_empty_store_says_how_to_record(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    app = Top(str(tmp_path / "none"), None, 2.0)
    assert "holter run -- python train.py" in see(app, SMALL, lambda: "0 jobs" in shown(app))


def test_a_running_job_is_profiled_and_stopped_by_keys(tmp_path: Path) -> None:
    folder = job("live", str(tmp_path), status="InProgress", age_s=5)
    folder.write_node("vm", {"heartbeat": time.time_ns(), "obeys": ["profile", "stop"]})
    app = Top(str(tmp_path), folder, 2.0)

    async def run() -> None:
        async with app.run_test(size=SMALL) as pilot:
            await _until(pilot, lambda: isinstance(app.screen, OneJob) and app.screen.now is not None)
            await pilot.press("p")
            await _until(pilot, lambda: "profile" in folder.control())
            await pilot.press("s")
            await _until(pilot, lambda: "Stop job live?" in shown(app))
            await pilot.press("n")
            await _until(pilot, lambda: isinstance(app.screen, OneJob))
            assert "stop" not in folder.control()
            await pilot.press("s")
            await pilot.press("y")
            await _until(pilot, lambda: "stop" in folder.control())

    asyncio.run(run())
    assert folder.control()["profile"]["steps"] == 3


def test_a_job_that_has_ended_obeys_nothing(store: str) -> None:
    app = Top(store, folder_of(store, "before"), 2.0)

    async def run() -> None:
        async with app.run_test(size=WIDE, notifications=True) as pilot:
            await _until(pilot, lambda: isinstance(app.screen, OneJob) and app.screen.now is not None)
            await pilot.press("p")
            await _until(pilot, lambda: "Completed)" in shown(app))

    asyncio.run(run())


def test_text_of_a_job_controls_nothing(tmp_path: Path) -> None:
    sentence = "\x1b[31mred\x1b]0;title\x07 [bold]text[/bold]"
    folder = job("sly", str(tmp_path), verdict={"suspect": "healthy", "sentence": sentence})
    folder.update(failure={"kind": "exception", "error": sentence, "rank": 0})
    app = Top(str(tmp_path), folder, 2.0)
    screen = see(app, WIDE, lambda: getattr(app.screen, "now", None) is not None)
    assert "\x1b" not in screen
    assert "\x07" not in screen


def test_the_curve_uses_the_newest_steps() -> None:
    assert panels.curve([9.0, 1.0, 2.0, 4.0], 3) == "▃▅█"
    assert panels.curve([], 3) == ""
    assert panels.curve([0.0, 0.0], 3) == "▁▁"


def test_it_needs_a_terminal(holter) -> None:
    holter("top").refused(64, "needs a terminal", "holter describe")


def test_a_time_out_of_range_is_refused(holter) -> None:
    holter("top", "--every", "0").refused(64, "--every 0", "0.5 to 3600 seconds")


def test_it_starts_and_ends_in_a_real_terminal(store: str) -> None:
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    words = [sys.executable, "-m", "holter", "top", "before", "--store", store]
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color"}
    with subprocess.Popen(words, stdin=terminal, stdout=terminal, stderr=terminal, env=env) as program:
        os.close(terminal)
        seen = b""
        while b"a step, p95" not in seen:
            seen += os.read(controller, 65536)
        os.write(controller, b"q")
        while program.poll() is None:
            try:
                seen += os.read(controller, 65536)
            except OSError:  # the terminal is closed
                break
        assert program.wait(60) == 0
    os.close(controller)
    assert b"\x1b[?1049l" in seen, "the screen before is not restored"
