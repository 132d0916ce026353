"""Runs the timed trainings under `holter run`, and compares the verdicts with what the trainings measure."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.zoo.timed.cases import Case

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LIMIT_S = 300
_PLACE = re.compile(r"([\w.<>]+) \((\w+\.py):(\d+)\)")
CONTENTION = "CPUContention"
_LOOP = ("loading", "own", "evaluation", "checkpoint")


@dataclass(frozen=True)
class Judged:
    """A training that ended: what holter says, and what the training measures."""

    told: dict[str, Any]
    measured: dict[str, Any]

    @property
    def verdict(self) -> dict[str, Any]:
        """The verdict."""
        return dict(self.told["verdict"])

    @property
    def suspects(self) -> set[str]:
        """All that the verdict accuses."""
        return {self.verdict["suspect"], *self.verdict["also"]}

    @property
    def contended(self) -> bool:
        """Whether the verdict, a smaller share or a rule says that other programs take cores."""
        named = self.suspects | {one["suspect"] for one in self.verdict["smaller"]}
        return "contention" in named or any(issue["rule"] == CONTENTION for issue in self._issues)

    @property
    def warnings(self) -> dict[str, str]:
        """The rules that warn, with what they say."""
        return {issue["rule"]: issue["summary"] for issue in self._issues if issue["severity"] != "info"}

    @property
    def _issues(self) -> list[dict[str, Any]]:
        return [issue for rule in self.told["rules"] for issue in rule["issues"]]

    def truth(self, kind: str, *, of_job: bool) -> float:
        """Return the measured share of a kind of work: of the steps of the verdict, or of the job."""
        if of_job:
            job = self.told["job"]
            outside = {
                "startup": self.measured["first"] - job["start"] / 1e9,
                "end": job["end"] / 1e9 - self.measured["last"],
            }
            seconds = outside.get(kind, self.measured["spent"].get(kind, 0.0))
            return 100 * float(seconds) / float(job["duration_s"])
        windows = [one["window"] for one in self.verdict["evidence"] if one["window"]]
        ends = self.measured["ends"]
        (begin, before), (end, after) = ends[windows[0]["step_start"] - 1], ends[windows[0]["step_end"]]
        return float(100 * (after.get(kind, 0.0) - before.get(kind, 0.0)) / (end - begin))

    def share(self, case: Case, *, of_job: bool) -> float | None:
        """Return holter's share of what a case plants."""
        if of_job:
            item = {"evaluation": "eval", "end": "finalization"}.get(case.kind, case.kind)
            found = [one["pct"] for one in self.told["ledger"] if one["item"] == item]
            return sum(found) if found else None
        if case.suspect == "own_code":
            # The rest of the loop's own code is no part of what was planted.
            planted = [one["pct"] for one in self.told["own_code"] if _root(one["function"]) in case.says]
            return float(sum(planted) if planted else self.verdict["share_pct"])
        if self.verdict["suspect"] == case.suspect:
            return float(self.verdict["share_pct"])
        if case.suspect == "checkpointing":  # with the wait around the writing, which is in `other`
            return next((e["value"] for e in self.verdict["evidence"] if e["metric"] == "checkpoint"), None)
        part = {"data_pipeline": "data_loading", "evaluation": "eval", "own_code": "other"}
        found = self.told["breakdown"].get(part.get(case.suspect, ""))
        return None if found is None else float(found)

    def wrong_places(self) -> list[str]:
        """Return the places in the sentence whose line is outside of the function that it names."""
        return [
            found[0]
            for found in _PLACE.finditer(self.verdict["sentence"])
            if (HERE / found[2]).exists() and not _holds(HERE / found[2], found[1], int(found[3]))
        ]


def _root(qualified: str) -> str:
    """Return a function's name without what is nested in it."""
    return qualified.partition(".<")[0].rpartition(".")[2]


def _holds(file: Path, qualified: str, line: int) -> bool:
    name = qualified.removesuffix(".<genexpr>").rpartition(".")[2]
    return name == "<module>" or any(
        isinstance(node, ast.FunctionDef)
        and node.name == name
        and node.lineno <= line <= (node.end_lineno or 0)
        for node in ast.walk(ast.parse(file.read_text()))
    )


def run(training: str, folder: Path, *, well: bool = False, again: bool = False) -> Judged:
    """Run a training, or its healthy twin, as a job of its own; `again` judges the job that is there."""
    module, _, function = training.partition(".")
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLTER_")}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    env = {**kept, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    script = [sys.executable, str(HERE / f"{module}.py"), function, *(["--well"] if well else [])]

    def holter(*words: str) -> str:
        command = [sys.executable, "-m", "holter", *words]
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    if not again:
        holter("run", "--store", "store", "--job", "it", "--", *script)
    told = json.loads(holter("describe", "it", "--store", "store", "--json"))
    return Judged(told, json.loads((folder / "measured.json").read_text()))


def mistakes(case: Case, judged: Judged, *, of_job: bool) -> list[str]:
    """Return what is wrong with the verdict on a sick training."""
    found = []
    truth, share = judged.truth(case.kind, of_job=of_job), judged.share(case, of_job=of_job)
    if case.suspect not in judged.suspects and not (case.suspect == "healthy" and of_job):
        found.append(f"suspect {judged.verdict['suspect']}")
    if not re.search(case.says.replace("AT", r"\(\w+\.py:\d+\)"), judged.verdict["sentence"]):
        found.append(f"does not say {case.says}")
    # Time without a core falls on any part of the loop, also between two readings of the clock.
    delay = 0.0 if of_job else judged.truth("delay", of_job=False)
    if share is None or abs(share - truth) > case.points + delay / 4:
        found.append(f"share {share}, truth {truth:.1f}")
    found += [f"wrong line: {place}" for place in judged.wrong_places()]
    return found


def promised(judged: Judged) -> float | None:
    """Return the shortest step that the advice promises, ms."""
    found = [one["expected_step_ms"] for one in judged.verdict["advice"] if one["expected_step_ms"]]
    return min(found, default=None)
