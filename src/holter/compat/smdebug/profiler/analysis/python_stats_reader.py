"""Segments of a training whose Python code was profiled: in SageMaker's folders, and in jobs of holter's."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from holter.analysis.grouping import groups
from holter.analysis.host.python_functions import flame_of_stacks
from holter.compat.smdebug.profiler.python_profile_utils import PythonProfileModes, StepPhase, mode_of
from holter.importers.sagemaker import marshaled
from holter.report.exports.pstats import as_stats
from holter.store.parquet.queries import literal
from holter.store.trial import Trial
from holter.store.urls import place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.schema.table import Table
    from holter.store.job import JobFolder
    from holter.store.place import Entry, Place

_EDGE = r"([a-z]+)-(\*|\d+)-([a-z]+)-(\d+(?:\.\d+)?)"
_FILE = re.compile(
    r"(?:.*?/)??(?:(?P<framework>[^/]+)/(?P<profiler>cprofile|pyinstrument)/)?(?P<node>[^/]+)/"
    rf"{_EDGE}_{_EDGE}/(?P<file>python_stats(?:\.json|\.html)?)",
    re.IGNORECASE,
)
_LARGEST = 1 << 28
ORDER = {phase: number for number, phase in enumerate(StepPhase)}


@dataclass(frozen=True)
class StepPythonProfileStats:
    """One segment: from one place in the training to another. Times in microseconds since the epoch."""

    profiler_name: str
    framework: str
    node_id: str
    start_mode: PythonProfileModes
    start_step: float
    """-1 before the first step."""
    start_phase: StepPhase
    start_time_since_epoch_in_micros: float
    end_mode: PythonProfileModes
    end_step: float
    """Infinity when the script ended."""
    end_phase: StepPhase
    end_time_since_epoch_in_micros: float
    stats_path: str
    timer: str = ""
    """What times of cProfile are, where that is known."""
    load: Any = field(default=None, repr=False, compare=False)
    """Reads what was found: statistics of cProfile, or the tree of pyinstrument as a mapping."""

    @property
    def starts(self) -> tuple[float, int]:
        """Where it starts: the step, and how far in it."""
        return self.start_step, ORDER[self.start_phase]

    @property
    def ends(self) -> tuple[float, int]:
        """Where it ends."""
        return self.end_step, ORDER[self.end_phase]


def of_folder(url: str) -> list[StepPythonProfileStats]:
    """List the segments below a folder or a URL, in the order of time."""
    where = place(url)
    found = []
    for entry in where.files():
        if match := _FILE.fullmatch(f"{where.url}/{entry.key}"):
            begin, end = match.groups()[3:7], match.groups()[7:11]
            found.append(
                StepPythonProfileStats(
                    profiler_name=(match["profiler"] or _by_file(match["file"])).lower(),
                    framework=match["framework"] or "",
                    node_id=match["node"],
                    start_mode=mode_of(begin[0]),
                    start_step=_step(begin[1], -1.0),
                    start_phase=_phase(begin[2]),
                    start_time_since_epoch_in_micros=float(begin[3]),
                    end_mode=mode_of(end[0]),
                    end_step=_step(end[1], -1.0 if mode_of(end[0]).name == "PRE_STEP_ZERO" else math.inf),
                    end_phase=_phase(end[2]),
                    end_time_since_epoch_in_micros=float(end[3]),
                    stats_path=f"{where.url}/{entry.key}",
                    load=partial(_load, where, entry),
                )
            )
    return sorted(found, key=lambda one: (one.start_time_since_epoch_in_micros, one.stats_path))


def _load(where: Place, entry: Entry) -> object:
    """Read a file; raises `UnreadableError` or `OSError`."""
    path = where.local(entry)
    if path.name == "python_stats":
        return marshaled.statistics(path)
    if path.name.endswith(".html"):
        return str(path)
    if path.stat().st_size > _LARGEST:
        raise OSError(f"{path}: {path.stat().st_size} bytes are more than a session has")
    return json.loads(path.read_text(encoding="utf-8", errors="replace"))


def of_job(folder: JobFolder) -> list[StepPythonProfileStats]:
    """List the segments of a job: parts of steps, each with one timer."""
    trial = Trial(folder)
    found = []
    for table, profiler in (("python_functions", "cprofile"), ("python_stacks", "pyinstrument")):
        rows = trial.table(table)
        for mine in _segments(rows):
            first = next(mine.where(slice(0, 1)).to_rows())
            part, step = first["phase"], first["step"]
            mode = PythonProfileModes.PRE_STEP_ZERO if step < 0 else mode_of(first["mode"])
            begin = StepPhase.FORWARD_PASS_END
            end = StepPhase.STEP_END
            if step < 0:
                begin, end = StepPhase.START, StepPhase.STEP_START
            elif part == "forward":
                begin, end = StepPhase.STEP_START, StepPhase.FORWARD_PASS_END
            elif part == "data_loading":
                begin = end = StepPhase.STEP_START
            found.append(
                StepPythonProfileStats(
                    profiler_name=profiler,
                    framework="pytorch",
                    node_id=f"{first['node']}-{first['rank']}",
                    start_mode=mode,
                    start_step=step,
                    start_phase=begin,
                    start_time_since_epoch_in_micros=first["time"] / 1000,
                    end_mode=mode,
                    end_step=step,
                    end_phase=end,
                    end_time_since_epoch_in_micros=(first["time"] + first["duration"]) / 1000,
                    stats_path=f"{folder.url}/{table}",
                    timer=first.get("timer", ""),
                    load=partial(_of_rows, trial, mine, profiler),
                )
            )
    return sorted(found, key=lambda one: (one.start_time_since_epoch_in_micros, one.node_id))


def _of_rows(trial: Trial, rows: Table, profiler: str) -> object:
    """Return what rows hold, as the file of that profiler would."""
    if profiler == "pyinstrument":
        return {"root_frame": flame_of_stacks(rows).to_json()}
    first = next(rows.where(slice(0, 1)).to_rows())
    names = ("rank", "step", "mode", "phase", "timer")
    values = [str(value) if isinstance(value := first[name], int) else literal(value) for name in names]
    same = " AND ".join(map(" = ".join, zip(names, values, strict=True)))
    calls = trial.table("python_calls", where=same, start_ns=first["time"], end_ns=first["time"] + 1)
    return as_stats(rows, calls)


def _segments(rows: Table) -> Iterator[Table]:
    names = [name for name in ("time", "rank", "step", "mode", "phase", "timer", "node") if name in rows]
    yield from map(rows.where, groups(*(rows[name] for name in names)).values())


def _by_file(name: str) -> str:
    return "cprofile" if name == "python_stats" else "pyinstrument"


def _step(text: str, without: float) -> float:
    return without if text == "*" else int(text)


def _phase(text: str) -> StepPhase:
    return next((phase for phase in StepPhase if phase.value == text.lower()), StepPhase.STEP_START)
