"""Standard streams that cannot be written: the command runs as it does without holter."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shlex
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from tests.cli.conftest import SOURCE, described

HOLTER = f"{shlex.quote(sys.executable)} -m holter"
# What the command finds as its standard streams: the shell asks by itself, with no stream of its own open.
LOOK = (
    "for n in 0 1 2; do f=/proc/$$/fd/$n; [ -e $f ] && seen=$seen$n; "
    "for d in null full; do [ $f -ef /dev/$d ] && seen=$seen$d; done; done; echo $seen > seen; exit 7"
)


def shell(program: str, **more) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, env=env, timeout=120, check=False, **more
    )


@pytest.mark.parametrize(
    "streams",
    ["2>/dev/full", "2>&-", ">&-", ">/dev/full", "<&-", "<&- >&- 2>&-", ">/dev/full 2>&1", "2>&1 | true"],
)
def test_the_command_runs_with_its_own_streams_and_exit_code(streams):
    given = {"stdin": subprocess.DEVNULL}
    alone = shell(f"bash -c '{LOOK}' {streams}; echo ${{PIPESTATUS[0]}} > code", **given)
    seen, code = Path("seen").read_text(), Path("code").read_text()
    assert code == "7\n", alone.stderr
    Path("seen").unlink()
    ours = shell(f"{HOLTER} run -- bash -c '{LOOK}' {streams}; echo ${{PIPESTATUS[0]}} > code", **given)
    assert Path("seen").read_text() == seen
    assert Path("code").read_text() == code
    assert "Traceback" not in ours.stderr


@pytest.mark.parametrize(
    "words", ["jobs", "describe latest", "describe latest --json", "rules list", "--help"]
)
def test_output_that_cannot_be_written_ends_a_command_in_words(words):
    shell(f"{HOLTER} run -- true")
    full = shell(f"{HOLTER} {words} >/dev/full")
    assert (full.returncode, full.stderr) == (
        74,
        "holter: standard output cannot be written: No space left on device\n",
    )
    closed = shell(f"{HOLTER} {words} >&-")
    assert (closed.returncode, closed.stderr) == (0, "")
    unread = shell(f"{HOLTER} {words} | true; exit ${{PIPESTATUS[0]}}")
    assert unread.returncode in (0, 141)
    assert unread.stderr == ""


class Terminal:
    """A terminal whose foreground is one command, until it is hung up."""

    def __init__(self, *command: str) -> None:
        self.master, slave = pty.openpty()

        def own() -> None:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=own,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        os.close(slave)

    def until(self, file: str) -> None:
        deadline = time.monotonic() + 60
        while not Path(file).exists():
            assert time.monotonic() < deadline, f"{file} did not come"
            if select.select([self.master], [], [], 0.05)[0]:
                os.read(self.master, 4096)

    def hang_up(self) -> None:
        os.close(self.master)


def test_a_lost_terminal_ends_with_the_code_of_its_signal():
    terminal = Terminal(
        sys.executable, "-m", "holter", "run", "--", "bash", "-c", "touch began; sleep 60 & wait; touch late"
    )
    terminal.until("began")
    terminal.hang_up()
    assert terminal.process.wait(60) in (129, -1), "128 and SIGHUP's number, 1"
    assert not Path("late").exists()
    assert described()["job"]["signal"] == "SIGHUP"


def test_a_command_that_survives_its_terminal_is_recorded_to_its_end():
    terminal = Terminal(
        sys.executable,
        "-m",
        "holter",
        "run",
        "--",
        "bash",
        "-c",
        "trap : HUP; touch began; sleep 2; sleep 1; exit 7",
    )
    terminal.until("began")
    terminal.hang_up()
    assert terminal.process.wait(60) == 7
