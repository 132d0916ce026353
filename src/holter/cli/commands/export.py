"""`holter export JOB --format FORMAT`: a job, or a part of it, as files that other programs show."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.cli import options
from holter.cli.options import Refusal, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.report.exports import ExportSelection
    from holter.store.trial import Trial

ABOUT = "Write a job, or a part of it, as files that other programs show."
EXAMPLES = """  holter export latest --format tensorboard -o runs && tensorboard --logdir runs
  holter export latest --format perfetto --steps 100:120 --rank 0"""


def main(words: list[str]) -> int:
    """Run `holter export`."""
    from holter.report.exports import formats

    known = formats()
    listed = "; ".join(f"{name}: {module.ABOUT}" for name, module in known.items())
    parser = options.Parser("export", ABOUT, EXAMPLES)
    options.add_job(parser)
    options.add_store(parser)
    parser.add_argument("--format", required=True, metavar="FORMAT", help=listed)
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="the file to write, or for formats of many files a new or empty folder; "
        "default: the job's name, with the format's ending, in this folder",
    )
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.add_argument("--steps", metavar="A:B", help="only from step A up to step B, which is left out")
    parser.add_argument("--seconds", metavar="A:B", help="only this stretch, in seconds since the job began")
    parser.add_argument("--rank", metavar="R,...", help="only these ranks")
    parser.add_argument(
        "--low-gpu",
        metavar="PCT",
        type=float,
        help="chrome: mark where a GPU was less busy than this, with all that was read at that moment",
    )
    given = parser.read(words)
    if given.format not in known:
        raise Refusal(f"no format {given.format!r}{nearest(given.format, known)}; valid: {', '.join(known)}")
    form = known[given.format]
    if given.output is None and not form.SUFFIX:
        raise Refusal(f"--output is required: --format {given.format} writes a folder")
    from holter.store.trial import Trial

    folder = options.find_job(given.job, given.store)
    trial = Trial(folder)
    shown = given.output or folder.name + form.SUFFIX
    output = Path(shown).expanduser()
    _check(output, shown, is_folder=not form.SUFFIX, force=given.force)
    chosen = _chosen(trial, given.steps, given.seconds, given.rank)
    chosen = replace(chosen, low_gpu_pct=given.low_gpu)
    try:
        with _draft(output, is_folder=not form.SUFFIX) as draft:
            written = form.write(trial, chosen, draft)
            if not written:
                some = given.steps or given.seconds or given.rank
                part = " in what was chosen of it" if some else f"; {_how(trial)}"
                raise Refusal(f"job {folder.name} has no {form.NEEDS}{part}", Refusal.UNREADABLE)
            draft.replace(output)
    except OSError as error:
        raise Refusal(f"{shown} cannot be written: {error}", Refusal.UNREADABLE) from error
    for skipped in trial.skipped:
        options.warn(f"left out {skipped['file']}: {skipped['why']}")
    rows = counted(written, "row or value", "rows or values")
    options.say(f"job {folder.name}: {rows}; show them: {form.SHOW.format(output=shown)}")
    return 0


def _how(trial: Trial) -> str:
    """Say what a job lacks that holds nothing of what was asked for."""
    from holter.views.jobs import RUNNING

    if trial.manifest.get("status") in RUNNING:
        return "it runs: they may come yet"
    return "`holter run -- python train.py` records them, `holter run --help` says with which options"


def _check(output: Path, shown: str, *, is_folder: bool, force: bool) -> None:
    """Refuse to write over what is there."""
    if is_folder:
        # Two exports in one folder would be shown as one; and no option of ours deletes a folder of files.
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise Refusal(f"{shown} is not an empty folder; give a new one to -o")
    elif output.is_dir():
        raise Refusal(f"{shown} is a folder; give a file to -o")
    elif os.path.lexists(output) and not force:
        raise Refusal(f"{shown} exists; --force writes over it")


@contextlib.contextmanager
def _draft(output: Path, *, is_folder: bool) -> Iterator[Path]:
    """Make a place next to the output to write on; what is left on it is removed."""
    output.parent.mkdir(parents=True, exist_ok=True)
    around = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        draft = around / output.name
        if is_folder:
            draft.mkdir()
        yield draft
    finally:
        shutil.rmtree(around, ignore_errors=True)


def _chosen(trial: Trial, steps: str | None, seconds: str | None, ranks: str | None) -> ExportSelection:
    from holter.report.exports import ExportSelection

    if steps and seconds:
        raise Refusal("--steps and --seconds both choose a stretch of time; give one of them")
    start, end = None, None
    if seconds:
        first, last = _pair("--seconds", seconds, float)
        began = int(trial.manifest.get("start") or 0)
        start = None if first is None else began + round(first * 1e9)
        end = None if last is None else began + round(last * 1e9)
    if steps:
        start, end = _time_of_steps(trial, *_pair("--steps", steps, int))
    if start is not None and end is not None and start >= end:
        raise Refusal(f"{steps or seconds} ends before it begins")
    return ExportSelection(start, end, _ranks(trial, ranks) if ranks else None)


def _pair(option: str, text: str, number: type[float] | type[int]) -> tuple[float | None, float | None]:
    first, colon, last = text.partition(":")
    try:
        if colon and text != ":":
            return (number(first) if first else None), (number(last) if last else None)
    except ValueError:
        pass
    raise Refusal(f"{option} {text!r} is no range; valid: A:B, A: or :B, as in 100:120")


def _time_of_steps(trial: Trial, first: float | None, last: float | None) -> tuple[int | None, int | None]:
    """Return from where the first step begins on any rank to where the last one begins."""
    from holter.views.tables import steps_of

    steps = steps_of(trial)
    if not steps.rows:
        raise Refusal("--steps: the job has no steps; --seconds chooses by time", Refusal.UNREADABLE)
    known = steps["step"]
    inside = (known >= (first or 0)) & (known < (last if last is not None else known.max() + 1))
    if not inside.any():
        raise Refusal(f"--steps: none of them is there; the job has {known.min()} to {known.max()}")
    chosen = steps.where(inside)
    ends = chosen["time"] + chosen["duration"]
    return (
        None if first is None else int(chosen["time"].min()),
        None if last is None else int(ends.max()),
    )


def _ranks(trial: Trial, text: str) -> tuple[int, ...]:
    try:
        ranks = tuple(int(word) for word in text.split(","))
    except ValueError:
        raise Refusal(f"--rank {text!r} is no list of ranks; valid: 0 or 0,3") from None
    tables = ("spans", "operators", "kernels", "scalars")
    union = " UNION ".join(f"SELECT DISTINCT rank FROM {table}" for table in tables)  # noqa: S608
    there = sorted(int(rank) for rank in trial.sql(union)["rank"])
    if missing := [rank for rank in ranks if rank not in there]:
        raise Refusal(f"--rank: the job has no rank {missing[0]}; it has {', '.join(map(str, there))}")
    return ranks
