"""Reads a small spool and a small job with one damaged byte, and says what the damage harmed beyond it."""

from __future__ import annotations

import contextlib
import io
import math
import os
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.agent.spool import Writer as SpoolWriter
from tests.cli.conftest import told
from tests.faults.damages import damages

from holter.agent.drain.clock import Clock
from holter.agent.drain.drain import Drain
from holter.cli import main
from holter.schema import record
from holter.store.job import create
from holter.store.writer import Writer

STEPS = 6
RECORDS_A_STEP = 4
SOUND, STRUCK = 3, 1
"""Ranks of the two processes; only files of one of them are damaged."""
FILES = ("segment", "head", "journal")


@dataclass
class Tally:
    """What came of all damages of one file."""

    tried: int = 0
    unharmed: int = 0
    """Damages after which everything is read as before."""
    problems: list[str] = field(default_factory=list)


class Spool:
    """A spool of two processes, and the file of one of them that is damaged."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        SpoolWriter(folder, rank=SOUND).steps(STEPS)
        struck = SpoolWriter(folder, rank=STRUCK, salt=1)
        struck.steps(STEPS)
        struck.head(step=STEPS, dropped=2, cost=1000, open_=((time.monotonic_ns(), 2, "Net"),))
        for path in folder.glob("*.seg"):  # most of a new segment is a hole
            os.truncate(path, (STEPS * RECORDS_A_STEP + 4) * record.RECORD_SIZE)
        self.path = (
            folder
            / {
                "segment": record.segment_name(struck.key, 0, 0),
                "head": record.head_name(struck.key, 0),
                "journal": record.journal_name(struck.key),
            }[name]
        )
        self.content = self.path.read_bytes()

    def drained(self) -> tuple[Drain, Any]:
        """Return the agent's drain after it has taken everything, and what it took."""
        drain = Drain(self.folder, Clock.now())
        return drain, drain.poll(final=True)


def spool(folder: Path, name: str, every: int = 1, first: int = 0, *, stored: bool = False) -> Tally:
    """Damage one file of a spool at `every` so many bytes; `stored` also writes and describes the job."""
    made, tally = Spool(folder / "spool", name), Tally()
    whole = _steps(made.drained()[1])
    for how, at, content in damages(made.content, every, first):
        made.path.write_bytes(content)
        tally.tried += 1
        wrong = ""
        try:
            drain, batch = made.drained()
            steps = _steps(batch)
            tally.unharmed += steps == whole
            wrong = _judged(name, at, how, steps, whole)
            if not wrong and stored:
                wrong = _stored(folder / "store", batch)
            del drain
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            tally.problems.append(f"{name} {how} at byte {at}: {wrong}")
    return tally


def manifest(folder: Path, every: int = 1, first: int = 0, names: tuple[str, ...] = ("job.json",)) -> Tally:
    """Damage documents of a job at `every` so many bytes; the commands must read it or refuse in words."""
    store, tally = folder / "store", Tally()
    told("before", str(store), ranks=1, cores=1, steps=12, samples=6)
    told("after", str(store), ranks=1, cores=1, steps=12, samples=6)
    for path in (path for name in names for path in sorted(store.glob(f"before/{name}"))):
        content = path.read_bytes()
        for how, at, damaged in damages(content, every, first):
            path.write_bytes(damaged)
            tally.tried += 1
            wrong, unharmed = _asked(store)
            tally.unharmed += unharmed
            if wrong:
                tally.problems.append(f"{path.name} {how} at byte {at}: {wrong}")
        path.write_bytes(content)
    return tally


def _steps(batch: Any) -> Counter[tuple[int, int, int]]:
    """Count (rank, step, duration) of the steps."""
    if not batch.spans:
        return Counter()
    codes, texts = batch.spans["phase"]
    rows = zip(batch.spans["rank"], batch.spans["step"], batch.spans["duration"], codes, strict=True)
    return Counter((int(r), int(s), int(d)) for r, s, d, code in rows if texts[code] == "step")


def _judged(name: str, at: int, how: str, steps: Any, whole: Any) -> str:
    """Say what was harmed beyond the damaged record and those that a cut took."""
    if lost := {one for one in whole - steps if one[0] == SOUND}:
        return f"the other process lost {len(lost)} steps"
    if name == "segment" and how in ("flipped", "full"):
        number = at // record.RECORD_SIZE // RECORDS_A_STEP
        others = {one for one in whole if one[0] == STRUCK and one[1] != number}
        # A last byte that becomes 0 ends the segment, as that of a record that is being written.
        if number < STEPS and not others <= set(steps) and at % record.RECORD_SIZE != record.RECORD_SIZE - 1:
            return f"records beside the damaged one are lost: {sorted(others - set(steps))}"
    return ""


def _stored(store: Path, batch: Any) -> str:
    """Write what was drained as the agent does, and describe the job."""
    shutil.rmtree(store, ignore_errors=True)
    job = create(str(store), "job", command=["x"], interval_ms=500, rules=[], now_ns=time.time_ns() - 10**10)
    writer = Writer(job, "node")
    for table in ("spans", "scalars"):
        if rows := getattr(batch, table):
            writer.append(table, rows)
    writer.close()
    if writer.fault:
        return f"not stored: {writer.fault}"
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(["describe", "job", "--store", str(store), "--json"])
    if code or "Traceback" in err.getvalue():
        return f"describe ends with {code}: {err.getvalue().strip()[-300:]}"
    return _impossible(out.getvalue())


def _impossible(text: str) -> str:
    """Say what no sound description holds."""
    import json

    document = json.loads(text)
    for name in ("phases", "steps"):
        for key, value in (document[name] or {}).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                if not math.isfinite(value) or value < 0:
                    return f"{name}.{key} is {value}"
                if key.endswith("_pct") and value > 100.01:
                    return f"{name}.{key} is {value}"
    return ""


def _asked(store: Path) -> tuple[str, bool]:
    """Ask the commands about the damaged job; say what is wrong, and whether both were answered."""
    good = True
    for words in (["jobs", "--json"], ["describe", "before", "--json"]):
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            try:
                code = main([*words, "--store", str(store)])
            except BaseException as error:
                return f"holter {words[0]}: {type(error).__name__}: {error}", False
        said = err.getvalue().strip()
        if "Traceback" in said or (code and not said):
            return f"holter {words[0]} ends with {code}: {said[-300:]}", False
        if words[0] == "jobs" and '"after"' not in out.getvalue():
            return f"the other job is not listed: {said[-300:]}", False
        good = good and code == 0
    return "", good
