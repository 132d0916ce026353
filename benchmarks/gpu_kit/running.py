"""Runs the workload with and without holter, and returns what both say."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_kit.results import NotAvailableError
from gpu_kit.stand_ins import stand_ins

ROOT = Path(__file__).parents[2]
WORKLOAD = Path(__file__).with_name("workload.py")
LIMIT_S = 600


@dataclass(frozen=True)
class Kit:
    """Where the checks run: on a GPU, or rehearsed on the CPU."""

    folder: Path
    device: str

    def plain(self, **given: Any) -> dict[str, Any]:
        """Run the workload alone; return what it measured."""
        return _last(self._run([sys.executable, *self._words(given)]))

    def recorded(
        self, name: str, *options: str, fails: bool = False, **given: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run the workload under `holter run`; return what it measured, and its description."""
        words = [*self._holter("run", "--job", name), *options, "--", sys.executable, *self._words(given)]
        done = self._run(words, fails=fails)
        told = self._run(self._holter("describe", name, "--json"))
        described: dict[str, Any] = json.loads(told.stdout)
        return ({} if fails else _last(done)), described

    @property
    def store(self) -> Path:
        """The store of the kit's jobs, which are the fixtures that it leaves."""
        return self.folder / "jobs"

    def _words(self, given: dict[str, Any]) -> list[str]:
        return [str(WORKLOAD), json.dumps({"device": self.device, **given})]

    def diagnosed(self, name: str) -> dict[str, Any]:
        """Return what `diagnose` says of a recorded job."""
        found: dict[str, Any] = json.loads(self._run(self._holter("diagnose", name, "--json")).stdout)
        return found

    def framework(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Train with a framework beside PyTorch; return where it ran, and its description.

        Raises:
            NotAvailableError: No Python here has the framework.
        """
        python = _python_with(name)
        words = [python, str(WORKLOAD.with_name("other_frameworks.py")), name, self.device]
        ran = self._run([*self._holter("run", "--job", name), "--", *words])
        told = self._run(self._holter("describe", name, "--json"))
        described: dict[str, Any] = json.loads(told.stdout)
        return _last(ran), described

    def readings(self) -> dict[str, Any]:
        """Return holter's readings of the GPU beside those of nvidia-smi, or of stand-ins for both."""
        words = [sys.executable, str(WORKLOAD.with_name("readings.py"))]
        made = {} if self.device == "cuda" else stand_ins(self.folder / "stand-ins")
        return _last(self._run(words, more=made))

    def bytes_of(self, name: str) -> int:
        """Return how large a recorded job is."""
        return sum(path.stat().st_size for path in (self.store / name).rglob("*") if path.is_file())

    def _holter(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "holter", *words, "--store", str(self.store)]

    def _run(
        self, words: list[str], *, fails: bool = False, more: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        paths = f"{ROOT / 'src'}{os.pathsep}{ROOT / 'benchmarks'}"
        environment = {**os.environ, "PYTHONPATH": paths, **(more or {})}
        if self.device == "cpu":
            environment["OMP_NUM_THREADS"] = "1"  # a rehearsal leaves the other cores alone
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=LIMIT_S, env=environment, check=False
        )
        if done.returncode and not fails:
            raise RuntimeError(
                f"{Path(words[0]).name} ends with {done.returncode}: {done.stderr.strip()[-300:]}"
            )
        return done


def _python_with(name: str) -> str:
    if importlib.util.find_spec(name) is not None:
        return sys.executable
    environments = Path(os.environ.get("HOLTER_FRAMEWORKS") or ROOT / ".frameworks")
    python = environments / name / "bin/python"
    if not python.exists():
        raise NotAvailableError(f"{name} is not installed; scripts/frameworks {name} makes an environment")
    return str(python)


def _last(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
