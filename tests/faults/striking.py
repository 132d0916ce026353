"""Runs one training, makes one fault at a stage, and says what it harmed."""

from __future__ import annotations

import re
import signal
import struct
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.combinations import AFTER, Combination
from tests.faults.commands import Answers, asked
from tests.faults.making import end_dashboard, strike
from tests.faults.struck_training import JOB, LIMIT_S, Ended, Strike

_FAULTLESS = ("trainer", "worker", "rank", "agent", "dashboard", "clock")
"""What can be struck without damage to any file of holter: no fault of its own follows."""
_SURE = re.compile(
    r"(?i)lost|kept in|cannot|could not|no space|error|damaged|unreadable|not there|killed|missing"
)


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


def judged(combination: Combination, folder: Path, preload: Path) -> Result:
    """Run a combination in an empty folder and return what it harmed."""
    began = time.monotonic()
    plain = Strike(combination, folder / "plain", preload)
    reference = plain.run(plain.command(), lambda process: _plainly(plain, process))
    struck = Strike(combination, folder / "recorded", preload)
    result = Result(combination)
    try:
        ended = struck.run(struck.holter(), lambda process: _strike(struck, process, result))
    finally:
        end_dashboard(struck)
    struct.pack_into("<q", struck.page, 0, 0)
    struct.pack_into("<q", struck.page, 8, 0)
    result.struck_calls = struct.unpack_from("<q", struck.page, 16)[0]
    result.done = struck.done()
    result.err = ended.err
    answers = asked(struck.store, JOB, struck.temporary)
    _judge(result, reference, ended, answers)
    if any(path for path in struck.temporary.glob("holter-*")) and not _may_keep(combination):
        result.problems.append("a spool stays")
    result.seconds = time.monotonic() - began
    return result


def _plainly(plain: Strike, process: subprocess.Popen[bytes]) -> None:
    """Make the same fault without holter, where it can be made."""
    if plain.reached(process) and plain.combination.when != AFTER and plain.combination.strikes_the_training:
        strike(plain)
    plain.go()


def _strike(struck: Strike, process: subprocess.Popen[bytes], result: Result) -> None:
    struck.pids["agent"] = process.pid
    if not struck.reached(process):
        result.not_struck = "the training did not come to the stage"
        return
    if struck.combination.when == AFTER:
        struck.go()
        while process.poll() is None and not list(struck.control.glob("steps-*")):
            time.sleep(0.005)
        while process.poll() is None and any(struck.training()):
            time.sleep(0.002)
        if process.poll() is not None:
            result.not_struck = "the agent had ended"
            return
    try:
        strike(struck)
    except (LookupError, OSError) as error:
        result.not_struck = f"{type(error).__name__}: {error}"
    struck.go()


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
