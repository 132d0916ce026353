"""Runs one training, makes one fault at a stage, and says what it harmed."""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.faults.combinations import AFTER, RULES_START_S, Combination
from tests.faults.commands import Answers, asked

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
LIMIT_S = 150.0
STOPPED_S = 0.7
"""How long a process is stopped; and how long a fault lasts that passes."""
JOB = "struck"
_FAULTLESS = ("trainer", "worker", "rank", "agent", "dashboard", "clock")
"""What can be struck without damage to any file of holter: no fault of its own follows."""
_SURE = re.compile(
    r"(?i)lost|kept in|cannot|could not|no space|error|damaged|unreadable|not there|killed|missing"
)


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Result:
    """What came of one combination."""

    combination: Combination
    problems: list[str] = field(default_factory=list)
    done: int = 0
    """Steps that the training took."""
    stored: int | None = None
    struck_calls: int = 0
    seconds: float = 0.0
    not_struck: str = ""
    """Why the fault could not be made."""
    err: str = ""


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


def judged(combination: Combination, folder: Path, preload: Path) -> Result:
    """Run a combination in an empty folder and return what it harmed."""
    began = time.monotonic()
    plain = Strike(combination, folder / "plain", preload)
    reference = plain.run(plain.command(), lambda process: _plainly(plain, process))
    strike = Strike(combination, folder / "recorded", preload)
    result = Result(combination)
    try:
        ended = strike.run(strike.holter(), lambda process: _strike(strike, process, result))
    finally:
        _end_dashboard(strike)
    struct.pack_into("<q", strike.page, 0, 0)
    struct.pack_into("<q", strike.page, 8, 0)
    result.struck_calls = struct.unpack_from("<q", strike.page, 16)[0]
    result.done = strike.done()
    result.err = ended.err
    answers = asked(strike.store, JOB, strike.temporary)
    _judge(result, reference, ended, answers)
    if any(path for path in strike.temporary.glob("holter-*")) and not _may_keep(combination):
        result.problems.append("a spool stays")
    result.seconds = time.monotonic() - began
    return result


# -- faults


def _plainly(plain: Strike, process: subprocess.Popen[bytes]) -> None:
    """Make the same fault without holter, where it can be made."""
    if plain.reached(process) and plain.combination.when != AFTER and plain.combination.strikes_the_training:
        _FAULTS[plain.combination.who](plain)
    plain.go()


def _strike(strike: Strike, process: subprocess.Popen[bytes], result: Result) -> None:
    strike.pids["agent"] = process.pid
    if not strike.reached(process):
        result.not_struck = "the training did not come to the stage"
        return
    if strike.combination.when == AFTER:
        strike.go()
        while process.poll() is None and not list(strike.control.glob("steps-*")):
            time.sleep(0.005)
        while process.poll() is None and any(strike.training()):
            time.sleep(0.002)
        if process.poll() is not None:
            result.not_struck = "the agent had ended"
            return
    try:
        _FAULTS[strike.combination.who](strike)
    except (LookupError, OSError) as error:
        result.not_struck = f"{type(error).__name__}: {error}"
    strike.go()


def _signal(pid: int, how: str) -> None:
    os.kill(pid, getattr(signal, how))
    if how == "SIGSTOP":
        time.sleep(STOPPED_S)
        os.kill(pid, signal.SIGCONT)


def _process(strike: Strike) -> None:
    _signal(strike.pids[strike.combination.who], strike.combination.how)


def _rules(strike: Strike) -> None:
    deadline = time.monotonic() + RULES_START_S + 15
    while time.monotonic() < deadline:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if "holter.evaluation" in process.cmdline() and any(
                    str(strike.store) in word for word in process.cmdline()
                ):
                    time.sleep(strike.combination.at)
                    _signal(process.pid, strike.combination.how)
                    return
        time.sleep(0.05)
    raise LookupError("no process of rules")


def _dashboard(strike: Strike) -> None:
    words = [sys.executable, "-m", "holter", "ui", str(strike.store), "--port", "0", "--json"]
    environment = {**strike.environment, "HOLTER_TOKEN": "token"}
    strike.dashboard = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    )
    assert strike.dashboard.stdout is not None
    strike.dashboard.stdout.readline()
    _signal(strike.dashboard.pid, strike.combination.how)


def _end_dashboard(strike: Strike) -> None:
    if strike.dashboard is not None:
        strike.dashboard.kill()
        strike.dashboard.communicate()


def _clock(strike: Strike) -> None:
    seconds = {"hour back": -3600, "hour ahead": 3600, "year 2100": 74 * 365 * 86400}
    struct.pack_into("<q", strike.page, 8, seconds[strike.combination.how])


