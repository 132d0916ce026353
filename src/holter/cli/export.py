"""`holter export JOB --format tensorboard -o DIR`: a job as files that other programs show."""

from __future__ import annotations

from pathlib import Path

from holter.cli import options
from holter.cli.options import Refusal, nearest

ABOUT = "Write a job as files that other programs show."
EXAMPLES = """  holter export latest --format tensorboard -o runs && tensorboard --logdir runs
  holter export holter-jobs/train-20260131-120000 --format tensorboard -o runs"""

FORMATS = ("tensorboard",)


def main(words: list[str]) -> int:
    """Run `holter export`."""
    parser = options.Parser("export", ABOUT, EXAMPLES)
    options.add_job(parser)
    options.add_store(parser)
    parser.add_argument(
        "--format", required=True, metavar="FORMAT", help="tensorboard: scalars and histograms as event files"
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="an empty folder, or a new one")
    given = parser.read(words)
    if given.format not in FORMATS:
        raise Refusal(
            f"no format {given.format!r}{nearest(given.format, FORMATS)}; valid: {', '.join(FORMATS)}"
        )
    folder = options.find_job(given.job, given.store)
    output = Path(given.output).expanduser()
    # Two exports in one folder would be shown as one run with every point twice.
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise Refusal(f"{given.output} is not an empty folder; give a new one to -o")
    from holter.report.tensorboard import export
    from holter.store.trial import Trial

    trial = Trial(folder)
    try:
        written = export(trial, output)
    except OSError as error:
        raise Refusal(f"{given.output} cannot be written: {error}", Refusal.UNREADABLE) from error
    for skipped in trial.skipped:
        options.warn(f"left out {skipped['file']}: {skipped['why']}")
    if not written:
        raise Refusal(f"job {folder.name} has no scalars and no tensors yet", Refusal.UNREADABLE)
    print(f"job {folder.name}: {written} values; show them: tensorboard --logdir {given.output}")
    return 0
