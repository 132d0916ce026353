"""Ctrl-C and Ctrl-Z on a real terminal, typed into a real shell."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from tests.agent.conftest import DRIVE, SOURCE, Kept, until


class Terminal:
    """A shell on a terminal of its own, with job control, as a person has it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.seen = b""
        self.master, slave = pty.openpty()

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PS1": "$ ", "TERM": "dumb", "HISTFILE": ""}
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=own_terminal,
            env=environment,
        )
        os.close(slave)
        self.expect(b"$ ")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def expect(self, text: bytes, timeout: float = 120.0) -> bytes:
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} did not come; there is {self.seen!r}"
            if select.select([self.master], [], [], left)[0]:
                self.seen += os.read(self.master, 4096)
        before, _, self.seen = self.seen.partition(text)
        return before

    def run(self, script: str) -> None:
        path = self.folder / "script.py"
        path.write_text(script)
        options = json.dumps({"store": str(self.folder / "store")})
        python, drive, script = (shlex.quote(str(one)) for one in (sys.executable, DRIVE, path))
        self.type(f"{python} {drive} '{options}' {python} {script}; echo \"code=$?\"\n")
        self.expect(b'code=$?"')  # its echo

    def outcome(self) -> dict:
        return json.loads((self.folder / "store.json").read_text())

    def close(self) -> None:
        self.shell.kill()
        self.shell.wait()
        os.close(self.master)


@pytest.fixture
def terminal(tmp_path):
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


COUNT = """
import signal, time
seen = []
signal.signal(signal.SIGINT, lambda *a: seen.append(1))
print("ready", flush=True)
while not seen: time.sleep(0.01)
time.sleep(0.5)
raise SystemExit(40 + len(seen))
"""


def test_ctrl_c_reaches_the_command_exactly_once(terminal):
    terminal.run(COUNT)
    terminal.expect(b"ready")
    terminal.type("\x03")
    terminal.expect(b"code=41")


def test_an_ordinary_script_ends_as_without_us(terminal):
    terminal.run("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    terminal.expect(b"ready")
    terminal.type("\x03")
    said = terminal.expect(b"code=130")
    assert b"KeyboardInterrupt" in said
    outcome = terminal.outcome()
    assert (outcome["signal"], outcome["status"], outcome["failure"]) == (signal.SIGINT, "Stopped", None)


def test_a_second_ctrl_c_kills_what_ignores_the_first(terminal):
    terminal.run(
        "import os, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "os.fork()\nprint('ready', os.getpid(), flush=True)\ntime.sleep(600)\n"
    )
    terminal.expect(b"ready")
    terminal.expect(b"ready")
    terminal.type("\x03")
    # Of two that come before the first is seen the kernel makes one.
    until(lambda: Kept(terminal.folder / "store").events("signal"))
    terminal.type("\x03")
    terminal.expect(b"code=137")
    until(lambda: subprocess.run(["pgrep", "-f", str(terminal.folder / "script.py")]).returncode == 1)


def test_the_command_reads_from_the_terminal(terminal):
    terminal.run("print('name?', flush=True)\nprint('hello', input(), flush=True)\n")
    terminal.expect(b"name?")
    terminal.type("Ada\n")
    terminal.expect(b"hello Ada")
    terminal.expect(b"code=0")


def test_ctrl_z_stops_both_and_fg_continues_both(terminal):
    terminal.run(
        "import os, time\nprint('ready', flush=True)\n"
        f"while not os.path.exists({str(terminal.folder / 'go-on')!r}): time.sleep(0.1)\n"
        "print('finished', flush=True)\n"
    )
    terminal.expect(b"ready")
    terminal.type("\x1a")
    terminal.expect(b"Stopped")
    terminal.expect(b"$ ")
    (terminal.folder / "go-on").touch()
    terminal.type("fg\n")
    terminal.expect(b"finished")
    until((terminal.folder / "store.json").exists)
    assert terminal.outcome()["exit_code"] == 0
