"""What holter says of trainings with a planted cause, beside what each of them measures itself.

    python benchmarks/zoo.py [--only PATTERN] [--twins] [--busy PROCESSES] [--into FOLDER [--again]]

Each training of `tests/zoo/timed` runs under `holter run`. The first table compares suspect, sentence and
share with the truth, and the promised step with the mean step less what the cause took. The second is about
healthy trainings, which get no suspect and no warning. With `--twins` each training also runs without its
cause: this twin must not be accused of it, and the third table compares its step with the promised one.
Code that runs after a wait of some milliseconds finds cold caches, so a twin's step is shorter than the rest
of the sick step. A promise is therefore right if the step or the saving is within a quarter of the twin's.
The column `saving` is the promised saving divided by the twin's.

`--busy` keeps that many processes computing beside them. Contention has to be named where the training's
thread waits for a core for a tenth of the time; promises are shown, and not judged. `--again` judges the jobs
that `--into` holds.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from markdown_tables import row, table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.zoo.timed.cases import HEALTHY, JOBS, SICK, Case  # noqa: E402
from tests.zoo.timed.judging import CONTENTION, Judged, mistakes, promised, run  # noqa: E402

from holter.analysis.verdict.result import SMALLER  # noqa: E402

FINE = ("healthy", "contention")
WITHIN = 0.25
"""The twin's step differs from the promised one by at most this ratio."""


def off(promise: float | None, step: float) -> bool:
    """Return whether a promised step is too far from a measured one."""
    return promise is None or abs(promise / step - 1) > WITHIN


def sick(cases: list[Case], folder: Path, *, busy: bool, again: bool) -> dict[str, Judged]:
    """Print the table of the trainings with a cause."""
    found, right = {}, 0
    table("training", "truth", "holter", "step, ms", "promised", "less the cause", "sentence", "")
    for case in cases:
        judged = found[case.name] = run(case.training, folder / case.name, again=again)
        of_job = case in JOBS
        wrong = mistakes(case, judged, of_job=of_job)
        if busy and not judged.contended and judged.truth("delay", of_job=False) >= SMALLER:
            wrong.append("no contention")
        share, truth = judged.share(case, of_job=of_job), judged.truth(case.kind, of_job=of_job)
        step, promise = judged.told["steps"]["mean_ms"], promised(judged)
        repaired = step * (1 - truth / 100)
        if case.promises and not busy and off(promise, repaired):
            wrong.append("promise")
        right += not wrong
        row(
            case.name,
            f"{truth:.0f} %",
            "" if share is None else f"{share:.0f} %",
            f"{step:.3g}",
            f"{promise:.3g}" if case.promises and promise else "",
            f"{repaired:.3g}" if case.promises else "",
            judged.verdict["sentence"],
            f"**{'; '.join(wrong)}**" if wrong else "right",
        )
    print(f"\n{right} of {len(cases)} right")
    return found


def healthy(trainings: list[str], folder: Path, *, busy: bool, again: bool) -> None:
    """Print the table of the healthy trainings."""
    right = 0
    table("training", "sentence", "")
    for training in trainings:
        judged = run(training, folder / training, again=again)
        accused = judged.verdict["suspect"] not in FINE
        warnings = [text for rule, text in judged.warnings.items() if not (busy and rule == CONTENTION)]
        wrong = [*([judged.verdict["suspect"]] if accused else []), *warnings]
        if busy and not judged.contended:
            wrong.append("no contention")
        right += not wrong
        row(training, judged.verdict["sentence"], f"**{'; '.join(wrong)}**" if wrong else "right")
    print(f"\n{right} of {len(trainings)} right")


def twins(cases: list[Case], judged: dict[str, Judged], folder: Path, *, again: bool) -> None:
    """Print the table of promised steps, beside those of the repaired trainings."""
    right = steps = savings = promises = 0
    table("training", "step, ms", "promised", "repaired", "promised / repaired", "saving", "")
    for case in cases:
        well = run(case.training, folder / f"{case.name}-well", well=True, again=again)
        step, sick_step = well.told["steps"]["mean_ms"], judged[case.name].told["steps"]["mean_ms"]
        promise = promised(judged[case.name]) if case.promises else None
        saving = None if promise is None else (sick_step - promise) / (sick_step - step)
        wrong = []
        if case.suspect in well.suspects and case.suspect != "healthy":
            wrong.append(f"the twin is accused: {well.verdict['sentence']}")
        if case.promises:
            promises += 1
            steps += not off(promise, step)
            saved = saving is not None and abs(saving - 1) <= WITHIN
            savings += saved
            if off(promise, step) and not saved:
                wrong.append("promise")
        right += not wrong
        row(
            case.name,
            f"{sick_step:.3g}",
            "" if promise is None else f"{promise:.3g}",
            f"{step:.3g}",
            "" if promise is None else f"{promise / step:.2f}",
            "" if saving is None else f"{saving:.2f}",
            f"**{'; '.join(wrong)}**" if wrong else "right",
        )
    print(f"\n{right} of {len(cases)} right")
    print(
        f"of {promises} promises, {steps} steps and {savings} savings are within {WITHIN:.0%} of the twin's"
    )


def main() -> None:
    """Run the trainings and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--twins", action="store_true")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--again", action="store_true")
    asked = parser.parse_args()
    folder = (asked.into or Path(tempfile.mkdtemp(prefix="holter-zoo-"))).resolve()
    cases = [case for case in SICK if re.search(asked.only, case.training)]
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(asked.busy)]
    try:
        judged = sick(cases, folder, busy=bool(others), again=asked.again) if cases else {}
        if sound_ones := [one for one in HEALTHY if re.search(asked.only, one)]:
            healthy(sound_ones, folder, busy=bool(others), again=asked.again)
        if asked.twins and cases:
            twins(cases, judged, folder, again=asked.again)
    finally:
        for other in others:
            other.kill()


if __name__ == "__main__":
    main()
