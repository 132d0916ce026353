"""One training with its store, its spool and the page of faults, which waits at a stage to be struck."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.faults.combinations import AFTER, Combination

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
LIMIT_S = 150.0
JOB = "struck"


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def library(folder: Path) -> Path:
    """Compile what makes calls fail; raises `OSError` or `CalledProcessError` without a compiler."""
    made = folder / "failing_calls.so"
    words = ["cc", "-shared", "-fPIC", "-O1", "-o", str(made), str(HERE / "failing_calls.c"), "-ldl"]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return made


class Strike:
    """One training with its store, its spool and the page of faults."""

    def __init__(self, combination: Combination, folder: Path, preload: Path) -> None:
        self.combination, self.folder = combination, folder
        self.store, self.temporary, self.control = folder / "store", folder / "tmp", folder / "control"
        for made in (self.temporary, self.control):
            made.mkdir(parents=True)
        page = folder / "page"
        page.write_bytes(bytes(4096))
        with page.open("r+b") as file:
            self.page = mmap.mmap(file.fileno(), 4096)
        below = self.temporary if combination.who == "spool" else self.store
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("HOLTER_")},
            "PYTHONPATH": str(SOURCE),
            "TMPDIR": str(self.temporary),
            "LD_PRELOAD": str(preload),
            "HOLTER_FAULTS": str(page),
            "HOLTER_FAULTS_BELOW": str(below),
        }
        self.pids: dict[str, int] = {}
        self.dashboard: subprocess.Popen[str] | None = None

    # -- the training

    def command(self) -> list[str]:
        kind, when = self.combination.kind, self.combination.when
        return [sys.executable, str(HERE / "training.py"), kind, when, str(self.control)]

    def holter(self) -> list[str]:
        more = ["--profile-steps", "50:70:cprofile"] if self.combination.when == "window" else []
        if self.combination.when == "save":
            more += ["--save", "weights@10:raw", "--save", "gradients@10"]
        return [
            sys.executable, "-m", "holter", "run", "--store", str(self.store), "--job", JOB, *more,
            "--", *self.command(),
        ]  # fmt: skip

    def run(self, words: list[str], strike: Callable[[subprocess.Popen[bytes]], None]) -> Ended:
        with (self.folder / "out").open("w+") as out, (self.folder / "err").open("w+") as err:
            process = subprocess.Popen(
                words,
                stdout=out,
                stderr=err,
                env=self.environment,
                cwd=self.temporary,
                start_new_session=True,
            )
            try:
                strike(process)
                code = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                code = -1000
            finally:
                with contextlib.suppress(ProcessLookupError):
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self.wait_for_training()
            out.seek(0), err.seek(0)
            return Ended(code, out.read(), err.read())

    def reached(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the stage; returns whether the training came to it."""
        if self.combination.when == AFTER:
            return True
        deadline = time.monotonic() + LIMIT_S
        while not (self.control / "reached").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        found = json.loads((self.control / "reached").read_text())
        self.pids |= {"trainer": found["trainer"], "rank": found["trainer"]}
        self.pids |= {"worker": found["worker"][0]} if found["worker"] else {}
        return True

    def go(self) -> None:
        (self.control / "go").touch()

    def wait_for_training(self) -> None:
        """Wait for a training that outlives its agent."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and any(self.training()):
            time.sleep(0.02)

    def training(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                if str(HERE / "training.py") in words[:2] and str(self.control) in words:
                    yield process  # one that has ended and was not waited for has no words

    def done(self) -> int:
        return sum(
            struct.unpack("<q", path.read_bytes())[0]
            for path in self.control.glob("steps-*")
            if path.stat().st_size
        )