def _calls(strike: Strike) -> None:
    name, _, passing = strike.combination.how.partition(" ")
    struct.pack_into("<q", strike.page, 24, int(strike.combination.at * 8))
    struct.pack_into("<q", strike.page, 0, getattr(errno, name))
    if passing:
        time.sleep(STOPPED_S)
        struct.pack_into("<q", strike.page, 0, 0)


def _store(strike: Strike) -> None:
    how = strike.combination.how
    if how == "missing":
        shutil.rmtree(strike.store, ignore_errors=True)
    elif how == "moved for a while":
        elsewhere = strike.folder / "elsewhere"
        strike.store.rename(elsewhere)
        time.sleep(STOPPED_S)
        if strike.store.exists():  # what a writer made meanwhile
            shutil.rmtree(strike.store)
        elsewhere.rename(strike.store)
    elif how == "a file":
        shutil.rmtree(strike.store, ignore_errors=True)
        strike.store.touch()
    else:
        _calls(strike)


def _spool(strike: Strike) -> None:
    if strike.combination.how == "missing":
        for path in strike.temporary.glob("holter-*"):
            shutil.rmtree(path, ignore_errors=True)
    else:
        _calls(strike)


def _file(below: str, pattern: str) -> Callable[[Strike], None]:
    def damage(strike: Strike) -> None:
        deadline = time.monotonic() + 3
        while not (found := sorted(getattr(strike, below).glob(pattern))) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not found:
            raise LookupError(f"no file {pattern}")
        path = found[int(strike.combination.at * len(found))]
        size = path.stat().st_size
        at = int(size * (strike.combination.at * 1000 % 1))
        if strike.combination.how == "truncated":
            os.truncate(path, at)
        else:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(bytes((at * 37 + i * 101) % 256 for i in range(min(64, size - at))))

    return damage


_FAULTS: dict[str, Callable[[Strike], None]] = {
    "trainer": _process, "worker": _process, "rank": _process, "agent": _process,
    "rules": _rules, "dashboard": _dashboard, "clock": _clock, "store": _store, "spool": _spool,
    "segment": _file("temporary", "holter-*/*.seg"), "head": _file("temporary", "holter-*/*.head"),
    "journal": _file("temporary", "holter-*/*.journal"), "orders": _file("temporary", "holter-*/*.orders"),
    "manifest": _file("store", "*/job.json"), "parquet": _file("store", "*/*/*/*.parquet"),
}  # fmt: skip


# -- judging


def _gone(combination: Combination) -> bool:
    """Whether the job itself is damaged beyond describing."""
    return (combination.who == "store" and combination.how in ("missing", "a file")) or (
        combination.who == "manifest"
    )


def _may_keep(combination: Combination) -> bool:
    return (
        combination.who == "store"
        or combination.who in ("manifest", "spool")
        or combination.how == "overwritten"
    )


def _judge(result: Result, reference: Ended, ended: Ended, answers: Answers | str) -> None:
    one, problems = result.combination, result.problems
    expected = reference.code % 256 if reference.code >= 0 else 128 - reference.code
    if one.who == "agent" and one.how == "SIGKILL" and not result.not_struck:
        expected = -signal.SIGKILL
    if ended.code == -1000:
        problems.append(f"the run hangs after {LIMIT_S:.0f} s")
    elif ended.code != expected:
        problems.append(f"exit code {ended.code} instead of {expected}")
    if sorted(ended.out.splitlines()) != sorted(reference.out.splitlines()):  # ranks end in any order
        problems.append(f"standard output {ended.out!r} instead of {reference.out!r}")
    if ended.err.count("Traceback (most") > reference.err.count("Traceback (most"):
        problems.append("a traceback")
    if one.who in _FAULTLESS and (
        wrong := [line for line in ended.err.splitlines() if "internal error" in line]
    ):
        problems.append(wrong[0].strip())
    if isinstance(answers, str):
        problems.append(answers)
        return
    for name, code in answers.codes.items():
        said = answers.said[name]
        if "Traceback (most" in said:
            problems.append(f"holter {name}: {said.strip().splitlines()[-1]}")
        elif code not in (0, 4 if name.startswith("recover") else 0) and not (_gone(one) and said.strip()):
            problems.append(f"holter {name} ends with {code}: {said.strip()[:200]}")
    result.stored = answers.stored
    _count(result, ended, answers)


def _count(result: Result, ended: Ended, answers: Answers) -> None:
    stored = result.stored or 0
    if stored > result.done + 2:
        result.problems.append(f"{stored} steps stored of {result.done}")
    if stored < result.done and not _told(ended, answers):
        result.problems.append(f"{result.done - stored} of {result.done} steps are lost, and nothing says so")


def _told(ended: Ended, answers: Answers) -> bool:
    cost = answers.described.get("cost") or {}
    if cost.get("dropped") or cost.get("faults") or answers.described.get("skipped"):
        return True
    return bool(_SURE.search(ended.err)) or any(_SURE.search(said) for said in answers.said.values())
