"""The trainings of the zoo, each run once, and what rules say of them."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import ROOT, environment
from tests.zoo import sick
from tests.zoo.train import job_of

from holter.evaluation import evaluate
from holter.store.job import find

HERE = Path(__file__).parent
LIMIT_S = 900


def surroundings() -> dict[str, str]:
    """Return the environment in which the trainings are found."""
    found = environment()
    return {**found, "PYTHONPATH": f"{ROOT}:{found['PYTHONPATH']}", "PYTHONWARNINGS": "ignore"}


@dataclass
class Zoo:
    """Trains, many trainings in a process, and asks rules."""

    store: Path
    trained: set[str] = field(default_factory=set)

    def train(self, names: list[str]) -> None:
        """Run those of the trainings that have not been run, each as a job.

        Those that are slow mostly wait: they do so in a process of their own, beside the others.
        """
        new = [name for name in dict.fromkeys(names) if name not in self.trained]
        parts = ([name for name in new if hasattr(sick, name) is waits] for waits in (True, False))
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self._run, parts))
        self.trained.update(new)

    def _run(self, names: list[str]) -> None:
        """Run trainings one after the other, in one process."""
        if names:
            command = [sys.executable, str(HERE / "train.py"), "--store", str(self.store), *names]
            done = subprocess.run(
                command, env=surroundings(), capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr

    def ask(self, name: str, rules: list[str]) -> list[dict[str, Any]]:
        """Return what rules make of one training, a document a rule."""
        folder = find(str(self.store), job_of(name))
        manifest = folder.manifest()
        assert manifest["status"] == "Completed", manifest
        found = evaluate(folder, rules, record=False).rules
        assert not [rule["error"] for rule in found if rule["status"] == "Error"]
        return found


def wanted(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """Return what a parameter is in the tests of this module that run: one alone needs few trainings."""
    tests = [item for item in request.session.items if item.path == request.path]
    return [item.callspec.params[parameter] for item in tests if hasattr(item, "callspec")]


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """All trainings share one store."""
    return Zoo(tmp_path_factory.mktemp("zoo"))
