"""Eight silent errors: which tool finds them, after how many steps, and how much slower the training becomes.

    python benchmarks/silent_errors.py [--rounds 3] [--peers FOLDER] [--into FOLDER] [--only PATTERN]

Each form of `tests/zoo/published` runs bare, under `holter run` with default options, and under TrainCheck's
chain as its usage guide shows it: trace the healthy twin, infer invariants, trace the form with these
invariants, check. The chain also runs on the twin with another seed: an invariant that fails there too says
nothing. TrainCheck names an error if another failing invariant matches the pattern in `TELLS`. The last table
compares whole commands and their training loops, by wall time and CPU time, each with the bare command of its
round: medians over the rounds. `benchmarks/peers FOLDER` makes TrainCheck's environment.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from machine import described, environment
from markdown_tables import row, table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.zoo.published.forms import FORMS, HERE, TWINS, Form, command, measured, script_of  # noqa: E402

LIMIT_S = 1800
TELLS = {
    "frozen": r"requires_grad|step.*(changes|updates|contains).*data|\.grad",
    "no_zero_grad": r"zero_grad",
    "eval_dropout": r"dropout",
    "same_augment": r"DataLoader|_next|randn|collate|fetch",
    "lost_hooks": r"[Cc]onsisten|DATA_PARALLEL|all_?reduce|same|equal",
    "unwrapped": r"[Cc]onsisten|DistributedDataParallel|all_?reduce|same|equal",
    "local_clip": r"[Cc]onsisten|clip_grad|same|equal",
    "lossy": r"[Cc]onsisten|same|equal",
}
"""What a failing invariant says that names the error, or its consequence for the weights."""


@dataclass
class Taken:
    """What one command took and printed."""

    wall: float
    cpu: float
    code: int
    output: str

    @property
    def figures(self) -> dict[str, float]:
        """The seconds of the command and of its training loop."""
        loop = measured(self.output)
        return {
            "command": self.wall,
            "command, CPU": self.cpu,
            "loop": loop["loop_s"],
            "loop, CPU": loop["loop_cpu_s"],
        }


@dataclass
class Found:
    """What a tool says of one form or twin."""

    step: int | None = None
    message: str = ""
    others: list[str] = field(default_factory=list)
    """What else it complains about."""
    failed: str = ""


def timed(words: list[str], folder: Path, env: dict[str, str]) -> Taken:
    """Run a command to its end, with the CPU time of all its processes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    try:
        done = subprocess.run(
            words, cwd=folder, env=env, text=True, timeout=LIMIT_S, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        code, output = -1, f"{error.stdout!r}\nno end within {LIMIT_S} s"
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(wall, cpu, code, output)


class Holter:
    """Runs forms under `holter run`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.env, self.jobs = folder, environment(), 0

    def take(self, name: str, seed: int) -> tuple[Taken, Found]:
        """Run one form as a job, and read what rules report."""
        self.jobs += 1
        job, words = f"{name.replace('_', '-')}-{self.jobs}", [sys.executable, "-m", "holter"]
        taken = timed([*words, "run", "--job", job, "--", *command(name, seed)], self.folder, self.env)
        told = json.loads(timed([*words, "describe", job, "--json"], self.folder, self.env).output)
        found = Found(failed="" if taken.code == 0 else f"exit code {taken.code}")
        rule = next((form.rule for form in FORMS if form.name == name), "")
        for issue in (one for rule in told["rules"] for one in rule["issues"] if one["severity"] != "info"):
            if issue["rule"] == rule and found.step is None:
                found.step, found.message = issue["step_end"], issue["summary"]
            else:
                found.others.append(f"{issue['rule']}: {issue['summary']}")
        return taken, found


class TrainCheck:
    """Runs TrainCheck's chain in a folder of its own, for it writes beside the script."""

    def __init__(self, environment_of_it: Path, folder: Path) -> None:
        self.bin, self.folder = environment_of_it / "bin", folder
        self.env = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": f"{self.bin}:{os.environ['PATH']}"}
        self.chain: dict[str, float] = {}
        """Seconds of the steps that precede the first check, by twin."""
        self.failing: dict[str, set[str]] = {}
        """The invariants that fail on a healthy twin."""

    def prepare(self, twin: str) -> None:
        """Trace a healthy twin, infer invariants, and check the twin with another seed."""
        reference = self.collect(twin, 0, "reference", None)
        taken = timed(
            [str(self.bin / "traincheck-infer"), "-f", str(self._at(twin, "reference")), "-o",
             str(self._invariants(twin))], self.folder, self.env,
        )  # fmt: skip
        self._note(twin, "infer", taken)
        self.chain[twin] = reference.wall + taken.wall
        _, _, violations = self.take(twin, twin, 1)
        self.failing[twin] = {one["display_name"] for one in violations}

    def collect(self, name: str, seed: int, kind: str, invariants: Path | None) -> Taken:
        """Trace one form; all of torch without invariants."""
        at = self._at(name, kind)
        shutil.rmtree(at, ignore_errors=True)
        scripts = self.folder / f"{name}-{kind}-script"
        scripts.mkdir(exist_ok=True)
        shutil.copy(HERE / script_of(name), scripts)
        python = str(self.bin / "python")
        line = " ".join(command(name, seed, python, Path()))
        (scripts / "run.sh").write_text(line + "\n")
        words = [str(self.bin / "traincheck-collect"), "--pyscript", script_of(name), "--shscript", "run.sh"]
        words += ["--models-to-track", "model", "--output-dir", str(at)]
        if script_of(name) == "ranks.py":  # its usual proxies of a model crash torch in DDP
            words += ["--model-tracker-style", "subclass"]
        words += ["--invariants", str(invariants)] if invariants else []
        taken = timed(words, scripts, self.env)
        self._note(name, kind, taken)
        return taken

    def take(self, name: str, twin: str, seed: int) -> tuple[Taken, Taken, list[dict[str, Any]]]:
        """Trace one form with the twin's invariants, check, and return the failing invariants."""
        taken, results = self.collect(name, seed, "target", self._invariants(twin)), self._at(name, "results")
        shutil.rmtree(results, ignore_errors=True)
        checked = timed(
            [str(self.bin / "traincheck-check"), "-f", str(self._at(name, "target")), "-i",
             str(self._invariants(twin)), "-o", str(results)], self.folder, self.env,
        )  # fmt: skip
        self._note(name, "check", checked)
        summaries = sorted(results.glob("*/violations_summary.json"))
        found = [one for file in summaries for one in json.loads(file.read_text())["violations"]]
        return taken, checked, found

    def judge(self, form: Form) -> tuple[Taken, Taken, Found]:
        """Run the chain on a form, and look for an invariant that names its error."""
        taken, checked, violations = self.take(form.name, form.twin, 0)
        found = Found(failed="" if taken.code == 0 else f"exit code {taken.code}")
        new = [one for one in violations if one["display_name"] not in self.failing[form.twin]]
        telling = [one for one in new if re.search(TELLS[form.name], one["display_name"])]
        # Its first step is 1, ours is 0; its 0 is before the loop.
        steps = [one["first_step"] for one in telling if one["first_step"] is not None]
        if telling:
            first = next(
                (one for one in telling if one["first_step"] == min(steps, default=None)), telling[0]
            )
            found.step = max(min(steps) - 1, 0) if steps else None
            found.message = first["display_name"]
        found.others = [one["display_name"] for one in violations if one not in telling]
        return taken, checked, found

    def _at(self, name: str, kind: str) -> Path:
        return self.folder / f"{name}-{kind}"

    def _invariants(self, twin: str) -> Path:
        return self.folder / f"{twin}-invariants.json"

    def _note(self, name: str, kind: str, taken: Taken) -> None:
        (self.folder / f"{name}-{kind}.txt").write_text(f"{taken.output}\nexit code {taken.code}\n")
        print(f"<!-- {name} {kind}: {taken.wall:.1f} s, exit code {taken.code} -->", file=sys.stderr)


def after(found: Found, cause: int | None) -> str:
    """Return after how many steps an error was found."""
    if found.failed:
        return found.failed
    if not found.message:
        return "no"
    return "yes" if found.step is None else f"{found.step - (cause or 0)}"


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    folder = (asked.into or Path(tempfile.mkdtemp(prefix="holter-silent-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    holter, peer = Holter(folder), None
    if asked.peers and (asked.peers / "traincheck").exists():
        peer = TrainCheck((asked.peers / "traincheck").resolve(), folder)
    forms = [form for form in FORMS if re.search(asked.only, form.name)]
    healthy = [twin for twin in TWINS if twin in {form.twin for form in forms}]
    table("healthy twin", "holter warns", "TrainCheck: failing invariants", "to prepare, s")
    for twin in healthy:
        _, found = holter.take(twin, 1)
        if peer:
            peer.prepare(twin)
        row(
            twin,
            "; ".join(found.others) or "0",
            len(peer.failing[twin]) if peer else "",
            f"{peer.chain[twin]:.0f}" if peer else "",
        )
    ratios: dict[str, dict[str, dict[str, list[float]]]] = {}
    checks: dict[str, float] = {}
    table(
        "error", "holter, steps", "holter says", "also",
        "TrainCheck, steps", "it says", "others, of the twin too",
    )  # fmt: skip
    for form in forms:
        for number in range(asked.rounds):
            bare = timed(command(form.name), folder, environment())
            taken, found = holter.take(form.name, 0)
            runs = {"holter": taken}
            other = Found(failed="not run")
            if peer:
                runs["TrainCheck"], checked, other = peer.judge(form)
                checks[form.name] = checked.wall
            for tool, run in runs.items():
                mine = ratios.setdefault(form.name, {}).setdefault(tool, {})
                for name, value in bare.figures.items():
                    mine.setdefault(f"bare {name}", []).append(value)
                    if run.code == 0:
                        mine.setdefault(name, []).append(run.figures[name] / value)
            if number == 0:
                cause = measured(bare.output)["cause"]
                same = len(peer.failing[form.twin]) if peer else 0
                row(
                    form.error, after(found, cause), found.message, "; ".join(found.others) or "0",
                    after(other, cause), other.message, f"{len(other.others)}, {same}" if peer else "",
                )  # fmt: skip
    table("error", "bare command (loop), s", "tool", "command", "its CPU", "loop", "its CPU", "check, s")
    for name, tools in ratios.items():
        for tool, mine in tools.items():
            middle = {key: statistics.median(values) for key, values in mine.items()}
            cells = [f"{middle[key]:.2f}" if key in middle else "" for key in
                     ("command", "command, CPU", "loop", "loop, CPU")]  # fmt: skip
            bare_s = f"{middle['bare command']:.1f} ({middle['bare loop']:.2f})"
            row(name, bare_s, tool, *cells, f"{checks[name]:.0f}" if tool != "holter" else "")
    print(f"\n{described()}; {asked.rounds} rounds")


if __name__ == "__main__":
    main()
