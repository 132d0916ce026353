"""Runs the workload with and without holter, and returns what both say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        words = [
            sys.executable,
            "-m",
            "holter",
            "run",
            "--store",
            str(self.store),
            "--job",
            name,
            *options,
            "--",
        ]
        done = self._run([*words, sys.executable, *self._words(given)], fails=fails)
        told = self._run(
            [sys.executable, "-m", "holter", "describe", name, "--store", str(self.store), "--json"]
        )
        described: dict[str, Any] = json.loads(told.stdout)
        return ({} if fails else _last(done)), described

    @property
    def store(self) -> Path:
        """The store of the kit's jobs, which are the fixtures that it leaves."""
        return self.folder / "jobs"

    def _words(self, given: dict[str, Any]) -> list[str]:
        return [str(WORKLOAD), json.dumps({"device": self.device, **given})]

    def _run(self, words: list[str], *, fails: bool = False) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'benchmarks'}"}
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


def _last(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
