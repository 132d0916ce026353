"""Trains a script of `trainings` without and with holter, and reads both."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.jobs.starting import environment, holter

from holter.job import open as open_job

TRAININGS = Path(__file__).parent / "trainings"


@dataclass(frozen=True)
class Trained:
    """What a training says of itself without and with holter, and what holter says."""

    alone: dict[str, Any]
    truth: dict[str, Any]
    told: dict[str, Any]
    card: str
    job: Any

    def scalars(self, name: str, mode: str) -> list[float]:
        """Return the values of a recorded number in order."""
        rows = self.job.scalars.table
        rows = rows.where((rows["name"] == name) & (rows["mode"] == mode)).sorted("time")
        return [float(value) for value in rows["value"]]

    def share(self, part: str) -> float:
        """Return the percentage of a part in the steps that the clock of the script timed."""
        steps = self.job.steps.table
        steps = steps.where(steps["step"] >= self.truth.get("first", 0))
        return 100.0 * float(steps[part].sum()) / float(steps["duration"].sum())

    def of_clock(self, part: str) -> float:
        """Return the percentage of a part in the loop by the clock of the script."""
        return 100.0 * self.truth["took"][part] / self.truth["loop"]

    def off_clock(self, part: str, *recorded: str, spans: bool = False) -> float:
        """Return by how many percent of a step the recorded parts differ from a part of the script's clock.

        That is the median of the differences of all steps. A busy machine takes the processor away for as
        long as a step, also in the moment between the end of a part in the recorder and in the script. Such
        a moment belongs to a different part in each, which a sum over all steps shows and this does not.

        Args:
            part: A part of the clock.
            recorded: Parts of the breakdown, without what lies inside of them and is a part itself.
            spans: Compare whole spans, with what lies inside of them.
        """
        steps = self.job.steps.table
        steps = list(steps.where(steps["step"] >= self.truth["first"]).sorted("step").to_rows())
        if spans:
            of_step = dict.fromkeys((one["step"] for one in steps), 0)
            for one in self.job.trial.table("spans", where="worker = -1 AND rank = 0").to_rows():
                if one["phase"] in recorded and one["step"] in of_step:
                    of_step[one["step"]] += one["duration"]
        else:
            of_step = {one["step"]: sum(one[name] for name in recorded) for one in steps}
        return statistics.median(
            100.0 * abs(of_step[one["step"]] / one["duration"] - clock[part] / clock["loop"])
            for one, clock in zip(steps, self.truth["each"], strict=True)
        )

    def means(self, pattern: str, step: int) -> list[float]:
        """Return the means of saved tensors at a step, in order."""
        rows = self.job.tensors(pattern).reduction("mean").to_rows()
        return sorted(float(row["mean"]) for row in rows if row["step"] == step)

    def windows(self) -> list[dict[str, Any]]:
        """Return the facts of the profiling windows in the order in which they began."""
        events = self.job.trial.table("events", where="kind = 'window'").to_rows()
        return sorted((json.loads(one["detail"]) for one in events), key=lambda one: one.get("number", 0))

    def operators(self, step: int) -> list[str]:
        """Return the names of the operators that a window saw in a step, sorted."""
        rows = self.job.trial.table("operators", where=f"kind = 'operator' AND step = {step}")
        return sorted(rows["name"].tolist())

    def seconds(self, name: str) -> float:
        """Return the time of all spans with a name."""
        spans = self.job.trial.table("spans", where=f"name = '{name}'")
        return float(spans["duration"].sum()) / 1e9

    def named(self, name: str) -> float:
        """Return the percentage of the loop in a callback, a logger or an annotation; 0 if it has none."""
        return sum(one["pct"] for one in self.told["named_work"] if one["name"] == name)


def trained(
    python: Path,
    script: str,
    case: str,
    folder: Path,
    *options: str,
    alone: bool = True,
    launcher: Sequence[str] = (),
) -> Trained:
    """Train a case of a script with `python`, or with a launcher; without holter first, if `alone`.

    The options are those of `holter run`. A relative path of a script begins in `trainings`.
    """
    command = [*(launcher or [str(python)]), str(TRAININGS / script), case]
    without: dict[str, Any] = {}
    if alone:
        surroundings = environment(PYTHONPATH="")
        subprocess.run(command, cwd=folder, env=surroundings, check=True, timeout=180, capture_output=True)
        without = json.loads((folder / "truth.json").read_text())
    done = holter("run", "--store", "store", "--job", "it", *options, "--", *command, cwd=folder)
    told = json.loads(holter("describe", "it", "--store", "store", "--json", cwd=folder).stdout)
    truth = json.loads((folder / "truth.json").read_text())
    return Trained(without, truth, told, done.stderr, open_job(str(folder / "store/it")))
