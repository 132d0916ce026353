"""`holter export JOB --format FORMAT`: write a job, or a part of it, as files for other programs."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.cli import options, output
from holter.cli.job_lookup import find_job
from holter.cli.options import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.report.exports import ExportSelection
    from holter.store.trial import Trial

ABOUT = "Write a job, or a part of it, as files that other programs can show."
EXAMPLES = """  holter export latest --format tensorboard -o runs && tensorboard --logdir runs
  holter export latest --format perfetto --steps 100:120 --rank 0"""


def main(words: list[str]) -> int:
    """Run `holter export`."""
    from holter.report.exports import formats

    known = formats()
    listed = "; ".join(f"{name}: {module.ABOUT}" for name, module in known.items())
    parser = options.Parser("export", ABOUT, EXAMPLES, "job", "--store", "--force", "--json")
    parser.add_argument("--format", required=True, metavar="FORMAT", help=listed)
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="the file to write, or a new or empty folder for formats of several files; "
        "default: the job's name with the format's ending, in this folder",
    )
    parser.add_argument("--steps", metavar="A:B", help="only steps from A to B, without B")
    parser.add_argument("--seconds", metavar="A:B", help="only this time, in seconds since the job began")
    parser.add_argument("--rank", metavar="R,...", help="only these ranks")
    parser.add_argument(
        "--low-gpu",
        metavar="PCT",
        type=options.within(float, 0, 100, "percent"),
        help="format chrome: mark times at which a GPU was less busy, with all metrics of that time",
    )
    given = parser.read(words)
    options.check_choice("format", given.format, known)
    form = known[given.format]
    if given.output is None and not form.SUFFIX:
        raise Refusal(f"--output is required: --format {given.format} writes a folder")
    from holter.store.trial import Trial
    from holter.views.clocks import aligned
    from holter.views.jobs import RUNNING

    folder = find_job(given.job, given.store)
    trial = aligned(Trial(folder))
    shown = given.output or folder.name + form.SUFFIX
    target = Path(shown).expanduser()
    _check(target, shown, is_folder=not form.SUFFIX, force=given.force)
    chosen = _chosen(trial, given.steps, given.seconds, given.rank)
    chosen = replace(chosen, low_gpu_pct=given.low_gpu)
    try:
        with _draft(target, is_folder=not form.SUFFIX) as draft:
            written = form.write(trial, chosen, draft)
            if not written:
                why = "; `holter run --help` lists the options that record them"
                if given.steps or given.seconds or given.rank:
                    why = " in the selected part"
                elif trial.manifest.get("status") in RUNNING:
                    why = "; the job still runs and may record some later"
                raise Refusal(f"job {folder.name} has no {form.NEEDS}{why}", Refusal.UNREADABLE)
            draft.replace(target)
    except OSError as error:
        raise Refusal(f"{shown} cannot be written: {error}", Refusal.UNREADABLE) from error
    except ValueError as error:
        raise Refusal(f"--format {given.format}: {error}") from error
    for skipped in trial.skipped:
        output.warn(f"left out {skipped['file']}: {skipped['why']}")
    show = form.SHOW.format(output=shown)
    if given.json:
        about = {"job": folder.name, "format": given.format, "path": shown, "rows": written, "show": show}
        output.write_json({"schema": 1, **about, "skipped": trial.skipped})
    else:
        output.say(
            f"job {folder.name}: {counted(written, 'row or value', 'rows or values')}; show them: {show}"
        )
    return 0


def _check(target: Path, shown: str, *, is_folder: bool, force: bool) -> None:
    """Refuse to overwrite files."""
    if is_folder:
        # Programs would show two exports in one folder as one; and no option deletes a folder of files.
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise Refusal(f"{shown} is not an empty folder; give a new one to -o")
    elif target.is_dir():
        raise Refusal(f"{shown} is a folder; give a file to -o")
    elif os.path.lexists(target) and not force:
        raise Refusal(f"{shown} exists; --force overwrites it")


@contextlib.contextmanager
def _draft(target: Path, *, is_folder: bool) -> Iterator[Path]:
    """Yield a temporary path next to the target; it is removed afterwards."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True
    ) as around:
        draft = Path(around) / target.name
        if is_folder:
            draft.mkdir()
        yield draft


def _chosen(trial: Trial, steps: str | None, seconds: str | None, ranks: str | None) -> ExportSelection:
    from holter.report.exports import ExportSelection

    if steps and seconds:
        raise Refusal("--steps and --seconds both select a time; give one of them")
    start, end = None, None
    if seconds:
        first, last = options.range_of("--seconds", seconds, float)
        began = int(trial.manifest.get("start") or 0)
        start = None if first is None else began + round(first * 1e9)
        end = None if last is None else began + round(last * 1e9)
    if steps:
        start, end = _time_of_steps(trial, *options.range_of("--steps", steps, int))
    if start is not None and end is not None and start >= end:
        raise Refusal(f"{steps or seconds} ends before it begins")
    return ExportSelection(start, end, _ranks(trial, ranks) if ranks else None)


def _time_of_steps(trial: Trial, first: int | None, last: int | None) -> tuple[int | None, int | None]:
    """Return the begin of the first step and the end of the last one, over all ranks."""
    from holter.views.tables import steps_of

    steps = steps_of(trial)
    if not steps.rows:
        raise Refusal("--steps: the job has no steps; --seconds selects by time", Refusal.UNREADABLE)
    known = steps["step"]
    inside = (known >= (first or 0)) & (known < (last if last is not None else known.max() + 1))
    if not inside.any():
        raise Refusal(f"--steps: the job has steps {known.min()} to {known.max()} only")
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
        raise Refusal(f"--rank {text!r} is not a list of ranks; valid: 0 or 0,3") from None
    tables = ("spans", "operators", "kernels", "scalars")
    union = " UNION ".join(f"SELECT DISTINCT rank FROM {table}" for table in tables)  # noqa: S608
    there = sorted(int(rank) for rank in trial.sql(union)["rank"])
    if missing := [rank for rank in ranks if rank not in there]:
        raise Refusal(f"--rank: the job has no rank {missing[0]}; it has {', '.join(map(str, there))}")
    return ranks
