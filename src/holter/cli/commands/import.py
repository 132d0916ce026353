# ruff: noqa: N999 (the module of a command has its name)
"""`holter import PATH…`: make a job of traces that other tools recorded."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.cli import options, output
from holter.cli.naming import command_for
from holter.cli.options import Refusal, Refusing

if TYPE_CHECKING:
    from holter.importers import Report
    from holter.store.job import JobFolder

ABOUT = """Make a job of traces that other tools recorded. Reads torch.profiler (Kineto) and Chrome JSON, also
compressed; profiler-output folders of SageMaker; tensor folders of smdebug; Nsight Systems exports to SQLite;
XPlane of TensorFlow and JAX."""
EXAMPLES = """  holter import worker0.pt.trace.json.gz
  holter import traces/ --job slow-run && holter diagnose slow-run
  holter import run.sqlite --json"""

_MOST_FAULTS = 8
_AT_ONCE = 1_000_000
"""A larger trace is judged on demand, because that takes seconds."""


def main(words: list[str]) -> int:
    """Run `holter import`."""
    parser = options.Parser("import", ABOUT, EXAMPLES, "--store", "--json")
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="a trace, or a folder of traces, such as one per rank"
    )
    parser.add_argument("--job", metavar="NAME", help="the job's name; default: made from the first path")
    parser.add_argument(
        "--on",
        metavar="WHERE",
        help="where several files are read: here, processes, processes:N, ray, ray://HOST:PORT, "
        "dask:ADDRESS; default: processes, if the files are large",
    )
    given = parser.read(words)
    paths = [Path(path).expanduser() for path in given.paths]
    for path in paths:
        if not path.exists():
            raise Refusal(f"no such file or folder: {str(path)!r}", Refusal.NOT_FOUND)
    from holter.importers import UnreadableError, import_job
    from holter.importers.executors import UnknownExecutorError
    from holter.store import job

    name = given.job or _name(paths[0])
    with (
        output.progress_line() as progress,
        Refusing(UnreadableError, OSError, code=Refusal.UNREADABLE),
        Refusing(job.BadJobName, job.JobExists, job.StoreNotWritable, UnknownExecutorError),
    ):
        folder, report = import_job(
            paths,
            job.store_url(given.store),
            name,
            now_ns=time.time_ns(),
            on=given.on,
            on_progress=progress,
        )
    if report.events <= _AT_ONCE:
        _judge(folder)
    if given.json:
        output.write_json({"schema": 1, "job": folder.name, "url": folder.url, **report.document()})
    else:
        _print(folder, report)
    return 0


def _judge(folder: JobFolder) -> None:
    """Store a verdict for the list of jobs; a store that is full keeps the job without one."""
    from holter.store.trial import Trial
    from holter.views.course import course
    from holter.views.document.description import describe
    from holter.views.jobs import judged

    trial = Trial(folder)
    with suppress(OSError):
        folder.update(verdict=judged(describe(trial)), step_course=course(trial))


def _print(folder: JobFolder, report: Report) -> None:
    rows = ", ".join(_rows(table, count) for table, count in report.rows.most_common())
    counts = (
        (len(report.files), "file"),
        (len(set(report.ranks.values())), "rank"),
        (report.events, "event"),
    )
    print(f"job {folder.name}: {', '.join(counted(*one) for one in counts)}")
    output.say(f"  {rows or 'no events'}")
    faults = [
        f"{file}: {times:,} x {why}" if times > 1 else f"{file}: {why}"
        for file, counts in report.skipped.items()
        for why, times in counts.items()
    ]
    faults += [f"{file}: {note}" for file, notes in report.notes.items() for note in notes]
    for fault in faults[:_MOST_FAULTS]:
        output.warn(fault)
    if len(faults) > _MOST_FAULTS:
        output.warn(f"and {len(faults) - _MOST_FAULTS} more; --json lists all")
    print(f"why it is slow: {command_for(folder, 'diagnose')}")


def _rows(table: str, count: int) -> str:
    """Return a number of rows in words: `1 operator`, `2 memory operations`."""
    words = table.replace("_", " ")
    return f"{count:,} {words.removesuffix('s') if count == 1 else words}"


def _name(path: Path) -> str:
    """Return a name for the job: the file's name without its endings, and the time."""
    stem = re.sub(r"(\.(gz|json|pt|trace|sqlite|xplane|pb|nsys-rep))+$", "", path.resolve().name)
    stem = re.sub(r"[^A-Za-z0-9._]+", "-", stem).strip("-._")[:80].rstrip("-._")
    return f"{stem or 'import'}-{time.strftime('%Y%m%d-%H%M%S')}"
